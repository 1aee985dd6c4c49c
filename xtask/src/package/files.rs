//! Trees of files, laid out as they will be installed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::tool::root;

/// Mode of programs and scripts.
pub(super) const PROGRAM: u32 = 0o755;
/// Mode of all other files.
pub(super) const FILE: u32 = 0o644;

/// A tree that becomes the contents of a package.
pub(super) struct Tree {
    top: PathBuf,
}

impl Tree {
    /// Begins an empty tree.
    pub(super) fn new(top: PathBuf) -> Result<Tree, Error> {
        if top.exists() {
            fs::remove_dir_all(&top)?;
        }
        fs::create_dir_all(&top)?;
        Ok(Tree { top })
    }

    /// Adds a file with these contents.
    pub(super) fn write(&self, to: &str, contents: &[u8], mode: u32) -> Result<(), Error> {
        let to = self.top.join(to);
        fs::create_dir_all(to.parent().expect("a file lies below the top"))?;
        fs::write(&to, contents).map_err(|e| format!("{}: {e}", to.display()))?;
        fs::set_permissions(&to, Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Adds a copy of a file; a relative `from` is one of the checkout.
    pub(super) fn copy(&self, from: impl AsRef<Path>, to: &str, mode: u32) -> Result<(), Error> {
        let from = root().join(from);
        let contents = fs::read(&from).map_err(|e| format!("{}: {e}", from.display()))?;
        self.write(to, &contents, mode)
    }

    /// Adds the files of a directory of the checkout whose names are wanted.
    pub(super) fn copy_all(
        &self,
        from: &str,
        to: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        for name in names(&root().join(from))?.iter().filter(|name| is_wanted(name)) {
            self.copy(format!("{from}/{name}"), &format!("{to}/{name}"), FILE)?;
        }
        Ok(())
    }

    /// Adds a symbolic link.
    pub(super) fn link(&self, to: &str, target: &str) -> Result<(), Error> {
        let to = self.top.join(to);
        fs::create_dir_all(to.parent().expect("a link lies below the top"))?;
        symlink(target, &to).map_err(|e| format!("{}: {e}", to.display()).into())
    }
}

/// The names of the files in a directory.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().into_string().map_err(|_| "a name is not UTF-8")?);
        }
    }
    names.sort();
    Ok(names)
}

/// Copies a small file into a directory.
pub(super) fn copy_into(directory: &Path, from: &Path) -> Result<(), Error> {
    let name = from.file_name().ok_or("a file without a name")?;
    let bytes = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
    Ok(fs::write(directory.join(name), bytes)?)
}
