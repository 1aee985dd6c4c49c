//! The directories to mount over themselves.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatVfsMountFlags, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::error::RunError;
use crate::errno::errno_of;

/// A directory to mount over itself.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    source: OwnedFd,
    flags: StatVfsMountFlags,
    /// The identifier of the mount that contains it, if the kernel reports it (Linux 5.8).
    mount: u64,
    /// Device (major and minor) and inode.
    identity: (u32, u32, u64),
    twin: Option<usize>,
}

impl Directory {
    fn open(given: &Path) -> Result<Directory, RunError> {
        let failed = |errno| RunError::Directory { path: given.to_owned(), errno };
        let path = std::fs::canonicalize(given).map_err(|error| failed(errno_of(error)))?;
        if path.parent().is_none() {
            return Err(RunError::Root);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let source = openat(CWD, &path, flags, Mode::empty()).map_err(failed)?;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let stat = statx(&source, "", AtFlags::EMPTY_PATH, wanted).map_err(failed)?;
        let flags = rustix::fs::fstatvfs(&source).map_err(failed)?.f_flag;
        let identity = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        Ok(Directory { path, source, flags, mount: stat.stx_mnt_id, identity, twin: None })
    }

    /// Its path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself, open as `O_PATH`.
    pub fn source(&self) -> &OwnedFd {
        &self.source
    }

    /// The flags of the mount that contains it.
    pub(super) fn flags(&self) -> StatVfsMountFlags {
        self.flags
    }

    /// The index of an earlier entry in the list that is the same directory by another path.
    pub fn twin(&self) -> Option<usize> {
        self.twin
    }

    /// Whether a mount of this directory also serves `other`. A mount point below it belongs to
    /// another file system, or another part of one, and gets a connection of its own. Nothing is
    /// lost by that, because renames and links across mounts never worked.
    fn covers(&self, other: &Directory) -> bool {
        other.path.starts_with(&self.path) && other.mount == self.mount
    }
}

/// Returns the directories to mount for `given`: each once, and each before the directories below
/// it.
///
/// # Errors
/// [`RunError::Directory`] for a path that cannot be opened or is no directory, [`RunError::Root`].
pub fn directories(given: &[PathBuf]) -> Result<Vec<Directory>, RunError> {
    let mut found = given
        .iter()
        .map(|path| Directory::open(path))
        .collect::<Result<Vec<Directory>, RunError>>()?;
    // Paths compare by component, so a directory comes before the directories below it.
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let mut kept: Vec<Directory> = Vec::new();
    for mut directory in found {
        if kept.iter().any(|above| above.covers(&directory)) {
            continue;
        }
        directory.twin =
            kept.iter().position(|one| one.twin.is_none() && one.identity == directory.identity);
        kept.push(directory);
    }
    if kept.is_empty() {
        return Err(RunError::Directory { path: PathBuf::new(), errno: Errno::NOENT });
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_there_once_and_what_it_covers_is_not() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["a/b/c", "ab", "d"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("d"), at("link")).unwrap();
        let given = ["link", "a/b", "ab", "a", "a/", "a/b/../b/c", "d"].map(at);
        let found = directories(&given).unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let names: Vec<_> =
            found.iter().map(|directory| directory.path().strip_prefix(&root).unwrap()).collect();
        assert_eq!(names, ["a", "ab", "d"].map(Path::new));
        assert!(found.iter().all(|directory| directory.twin().is_none()));
    }

    #[test]
    fn only_directories_below_the_root() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = |path: &Path| directories(&[path.to_owned()]).unwrap_err();
        assert!(matches!(refused(file.path()), RunError::Directory { errno: Errno::NOTDIR, .. }));
        assert!(matches!(
            refused(Path::new("/nowhere/at/all")),
            RunError::Directory { errno: Errno::NOENT, .. }
        ));
        assert!(matches!(refused(Path::new("/usr/..")), RunError::Root));
    }
}
