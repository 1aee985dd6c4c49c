//! The files that `zstd` is to work on.

use std::path::PathBuf;
use std::rc::Rc;

use crate::commands::compress::Directory;

/// A file that is asked for.
#[derive(Debug)]
pub(super) struct File {
    /// Its path; `-` is standard input.
    pub(super) path: PathBuf,
    /// The directory that it lies in.
    pub(super) dir: Rc<Directory>,
}

impl File {
    /// A file of the command line.
    pub(super) fn named(path: PathBuf) -> File {
        let dir = Rc::new(Directory::of_operand(&path));
        File { path, dir }
    }

    /// Whether it is standard input.
    pub(super) fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Closes the directory, unless `next` lies in it too.
    pub(super) fn leave(&self, next: Option<&File>) {
        if next.is_none_or(|next| !Rc::ptr_eq(&next.dir, &self.dir)) {
            self.dir.close();
        }
    }
}
