//! The names of the files to digest: the operands, and all regular files below those that are
//! directories, in the order in which `LC_ALL=C sort` puts their paths.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, FileType};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Yields names, or directories that cannot be listed with the reasons.
pub(super) struct Names {
    operands: VecDeque<PathBuf>,
    /// The entries that are left of each directory which is being listed, the last first.
    open: Vec<Vec<Entry>>,
    /// Whether directories are listed, instead of being taken for files.
    lists: bool,
}

struct Entry {
    path: OsString,
    is_directory: bool,
}

impl Names {
    pub(super) fn new(operands: &[PathBuf], lists: bool) -> Names {
        Names { operands: operands.iter().cloned().collect(), open: Vec::new(), lists }
    }

    /// Lists a directory; returns an error that it is to be reported with.
    fn enter(&mut self, path: &OsStr) -> Option<io::Error> {
        match entries(Path::new(path)) {
            Ok(entries) => {
                self.open.push(entries);
                None
            }
            Err(error) => Some(error),
        }
    }
}

impl Iterator for Names {
    type Item = (OsString, Option<io::Error>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.open.last_mut() {
                Some(entries) => match entries.pop() {
                    Some(entry) => entry,
                    None => {
                        self.open.pop();
                        continue;
                    }
                },
                None => {
                    let operand = self.operands.pop_front()?;
                    let is_directory = self.lists && operand.is_dir();
                    Entry { path: operand.into_os_string(), is_directory }
                }
            };
            if !entry.is_directory {
                return Some((entry.path, None));
            }
            if let Some(error) = self.enter(&entry.path) {
                return Some((entry.path, Some(error)));
            }
        }
    }
}

/// Returns the regular files and the directories in a directory, the last first.
fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(is_directory) = wanted(&entry).map(|kind| kind.is_dir()) else { continue };
        let mut path = directory.join(entry.file_name()).into_os_string().into_vec();
        if is_directory {
            // So that it sorts as the paths below it do.
            path.push(b'/');
        }
        found.push((path, is_directory));
    }
    found.sort_unstable_by(|one, other| other.0.cmp(&one.0));
    let entry = |(mut path, is_directory): (Vec<u8>, bool)| {
        path.truncate(path.len() - usize::from(is_directory));
        Entry { path: OsString::from_vec(path), is_directory }
    };
    Ok(found.into_iter().map(entry).collect())
}

/// The type of a regular file or directory; `None` of anything else, and of a file that is gone.
fn wanted(entry: &DirEntry) -> Option<FileType> {
    entry.file_type().ok().filter(|kind| kind.is_file() || kind.is_dir())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_come_in_the_order_of_sort() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for name in ["a/b/c", "a/b.c", "a/b-", "a/z", "b", "a/b/d/e"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("b", root.join("a/link")).unwrap();
        let names = Names::new(&[root.to_owned()], true);
        let found: Vec<Vec<u8>> = names.map(|(name, _)| name.as_bytes().to_vec()).collect();
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!((found.len(), found), (6, sorted));
        assert_eq!(Names::new(&[root.to_owned()], false).count(), 1);
    }
}
