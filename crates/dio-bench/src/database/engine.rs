//! What a study has to know of a database.

use std::path::{Path, PathBuf};
use std::process::Command;

use hdrhistogram::Histogram;
use rustix::process::Signal;

use crate::BenchError;
use crate::study::{Bucket, Response};

/// What a load gave.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Transactions per second.
    pub(super) tps: f64,
    /// Their response times.
    pub(super) response: Response,
    pub(super) histogram: Vec<Bucket>,
    /// Transactions per second of each second that ended at so many seconds after the run's
    /// beginning.
    pub(super) series: Vec<(f64, f64)>,
}

impl Loaded {
    /// Of response times in nanoseconds.
    pub(super) fn new(tps: f64, nanos: &Histogram<u64>) -> Loaded {
        Loaded { tps, response: Response::of(nanos), histogram: Bucket::of(nanos), series: Vec::new() }
    }
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The directory of its data.
    pub(super) data: PathBuf,
    /// The device of its tables.
    pub(super) raw: Option<PathBuf>,
    /// The directory for sockets, logs and settings.
    pub(super) run: PathBuf,
    /// Bytes of its cache.
    pub(super) pool: u64,
    /// Whether its data go through the page cache where it has the choice.
    pub(super) buffered: bool,
    /// Clients that will come.
    pub(super) clients: usize,
    /// More settings of the server, each `name=value`.
    pub(super) settings: Vec<String>,
}

impl Place {
    /// Where the server complains.
    pub(super) fn complaints(&self) -> PathBuf {
        self.run.join("server.log")
    }
}

/// A database.
pub(super) trait Engine {
    /// Whether all programs are installed; the error says what to install.
    fn check_programs(&self) -> Result<(), BenchError>;
    /// The server's version.
    fn version(&self) -> Result<String, BenchError>;
    /// Gives a directory to the user that the server runs as.
    fn own(&self, directory: &Path) -> Result<(), BenchError>;
    /// Makes a database of about so many bytes in an empty directory, and leaves no server behind.
    fn make(&self, place: &Place, bytes: u64) -> Result<(), BenchError>;
    /// The command that is the server.
    fn server(&self, place: &Place) -> Result<Command, BenchError>;
    /// A command that succeeds when the server answers.
    fn question(&self, place: &Place) -> Command;
    /// The signal by which it ends in order, whoever is connected.
    fn stop_signal(&self) -> Signal;
    /// The signal by which it ends at once, whatever becomes of its data, and leaves nothing in the
    /// system.
    fn last_signal(&self) -> Signal;
    /// What is done before a load so that each begins with the same.
    fn tidy(&self, place: &Place) -> Result<(), BenchError>;
    /// The command that loads the server for some whole seconds.
    fn client(&self, place: &Place, workload: &str, seconds: u64) -> Command;
    /// The transactions per second in a line by which the client reports a second.
    fn progress(&self, line: &str) -> Option<f64>;
    /// What the client said, and wrote, when it had ended.
    fn result(&self, place: &Place, said: &str) -> Result<Loaded, BenchError>;
}

/// The last of what a program said, in one line.
pub(super) fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join("; ")
}

/// Whether programs are there; `cure` says how to get them.
pub(super) fn check(programs: &[&Path], cure: &str) -> Result<(), BenchError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    let there = |program: &&&Path| places.iter().any(|place| place.join(program).is_file());
    match programs.iter().find(|program| !there(program)) {
        None => Ok(()),
        Some(program) => Err(BenchError::Asked(format!("'{}' is not installed: {cure}", program.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_lines_that_say_something() {
        assert_eq!(last_words("1\n2\n\n3\n \n4\n5\n\n"), "2; 3; 4; 5");
        assert_eq!(last_words("\n"), "");
    }

    #[test]
    fn what_is_not_installed_is_named_with_the_cure() {
        check(&[Path::new("sh")], "never").unwrap();
        let error = check(&[Path::new("sh"), Path::new("no-such-program")], "apt-get install it").unwrap_err();
        assert_eq!(error.to_string(), "'no-such-program' is not installed: apt-get install it");
    }
}
