//! Runs a command with directories mounted over themselves. Only the command and its descendants
//! see the mounts.
//!
//! The process that becomes the command starts a server, moves to a mount namespace of its own, and
//! mounts each directory there. It hands the connections (descriptors of `/dev/fuse`) to the
//! server, and then executes the command. The command is therefore the process that was started:
//! the kernel handles signals, job control, terminal, limits and exit status, and nothing needs to
//! be forwarded, as with env(1).
//!
//! ```text
//! caller's namespace                        namespace of the command
//! server ── source directories              command ── the same paths, mounted
//!    └───────────── /dev/fuse, one connection a directory ─────────┘
//! ```
//!
//! The server stays outside, where the directories are unchanged. Invariant: only the server holds
//! a connection once the command runs. So if the server is killed, requests fail (`ENOTCONN`)
//! instead of hanging. When the last process of the namespace ends, for whatever reason, the kernel
//! drops the mounts and ends the connections, and the server ends too.

mod device;
mod directory;
mod error;
mod line;
mod namespace;

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dio_fuse::{SwitchesOn, switch_on};
use dio_sys::SignalsBlocked;
use rustix::io::Errno;

use crate::MountOptions;
use crate::control;
use crate::errno::errno_of;
use crate::options::Rings;

pub use directory::{Directory, directories};
pub use error::RunError;
pub use line::ServerConnection;
pub use namespace::Owner;

/// Moves this process, which must have one thread, to a mount namespace of its own, and mounts
/// `directories` there. Each is served by the server at the other end of `line`. The working
/// directory keeps its name, and is entered through a mount if it lies in one.
///
/// # Errors
/// See [`RunError`]. The process is partly moved then: it can only report the error and end.
pub fn enter(
    directories: &[Directory],
    options: &MountOptions,
    line: &ServerConnection,
) -> Result<Owner, RunError> {
    let here = std::env::current_dir().ok();
    let owner = namespace::enter()?;
    for directory in directories {
        match directory.twin() {
            Some(twin) => bind(&directories[twin], directory)?,
            None => mount(directory, options, owner, line)?,
        }
    }
    let inside =
        |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory.path()));
    if let Some(path) = here.filter(inside) {
        std::env::set_current_dir(&path)
            .map_err(|error| RunError::WorkingDirectory { path, errno: errno_of(error) })?;
    }
    Ok(owner)
}

/// How long the kernel's switches stay on for a server that does not answer, and with them the
/// signals of this process blocked.
const AGREED_WITHIN: Duration = Duration::from_secs(2);

/// While this exists, a mount can agree with the kernel on large requests and on requests by
/// io_uring. A signal must not end this process meanwhile, because the switches would stay on. The
/// fields are in the order in which they have to end.
#[derive(Debug)]
struct Agreement {
    _switches: SwitchesOn,
    _signals: SignalsBlocked,
}

impl Agreement {
    /// Begins, if this process may turn the switches on. The one for io_uring is turned on if the
    /// mount is to use it where it can.
    fn begin(options: &MountOptions, owner: Owner) -> Option<Agreement> {
        if owner != Owner::System {
            return None;
        }
        let signals = SignalsBlocked::new().ok()?;
        let switches = switch_on(options.effective_rings() != Rings::Never)?;
        Some(Agreement { _switches: switches, _signals: signals })
    }
}

/// Mounts one directory and waits until it is served.
fn mount(
    directory: &Directory,
    options: &MountOptions,
    owner: Owner,
    line: &ServerConnection,
) -> Result<(), RunError> {
    let device = device::open()?;
    let agreed = Agreement::begin(options, owner);
    device::mount(&device, directory, options, owner)?;
    let path = directory.path().to_owned();
    let number =
        control::device_of(&path).map_err(|errno| RunError::Mount { path: path.clone(), errno })?;
    line.send(&message(owner, &number, &path), &[directory.source(), &device])
        .map_err(RunError::Server)?;
    // From here on only the server holds the connection.
    drop(device);
    if agreed.is_some() {
        // An error is one of `receive` too.
        let _ = line.wait(AGREED_WITHIN);
        drop(agreed);
    }
    match line.receive().map_err(RunError::Server)? {
        Some((answer, _)) if answer == SERVED => answers(path),
        Some((reason, _)) => {
            Err(RunError::Refused { path, reason: String::from_utf8_lossy(&reason).into_owned() })
        }
        None => Err(RunError::Server(Errno::CONNRESET)),
    }
}

/// Requests the attributes of the mount. Until this is done, the kernel assumes that root owns the
/// mount's root directory. A user namespace without root has no such user, so nobody could write to
/// the directory (`fuse_get_root_inode`, fs/fuse/inode.c; `inode_permission`, fs/namei.c).
fn answers(path: PathBuf) -> Result<(), RunError> {
    rustix::fs::stat(&path).map(drop).map_err(|errno| RunError::Mount { path, errno })
}

/// Shows the existing mount of the same directory at another path. With two mounts of one file,
/// neither server would see the writes through the other.
fn bind(twin: &Directory, directory: &Directory) -> Result<(), RunError> {
    let failed = |errno| RunError::Mount { path: directory.path().to_owned(), errno };
    rustix::mount::mount_bind(twin.path(), directory.path()).map_err(failed)
}

/// The server's answer when it serves a directory; any other answer is the reason why it does not.
const SERVED: &[u8] = b"served";

/// Encodes a directory for the server: the first byte is the owner of the mounts, then follow the
/// device number and the path, which begins with the first slash.
fn message(owner: Owner, number: &str, path: &Path) -> Vec<u8> {
    let first: &[u8] = match owner {
        Owner::System => b"s",
        Owner::User => b"u",
    };
    [first, number.as_bytes(), path.as_os_str().as_bytes()].concat()
}

/// A request to serve one directory.
#[derive(Debug)]
pub struct RunRequest {
    /// The mount point, in the namespace of the command.
    pub path: PathBuf,
    /// The device number of the mount, `MAJ:MIN`.
    pub number: String,
    /// The directory below the mount, open as `O_PATH`.
    pub source: OwnedFd,
    /// The connection: `/dev/fuse`, mounted and not yet initialised.
    pub device: OwnedFd,
    /// The owner of the mounts.
    pub owner: Owner,
}

/// The server's end: calls `start` for each directory that it receives, and reports the result to
/// the other side. Returns the results of `start` when the other side has closed the line, because
/// all directories are handed over or because it ended.
pub fn receive<T>(
    line: &ServerConnection,
    mut start: impl FnMut(RunRequest) -> Result<T, String>,
) -> rustix::io::Result<Vec<T>> {
    let mut started = Vec::new();
    while let Some((text, descriptors)) = line.receive()? {
        match start(request(&text, descriptors)?) {
            Ok(session) => {
                started.push(session);
                // If the other side has ended, so has its namespace, and the sessions will end too.
                let _ = line.send(SERVED, &[]);
            }
            Err(reason) => {
                let _ = line.send(reason.as_bytes(), &[]);
            }
        }
    }
    Ok(started)
}

fn request(text: &[u8], descriptors: Vec<OwnedFd>) -> rustix::io::Result<RunRequest> {
    let (first, rest) = text.split_first().ok_or(Errno::PROTO)?;
    let (number, path) =
        rest.split_at(rest.iter().position(|byte| *byte == b'/').ok_or(Errno::PROTO)?);
    let number = String::from_utf8(number.to_vec()).map_err(|_| Errno::PROTO)?;
    let owner = match first {
        b's' => Owner::System,
        b'u' => Owner::User,
        _ => return Err(Errno::PROTO),
    };
    let [source, device] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| Errno::PROTO)?;
    Ok(RunRequest { path: PathBuf::from(OsStr::from_bytes(path)), number, source, device, owner })
}
