//! The client of a running mount's control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dio::file::words_of;
use dio_sys::uninterrupted;
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::de::DeserializeOwned;

use super::location::{self, MountLine};
use super::protocol::{ControlRequest, read_answer};
use crate::session::table;
use crate::stats::Snapshot;

/// How long the client waits for the server's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest answer that the client reads, in bytes.
const LONGEST_ANSWER: u64 = 64 << 20;

/// The reasons why a server could not be asked, and its refusals.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The path cannot be looked at.
    #[error("cannot look at '{path}': {}", words_of(.source))]
    Path {
        /// The path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process does not exist, or this process may not read its table of mounts.
    #[error("cannot look at the mounts of process {pid}: {}", words_of(.source))]
    Process {
        /// The process.
        pid: i32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process's table of mounts contains no dio mount.
    #[error("process {pid} sees no dio mount")]
    NoMount {
        /// The process.
        pid: i32,
    },
    /// The process's table of mounts contains several dio mounts.
    #[error("process {pid} sees several dio mounts: name one of {}", list(.mounts))]
    Several {
        /// The process.
        pid: i32,
        /// The mount points.
        mounts: Vec<PathBuf>,
    },
    /// The path is on another file system.
    #[error("'{path}' is not on a dio mount, but on {kind}")]
    NotDio {
        /// The path.
        path: PathBuf,
        /// The type of the file system.
        kind: String,
    },
    /// The server has ended without unmounting.
    #[error("the server of '{path}' is gone: unmount it with 'dio umount', and mount it again")]
    Gone {
        /// The path.
        path: PathBuf,
    },
    /// The mount is served, but there is no socket for this user.
    #[error(
        "'{path}' is served, but not to be asked from here: only root and user {user} may, in the \
         same namespace"
    )]
    NoSocket {
        /// The path.
        path: PathBuf,
        /// The user who mounted it.
        user: u32,
    },
    /// The server does not answer.
    #[error("the server of '{path}' does not answer")]
    Silent {
        /// The path.
        path: PathBuf,
    },
    /// The server that listens on the socket runs as a user who is not trusted.
    #[error("the socket '{socket}' belongs to user {user}, who did not mount '{path}'")]
    Stranger {
        /// The path.
        path: PathBuf,
        /// The socket.
        socket: PathBuf,
        /// The user of the server at its other end.
        user: u32,
    },
    /// The connection failed.
    #[error("cannot ask the server of '{path}': {}", words_of(.source))]
    Connection {
        /// The path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The server refused the request, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The client cannot parse the answer.
    #[error("the server of '{path}' answers in an unknown way: {reason}")]
    Unknown {
        /// The path.
        path: PathBuf,
        /// The parser's error.
        reason: String,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| format!("'{}'", path.display())).collect();
    names.join(", ")
}

/// A connection to the server of a mount. After an error other than [`ControlError::Refused`] the
/// connection cannot be used any more.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    server: Pid,
    stream: BufReader<UnixStream>,
}

/// Connects to the server of the mount that contains `path`: the mount's root, or anything below
/// it. The mount is found without a request to its server, so a server that hangs or has ended is
/// reported as such.
///
/// # Errors
/// [`ControlError`].
pub fn connect(path: impl AsRef<Path>) -> Result<Client, ControlError> {
    connect_among(path.as_ref(), location::candidates)
}

/// As [`connect`], for a server that was started with [`start_in`](super::start_in).
///
/// # Errors
/// As [`connect`].
pub fn connect_in(directory: &Path, path: impl AsRef<Path>) -> Result<Client, ControlError> {
    connect_among(path.as_ref(), |_| vec![directory.to_owned()])
}

/// As [`connect`], for a mount in the mount namespace of process `pid`. `path` is a path in that
/// namespace. Without a path the process must have exactly one dio mount, or exactly one that this
/// process does not have. A mount in a private namespace is reached from outside in this manner.
///
/// # Errors
/// [`ControlError`].
pub fn connect_of(pid: Pid, path: Option<&Path>) -> Result<Client, ControlError> {
    let failed = |source| ControlError::Process { pid: pid.as_raw_nonzero().get(), source };
    let mounts = table::mounts_of(Some(pid)).map_err(failed)?;
    let found = match path {
        None => only(pid, mounts, &table::mounts().unwrap_or_default())?,
        Some(path) => {
            // The name is resolved in this process's namespace, where it leads to the directory
            // below the mount, if that exists.
            let name = path
                .canonicalize()
                .or_else(|_| std::path::absolute(path))
                .unwrap_or_else(|_| path.to_owned());
            table::holding(mounts, &name).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?
        }
    };
    let device = format!("{}:{}", major(found.device), minor(found.device));
    connect_to(&device, Some(pid), &found.at, location::candidates)
}

/// Returns the only dio mount among `mounts`, or the only one of them that is not in `here` too.
fn only(
    pid: Pid,
    mounts: Vec<table::MountRecord>,
    here: &[table::MountRecord],
) -> Result<table::MountRecord, ControlError> {
    let pid = pid.as_raw_nonzero().get();
    let mut ours: Vec<table::MountRecord> =
        mounts.into_iter().filter(|mount| mount.kind == table::KIND).collect();
    ours.sort_by_key(|mount| mount.device);
    ours.dedup_by_key(|mount| mount.device);
    let is_private =
        |mount: &table::MountRecord| !here.iter().any(|other| other.device == mount.device);
    if ours.iter().any(is_private) {
        ours.retain(is_private);
    }
    ours.sort_by(|one, other| one.at.cmp(&other.at));
    match ours.len() {
        1 => Ok(ours.remove(0)),
        0 => Err(ControlError::NoMount { pid }),
        _ => Err(ControlError::Several {
            pid,
            mounts: ours.into_iter().map(|mount| mount.at).collect(),
        }),
    }
}

fn connect_among(
    path: &Path,
    directories: impl Fn(&[u32]) -> Vec<PathBuf>,
) -> Result<Client, ControlError> {
    let device = location::device_of(path)
        .map_err(|errno| ControlError::Path { path: path.to_owned(), source: errno.into() })?;
    connect_to(&device, None, path, directories)
}

/// Connects to the server of the mount with the device number `device`. `path` is a path of the
/// mount in the namespace of `process`, or of this process.
fn connect_to(
    device: &str,
    process: Option<Pid>,
    path: &Path,
    directories: impl Fn(&[u32]) -> Vec<PathBuf>,
) -> Result<Client, ControlError> {
    let mount = location::mount_line(process, device);
    let refused = match reach(device, mount.as_ref(), path, directories) {
        Ok(client) => return Ok(client),
        Err(refused) => refused,
    };
    let seen = match (process, path.strip_prefix("/")) {
        (Some(pid), Ok(below)) => {
            Path::new(&format!("/proc/{}/root", pid.as_raw_nonzero())).join(below)
        }
        _ => path.to_owned(),
    };
    Err(refused.unwrap_or_else(|| why_not(&seen, mount)))
}

/// Connects to the server of a mount in this process's table of mounts; `None` if that is not
/// possible. The mount itself is not accessed: an access would make a concurrent unmount fail
/// because the mount is busy.
pub(crate) fn connect_by_table(mount: &table::MountRecord) -> Option<Client> {
    let device = format!("{}:{}", major(mount.device), minor(mount.device));
    let line = location::mount_line(None, &device);
    reach(&device, line.as_ref(), &mount.at, location::candidates).ok()
}

/// Connects to the first server that listens for the mount and is trusted. If there is none,
/// returns the error of the first server that is not trusted.
fn reach(
    device: &str,
    mount: Option<&MountLine>,
    path: &Path,
    directories: impl Fn(&[u32]) -> Vec<PathBuf>,
) -> Result<Client, Option<ControlError>> {
    let trusted = location::trusted(mount);
    let mut refused = None;
    for directory in directories(&trusted) {
        let Ok((socket, _directory)) = location::to_connect(&directory, device) else { continue };
        let Ok(stream) = UnixStream::connect(&socket) else { continue };
        match Client::new(path, directory.join(device), stream, &trusted) {
            // Anybody can make a directory in /tmp, so an untrusted socket must not hide the right
            // one.
            Err(error) => refused = refused.or(Some(error)),
            Ok(client) => return Ok(client),
        }
    }
    Err(refused)
}

/// Finds out why no server could be reached. This accesses the mount itself, from a thread of its
/// own, because the access may block for ever.
fn why_not(path: &Path, mount: Option<MountLine>) -> ControlError {
    let path = path.to_owned();
    let Some(MountLine { kind, user }) = mount else {
        return ControlError::NotDio { path, kind: "a file system that is not known".to_owned() };
    };
    if !kind.starts_with("fuse") {
        return ControlError::NotDio { path, kind };
    }
    let (tell, told) = mpsc::channel();
    let asked = path.clone();
    thread::spawn(move || {
        let _ =
            tell.send(rustix::fs::statx(CWD, &asked, AtFlags::STATX_FORCE_SYNC, StatxFlags::TYPE));
    });
    match told.recv_timeout(Duration::from_secs(2)) {
        Ok(Err(Errno::NOTCONN | Errno::CONNABORTED)) => ControlError::Gone { path },
        Err(_) => ControlError::Silent { path },
        Ok(_) if kind != "fuse.dio" => ControlError::NotDio { path, kind },
        Ok(_) => ControlError::NoSocket { path, user: user.unwrap_or(0) },
    }
}

impl Client {
    fn new(
        path: &Path,
        socket: PathBuf,
        stream: UnixStream,
        trusted: &[u32],
    ) -> Result<Client, ControlError> {
        let path = path.to_owned();
        let failed = |source: io::Error| ControlError::Connection { path: path.clone(), source };
        let peer =
            rustix::net::sockopt::socket_peercred(&stream).map_err(|errno| failed(errno.into()))?;
        let user = peer.uid.as_raw();
        if !trusted.contains(&user) {
            return Err(ControlError::Stranger { path, socket, user });
        }
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Client { path, server: peer.pid, stream: BufReader::new(stream) })
    }

    /// The process that serves the mount.
    pub fn server(&self) -> Pid {
        self.server
    }

    /// Returns the counters as they are now.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn snapshot(&mut self) -> Result<Snapshot, ControlError> {
        self.ask(&ControlRequest::Snapshot)
    }

    /// Returns the current settings, as the text of options.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn settings(&mut self) -> Result<String, ControlError> {
        self.ask(&ControlRequest::Settings)
    }

    /// Changes settings; returns the settings that apply from now on.
    ///
    /// # Errors
    /// [`ControlError::Refused`] says what is wrong with the text; nothing has changed then. The
    /// other variants as for the other requests.
    pub fn set(&mut self, text: &str) -> Result<String, ControlError> {
        self.ask(&ControlRequest::Set(text.to_owned()))
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &ControlRequest) -> Result<T, ControlError> {
        let mut line = serde_json::to_string(request).map_err(|error| self.unknown(&error))?;
        line.push('\n');
        self.send(line.as_bytes()).map_err(|error| self.failed(error))?;
        let mut answer = String::new();
        let count = self.stream.by_ref().take(LONGEST_ANSWER).read_line(&mut answer);
        if count.map_err(|error| self.failed(error))? == 0 {
            return Err(self.ended());
        }
        let read = read_answer(&answer).map_err(|error| self.unknown(&error))?;
        read.map_err(ControlError::Refused)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // Sent with `MSG_NOSIGNAL`, not written: the calling program may have SIGPIPE end it.
            let stream = self.stream.get_ref();
            let count = uninterrupted(|| {
                rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL)
            })?;
            bytes = &bytes[count..];
        }
        self.stream.get_mut().flush()
    }

    fn failed(&self, error: io::Error) -> ControlError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent { path },
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.ended(),
            io::ErrorKind::InvalidData => self.unknown(&error),
            _ => ControlError::Connection { path, source: error },
        }
    }

    fn unknown(&self, error: &dyn std::fmt::Display) -> ControlError {
        ControlError::Unknown { path: self.path.clone(), reason: error.to_string() }
    }

    fn ended(&self) -> ControlError {
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended the connection");
        ControlError::Connection { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_path_the_mount_is_the_only_one_or_the_only_private_one() {
        let table = |lines: &[&str]| -> Vec<table::MountRecord> {
            let line =
                |number: &&str| format!("9{number} 29 0:{number} / /m{number} rw - fuse.dio /s rw");
            lines.iter().filter_map(|number| table::entry(line(number).as_bytes())).collect()
        };
        let found = |seen: &[&str], here: &[&str]| match only(Pid::INIT, table(seen), &table(here))
        {
            Ok(mount) => mount.at.display().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found(&["1"], &[]), "/m1");
        assert_eq!(found(&["1"], &["1"]), "/m1");
        assert_eq!(found(&["1", "2", "1"], &["1"]), "/m2");
        assert_eq!(
            found(&["2", "1"], &[]),
            "process 1 sees several dio mounts: name one of '/m1', '/m2'"
        );
        assert_eq!(found(&[], &["1"]), "process 1 sees no dio mount");
    }
}
