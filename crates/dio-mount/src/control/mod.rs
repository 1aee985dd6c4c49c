//! The control socket of a running mount: reading its counters and settings, and changing settings.
//!
//! The server of a mount listens on a Unix socket (`unix(7)`) that is named after the device number
//! of the mount, `MAJ:MIN`, in a directory that only its user may enter. A request is one line of
//! JSON, and so is the answer:
//!
//! | request | answer |
//! |---|---|
//! | `"snapshot"` | `{"ok": …}`: a [`Snapshot`](crate::stats::Snapshot) |
//! | `"settings"` | `{"ok": "…"}`: the settings as the text of options |
//! | `{"set": "…"}` | `{"ok": "…"}`: the settings that hold from now on |
//! | anything else | `{"error": "…"}` |
//!
//! Only root and the user of the server get answers (`SO_PEERCRED`). A client in turn trusts only
//! servers of root, of its own user, and of the user who mounted.
//!
//! The server calls [`start`] when the mount exists, in the process that serves it.

mod client;
mod error;
mod export;
mod listen;
mod location;
pub(crate) mod protocol;

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::stats::Stats;

pub(crate) use client::connect_by_table;
pub use client::{Client, ControlError, connect, connect_in, connect_of};
pub use error::StartError;
pub use export::{Exporter, Exports, write as write_file};
use listen::{Listener, Service};
use location::Directory;
pub use location::RUNTIME_DIRECTORY;
pub(crate) use location::device_of;
use protocol::answer;
pub use protocol::{Change, Commands};

/// The control socket and the exporters of a mount, until it is dropped.
#[derive(Debug)]
pub struct Control {
    listener: Listener,
    exporter: Exporter,
}

impl Control {
    /// The path of the control socket.
    pub fn socket(&self) -> &Path {
        self.listener.path()
    }

    /// Returns the error of the last attempt to write the file of statistics, if that attempt
    /// failed.
    pub fn export_failure(&self) -> Option<String> {
        self.exporter.failure()
    }
}

/// Starts the control socket of the mount at `mountpoint`, and the exporters. Each has a thread of
/// its own, so call this after `fork(2)`, when the mount exists. The mount need not be served yet:
/// the kernel returns its device number without a request to the server.
///
/// # Errors
/// [`StartError`]; nothing stays started then. A mount works without control and exporters.
pub fn start(
    mountpoint: &Path,
    stats: &Arc<Stats>,
    commands: Commands,
    exports: &Exports,
) -> Result<Control, StartError> {
    start_for(&number_of(mountpoint)?, stats, commands, exports)
}

/// As [`start`], by the device number of the mount (`MAJ:MIN`). For mounts whose mount point this
/// process cannot reach, for example in another mount namespace.
///
/// # Errors
/// As [`start`].
pub fn start_for(
    number: &str,
    stats: &Arc<Stats>,
    commands: Commands,
    exports: &Exports,
) -> Result<Control, StartError> {
    let directory = location::own_directory()
        .map_err(|(path, source)| StartError::Directory { path, source })?;
    start_with(&directory, number, stats, commands, exports)
}

fn number_of(mountpoint: &Path) -> Result<String, StartError> {
    let failed =
        |errno: Errno| StartError::Mount { path: mountpoint.to_owned(), source: errno.into() };
    location::device_of(mountpoint).map_err(failed)
}

/// As [`start`], with the socket in `directory`, which is created if it is missing. [`connect`]
/// finds the socket if [`RUNTIME_DIRECTORY`] names that directory.
///
/// # Errors
/// As [`start`].
pub fn start_in(
    directory: &Path,
    mountpoint: &Path,
    stats: &Arc<Stats>,
    commands: Commands,
    exports: &Exports,
) -> Result<Control, StartError> {
    let directory = Directory::make(directory)
        .map_err(|source| StartError::Directory { path: directory.to_owned(), source })?;
    start_with(&directory, &number_of(mountpoint)?, stats, commands, exports)
}

fn start_with(
    directory: &Directory,
    number: &str,
    stats: &Arc<Stats>,
    commands: Commands,
    exports: &Exports,
) -> Result<Control, StartError> {
    let exporter = Exporter::start(stats, exports)?;
    let listener = location::bind(directory, number)
        .and_then(|(socket, path)| {
            let turns = Some(directory.fd.try_clone()?);
            Listener::start(socket, path, turns, control_service(stats, commands))
        })
        .map_err(|source| StartError::Listen { path: directory.path.join(number), source })?;
    Ok(Control { listener, exporter })
}

fn control_service(stats: &Arc<Stats>, commands: Commands) -> Service {
    let stats = Arc::clone(stats);
    Service::Lines(Box::new(move |line| answer(line, &stats, &commands)))
}

#[cfg(test)]
mod tests;
