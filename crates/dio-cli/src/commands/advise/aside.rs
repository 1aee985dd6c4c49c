//! Files that are kept under other names for a while.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;

use super::said::complain;
use crate::commands::run::own_program;
use crate::commands::words;
use crate::quote::quoted;

/// Files that a command has written, out of the way of its further runs: what these write may not
/// be the same, because the first run may have removed or changed its input. Dropping this puts the
/// files back in place of what the runs have made.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// The names of each file: its own, and the one that it has meanwhile.
    files: Vec<(PathBuf, PathBuf)>,
    /// Those of which runs find a copy.
    copied: Vec<usize>,
    /// The directories that were made for them.
    dirs: Vec<PathBuf>,
}

impl Aside {
    /// Sets files aside. Of one that the command found, a copy stays in its place.
    ///
    /// # Errors
    /// A text that says which file cannot be set aside; then all have their own names.
    pub(super) fn of(written: &[WrittenFile]) -> Result<Aside, String> {
        let mut aside = Aside::default();
        for file in written {
            aside.set_aside(&file.path).map_err(|errno| {
                format!("cannot set {} aside for the runs: {}", quoted(&file.path), words(&errno))
            })?;
            aside.copied.extend(file.was_found.then_some(aside.files.len() - 1));
        }
        Ok(aside)
    }

    /// Puts a copy of each file that was there before the command in its place.
    ///
    /// # Errors
    /// A text that says which file cannot be copied.
    pub(super) fn renew(&self) -> Result<(), String> {
        for (path, kept) in self.copied.iter().map(|number| &self.files[*number]) {
            // A run before may have left another one.
            let _ = dio::names::unlink(path);
            copy(kept, path)
                .map_err(|error| format!("cannot copy {} for a run: {error}", quoted(path)))?;
        }
        Ok(())
    }

    /// Moves a file to a directory as far up as possible: what the command packs, lists or removes
    /// is hardly there.
    fn set_aside(&mut self, path: &Path) -> Result<(), Errno> {
        let parent = path.parent().unwrap_or(Path::new("."));
        let device = fs::metadata(parent).map_err(|error| errno_of(&error))?.dev();
        // Objects of a striped file may be found by its directory.
        let is_striped =
            File::open(path).is_ok_and(|file| dio::names::is_striped(file) == Ok(true));
        let mut places: Vec<&Path> = parent
            .ancestors()
            .take_while(|above| fs::metadata(above).is_ok_and(|found| found.dev() == device))
            .collect();
        if is_striped {
            places.truncate(1);
        }
        let mut refused = Errno::NOENT;
        for place in places.iter().rev() {
            match self.move_to(place, path) {
                Ok(()) => return Ok(()),
                // It is not ours, or another mount of the same file system lies between.
                Err(errno) => refused = errno,
            }
        }
        Err(refused)
    }

    fn move_to(&mut self, place: &Path, path: &Path) -> Result<(), Errno> {
        let dir = place.join(format!(".dio-advise-{}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => self.dirs.push(dir.clone()),
            Err(_) if self.dirs.contains(&dir) => {}
            Err(error) => return Err(errno_of(&error)),
        }
        let to = dir.join(self.files.len().to_string());
        dio::names::rename_new(CWD, &name(path)?, &name(&to)?)?;
        self.files.push((path.to_owned(), to));
        Ok(())
    }
}

/// A file that a command has written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenFile {
    pub(super) path: PathBuf,
    /// It was there before.
    pub(super) was_found: bool,
}

/// Copies a file with all attributes.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut copy = own_program();
    let output = copy.args(["cp", "-a", "--"]).arg(from).arg(to).output();
    let output = output.map_err(|error| words(&error))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(told.trim().to_owned()) }
}

fn name(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Puts a file back in place of what has its name, if anything. A run may have removed the
/// directory.
fn put_back(path: &Path, aside: &Path) -> Result<(), Errno> {
    if let Some(parent) = path.parent() {
        // If it cannot be made, the next line says so.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
    }
    dio::names::renameat(CWD, &name(aside)?, &name(path)?)
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Errors were told.
        let _ = self.restore();
    }
}

impl Aside {
    /// Puts the files back. Returns whether all are.
    #[must_use]
    pub(super) fn restore(&mut self) -> bool {
        let mut all = true;
        for (path, aside) in std::mem::take(&mut self.files) {
            let (path, aside) = (&path, &aside);
            if let Err(error) = put_back(path, aside) {
                let (path, aside, error) = (quoted(path), quoted(aside), words(&error));
                complain(&format!(
                    "what the command has made as {path} cannot be put back from {aside}: {error}"
                ));
                all = false;
            }
        }
        for dir in std::mem::take(&mut self.dirs) {
            // One that has a file yet stays.
            let _ = fs::remove_dir(dir);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &Path) -> WrittenFile {
        WrittenFile { path: path.to_owned(), was_found: false }
    }

    #[test]
    fn files_come_back_in_place_of_what_was_made_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("at");
        fs::create_dir(&at).unwrap();
        let [one, other, absent] = ["one", "other", "absent"].map(|name| at.join(name));
        fs::write(&one, "first").unwrap();
        fs::write(&other, "second").unwrap();
        let aside = Aside::of(&[made(&one), made(&other)]).unwrap();
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "nothing is left there");
        fs::write(&one, "made again").unwrap();
        drop(aside);
        assert_eq!(fs::read_to_string(&one).unwrap(), "first");
        assert_eq!(fs::read_to_string(&other).unwrap(), "second");
        // The directory may be removed meanwhile.
        let aside = Aside::of(&[made(&one), made(&other)]).unwrap();
        fs::remove_dir_all(&at).unwrap();
        drop(aside);
        assert_eq!(fs::read_to_string(&other).unwrap(), "second");
        // If one cannot be set aside, all stay.
        let refused = Aside::of(&[made(&one), made(&absent)]).unwrap_err();
        assert!(refused.contains("absent' aside for the runs: No such file"), "{refused}");
        assert_eq!(fs::read_to_string(&one).unwrap(), "first");
        // What cannot be replaced stays, and so does the file, under its other name.
        let aside = Aside::of(&[made(&one)]).unwrap();
        let kept = aside.files[0].1.clone();
        fs::create_dir(&one).unwrap();
        drop(aside);
        assert!(one.is_dir());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "first");
        fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    }
}
