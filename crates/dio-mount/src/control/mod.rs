//! Talking to a running mount: what it counts, its settings, and changing them.
//!
//! The server of a mount listens on a Unix socket (`unix(7)`) that is named after the device number of the mount, `MAJ:MIN`,
//! in a directory that only its user may enter. A request is one line of JSON, and so is the answer:
//!
//! | request | answer |
//! |---|---|
//! | `"snapshot"` | `{"ok": …}`: a [`Snapshot`](crate::stats::Snapshot) |
//! | `"settings"` | `{"ok": "…"}`: the settings as the text of options |
//! | `{"set": "…"}` | `{"ok": "…"}`: the settings that hold from now on |
//! | anything else | `{"error": "…"}` |
//!
//! Only root and the user of the server are answered (`SO_PEERCRED`), and the one who asks trusts none but root, itself and the
//! user who mounted.
//!
//! The server starts everything with [`start`], after it has become the process that serves and once the mount is there.

mod client;
mod export;
mod listen;
mod place;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::file::words_of;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stats::Stats;

pub(crate) use client::connect_by_table;
pub use client::{Client, ControlError, connect, connect_in, connect_of};
pub use export::{Exporter, Exports, write as write_file};
use listen::{Listener, Service};
use place::Directory;
pub use place::RUNTIME_DIRECTORY;
pub(crate) use place::device_of;

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
    /// What was counted.
    Snapshot,
    /// The settings as text.
    Settings,
    /// Other settings.
    Set(String),
}

/// An answer; `T` is what the request asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer<T> {
    Ok(T),
    Error(String),
}

/// Takes over other settings, or says what is wrong with the text.
pub type Change = dyn Fn(&str) -> Result<(), String> + Send;

/// What the program that serves does on request. Both are called on a thread of the control, one at a time; a mount that
/// ends waits for a call under way.
pub struct Commands {
    /// Its settings as the text of options.
    pub settings: Box<dyn Fn() -> String + Send>,
    /// Takes over other settings, or says what is wrong with the text.
    pub set: Box<Change>,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}

/// Why control or an exporter could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device number of the mount is not known.
    #[error("cannot look at '{path}': {}", words_of(.source))]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// There is no directory that is safe for the socket.
    #[error("no directory for the control socket: '{path}': {}", words_of(.source))]
    Directory {
        /// The one that was tried last.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on '{path}': {}", words_of(.source))]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer; `AddrInUse` if somebody is listening there.
        source: io::Error,
    },
    /// The file of statistics cannot be written.
    #[error("cannot write '{path}': {}", words_of(.source))]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The control socket and the exporters of a mount, until it is dropped.
#[derive(Debug)]
pub struct Control {
    listener: Listener,
    exporter: Exporter,
}

impl Control {
    /// Where the control socket is.
    pub fn socket(&self) -> &Path {
        self.listener.path()
    }

    /// Why the file of statistics could not be written the last time, if so.
    pub fn export_failure(&self) -> Option<String> {
        self.exporter.failure()
    }
}

/// Starts the control socket of the mount at `mountpoint`, and the exporters. Each has a thread of its own: call it after
/// `fork(2)`, once the mount is there. The mount point need not be served yet: the kernel knows its number by itself.
///
/// # Errors
/// [`StartError`]; nothing is left of what was started then. A mount can well do without.
pub fn start(
    mountpoint: &Path,
    stats: &Arc<Stats>,
    commands: Commands,
    exports: &Exports,
) -> Result<Control, StartError> {
    start_for(&number_of(mountpoint)?, stats, commands, exports)
}

/// As [`start`], by the device number of the mount (`MAJ:MIN`), where its mount point is out of sight: in another mount
/// namespace, say.
///
/// # Errors
/// As [`start`].
pub fn start_for(
    number: &str,
    stats: &Arc<Stats>,
    commands: Commands,
    exports: &Exports,
) -> Result<Control, StartError> {
    let directory = place::own_directory().map_err(|(path, source)| StartError::Directory { path, source })?;
    start_with(&directory, number, stats, commands, exports)
}

fn number_of(mountpoint: &Path) -> Result<String, StartError> {
    let failed = |errno: Errno| StartError::Mount { path: mountpoint.to_owned(), source: errno.into() };
    place::device_of(mountpoint).map_err(failed)
}

/// As [`start`], with the socket in a directory of the caller's choice; it is made if it is missing. [`connect`] finds it if
/// [`RUNTIME_DIRECTORY`] names it.
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
    let directory =
        Directory::make(directory).map_err(|source| StartError::Directory { path: directory.to_owned(), source })?;
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
    let listener = place::bind(directory, number)
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

/// The answer to a line, without its end.
pub(crate) fn answer(line: &str, stats: &Stats, commands: &Commands) -> String {
    match serde_json::from_str(line) {
        Ok(Request::Snapshot) => told(Answer::Ok(stats.snapshot())),
        Ok(Request::Settings) => told(Answer::Ok((commands.settings)())),
        Ok(Request::Set(text)) => match (commands.set)(&text) {
            Ok(()) => told(Answer::Ok((commands.settings)())),
            Err(reason) => refusal(&reason),
        },
        Err(error) => refusal(&format!("unknown request: {error}")),
    }
}

/// What an answer says: what was asked for, or why not.
pub(crate) fn read_answer<T: DeserializeOwned>(answer: &str) -> serde_json::Result<Result<T, String>> {
    Ok(match serde_json::from_str(answer)? {
        Answer::Ok(value) => Ok(value),
        Answer::Error(reason) => Err(reason),
    })
}

fn told<T: Serialize>(answer: Answer<T>) -> String {
    serde_json::to_string(&answer).unwrap_or_else(|error| refusal(&error.to_string()))
}

fn refusal(reason: &str) -> String {
    serde_json::to_string(&Answer::<()>::Error(reason.to_owned())).expect("a string has a form in JSON")
}

#[cfg(test)]
mod tests;
