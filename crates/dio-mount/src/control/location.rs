//! The directories of control sockets, and the mount that contains a path.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use dio_sys::fd_path;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, geteuid, getuid};

use crate::session::table::table_of;

/// The environment variable that names another directory for the sockets, for servers and for
/// clients. The directory is created, with mode 0700, if it is missing.
pub const RUNTIME_DIRECTORY: &str = "DIO_RUNTIME_DIR";

/// Longest path of a socket in bytes, without the terminating null byte (`unix(7)`).
const LONGEST_PATH: usize = 107;

/// A directory for sockets that belongs to this user.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
}

/// Returns the device number of the mount that contains `path`, as the kernel writes it: `MAJ:MIN`.
/// The request does not reach the server (`AT_STATX_DONT_SYNC`), so it works for a server that has
/// ended or hangs.
pub(crate) fn device_of(path: &Path) -> Result<String, Errno> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
    Ok(format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor))
}

/// Returns the directory for this process's sockets, which is created if it is missing. If all
/// candidates fail, returns the last one with its error.
pub(super) fn own_directory() -> Result<Directory, (PathBuf, io::Error)> {
    let mut failed = (PathBuf::from("/run/dio"), io::Error::from(io::ErrorKind::NotFound));
    for path in own_candidates() {
        match Directory::make(&path) {
            Ok(directory) => return Ok(directory),
            Err(error) => failed = (path, error),
        }
    }
    Err(failed)
}

/// Lists the directories where a server of this user may listen, in the order of preference.
fn own_candidates() -> Vec<PathBuf> {
    if let Some(named) = named() {
        return vec![named];
    }
    let mut candidates = Vec::new();
    if geteuid().is_root() {
        candidates.push(PathBuf::from("/run/dio"));
    }
    candidates.extend(of_session());
    candidates.extend(of_user(geteuid().as_raw()));
    candidates
}

/// Lists the directories where the server of a mount may listen if one of `users` mounted it, in
/// the order of preference.
pub(super) fn candidates(users: &[u32]) -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> = named().into_iter().collect();
    candidates.push(PathBuf::from("/run/dio"));
    candidates.extend(of_session());
    candidates.extend(users.iter().flat_map(|user| of_user(*user)));
    candidates
}

fn named() -> Option<PathBuf> {
    std::env::var_os(RUNTIME_DIRECTORY).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn of_session() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .map(|path| path.join("dio"))
}

/// The directories of a user's sockets where `XDG_RUNTIME_DIR` is not set.
fn of_user(user: u32) -> [PathBuf; 2] {
    [PathBuf::from(format!("/run/user/{user}/dio")), PathBuf::from(format!("/tmp/dio-{user}"))]
}

impl Directory {
    /// Opens a directory for sockets, and creates it if it is missing. Refuses a symbolic link, a
    /// directory of another user, and one that other users may access.
    pub(super) fn make(path: &Path) -> io::Result<Directory> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "others may enter it, or own it",
            ));
        }
        Ok(Directory { path: path.to_owned(), fd })
    }
}

/// Binds a socket for the mount with the device number `device`; returns it with its path. Removes
/// the sockets of servers that ended without removing them. Removes a socket of this number in any
/// case: the kernel reuses device numbers, so the server of an earlier mount may still be ending.
pub(super) fn bind(directory: &Directory, device: &str) -> io::Result<(UnixListener, PathBuf)> {
    // Between `bind` and `listen`, another server's socket would look abandoned.
    let _turn = DirectoryLock::take(&directory.fd)?;
    sweep(directory)?;
    let path = directory.path.join(device);
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(&path)?;
    }
    let socket = UnixListener::bind(reachable(directory, device))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok((socket, path))
}

/// The exclusive right to make and remove sockets in a directory, held until this is dropped.
pub(super) struct DirectoryLock<'a>(BorrowedFd<'a>);

impl DirectoryLock<'_> {
    pub(super) fn take(directory: &OwnedFd) -> Result<DirectoryLock<'_>, Errno> {
        rustix::fs::flock(directory, FlockOperation::LockExclusive)?;
        Ok(DirectoryLock(directory.as_fd()))
    }
}

impl Drop for DirectoryLock<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// Returns a path of the socket that is not longer than [`LONGEST_PATH`].
fn reachable(directory: &Directory, device: &str) -> PathBuf {
    let path = directory.path.join(device);
    match path.as_os_str().len() {
        0..=LONGEST_PATH => path,
        _ => fd_path(&directory.fd).join(device),
    }
}

fn sweep(directory: &Directory) -> io::Result<()> {
    for entry in std::fs::read_dir(&directory.path)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_device(name)) else { continue };
        if entry.file_type()?.is_socket() && is_abandoned(&reachable(directory, name)) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_device(name: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once(':').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// Whether a socket exists on which no process listens.
pub(super) fn is_abandoned(path: &Path) -> bool {
    let refused = || -> Result<(), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    refused() == Err(Errno::CONNREFUSED)
}

/// Returns a path by which a client can connect to the socket, and the descriptor that the path
/// depends on.
pub(super) fn to_connect(directory: &Path, device: &str) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    let path = directory.join(device);
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((path, None));
    }
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let fd = rustix::fs::open(directory, flags, Mode::empty())?;
    Ok((fd_path(&fd).join(device), Some(fd)))
}

/// The fields of one line of the table of mounts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountLine {
    /// The type of the file system, with its subtype.
    pub(super) kind: String,
    /// The user who mounted it, if it is a FUSE mount.
    pub(super) user: Option<u32>,
}

/// Looks up a device number in the table of mounts of `process`, or of this process. Returns `None`
/// if the table has no such line, or if `/proc` is not mounted.
pub(super) fn mount_line(process: Option<Pid>, device: &str) -> Option<MountLine> {
    let table = std::fs::read(table_of(process)).ok()?;
    find_mount(&String::from_utf8_lossy(&table), device)
}

/// Parses lines of `proc_pid_mountinfo(5)`: the third field is the device number; after ` - `
/// follow the type, the source and the options of the superblock.
fn find_mount(table: &str, device: &str) -> Option<MountLine> {
    let line = table.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    let mut fields = line.split_once(" - ")?.1.split(' ');
    let kind = fields.next()?.to_owned();
    let options = fields.nth(1).unwrap_or("");
    let user = options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    Some(MountLine { kind, user })
}

/// Users whose servers a client trusts: root, the client's own user, and the user who mounted.
pub(super) fn trusted(mount: Option<&MountLine>) -> Vec<u32> {
    let mut users = vec![geteuid().as_raw(), getuid().as_raw(), 0];
    users.extend(mount.and_then(|mount| mount.user));
    users.dedup();
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read() {
        let table = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n90 22 0:45 / /mnt/a\\040b \
                     rw,nosuid shared:7 - fuse.dio /srv\\040x \
                     rw,user_id=1000,group_id=5,allow_other\n";
        let line = |kind: &str, user| Some(MountLine { kind: kind.to_owned(), user });
        assert_eq!(find_mount(table, "0:45"), line("fuse.dio", Some(1000)));
        assert_eq!(find_mount(table, "254:0"), line("ext4", None));
        assert_eq!(find_mount(table, "0:4"), None);
        assert_eq!(find_mount("1 2 0:9 /", "0:9"), None);
    }

    #[test]
    fn names_of_sockets_are_told_from_others() {
        assert!(is_device("0:45") && is_device("254:0"));
        for other in ["", ":", "0:", ":1", "a:1", "1", "1:2:3", "0:-1"] {
            assert!(!is_device(other), "{other}");
        }
    }

    #[test]
    fn what_others_may_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        Directory::make(&ours).unwrap();
        Directory::make(&ours).unwrap();
        std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(Directory::make(&ours).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let link = dir.path().join("link");
        std::fs::create_dir(dir.path().join("target")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        assert!(Directory::make(&link).is_err());
        assert!(Directory::make(&dir.path().join("missing/child")).is_err());
    }

    #[test]
    fn abandoned_sockets_are_removed_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dio");
        let directory = Directory::make(&path).unwrap();
        drop(UnixListener::bind(path.join("0:1")).unwrap());
        let alive = UnixListener::bind(path.join("0:2")).unwrap();
        drop(UnixListener::bind(path.join("mine")).unwrap());
        std::fs::write(path.join("0:3"), "").unwrap();
        let (_socket, bound) = bind(&directory, "0:1").unwrap();
        assert_eq!(bound, path.join("0:1"));
        let mut names: Vec<_> =
            std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["0:1", "0:2", "0:3", "mine"]);
        assert_eq!(std::fs::metadata(&bound).unwrap().permissions().mode() & 0o777, 0o600);
        // The number belongs to the new mount, even while the server of an earlier mount listens.
        let (socket, path) = bind(&directory, "0:2").unwrap();
        drop(alive);
        std::os::unix::net::UnixStream::connect(path).unwrap();
        drop(socket);
    }

    #[test]
    fn a_long_path_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(120));
        let directory = Directory::make(&path).unwrap();
        let (socket, _) = bind(&directory, "0:7").unwrap();
        let (reachable, _fd) = to_connect(&path, "0:7").unwrap();
        std::os::unix::net::UnixStream::connect(&reachable).unwrap();
        drop(socket);
        assert!(is_abandoned(&reachable));
        bind(&directory, "0:7").unwrap();
    }
}
