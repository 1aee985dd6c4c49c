//! A command run with directories mounted over themselves, where it and its descendants alone see
//! the mounts.
//!
//! The process that is to become the command starts a server, leaves its mount namespace for one of
//! its own, mounts each directory there, hands the connections (descriptors of `/dev/fuse`) to the
//! server and executes the command in its own place. The command is therefore the very process that
//! was started: signals, job control, terminal, limits and exit status are the kernel's business
//! and need no forwarding, as with env(1).
//!
//! ```text
//! caller's namespace                        namespace of the command
//! server ── source directories              command ── the same paths, mounted
//!    └───────────── /dev/fuse, one connection a directory ─────────┘
//! ```
//!
//! The server stays outside, where the directories are what they were. Invariant: nobody but the
//! server holds a connection once the command runs. So if the server is killed, requests fail
//! (`ENOTCONN`) instead of hanging; and when the last process of the namespace is gone, however it
//! ended, the kernel drops the mounts and ends the connections, and the server ends too.

mod device;
mod directory;
mod error;
mod line;
mod namespace;

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::Options;
use crate::control;
use crate::errno::errno_of;

pub use directory::{Directory, directories};
pub use error::RunError;
pub use line::Line;
pub use namespace::Owner;

/// Takes this process, which must have one thread, to mounts of its own: `directories`, each served
/// by the server at the other end of `line`. The working directory is then that of the same name,
/// through the mount where it lies in one.
///
/// # Errors
/// As [`RunError`] says. Part of it has then happened already: the process can only tell and end.
pub fn enter(directories: &[Directory], options: &Options, line: &Line) -> Result<Owner, RunError> {
    let here = std::env::current_dir().ok();
    let owner = namespace::enter()?;
    for directory in directories {
        match directory.twin() {
            Some(twin) => bind(&directories[twin], directory)?,
            None => mount(directory, options, owner, line)?,
        }
    }
    let inside = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory.path()));
    if let Some(path) = here.filter(inside) {
        std::env::set_current_dir(&path)
            .map_err(|error| RunError::WorkingDirectory { path, errno: errno_of(error) })?;
    }
    Ok(owner)
}

/// Mounts one directory and waits until it is served.
fn mount(directory: &Directory, options: &Options, owner: Owner, line: &Line) -> Result<(), RunError> {
    let device = device::open()?;
    device::mount(&device, directory, options, owner)?;
    let path = directory.path().to_owned();
    let number = control::device_of(&path).map_err(|errno| RunError::Mount { path: path.clone(), errno })?;
    line.send(&message(owner, &number, &path), &[directory.source(), &device]).map_err(RunError::Server)?;
    // From here on the server alone holds the connection.
    drop(device);
    match line.receive().map_err(RunError::Server)? {
        Some((answer, _)) if answer == SERVED => answers(path),
        Some((reason, _)) => Err(RunError::Refused { path, reason: String::from_utf8_lossy(&reason).into_owned() }),
        None => Err(RunError::Server(Errno::CONNRESET)),
    }
}

/// Asks the mount for its attributes. Until that is done the kernel takes its root for that of
/// root, which a user namespace does not know: nobody could write to it (`fuse_get_root_inode`,
/// fs/fuse/inode.c; `inode_permission`, fs/namei.c).
fn answers(path: PathBuf) -> Result<(), RunError> {
    rustix::fs::stat(&path).map(drop).map_err(|errno| RunError::Mount { path, errno })
}

/// The same directory by another path shows the same mount: two servers of one file would not know
/// of each other's writes.
fn bind(twin: &Directory, directory: &Directory) -> Result<(), RunError> {
    let failed = |errno| RunError::Mount { path: directory.path().to_owned(), errno };
    rustix::mount::mount_bind(twin.path(), directory.path()).map_err(failed)
}

/// The server's answer when it serves a directory; any other says why it does not.
const SERVED: &[u8] = b"served";

/// What the server needs to know of a directory: first byte the owner of the mounts, then the
/// device number and the path, which begins with the first slash.
fn message(owner: Owner, number: &str, path: &Path) -> Vec<u8> {
    let first: &[u8] = match owner {
        Owner::System => b"s",
        Owner::User => b"u",
    };
    [first, number.as_bytes(), path.as_os_str().as_bytes()].concat()
}

/// A directory that the server is to serve.
#[derive(Debug)]
pub struct Request {
    /// Where it is mounted, in the namespace of the command.
    pub path: PathBuf,
    /// The device number of the mount, `MAJ:MIN`.
    pub number: String,
    /// The directory below the mount, open as `O_PATH`.
    pub source: OwnedFd,
    /// The connection: `/dev/fuse`, mounted and not yet initialised.
    pub device: OwnedFd,
    /// Whose the mounts are.
    pub owner: Owner,
}

/// The server's end: calls `start` for each directory that is handed over, and tells the other side
/// how it went. Returns what `start` returned when all directories have been handed over, or
/// nothing more will come because the other side ended.
///
/// # Errors
/// Those of `recvmsg(2)`, and `EPROTO` for a message that [`enter`] did not send.
pub fn receive<T>(line: &Line, mut start: impl FnMut(Request) -> Result<T, String>) -> rustix::io::Result<Vec<T>> {
    let mut started = Vec::new();
    while let Some((text, descriptors)) = line.receive()? {
        match start(request(&text, descriptors)?) {
            Ok(session) => {
                started.push(session);
                // If nobody is there to hear it, the namespace has ended and the sessions will.
                let _ = line.send(SERVED, &[]);
            }
            Err(reason) => {
                let _ = line.send(reason.as_bytes(), &[]);
            }
        }
    }
    Ok(started)
}

fn request(text: &[u8], descriptors: Vec<OwnedFd>) -> rustix::io::Result<Request> {
    let (first, rest) = text.split_first().ok_or(Errno::PROTO)?;
    let (number, path) = rest.split_at(rest.iter().position(|byte| *byte == b'/').ok_or(Errno::PROTO)?);
    let number = String::from_utf8(number.to_vec()).map_err(|_| Errno::PROTO)?;
    let owner = match first {
        b's' => Owner::System,
        b'u' => Owner::User,
        _ => return Err(Errno::PROTO),
    };
    let [source, device] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| Errno::PROTO)?;
    Ok(Request { path: PathBuf::from(OsStr::from_bytes(path)), number, source, device, owner })
}
