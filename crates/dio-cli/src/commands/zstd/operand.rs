//! The files for `zstd` to process.

use std::path::PathBuf;
use std::rc::Rc;

use crate::commands::compress::Directory;

/// A file to process.
#[derive(Debug)]
pub(super) struct File {
    /// The path; `-` is standard input.
    pub(super) path: PathBuf,
    /// The directory that contains it.
    pub(super) dir: Rc<Directory>,
}

impl File {
    /// Creates the entry of a file on the command line.
    pub(super) fn named(path: PathBuf) -> File {
        let dir = Rc::new(Directory::of_operand(&path));
        File { path, dir }
    }

    /// Returns whether the file is standard input.
    pub(super) fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Closes the directory, unless `next` is in it too.
    pub(super) fn leave(&self, next: Option<&File>) {
        if next.is_none_or(|next| !Rc::ptr_eq(&next.dir, &self.dir)) {
            self.dir.close();
        }
    }
}
