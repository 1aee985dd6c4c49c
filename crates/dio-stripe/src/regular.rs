//! Opens files that are named by a directory or a header; another user may have put them there.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dio::names::is_of_the_kernel;
use dio::stripe::object::may_be_descriptor;
use dio::stripe::{DESCRIPTOR_LEN, DescriptorInode};
use dio_sys::{fd_path, reopen};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;

const OF_THE_KERNEL: &str = "it is on a file system of the kernel's own";

/// A regular file that was examined and is not open for access yet.
pub(crate) struct Regular {
    /// Opened with `O_PATH`, because opening another file than a regular one may block or have
    /// effects.
    place: OwnedFd,
    pub(crate) stat: Stat,
}

impl Regular {
    /// Examines a file; `flags` may contain `NOFOLLOW`. Returns `None` if it is no regular file.
    ///
    /// # Errors
    /// Those of opening it; `Unsupported` on a file system of the kernel's own.
    pub(crate) fn at(path: &Path, flags: OFlags) -> io::Result<Option<Regular>> {
        let place = rustix::fs::open(path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&place)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        refuse_of_the_kernel(&place)?;
        Ok(Some(Regular { place, stat }))
    }

    /// Whether it may be a descriptor. It has about the length of a descriptor; or it is longer,
    /// because something was appended, and is one of the inodes `known` as descriptors.
    pub(crate) fn may_be_descriptor(
        &self,
        mut known: impl Iterator<Item = DescriptorInode>,
    ) -> bool {
        let length = self.stat.st_size as u64;
        let mut is_known = || {
            let own = DescriptorInode::of(&self.place).unwrap_or_default();
            known.any(|known| own.is_surely(&known))
        };
        may_be_descriptor(length) || length > DESCRIPTOR_LEN && is_known()
    }

    /// Opens it without waiting: if another process has a lease, the error is EAGAIN.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(crate) fn open(&self, access: OFlags) -> io::Result<fs::File> {
        Ok(reopen(&self.place, access | OFlags::NONBLOCK)?.into())
    }
}

fn refuse_of_the_kernel(place: &OwnedFd) -> io::Result<()> {
    match is_of_the_kernel(place) {
        true => Err(io::Error::new(io::ErrorKind::Unsupported, OF_THE_KERNEL)),
        false => Ok(()),
    }
}

/// Returns the paths in a directory.
///
/// # Errors
/// Those of reading it; `Unsupported` on a file system of the kernel's own.
pub(crate) fn entries_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::open(directory, flags, Mode::empty())?;
    refuse_of_the_kernel(&place)?;
    let entries = fs::read_dir(fd_path(&place))?;
    entries.map(|entry| entry.map(|entry| directory.join(entry.file_name()))).collect()
}

/// Opens a regular file for reading, without following a link; `None` if that fails.
pub(crate) fn open(path: &Path) -> Option<fs::File> {
    open_for(path, OFlags::RDONLY).ok()
}

/// As [`open`], with other access.
///
/// # Errors
/// ESTALE if there is no regular file.
pub(crate) fn open_for(path: &Path, access: OFlags) -> io::Result<fs::File> {
    let file = Regular::at(path, OFlags::NOFOLLOW)?.ok_or(Errno::STALE)?;
    file.open(access)
}
