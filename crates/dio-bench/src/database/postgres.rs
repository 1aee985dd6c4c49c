//! PostgreSQL, which has no direct I/O of its own: its files go through the page cache, or below a
//! mount. Loaded by pgbench.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hdrhistogram::Histogram;
use rustix::process::Signal;

use super::engine::{Engine, Loaded, ServerConfig, check};
use super::server::Server;
use crate::BenchError;
use crate::study::run::histogram;
use crate::study::run_for_stdout;

/// Bytes of data for each unit of pgbench's scale, indexes included, about.
const SCALE: u64 = 15 << 20;

/// Prefix of the files in which pgbench logs each transaction.
const TOLD: &str = "pgbench_log";

/// PostgreSQL.
pub(super) struct Postgres;

/// The path of a program: the newest version that Debian installed, or the name alone if there is
/// none.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<f64>().ok();
    let newest = versions.map(|version| version.path()).max_by(|one, other| {
        let numbers = [one, other].map(|path| number(path).unwrap_or(0.0));
        numbers[0].total_cmp(&numbers[1])
    });
    let place = newest.map(|version| version.join("bin").join(name)).filter(|path| path.is_file());
    place.unwrap_or_else(|| PathBuf::from(name))
}

/// The user and group that the server runs as if this process is root, since PostgreSQL refuses to
/// run as root.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let id = |flag| {
        run_for_stdout(Command::new("id").args([flag, "postgres"])).ok()?.trim().parse().ok()
    };
    Some((id("-u")?, id("-g")?))
}

/// A command that runs one of PostgreSQL's programs as its user.
fn command(name: &str, place: &ServerConfig) -> Command {
    let mut command = Command::new(program(name));
    // Variables that were set for another server must not redirect the client (libpq: PGHOSTADDR,
    // PGSERVICE, …).
    for (variable, _) in
        std::env::vars_os().filter(|(variable, _)| variable.to_string_lossy().starts_with("PG"))
    {
        command.env_remove(variable);
    }
    command
        .current_dir(&place.run)
        .env("LC_ALL", "C")
        .env("PGHOST", &place.run)
        .env("PGDATABASE", "postgres");
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    command
}

impl Engine for Postgres {
    fn check_programs(&self) -> Result<(), BenchError> {
        let programs = ["initdb", "postgres", "psql", "pgbench"].map(program);
        let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
        check(&programs, "apt-get install postgresql")
    }

    fn version(&self) -> Result<String, BenchError> {
        let said = run_for_stdout(Command::new(program("postgres")).arg("--version"))?;
        Ok(said.split_whitespace().nth(2).unwrap_or("unknown").to_owned())
    }

    fn own(&self, directory: &Path) -> Result<(), BenchError> {
        let Some((user, group)) = user() else { return Ok(()) };
        std::os::unix::fs::chown(directory, Some(user), Some(group))
            .map_err(BenchError::system("give away", directory))
    }

    fn make(&self, place: &ServerConfig, bytes: u64) -> Result<(), BenchError> {
        run_for_stdout(
            command("initdb", place)
                .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
                .arg(&place.data),
        )?;
        let server = Server::start(self, place)?;
        let scale = (bytes / SCALE).max(1);
        let init = ["-U", "postgres", "-i", "-q", "-I", "dtGvp", "-s"];
        run_for_stdout(command("pgbench", place).args(init).arg(scale.to_string()))?;
        server.stop()
    }

    fn server(&self, place: &ServerConfig) -> Result<Command, BenchError> {
        let mut server = command("postgres", place);
        server.arg("-D").arg(&place.data).arg("-k").arg(&place.run);
        let settings = [
            "listen_addresses=".to_owned(),
            format!("shared_buffers={}kB", place.pool >> 10),
            format!("max_connections={}", place.clients + 20),
            "max_wal_size=4GB".to_owned(),
            "checkpoint_timeout=30min".to_owned(),
        ];
        server.args(settings.iter().chain(&place.settings).flat_map(|setting| ["-c", setting]));
        Ok(server)
    }

    fn question(&self, place: &ServerConfig) -> Command {
        let mut psql = command("psql", place);
        psql.args(["-U", "postgres", "-c", "SELECT 1"]);
        psql
    }

    fn stop_signal(&self) -> Signal {
        // Fast shutdown.
        Signal::INT
    }

    fn last_signal(&self) -> Signal {
        // Immediate shutdown. SIGKILL would leave the server's shared memory behind.
        Signal::QUIT
    }

    fn tidy(&self, place: &ServerConfig) -> Result<(), BenchError> {
        // Removes the dead rows of the last run, if the tables exist already.
        let told = "SELECT count(*) FROM pg_class WHERE relname = 'pgbench_branches'";
        let there = run_for_stdout(command("psql", place).args(["-U", "postgres", "-Atc", told]))?;
        if there.trim() == "1" {
            let tidy = [
                "-U",
                "postgres",
                "-c",
                "TRUNCATE pgbench_history",
                "-c",
                "VACUUM pgbench_branches",
            ];
            run_for_stdout(command("psql", place).args(tidy).args([
                "-c",
                "VACUUM pgbench_tellers",
                "-c",
                "CHECKPOINT",
            ]))?;
        }
        Ok(())
    }

    fn client(&self, place: &ServerConfig, workload: &str, seconds: u64) -> Command {
        let mut pgbench = command("pgbench", place);
        pgbench
            .args(["-U", "postgres", "-n", "-M", "prepared", "-P", "1", "--log", "-b", workload]);
        pgbench.args(["-c", &place.clients.to_string(), "-j", &place.clients.min(2).to_string()]);
        pgbench
            .args(["-T", &seconds.to_string()])
            .arg(format!("--log-prefix={}", place.run.join(TOLD).display()));
        pgbench
    }

    fn progress(&self, line: &str) -> Option<f64> {
        let (_, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
        rest.split_once(" tps")?.0.parse().ok()
    }

    fn result(&self, place: &ServerConfig, said: &str) -> Result<Loaded, BenchError> {
        let mut nanos: Histogram<u64> = histogram();
        let entries =
            std::fs::read_dir(&place.run).map_err(BenchError::system("read", &place.run))?;
        for entry in
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(TOLD))
        {
            let path = entry.path();
            let text = std::fs::read_to_string(&path).map_err(BenchError::system("read", &path))?;
            text.lines()
                .filter_map(microseconds)
                .for_each(|micros| nanos.saturating_record(micros * 1000));
            std::fs::remove_file(&path).map_err(BenchError::system("remove", &path))?;
        }
        let tps = rate(said)
            .ok_or_else(|| BenchError::Asked("what pgbench says is not understood".to_owned()))?;
        Ok(Loaded::new(tps, &nanos))
    }
}

/// Parses the line `tps = RATE (without initial connection time)`.
fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Parses the third field of a line of pgbench's transaction log:
/// `client transaction microseconds script seconds microseconds`.
fn microseconds(line: &str) -> Option<u64> {
    line.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_says_is_understood() {
        let line = "progress: 1.0 s, 1234.5 tps, lat 0.808 ms stddev 0.3, 0 failed";
        assert_eq!(Postgres.progress(line), Some(1234.5));
        assert_eq!(Postgres.progress("transaction type: <builtin: TPC-B (sort of)>"), None);
        let said = "number of failed transactions: 0 (0.000%)\nlatency average = 1.0 ms\ntps = \
                    987.654321 (without initial connection time)\n";
        assert_eq!(rate(said), Some(987.654321));
        assert_eq!(rate("pgbench: error"), None);
        assert_eq!(microseconds("0 199 2241 0 1175850568 995598"), Some(2241));
        assert_eq!(microseconds("0 199 skipped 0"), None);
    }
}
