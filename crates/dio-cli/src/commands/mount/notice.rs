//! Messages of a server: to the service manager that started it, and to the terminal or the system
//! log.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use dio_mount::stats::Stats;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Notifies the service manager that waits for the server (`sd_notify(3)`); does nothing without
/// one.
pub(super) fn service_manager(state: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET") {
        // If the service manager does not listen, there is nothing to do about it.
        let _ = send(&socket, state.as_bytes());
    }
}

/// Returns the address of a path, or of an abstract name behind an `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(socket),
    }
}

fn send(socket: &OsStr, message: &[u8]) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(message, &address(socket)?).map(drop)
}

/// The destination of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MessageSink {
    /// Standard error, with the name of the command as a prefix.
    Terminal(&'static str),
    /// The system log, `syslog(3)`.
    Log,
}

impl MessageSink {
    /// Prints or logs a message for the administrator.
    pub(super) fn tell(self, message: &str) {
        self.tell_through(UnixDatagram::unbound().ok().as_ref(), message);
    }

    fn tell_through(self, socket: Option<&UnixDatagram>, message: &str) {
        match (self, socket) {
            (MessageSink::Terminal(name), _) => eprintln!("{name}: {message}"),
            (MessageSink::Log, Some(socket)) => {
                // Facility daemon (3), severity warning (4), as RFC 3164 encodes them.
                let line = format!("<{}>dio[{}]: {message}", 3 << 3 | 4, std::process::id());
                // If there is no log, there is nowhere to report that.
                let _ = address(OsStr::new("/dev/log"))
                    .and_then(|log| socket.send_to_addr(line.as_bytes(), &log));
            }
            (MessageSink::Log, None) => {}
        }
    }

    /// Reports once when a mount's server runs out of descriptors: programs only get an error when
    /// they open files.
    pub(crate) fn watch_descriptors(self, stats: &Stats, mountpoint: &Path) {
        // The socket is created now, because it could not be created without free descriptors.
        let (socket, at) = (UnixDatagram::unbound().ok(), mountpoint.display().to_string());
        stats.on_first_error(move |errno| {
            let why = match errno {
                Errno::MFILE => {
                    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                    format!(
                        "the server may have {limit} descriptors, and needs two or three for each \
                         open file; raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) and \
                         mount again"
                    )
                }
                Errno::NFILE => {
                    "the system has no descriptors left (sysctl fs.file-max)".to_owned()
                }
                _ => return,
            };
            self.tell_through(socket.as_ref(), &format!("{at}: files cannot be opened: {why}"));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_addresses_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let name = format!("@dio-notice-{}", std::process::id());
        for socket in [path.as_os_str(), OsStr::new(&name)] {
            let listener = UnixDatagram::bind_addr(&address(socket).unwrap()).unwrap();
            send(socket, b"READY=1").unwrap();
            let mut buffer = [0; 64];
            let length = listener.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
    }
}
