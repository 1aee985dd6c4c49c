//! The operations that a study needs of a database.

use std::path::{Path, PathBuf};
use std::process::Command;

use dio_common::processes;
use hdrhistogram::Histogram;
use rustix::process::Signal;

use crate::BenchError;
use crate::study::{Bucket, Response};

/// The result of a load.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Transactions per second.
    pub(super) tps: f64,
    /// Their response times.
    pub(super) response: Response,
    pub(super) histogram: Vec<Bucket>,
    /// The end of each reported second, in seconds since the beginning of the run, and the
    /// transactions per second in it.
    pub(super) series: Vec<(f64, f64)>,
}

impl Loaded {
    /// Creates a result from response times in nanoseconds, without a time series.
    pub(super) fn new(tps: f64, nanos: &Histogram<u64>) -> Loaded {
        Loaded {
            tps,
            response: Response::of(nanos),
            histogram: Bucket::of(nanos),
            series: Vec::new(),
        }
    }
}

/// The directories and settings that a server is started with.
#[derive(Clone, Debug)]
pub(super) struct ServerConfig {
    /// The server's data directory.
    pub(super) data: PathBuf,
    /// The block device of its tables, if they are on one.
    pub(super) raw: Option<PathBuf>,
    /// The directory for sockets, logs and settings.
    pub(super) run: PathBuf,
    /// Bytes of the server's own cache.
    pub(super) pool: u64,
    /// Whether its data go through the page cache, if the server can choose.
    pub(super) buffered: bool,
    /// Number of clients that will connect.
    pub(super) clients: usize,
    /// More settings of the server, each `name=value`.
    pub(super) settings: Vec<String>,
}

impl ServerConfig {
    /// The file that receives the server's error messages.
    pub(super) fn complaints(&self) -> PathBuf {
        self.run.join("server.log")
    }
}

/// A database.
pub(super) trait Engine {
    /// Checks that all programs are installed; the error names the packages to install.
    fn check_programs(&self) -> Result<(), BenchError>;
    /// The server's version.
    fn version(&self) -> Result<String, BenchError>;
    /// Gives a directory to the user that the server runs as.
    fn own(&self, directory: &Path) -> Result<(), BenchError>;
    /// Creates a database of about `bytes` bytes in an empty directory. No server is running at the
    /// end.
    fn make(&self, place: &ServerConfig, bytes: u64) -> Result<(), BenchError>;
    /// The command that runs the server.
    fn server(&self, place: &ServerConfig) -> Result<Command, BenchError>;
    /// A command that succeeds once the server answers.
    fn question(&self, place: &ServerConfig) -> Command;
    /// The signal that ends the server in order, even while clients are connected.
    fn stop_signal(&self) -> Signal;
    /// The signal that ends the server immediately, with no regard for its data, but leaving
    /// nothing (such as shared memory) behind in the system.
    fn last_signal(&self) -> Signal;
    /// Cleans up before a load, so that every load begins in the same state.
    fn tidy(&self, place: &ServerConfig) -> Result<(), BenchError>;
    /// The command that loads the server for `seconds` seconds.
    fn client(&self, place: &ServerConfig, workload: &str, seconds: u64) -> Command;
    /// Parses a progress line of the client and returns its transactions per second.
    fn progress(&self, line: &str) -> Option<f64>;
    /// Reads the result from the output of the client and from the files that it wrote.
    fn result(&self, place: &ServerConfig, said: &str) -> Result<Loaded, BenchError>;
}

/// The last four non-empty lines of a program's output, in one line.
pub(super) fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join("; ")
}

/// Checks that programs are installed; `cure` says how to install them.
pub(super) fn check(programs: &[&Path], cure: &str) -> Result<(), BenchError> {
    let is_missing = |name: &&&Path| processes::program(name, &["/usr/sbin"]).is_none();
    match programs.iter().find(is_missing) {
        None => Ok(()),
        Some(program) => {
            Err(BenchError::Asked(format!("'{}' is not installed: {cure}", program.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_lines_that_say_something() {
        assert_eq!(last_lines("1\n2\n\n3\n \n4\n5\n\n"), "2; 3; 4; 5");
        assert_eq!(last_lines("\n"), "");
    }

    #[test]
    fn what_is_not_installed_is_named_with_the_cure() {
        check(&[Path::new("sh")], "never").unwrap();
        let error = check(&[Path::new("sh"), Path::new("no-such-program")], "apt-get install it")
            .unwrap_err();
        assert_eq!(error.to_string(), "'no-such-program' is not installed: apt-get install it");
    }
}
