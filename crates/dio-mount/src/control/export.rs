//! Exports statistics in the text format of Prometheus: to a file that is written every ten
//! seconds, and on a socket.

use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dio_sys::fd_path;
use rustix::fs::{FileType, Mode, OFlags, chmod, fstat, open};

use super::error::StartError;
use super::listen::{Listener, Service};
use super::location::is_abandoned;
use crate::stats::{Stats, prometheus};

/// Interval between two writes of the file.
const EVERY: Duration = Duration::from_secs(10);

/// Destinations of the statistics: the options `stats_file=` and `stats_socket=` of a mount. A
/// daemon needs absolute paths, because relative ones start at its working directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exports {
    /// A file that is replaced every ten seconds, for the textfile collector of Prometheus' node
    /// exporter. When the mount ends, the file stays, with `dio_up` 0.
    pub file: Option<PathBuf>,
    /// A socket that sends the text to every client that connects. Everybody who may enter its
    /// directory may connect.
    pub socket: Option<PathBuf>,
}

/// Writes the file and serves the socket until it is dropped.
#[derive(Debug)]
pub struct Exporter {
    file: Option<FileWriter>,
    // Serves clients until it is dropped.
    _socket: Option<Listener>,
}

impl Exporter {
    /// Starts the exporters that `exports` names, each with a thread of its own. When this returns,
    /// the file has been written once.
    ///
    /// # Errors
    /// [`StartError::File`], [`StartError::Listen`].
    pub fn start(stats: &Arc<Stats>, exports: &Exports) -> Result<Exporter, StartError> {
        let socket = exports.socket.as_deref().map(|path| {
            listen(path, stats)
                .map_err(|source| StartError::Listen { path: path.to_owned(), source })
        });
        let socket = socket.transpose()?;
        let file = exports.file.as_deref().map(|path| {
            FileWriter::start(path, stats, EVERY)
                .map_err(|source| StartError::File { path: path.to_owned(), source })
        });
        Ok(Exporter { file: file.transpose()?, _socket: socket })
    }

    /// Returns the error of the last attempt to write the file, if that attempt failed.
    pub fn failure(&self) -> Option<String> {
        self.file.as_ref().and_then(FileWriter::failure)
    }
}

fn listen(path: &Path, stats: &Arc<Stats>) -> io::Result<Listener> {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && is_abandoned(path) {
        std::fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    allow_everybody(path)?;
    let stats = Arc::clone(stats);
    Listener::start(
        socket,
        path.to_owned(),
        None,
        Service::Text(Box::new(move || prometheus::render(&stats.snapshot()))),
    )
}

/// Lets everybody connect to the socket, whatever the process's umask is. Nothing but a socket gets
/// the mode: a process that may write to the directory can have replaced the socket.
fn allow_everybody(path: &Path) -> io::Result<()> {
    let place = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&place)?.st_mode) != FileType::Socket {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(chmod(fd_path(&place), Mode::from_raw_mode(0o666))?)
}

/// The thread that writes the file.
#[derive(Debug)]
struct FileWriter {
    /// The thread ends when this is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<parking_lot::Mutex<Option<String>>>,
}

impl FileWriter {
    fn start(path: &Path, stats: &Arc<Stats>, every: Duration) -> io::Result<FileWriter> {
        write(path, &prometheus::render(&stats.snapshot()))?;
        let (end, ended) = mpsc::channel();
        let failure: Arc<parking_lot::Mutex<Option<String>>> = Arc::default();
        let (path, stats, failed) = (path.to_owned(), Arc::clone(stats), Arc::clone(&failure));
        let thread = thread::Builder::new().name("dio-stats-file".to_owned()).spawn(move || {
            loop {
                let up = ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout);
                let written = write(&path, &prometheus::render_as(&stats.snapshot(), up));
                *failed.lock() = written.err().map(|error| error.to_string());
                if !up {
                    return;
                }
            }
        })?;
        Ok(FileWriter { end: Some(end), thread: Some(thread), failure })
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Replaces a file atomically: a reader finds either the old text or the new text. The file is not
/// synced, because a server writes it anew after a crash.
///
/// # Errors
/// Those of `open(2)`, `write(2)` and `rename(2)`; no temporary file is left then.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(temporary);
    // A crashed process with the same pid may have left this file; no other process uses the name.
    let _ = std::fs::remove_file(&temporary);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::stats::Operation;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dio.prom");
        write(&path, "one\n").unwrap();
        let old = std::fs::File::open(&path).unwrap();
        write(&path, "two\n").unwrap();
        assert_eq!(
            io::read_to_string(old).unwrap(),
            "one\n",
            "who reads the old one goes on doing so"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(&dir.path().join("missing/dio.prom"), "").is_err());
        std::fs::create_dir(dir.path().join("directory")).unwrap();
        assert!(write(&dir.path().join("directory"), "").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_file_is_there_at_once_and_says_at_the_end_that_it_is_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dio.prom");
        let stats = Stats::new();
        let exports = Exports { file: Some(path.clone()), socket: None };
        let exporter = Exporter::start(&stats, &exports).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\ndio_up{mountpoint=\"\"} 1\n"), "{text}");
        drop(stats.begin(Operation::Mkdir));
        assert_eq!(exporter.failure(), None);
        drop(exporter);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\ndio_up{mountpoint=\"\"} 0\n"), "{text}");
        assert!(
            text.contains(
                "dio_operation_duration_seconds_count{mountpoint=\"\",operation=\"mkdir\"} 1\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_file_is_written_again_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dio.prom");
        let stats = Stats::new();
        let writer = FileWriter::start(&path, &stats, Duration::from_millis(1)).unwrap();
        for _ in 0..3 {
            std::fs::remove_file(&path).unwrap();
            while !path.exists() {
                thread::yield_now();
            }
        }
        drop(writer);
    }

    #[test]
    fn everyone_who_connects_gets_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats");
        let stats = Stats::new();
        let exports = Exports { file: None, socket: Some(path.clone()) };
        let exporter = Exporter::start(&stats, &exports).unwrap();
        let again = Exporter::start(&stats, &exports).unwrap_err();
        assert!(matches!(&again, StartError::Listen { source, .. }
                if source.kind() == io::ErrorKind::AddrInUse));
        for _ in 0..40 {
            let mut text = String::new();
            UnixStream::connect(&path).unwrap().read_to_string(&mut text).unwrap();
            assert!(text.starts_with("# HELP dio_up "), "{text}");
        }
        drop(exporter);
        assert!(!path.exists());
        // A socket file that a crashed server left behind.
        drop(UnixListener::bind(&path).unwrap());
        drop(Exporter::start(&stats, &exports).unwrap());
        std::fs::write(&path, "a file").unwrap();
        assert!(Exporter::start(&stats, &exports).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
    }
}
