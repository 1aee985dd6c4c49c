//! The server of a database, as a child process.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::engine::{Engine, ServerConfig, last_lines};
use crate::BenchError;
use crate::commands::Running;

/// How long a server may take to start or stop. The recovery of a log, or writing a full cache
/// back, may take a while.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server; ended when dropped.
pub(super) struct Server<'a> {
    running: Running,
    signal: Signal,
    place: &'a ServerConfig,
}

impl<'a> Server<'a> {
    /// Starts a server and returns when it answers.
    pub(super) fn start(
        engine: &dyn Engine,
        place: &'a ServerConfig,
    ) -> Result<Server<'a>, BenchError> {
        let complaints = place.complaints();
        let log = std::fs::File::create(&complaints)
            .map_err(BenchError::system("create", &complaints))?;
        let copy = log.try_clone().map_err(BenchError::system("use", &complaints))?;
        let mut command = engine.server(place)?;
        let shown = command.get_program().to_string_lossy().into_owned();
        let command = command.stdin(Stdio::null()).stdout(log).stderr(copy);
        let running = Running::ended_by(engine.last_signal(), command, &shown)?;
        let mut server = Server { running, signal: engine.stop_signal(), place };
        let begin = Instant::now();
        loop {
            let mut question = engine.question(place);
            let answer =
                question.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if answer.is_ok_and(|status| status.success()) {
                engine.tidy(place)?;
                return Ok(server);
            }
            if let Some(status) = server.running.ended() {
                return Err(server.failed(&format!("the server ended: {status}")));
            }
            if begin.elapsed() > PATIENCE {
                return Err(server.failed("the server does not answer"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Ends the server in order, so that its cache is written and its data are complete.
    pub(super) fn stop(mut self) -> Result<(), BenchError> {
        if let Some(process) = Pid::from_raw(self.running.id().cast_signed()) {
            // The signal fails if the server has ended by itself, which the loop below reports.
            let _ = kill_process(process, self.signal);
        }
        let begin = Instant::now();
        loop {
            match self.running.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(self.failed(&format!("the server ended badly: {status}")));
                }
                None if begin.elapsed() > PATIENCE => {
                    return Err(self.failed("the server does not end"));
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// An error that quotes the last lines of the server's log.
    fn failed(&self, what: &str) -> BenchError {
        let said = std::fs::read_to_string(self.place.complaints()).unwrap_or_default();
        BenchError::Asked(format!("{what}: {}", last_lines(&said)))
    }
}
