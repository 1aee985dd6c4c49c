//! Runs the load generator of a database and reads its output.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::engine::{Engine, Loaded, ServerConfig, last_lines};
use crate::BenchError;
use crate::commands::Running;

/// The time between two reports of a load generator, and the length of a slot of the time series.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The load generator of a server.
pub(super) struct LoadGenerator<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) place: &'a ServerConfig,
    pub(super) workload: &'a str,
    /// When the run began.
    pub(super) begin: Instant,
}

impl LoadGenerator<'_> {
    /// Loads the server for a whole number of seconds.
    pub(super) fn load(&self, time: Duration) -> Result<Loaded, BenchError> {
        let mut command = self.engine.client(self.place, self.workload, time.as_secs());
        let shown = command.get_program().to_string_lossy().into_owned();
        let failed = || BenchError::system("read from", Path::new(&shown));
        // Both streams go into one pipe, since pgbench reports its progress on standard error.
        let (reader, writer) = std::io::pipe().map_err(failed())?;
        let copy = writer.try_clone().map_err(failed())?;
        let mut running =
            Running::start(command.stdin(Stdio::null()).stdout(writer).stderr(copy), &shown)?;
        // The command holds the write ends of the pipe: only when they are closed does the reader
        // reach the end of the output.
        drop(command);
        let mut said = String::new();
        let mut series = Vec::new();
        for line in BufReader::new(reader).lines() {
            let line = line.map_err(failed())?;
            if let Some(tps) = self.engine.progress(&line) {
                series.push((self.begin.elapsed().as_secs_f64(), tps));
            }
            said.push_str(&line);
            said.push('\n');
        }
        let status = running.wait(&shown)?;
        if !status.success() {
            return Err(BenchError::Asked(format!("'{shown}' failed: {}", last_lines(&said))));
        }
        let loaded = self.engine.result(self.place, &said)?;
        Ok(Loaded { series, ..loaded })
    }
}

/// The rate in the slot with this number of the time series. A slot is one second long, and its
/// rate is that of the report that covers the slot's middle.
pub(super) fn tps_of_slot(series: &[(f64, f64)], slot: usize) -> f64 {
    let middle = slot as f64 + 0.5;
    let covers = |(end, _): &&(f64, f64)| (*end - 1.0..*end).contains(&middle);
    series.iter().find(covers).map_or(0.0, |(_, tps)| *tps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_the_report_of_their_middle() {
        let series = [(1.1, 100.0), (2.1, 200.0), (4.6, 300.0)];
        let slots: Vec<f64> = (0..6).map(|slot| tps_of_slot(&series, slot)).collect();
        assert_eq!(slots, [100.0, 200.0, 0.0, 0.0, 300.0, 0.0]);
    }
}
