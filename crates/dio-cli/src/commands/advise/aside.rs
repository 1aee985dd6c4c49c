//! Files that are kept under other names for a while.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;

use super::said::complain;
use crate::commands::words;
use crate::quote::quoted;

/// Files that a command has made, out of the way of its further runs: what they make may not be the
/// same, because the first run may have removed its input. Dropping this puts the files back in
/// place of what the runs have made.
#[derive(Debug)]
pub(super) struct Aside {
    /// The names of each file: its own, and the one that it has meanwhile.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Aside {
    /// Gives each file another name in its directory.
    ///
    /// # Errors
    /// A text that says which file cannot be renamed; then all have their own names.
    pub(super) fn of(paths: &[&Path]) -> Result<Aside, String> {
        let mut aside = Aside { files: Vec::new() };
        for (number, path) in paths.iter().enumerate() {
            let name = format!(".dio-advise-{}-{number}", std::process::id());
            let to = path.with_file_name(name);
            set_aside(path, &to).map_err(|error| {
                let error = words(&error);
                format!("cannot set {} aside for the runs: {error}", quoted(path))
            })?;
            aside.files.push(((*path).to_owned(), to));
        }
        Ok(aside)
    }
}

/// Renames a file, but not over another one.
fn set_aside(from: &Path, to: &Path) -> Result<(), Errno> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL);
    dio::names::rename_new(CWD, &name(from)?, &name(to)?)
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (path, aside) in &self.files {
            let removed = dio::names::unlink(path);
            let is_free = removed.is_ok() || fs::symlink_metadata(path).is_err();
            let back = if is_free { set_aside(aside, path) } else { Err(Errno::EXIST) };
            if let Err(error) = back {
                let (path, aside, error) = (quoted(path), quoted(aside), words(&error));
                complain(&format!(
                    "what the command has made as {path} is {aside} now: it cannot be put back: \
                     {error}"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_in_place_of_what_was_made_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other, absent] = ["one", "other", "absent"].map(|name| dir.path().join(name));
        fs::write(&one, "first").unwrap();
        fs::write(&other, "second").unwrap();
        let aside = Aside::of(&[&one, &other]).unwrap();
        assert!(!one.exists() && !other.exists());
        fs::write(&one, "made again").unwrap();
        drop(aside);
        assert_eq!(fs::read_to_string(&one).unwrap(), "first");
        assert_eq!(fs::read_to_string(&other).unwrap(), "second");
        // If one cannot be set aside, all stay.
        let refused = Aside::of(&[&one, &absent]).unwrap_err();
        assert!(refused.contains("absent' aside for the runs: No such file"), "{refused}");
        assert_eq!(fs::read_to_string(&one).unwrap(), "first");
        // What cannot be replaced stays, and so does the file, under its other name.
        let aside = Aside::of(&[&one]).unwrap();
        let kept = aside.files[0].1.clone();
        fs::create_dir(&one).unwrap();
        drop(aside);
        assert!(one.is_dir());
        assert_eq!(fs::read_to_string(kept).unwrap(), "first");
    }
}
