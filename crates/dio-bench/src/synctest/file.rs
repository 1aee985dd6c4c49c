//! Test files that no other program uses and that are removed afterwards.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use dio::block::Pool;
use dio_sys::{fd_path, uninterrupted};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::case::Pattern;
use super::error::SyncError;
use crate::data::Random;

/// Bytes of the largest write while a file is made.
const CHUNK: usize = 1 << 20;

/// Bytes of the smallest write while a file is made.
const PAGE: u64 = 4096;

/// The location of test files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestLocation {
    /// A directory. The files have no names if the file system supports that (`O_TMPFILE`).
    Directory(PathBuf),
    /// A file with this name, which does not exist yet. It is removed at the end.
    New(PathBuf),
    /// An existing file or block device, whose contents may be destroyed.
    Existing(PathBuf),
}

impl TestLocation {
    /// The location that a path denotes. An existing file is accepted only with `force`.
    ///
    /// # Errors
    /// [`SyncError::Asked`] for an existing file without `force`, and for a path that is neither a
    /// file, a directory nor a block device; [`SyncError::System`] when `stat(2)` fails.
    pub fn of(path: &Path, force: bool) -> Result<TestLocation, SyncError> {
        let shown = path.display();
        match rustix::fs::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Directory) => Ok(TestLocation::Directory(path.to_owned())),
            Ok(FileType::RegularFile | FileType::BlockDevice) if force => {
                Ok(TestLocation::Existing(path.to_owned()))
            }
            Ok(FileType::RegularFile) => Err(SyncError::Asked(format!(
                "'{shown}' exists and would be overwritten: name a new file or a directory, or say \
                 --force"
            ))),
            Ok(FileType::BlockDevice) => Err(SyncError::Asked(format!(
                "'{shown}' is a block device, and what is on it would be destroyed: name a \
                 directory, or say --force"
            ))),
            Ok(_) => Err(SyncError::Asked(format!(
                "'{shown}' is neither a file, a directory nor a block device"
            ))),
            Err(Errno::NOENT) => Ok(TestLocation::New(path.to_owned())),
            Err(errno) => Err(SyncError::system("look at", path)(errno)),
        }
    }
}

/// A file to write to. If it was created for the test, it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct TestFile {
    held: OwnedFd,
    /// The path for messages.
    pub(crate) shown: PathBuf,
    /// A path that opens the same file again.
    path: PathBuf,
    /// The name to remove at the end.
    name: Option<PathBuf>,
    /// Whether the file existed before, and is kept.
    stays: bool,
    /// Whether it is a device, which can neither grow nor be allocated.
    device: bool,
}

impl TestFile {
    /// Opens or creates the file number `number` of a location.
    ///
    /// # Errors
    /// [`SyncError::System`]; [`SyncError::Asked`] for a second file if the location is a single
    /// existing file.
    pub(crate) fn new(place: &TestLocation, number: u32) -> Result<TestFile, SyncError> {
        match place {
            TestLocation::Directory(directory) => TestFile::nameless(directory),
            TestLocation::New(path) if number == 0 => TestFile::named(path.clone()),
            TestLocation::New(path) => {
                let mut name = path.clone().into_os_string();
                name.push(format!(".{number}"));
                TestFile::named(name.into())
            }
            TestLocation::Existing(path) if number == 0 => TestFile::existing(path),
            TestLocation::Existing(_) => Err(SyncError::Asked(
                "threads have no files of their own where one existing file is named".to_owned(),
            )),
        }
    }

    fn nameless(directory: &Path) -> Result<TestFile, SyncError> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(held) => {
                let path = fd_path(&held);
                Ok(TestFile {
                    held,
                    shown: directory.to_owned(),
                    path,
                    name: None,
                    stays: false,
                    device: false,
                })
            }
            // Errors of file systems without nameless files; EISDIR comes from kernels that do not
            // support them.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                TestFile::named(
                    directory.join(format!(".dio-synctest-{}-{number}", std::process::id())),
                )
            }
            Err(errno) => Err(SyncError::system("make a file in", directory)(errno)),
        }
    }

    fn named(path: PathBuf) -> Result<TestFile, SyncError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let held = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let held = held.map_err(SyncError::system("make", &path))?;
        Ok(TestFile {
            held,
            shown: path.clone(),
            path: path.clone(),
            name: Some(path),
            stays: false,
            device: false,
        })
    }

    fn existing(path: &Path) -> Result<TestFile, SyncError> {
        let held = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let held = held.map_err(SyncError::system("open", path))?;
        let stat = rustix::fs::fstat(&held).map_err(SyncError::system("look at", path))?;
        let device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        Ok(TestFile {
            held,
            shown: path.to_owned(),
            path: path.to_owned(),
            name: None,
            stays: true,
            device,
        })
    }

    /// The descriptor that is held open.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.held
    }

    /// Opens another descriptor.
    pub(crate) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::open(&self.path, OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::empty())
    }

    /// A path by which other code of this process can open the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Brings the file into the state that a pattern starts from: `bytes` long, unless the pattern
    /// appends. Written data are durable, and without `cached` none of them are in the page cache.
    ///
    /// With `cached` they are in the page cache, written in pieces of that size. The page cache
    /// keeps the data of one write as one folio, and syncing 8 KiB in a folio of 1 MiB took twice
    /// the time of 8 KiB in a folio of their own (ext4, Linux 6.18). The measurement must not
    /// depend on how the file was made.
    ///
    /// # Errors
    /// [`SyncError::System`], with [`Errno::OPNOTSUPP`] as the source if the file cannot be used
    /// with this pattern.
    pub(crate) fn prepare(
        &self,
        pattern: Pattern,
        bytes: u64,
        cached: Option<u64>,
    ) -> Result<(), SyncError> {
        if self.device {
            return match pattern {
                Pattern::Overwrite | Pattern::Zeroed => self.fill(pattern, bytes, cached),
                Pattern::Append | Pattern::Preallocated => {
                    Err(SyncError::system("append or allocate on", &self.shown)(Errno::OPNOTSUPP))
                }
            };
        }
        self.rewind(pattern, bytes)?;
        match pattern {
            Pattern::Append | Pattern::Preallocated => self.sync(),
            Pattern::Overwrite | Pattern::Zeroed => self.fill(pattern, bytes, cached),
        }
    }

    /// Empties the file, and reserves its space if the pattern requires that.
    ///
    /// # Errors
    /// [`SyncError::System`].
    pub(crate) fn rewind(&self, pattern: Pattern, bytes: u64) -> Result<(), SyncError> {
        rustix::fs::ftruncate(&self.held, 0).map_err(SyncError::system("empty", &self.shown))?;
        if pattern != Pattern::Preallocated {
            return Ok(());
        }
        let reserve = || rustix::fs::fallocate(&self.held, FallocateFlags::empty(), 0, bytes);
        uninterrupted(reserve).map_err(SyncError::system("reserve space for", &self.shown))
    }

    fn fill(&self, pattern: Pattern, bytes: u64, cached: Option<u64>) -> Result<(), SyncError> {
        let pool = Pool::new(CHUNK, 1).map_err(SyncError::system("map memory for", &self.shown))?;
        let mut block = pool.try_take().expect("nobody else takes from this pool");
        let piece = cached.map_or(CHUNK as u64, |size| size.clamp(PAGE, CHUNK as u64));
        let mut random = Random::new(bytes);
        let mut at = 0;
        while at < bytes {
            let part = &mut block.bytes_mut()[..piece.min(bytes - at) as usize];
            if pattern == Pattern::Overwrite {
                random.fill(part);
            }
            write_all(&self.held, part, at).map_err(SyncError::at("write", &self.shown, at))?;
            at += part.len() as u64;
        }
        self.sync()?;
        if cached.is_none() {
            // Pages that remain are reported with the result.
            let _ = dio::residency::evict(&self.held, 0..bytes);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), SyncError> {
        rustix::fs::fsync(&self.held).map_err(SyncError::system("sync", &self.shown))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // A file that cannot be removed can be found by its name.
            let _ = std::fs::remove_file(name);
        }
        if self.stays {
            // Removes its pages from the page cache; dirty pages have to be written back first.
            let end = dio::residency::length_of(&self.held).unwrap_or(0);
            let _ = dio::residency::write_back(&self.held, 0..end);
            let _ = dio::residency::evict(&self.held, 0..end);
        }
    }
}

/// Writes all of `bytes` at `offset`.
///
/// # Errors
/// Any error of `pwrite(2)`.
pub(crate) fn write_all(fd: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match uninterrupted(|| rustix::io::pwrite(&fd, &bytes[done..], offset + done as u64)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_exists_is_left_alone_unless_forced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(TestLocation::of(&path, false).unwrap(), TestLocation::New(path.clone()));
        std::fs::write(&path, "precious").unwrap();
        let error = TestLocation::of(&path, false).unwrap_err().to_string();
        assert!(error.contains("exists") && error.contains("--force"), "{error}");
        assert_eq!(TestLocation::of(&path, true).unwrap(), TestLocation::Existing(path.clone()));
        // Another process created the file in the meantime.
        let error = TestFile::new(&TestLocation::New(path.clone()), 0).unwrap_err().to_string();
        assert!(error.contains("File exists"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn nothing_remains_and_every_pattern_starts_from_its_file() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        let new = TestLocation::New(directory.path().join("new"));
        for place in [TestLocation::Directory(directory.path().to_owned()), new.clone()] {
            let file = TestFile::new(&place, 0).unwrap();
            assert_eq!(names(), usize::from(place == new));
            for (pattern, length) in Pattern::ALL.into_iter().zip([300_000, 0, 300_000, 300_000]) {
                file.prepare(pattern, 300_000, Some(20_000)).unwrap();
                let again = std::fs::File::from(file.open(OFlags::empty()).unwrap());
                assert_eq!(again.metadata().unwrap().len(), length, "{pattern:?}");
            }
            drop(file);
            assert_eq!(names(), 0);
        }
    }
}
