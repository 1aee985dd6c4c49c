//! Groups of files for which one way is advised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::facts::{Facts, History};
use crate::replay::planned::Plan;

/// More groups than this do not fit a screen; larger directories stand for their files then.
const GROUPS_MAX: usize = 6;

/// Directories of the system, whose files programs need to run. They are left alone.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];

/// Files that belong together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Their directory.
    pub(super) dir: PathBuf,
    /// A pattern for their names within the directory; `None` if all of it are meant.
    pub(super) pattern: Option<String>,
    /// Their numbers.
    pub(super) files: Vec<u32>,
    /// The numbers of the directories where names were looked for that do not exist, and that go
    /// the way of this group.
    pub(super) searched: Vec<u32>,
    pub(super) facts: Facts,
}

impl Group {
    /// How it is shown.
    pub(super) fn name(&self) -> String {
        match &self.pattern {
            Some(pattern) => self.dir.join(pattern).display().to_string(),
            None => format!("{}/", self.dir.display().to_string().trim_end_matches('/')),
        }
    }
}

/// Whether a file belongs to the system, or has no directory for which a way could be chosen: the
/// root is none.
fn is_left_alone(path: &Path) -> bool {
    path.parent().is_none_or(|dir| dir == Path::new("/") || !dir.is_absolute())
        || SYSTEM.iter().any(|dir| path.starts_with(dir))
}

/// The files of a trace that are not left alone, with their numbers.
fn data_files(plan: &Plan) -> impl Iterator<Item = (u32, &Path)> {
    (0_u32..)
        .zip(&plan.files)
        .filter(|(_, file)| file.is_used)
        .map(|(number, file)| (number, file.path.as_path()))
        .filter(|(_, path)| !is_left_alone(path))
}

/// The number of the file of which the most bytes were moved, among those that are not left alone.
pub(super) fn busiest_file(plan: &Plan) -> Option<u32> {
    let mut moved = vec![0_u64; plan.files.len()];
    for request in plan.requests() {
        if request.call.reads() || request.call.writes() {
            let moved = &mut moved[request.file as usize];
            *moved = moved.saturating_add(request.done);
        }
    }
    data_files(plan).map(|(number, _)| number).max_by_key(|number| moved[*number as usize])
}

/// Groups the files of a trace: by directory and extension, or by directories if those are many.
/// Files that are left alone are in none.
pub(super) fn groups(plan: &Plan, history: &History) -> Vec<Group> {
    let files: Vec<(u32, &Path)> = data_files(plan).collect();
    let depth = files.iter().map(|(_, path)| path.components().count()).max().unwrap_or(0);
    let mut grouped = by(&files, |path| (dir_of(path), pattern_of(path)));
    // A directory at the top is the least that stands for its files; the root would be everything.
    for depth in (2..=depth).rev() {
        if grouped.len() <= GROUPS_MAX {
            break;
        }
        let cut = |path: &Path| dir_of(path).components().take(depth).collect::<PathBuf>();
        grouped = by(&files, |path| (cut(path), None));
    }
    let mut groups: Vec<Group> = grouped
        .into_iter()
        .map(|((dir, pattern), files)| {
            let mut facts = Facts::default();
            files.iter().for_each(|file| facts.join(&history.files[*file as usize]));
            let pattern = match &files[..] {
                // One file is told by its name.
                [file] if pattern.is_some() => {
                    let path = Path::new(&plan.files[*file as usize].path);
                    path.file_name().map(|name| name.to_string_lossy().into_owned())
                }
                _ => pattern,
            };
            Group { dir, pattern, files, searched: Vec::new(), facts }
        })
        .collect();
    groups.sort_by_key(|group| {
        std::cmp::Reverse(group.facts.read.bytes.saturating_add(group.facts.written.bytes))
    });
    for (number, dir) in searched(plan) {
        // Of several groups of a directory, the one of the most bytes, whose way is the mount's.
        let lies_in = |group: &&mut Group| dir.starts_with(&group.dir);
        if let Some(group) = groups.iter_mut().find(lies_in) {
            group.searched.push(number);
        }
    }
    groups
}

/// The directories where names were looked for, listed or changed, with their numbers.
fn searched(plan: &Plan) -> impl Iterator<Item = (u32, &Path)> {
    let numbers: BTreeSet<u32> = plan
        .requests()
        .filter(|request| request.call.is_of_names())
        .map(|request| request.file)
        .filter(|number| !plan.files[*number as usize].is_used)
        .collect();
    numbers.into_iter().map(|number| (number, plan.files[number as usize].path.as_path()))
}

type Key = (PathBuf, Option<String>);

fn by(files: &[(u32, &Path)], key: impl Fn(&Path) -> Key) -> BTreeMap<Key, Vec<u32>> {
    let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    for (number, path) in files {
        groups.entry(key(path)).or_default().push(*number);
    }
    groups
}

fn dir_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_owned()
}

/// `*.ext`, or `*` for names without an extension.
fn pattern_of(path: &Path) -> Option<String> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
    Some(extension.map_or_else(|| "*".to_owned(), |extension| format!("*.{extension}")))
}
