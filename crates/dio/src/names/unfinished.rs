//! Files that get their name when they are complete.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::removal::{rename_new, renameat, unlinkat};
use crate::file::{File, FileError, OpenOptions};

/// How many temporary names are tried. None that this process makes is taken, unless a process with
/// the same number, of another container, makes it in the same nanosecond.
const ATTEMPTS_MAX: usize = 100;

/// A new file that has a temporary name beside its final one. If it is dropped before
/// [`replace`](UnfinishedFile::replace) or [`claim`](UnfinishedFile::claim), it is removed.
#[derive(Debug)]
pub struct UnfinishedFile {
    directory: OwnedFd,
    path: PathBuf,
    /// The temporary name, until the file has its final one.
    temporary: Option<CString>,
    name: CString,
}

impl UnfinishedFile {
    /// Creates the file that will have the name `path`, opened for writing as `options` say.
    ///
    /// A symbolic link is followed, to the file that is to be replaced.
    ///
    /// # Errors
    /// What `open(2)` answers. ENOTDIR for a new name that ends with a slash, EISDIR for a
    /// directory, EINVAL for other files that are not regular, ENOENT for a link that leads
    /// nowhere.
    pub fn create(options: &OpenOptions, path: &Path) -> Result<(UnfinishedFile, File), FileError> {
        let path = target_of(path)?;
        let failed = |errno| FileError::new("create", &path, errno);
        let name = path.file_name().ok_or_else(|| failed(Errno::ISDIR))?;
        let name = CString::new(name.as_bytes()).map_err(|_| failed(Errno::INVAL))?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(above, flags, Mode::empty()).map_err(failed)?;
        let mut options = options.clone();
        options.write(true).create_new(true);
        let mut last = failed(Errno::EXIST);
        for _ in 0..ATTEMPTS_MAX {
            let temporary = temporary_name();
            match options.open(above.join(OsStr::from_bytes(temporary.to_bytes()))) {
                Ok(file) => {
                    let temporary = Some(temporary);
                    return Ok((UnfinishedFile { directory, path, temporary, name }, file));
                }
                // The name is another file's.
                Err(error) if error.errno() == Errno::EXIST => last = error,
                Err(error) => {
                    // The file may have been created, and then could not be striped or opened.
                    let _ = unlinkat(&directory, &temporary);
                    return Err(error);
                }
            }
        }
        Err(last)
    }

    /// The name that the file will have, after symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that holds the names. Syncing it makes the final name durable.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Gives the file its name, and replaces the file that has it.
    ///
    /// # Errors
    /// As [`renameat`].
    pub fn replace(&mut self) -> Result<(), Errno> {
        self.rename(|directory, from, to| renameat(directory, from, to))
    }

    /// Gives the file its name if no file has it.
    ///
    /// # Errors
    /// As [`rename_new`].
    pub fn claim(&mut self) -> Result<(), Errno> {
        self.rename(|directory, from, to| rename_new(directory, from, to))
    }

    fn rename(
        &mut self,
        rename: impl FnOnce(&OwnedFd, &CString, &CString) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if let Some(temporary) = &self.temporary {
            rename(&self.directory, temporary, &self.name)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The error that led here is reported.
            let _ = unlinkat(&self.directory, temporary);
        }
    }
}

/// The file that is to be made or replaced at `path`: what a symbolic link leads to.
fn target_of(path: &Path) -> Result<PathBuf, FileError> {
    let failed = |errno, cure| Err(FileError::new("create", path, errno).with_cure(cure));
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => failed(Errno::ISDIR, "name the file that is to be made"),
        Ok(found) if !found.is_file() => failed(Errno::INVAL, "name a regular file"),
        Ok(_) if is_link => {
            fs::canonicalize(path).or_else(|_| failed(Errno::NOENT, "name what the link leads to"))
        }
        Ok(_) => Ok(path.to_owned()),
        Err(error) if is_link => {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOENT);
            failed(errno, "remove the symbolic link, which leads nowhere")
        }
        Err(_) if path.as_os_str().is_empty() => failed(Errno::NOENT, "give it a name"),
        Err(_) if path.as_os_str().as_bytes().ends_with(b"/") => {
            failed(Errno::NOTDIR, "name a file, without a slash at the end")
        }
        Err(_) => Ok(path.to_owned()),
    }
}

/// Returns a name that no file has by accident and that the author of an archive could not predict.
pub fn temporary_name() -> CString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = clock_gettime(ClockId::Realtime);
    let moment = now.tv_sec ^ now.tv_nsec.rotate_left(20);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!(".dio-{}-{moment:x}-{next}", std::process::id()))
        .expect("it is made of letters and digits")
}

#[cfg(test)]
mod tests {
    use super::temporary_name;

    #[test]
    fn names_are_all_different() {
        let mut names: Vec<_> = (0..1000).map(|_| temporary_name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
    }
}
