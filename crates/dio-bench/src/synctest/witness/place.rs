//! Identifies the location of a file so that it can be recognised after a reboot: the file system
//! by its own identity, the directory by its inode. Names of devices and directories are not
//! enough, since they may refer to something else by then.

use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::protocol::WitnessSession;
use crate::synctest::error::SyncError;
use crate::synctest::parent;

/// `BTRFS_SUPER_MAGIC`: all subvolumes of a btrfs share one UUID.
const BTRFS: u64 = 0x9123_683e;

/// The identity of the file system of an open file or directory: `uuid-…`, or `fsid-…` if it has no
/// UUID or the kernel does not report it; empty if there is neither.
pub(crate) fn file_system_of(fd: impl AsFd) -> String {
    let fsid = rustix::fs::fstatvfs(&fd).map_or(0, |stat| stat.f_fsid);
    let btrfs =
        rustix::fs::fstatfs(&fd).is_ok_and(|stat| stat.f_type as u64 & 0xffff_ffff == BTRFS);
    match dio_sys::file_system_uuid(fd.as_fd()) {
        Ok(uuid) => {
            let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
            if btrfs { format!("uuid-{digits}-{fsid:x}") } else { format!("uuid-{digits}") }
        }
        Err(_) if fsid != 0 => format!("fsid-{fsid:x}"),
        Err(_) => String::new(),
    }
}

/// The inode of a file's directory.
pub(crate) fn directory_of(path: &Path) -> Result<u64, SyncError> {
    let directory = parent(path);
    Ok(std::fs::metadata(directory).map_err(SyncError::system("look at", directory))?.ino())
}

/// Checks that `path` is the location to which the blocks of a session were written, whether the
/// file exists or not. Only then does their absence mean anything.
///
/// # Errors
/// [`SyncError::Asked`] when the location differs, or when that cannot be determined.
pub(crate) fn same_place(path: &Path, session: &WitnessSession) -> Result<(), SyncError> {
    let elsewhere = |why: String| {
        Err(SyncError::Asked(format!(
            "'{}' has no blocks of session {}, and nothing can be told from that: {why}",
            path.display(),
            session.identity
        )))
    };
    // The resolved path, since the session's path is resolved too.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory: PathBuf = parent(&real).to_owned();
    // Opening a FIFO of this name would block.
    let only = OFlags::DIRECTORY.bits().cast_signed();
    let open = match std::fs::File::options().read(true).custom_flags(only).open(&directory) {
        Ok(open) => open,
        Err(error) => {
            let (directory, words) = (directory.display(), dio::file::words_of(&error));
            return elsewhere(format!("'{directory}': {words} (is its file system mounted?)"));
        }
    };
    let now = file_system_of(&open);
    let kind = |identity: &str| identity.split_once('-').map(|(kind, _)| kind.to_owned());
    if now.is_empty() || kind(&now) != kind(&session.file_system) {
        return elsewhere(
            "the kernel does not tell whether it is the file system that they were written to"
                .to_owned(),
        );
    }
    if now != session.file_system {
        let then = &session.file_system;
        return elsewhere(format!(
            "they were written to the file system {then}, and this is {now} (is that mounted?)"
        ));
    }
    let inode = open.metadata().map_err(SyncError::system("look at", &directory))?.ino();
    let (here, there) = (real.file_name(), Path::new(&session.path).file_name());
    if inode != session.directory || here != there {
        return elsewhere(format!("they were written to '{}' (is the name right?)", session.path));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synctest::witness::identity::WitnessIdentity;

    fn session(path: &Path) -> WitnessSession {
        WitnessSession {
            identity: WitnessIdentity([5; 16]),
            size: 4096,
            slots: 8,
            boot: String::new(),
            host: String::new(),
            path: path.to_str().unwrap().to_owned(),
            file_system: file_system_of(std::fs::File::open(parent(path)).unwrap()),
            directory: directory_of(path).unwrap(),
            method: "fdatasync".to_owned(),
        }
    }

    #[test]
    fn only_what_is_missing_in_its_own_place_means_anything() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("blocks");
        let own = session(&path);
        assert!(!own.file_system.is_empty());
        same_place(&path, &own).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        let link = dir.path().join("other/link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        same_place(&link.join("blocks"), &own).unwrap();
        let words = |path: &Path, session: &WitnessSession| {
            same_place(path, session).unwrap_err().to_string()
        };
        assert!(words(&dir.path().join("block"), &own).contains("is the name right?"));
        assert!(words(&dir.path().join("other/blocks"), &own).contains("is the name right?"));
        assert!(
            words(&dir.path().join("none/blocks"), &own).contains("is its file system mounted?")
        );
        let other = WitnessSession { file_system: own.file_system.clone() + "0", ..own.clone() };
        assert!(words(&path, &other).contains("is that mounted?"));
        for unknown in [String::new(), "other-1".to_owned()] {
            let unknown = WitnessSession { file_system: unknown, ..own.clone() };
            assert!(words(&path, &unknown).contains("does not tell"));
        }
    }
}
