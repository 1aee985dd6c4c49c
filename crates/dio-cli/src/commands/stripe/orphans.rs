//! `dio stripe orphans`: finds objects without a striped file, and the remains of files whose
//! creation was interrupted.

use crate::quote::{named, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use dio::stripe::{ObjectState, inspect};
use dio_common::units::size as human_size;
use dio_stripe::{
    FoundDescriptor, FoundObject, MigrationLeftover, OwningFile, Remnant, descriptor_remnant,
    descriptors_in, migration_leftovers, objects_in, remnants_in, remove_orphans,
};
use rustix::fs::{Mode, OFlags};

use super::super::words;
use dio_stripe::clear;

/// Find objects whose striped file is gone
///
/// A crash, or a program that removes a striped file as if it were an ordinary one, leaves objects
/// behind. An object in the given directories is shown unless its file exists where it was made, in
/// the same directory under another name, or below a directory of --heads. Also shown are remains
/// of interrupted commands: of 'dio stripe set' in the directories themselves, unnamed descriptors
/// below --heads and beside lost files, and those of 'dio stripe migrate' below --heads and beside
/// the files that objects belong to.
///
/// An object is kept, and reported, if its file cannot be looked for, because a directory does not
/// exist or cannot be read, or a descriptor is damaged. Status 1 if objects remain.
#[derive(Debug, clap::Args)]
pub(super) struct OrphansArgs {
    /// Look for striped files below DIR too, where some may have been moved to; can be given
    /// several times
    #[arg(long, value_name = "DIR")]
    heads: Vec<PathBuf>,

    /// Skip files without a header or a name that are younger than this, because a program may be
    /// making them. Files that their maker has locked are skipped at any age; 0 relies on these
    /// locks, which not every network file system supports
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    age: u64,

    /// Remove them with the bytes that they hold, after asking for each file
    #[arg(long)]
    rm: bool,

    /// With --rm, do not ask
    #[arg(short, long, requires = "rm")]
    yes: bool,

    /// Directories that hold objects, or devices that are one
    #[arg(required = true, value_name = "DIR|DEVICE")]
    directories: Vec<PathBuf>,
}

/// What is left of each lost file, by its ID.
type LostFiles = BTreeMap<String, FoundRemains>;

fn complain(what: &str, path: &Path, error: &io::Error) {
    eprintln!("dio stripe: cannot {what} {}: {}", quoted(path), words(error));
}

pub(super) fn orphans(args: &OrphansArgs) -> ExitCode {
    let (mut status, age) = (ExitCode::SUCCESS, Duration::from_secs(args.age));
    let (mut known, mut beginnings, mut beside) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut objects, mut remnants) = (Vec::new(), Vec::new());
    for directory in &args.directories {
        let found = std::fs::canonicalize(directory)
            .and_then(|directory| Ok((objects_in(&directory)?, remnants_in(&directory, age)?)));
        match found {
            Ok(found) => {
                objects.extend(found.0);
                remnants.extend(found.1);
            }
            Err(error) => {
                complain("read", directory, &error);
                status = ExitCode::FAILURE;
            }
        }
    }
    for head in &args.heads {
        // The path is made canonical once for everything below it, because the system looks up each
        // of its components separately.
        let real = std::fs::canonicalize(head).map_err(|error| (head.to_owned(), error));
        let gathered = real.and_then(|head| {
            gather(&head, age, &objects, &mut known, &mut beginnings, &mut beside)
        });
        if let Err((path, error)) = gathered {
            complain("look for striped files in", &path, &error);
            // A descriptor that was not read may belong to any of the objects.
            return ExitCode::FAILURE;
        }
    }
    beginnings.append(&mut remnants);
    let (mut lost, mut places) = (LostFiles::new(), BTreeSet::new());
    let mut ids: BTreeSet<String> =
        known.iter().map(|found: &FoundDescriptor| found.descriptor.id.to_string()).collect();
    for object in objects {
        let place = object.header.name.as_deref().and_then(Path::parent).map(Path::to_owned);
        places.extend(place.clone());
        match object.owning_file(&known, age) {
            OwningFile::Gone => {
                beginnings
                    .extend(place.and_then(|place| descriptor_remnant(&place, object.id(), age)));
                let objects = &mut lost.entry(object.id().to_string()).or_default().objects;
                if !objects.contains(&object) {
                    objects.push(object);
                }
                continue;
            }
            OwningFile::Unknown(why) => {
                eprintln!("dio stripe: {} is left: {why}", quoted(&object.path));
                status = ExitCode::FAILURE;
            }
            OwningFile::Known => {}
        }
        ids.insert(object.id().to_string());
    }
    add_remnants(&mut lost, beginnings, &ids);
    for (id, lost) in &lost {
        if !settle(id, lost, args) {
            status = ExitCode::FAILURE;
        }
    }
    // A missing directory is reported with the objects whose file should be in it.
    beside.extend(places.iter().filter_map(|place| std::fs::canonicalize(place).ok()));
    if !settle_migrations(&beside, age, args) {
        status = ExitCode::FAILURE;
    }
    status
}

/// Adds the remnants to the files that they belong to. `ids` are those of existing files; the
/// remnant of an object of one of them is left to 'dio stripe check'.
fn add_remnants(lost: &mut LostFiles, found: Vec<Remnant>, ids: &BTreeSet<String>) {
    for remnant in found {
        if remnant.index.is_none() || !ids.contains(&remnant.id.to_string()) {
            let remnants = &mut lost.entry(remnant.id.to_string()).or_default().remnants;
            if !remnants.contains(&remnant) {
                remnants.push(remnant);
            }
        }
    }
}

/// Handles the remains of interrupted migrations in these directories. Returns whether nothing is
/// left.
fn settle_migrations(directories: &BTreeSet<PathBuf>, age: Duration, args: &OrphansArgs) -> bool {
    let mut all = true;
    for directory in directories {
        // A directory that cannot be read has already been reported.
        for left in migration_leftovers(directory, age).unwrap_or_default() {
            all &= settle_migration(&left, args);
        }
    }
    all
}

/// Shows the remains of an interrupted migration, and removes them if requested. Returns whether
/// nothing is left.
fn settle_migration(left: &MigrationLeftover, args: &OrphansArgs) -> bool {
    let (name, of) = (named(&left.path), quoted(&left.of));
    let mut text = format!("a migration of {of} was interrupted; it has left\n");
    let found = inspect(&left.path);
    let held = match &found {
        Ok(Some(_)) => "descriptor".to_owned(),
        _ => human_size(std::fs::metadata(&left.path).map_or(0, |found| found.len())),
    };
    text.push_str(&format!("  {:>3}  {held:>10}  {name}\n", "-"));
    if let Ok(Some(report)) = &found {
        for (index, object) in
            report.objects.iter().enumerate().filter(|(_, it)| it.state != ObjectState::Missing)
        {
            let held = human_size(object.size.saturating_sub(report.descriptor.layout.start()));
            text.push_str(&format!("  {index:>3}  {held:>10}  {}\n", named(&object.path)));
        }
    }
    // A closed pipe is no failure.
    let _ = io::stdout().write_all(text.as_bytes());
    if !args.rm {
        return false;
    }
    let question =
        format!("dio stripe: remove what a migration has left of {of}, which is there? ");
    if !args.yes && !agrees(&question) {
        return false;
    }
    clear(&left.path).inspect_err(|error| eprintln!("dio stripe: {error}")).is_ok()
}

/// Asks the user a question. Returns whether the answer is yes.
fn agrees(question: &str) -> bool {
    eprint!("{question}");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim_start().starts_with(['y', 'Y'])
}

/// The remains of a file.
#[derive(Default)]
struct FoundRemains {
    objects: Vec<FoundObject>,
    /// Remains that hold no bytes of the file.
    remnants: Vec<Remnant>,
}

impl FoundRemains {
    /// The name of the file.
    fn name(&self) -> Option<String> {
        let first = self.objects.first()?;
        Some(first.header.name.as_ref().map_or("a file".to_owned(), quoted))
    }

    fn text(&self, id: &str) -> String {
        let mut text = match self.name() {
            Some(name) => format!("{name}, {id}, is not found; of it there are\n"),
            None => format!("a file, {id}, was never ready; of it there are\n"),
        };
        for object in &self.objects {
            let held = human_size(object.size.saturating_sub(object.header.layout.start()));
            text.push_str(&format!(
                "  {:>3}  {held:>10}  {}\n",
                object.header.index,
                named(&object.path)
            ));
        }
        for remnant in &self.remnants {
            let (index, what) = match remnant.index {
                Some(index) => (index.to_string(), "empty"),
                None => ("-".to_owned(), "descriptor"),
            };
            text.push_str(&format!("  {index:>3}  {what:>10}  {}\n", named(&remnant.path)));
        }
        text
    }

    /// Asks the user whether the remains may be removed.
    fn is_agreed(&self, id: &str) -> bool {
        let count = self.objects.len() + self.remnants.len();
        agrees(&match self.name() {
            Some(name) => format!(
                "dio stripe: is {name} really gone, and nowhere else under another name? remove \
                 {count} of its objects? "
            ),
            None => format!("dio stripe: remove {count} of {id}, which hold nothing? "),
        })
    }
}

/// Shows the remains of one file, and removes them if requested. Returns whether nothing is left.
fn settle(id: &str, lost: &FoundRemains, args: &OrphansArgs) -> bool {
    // A closed pipe is no failure.
    let _ = io::stdout().write_all(lost.text(id).as_bytes());
    if !args.rm || !(args.yes || lost.is_agreed(id)) {
        return false;
    }
    let mut all = true;
    let mut removed = |path: &Path, outcome: io::Result<()>| {
        if let Err(error) = outcome {
            complain("remove", path, &error);
            all = false;
        }
    };
    // The descriptor is removed first, so that a process that is about to give it its name fails.
    let (heads, objects): (Vec<_>, Vec<_>) =
        lost.remnants.iter().partition(|remnant| remnant.index.is_none());
    heads.iter().for_each(|remnant| removed(&remnant.path, remnant.remove()));
    remove_orphans(&lost.objects)
        .into_iter()
        .for_each(|(object, error)| removed(&object.path, Err(error)));
    objects.iter().for_each(|remnant| removed(&remnant.path, remnant.remove()));
    all
}

/// Collects all descriptors below a directory, and those that never got their name. Symbolic links
/// are not followed.
///
/// `directory` must be canonical, so that all paths added to `directories` are canonical too.
fn gather(
    directory: &Path,
    age: Duration,
    objects: &[FoundObject],
    known: &mut Vec<FoundDescriptor>,
    beginnings: &mut Vec<Remnant>,
    directories: &mut BTreeSet<PathBuf>,
) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (directory.to_owned(), error);
    directories.insert(directory.to_owned());
    known.extend(descriptors_in(directory, age, objects).map_err(failed)?);
    let remnants = remnants_in(directory, age).map_err(failed)?;
    beginnings.extend(remnants.into_iter().filter(|remnant| remnant.index.is_none()));
    let is_directory = |entry: &io::Result<std::fs::DirEntry>| match entry {
        Ok(entry) => entry.file_type().is_ok_and(|kind| kind.is_dir()),
        Err(_) => true,
    };
    let below = std::fs::read_dir(directory).map_err(failed)?.filter(is_directory);
    // All names are read first, so that no directory is open during the recursion, however deep the
    // tree is.
    let below: io::Result<Vec<PathBuf>> =
        below.map(|entry| entry.map(|entry| entry.path())).collect();
    for directory in below.map_err(failed)? {
        // The kernel's own file systems hold no descriptors.
        let place = rustix::fs::open(
            &directory,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        if !place.is_ok_and(dio::names::is_of_the_kernel) {
            gather(&directory, age, objects, known, beginnings, directories)?;
        }
    }
    Ok(())
}
