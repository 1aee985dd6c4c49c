//! Objects that no striped file leads to.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::stripe::{Descriptor, FoundObject, descriptors_in, objects_in};
use dio_bench::units::size as human_size;

use super::super::words;

/// Find objects whose striped file is gone
///
/// Crashes, and programs that remove a striped file as if it were an ordinary one, leave objects behind. Those in the directories
/// are shown, but for which their file is where it was made, or beside it under another name, or below a directory of --heads.
/// Status 1 if there are some left.
#[derive(Debug, clap::Args)]
pub(super) struct OrphansArgs {
    /// Look for striped files below DIR too, where some may have been moved to; can be given several times
    #[arg(long, value_name = "DIR")]
    heads: Vec<PathBuf>,

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

fn complain(what: &str, path: &Path, error: &io::Error) {
    eprintln!("dio stripe: cannot {what} '{}': {}", path.display(), words(error));
}

pub(super) fn orphans(args: &OrphansArgs) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    let mut known = Vec::new();
    for head in &args.heads {
        if let Err((path, error)) = gather(head, &mut known) {
            complain("look for striped files in", &path, &error);
            // What was not looked at may know any of them.
            return ExitCode::FAILURE;
        }
    }
    let mut orphans = Vec::new();
    for directory in &args.directories {
        match objects_in(directory) {
            Ok(found) => orphans.extend(
                found
                    .into_iter()
                    .filter(|object| !known.iter().any(|descriptor| object.is_of(descriptor)) && !object.is_known()),
            ),
            Err(error) => {
                complain("read", directory, &error);
                status = ExitCode::FAILURE;
            }
        }
    }
    orphans.sort_by_key(|object| object.id().to_string());
    for objects in orphans.chunk_by(|one, other| one.id() == other.id()) {
        if !settle(objects, args) {
            status = ExitCode::FAILURE;
        }
    }
    status
}

/// Shows the objects of one file, and removes them if that is asked for; whether none is left.
fn settle(objects: &[FoundObject], args: &OrphansArgs) -> bool {
    let name = objects[0].header.name.as_ref().map_or("a file".to_owned(), |name| format!("'{}'", name.display()));
    let mut text = format!("{name}, {}, is not found; of it there are\n", objects[0].id());
    for object in objects {
        let held = human_size(object.size.saturating_sub(object.header.layout.start()));
        text.push_str(&format!("  {:>3}  {held:>10}  {}\n", object.header.index, object.path.display()));
    }
    // A reader that went away is no failure.
    let _ = io::stdout().write_all(text.as_bytes());
    if !args.rm || !(args.yes || agreed(&name, objects.len())) {
        return false;
    }
    objects.iter().fold(true, |all, object| match object.remove() {
        Ok(()) => all,
        Err(error) => {
            complain("remove", &object.path, &error);
            false
        }
    })
}

/// Asks whether a file is really gone.
fn agreed(name: &str, count: usize) -> bool {
    eprint!("dio stripe: is {name} really gone, and nowhere else under another name? remove {count} of its objects? ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim_start().starts_with(['y', 'Y'])
}

/// All descriptors below a directory. Symbolic links are not followed.
fn gather(directory: &Path, known: &mut Vec<Descriptor>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (directory.to_owned(), error);
    known.extend(descriptors_in(directory).map_err(failed)?);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            gather(&entry.path(), known)?;
        }
    }
    Ok(())
}
