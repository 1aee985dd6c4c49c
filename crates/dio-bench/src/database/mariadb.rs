//! MariaDB with InnoDB, loaded by sysbench. Its data are in one table space of fixed size, so that
//! all requests meet the lock of the same file, or on a raw device.

use std::path::Path;
use std::process::Command;

use hdrhistogram::Histogram;
use rustix::process::Signal;

use super::engine::{Engine, Loaded, ServerConfig, check};
use super::server::Server;
use crate::BenchError;
use crate::study::run::histogram;
use crate::study::run_for_stdout;

/// The file of all tables, in the directory of the data.
pub(super) const SPACE: &str = "ibdata1";

/// Number of tables of the load.
const TABLES: u64 = 2;

/// Bytes of a row of sysbench with its index, about; and bytes of everything else in a table space.
const ROW: u64 = 250;
const BESIDE: u64 = 256 << 20;

/// MariaDB.
pub(super) struct Mariadb;

impl Mariadb {
    /// Writes the settings of a server to a file in the run's directory.
    fn settings(place: &ServerConfig) -> Result<std::path::PathBuf, BenchError> {
        let run = |name: &str| place.run.join(name).display().to_string();
        let size = std::fs::read_to_string(place.run.join("space")).unwrap_or_default();
        let space = match &place.raw {
            Some(device) => format!("{}:{size}raw", device.display()),
            None => format!("{}:{size}", place.data.join(SPACE).display()),
        };
        let method = if place.buffered { "fsync" } else { "O_DIRECT" };
        let text = format!(
            "[mariadbd]\n\
             datadir={data}\nsocket={socket}\npid-file={pid}\nuser=root\n\
             skip-networking\nskip-name-resolve\nskip-log-bin\nperformance_schema=OFF\nmax_connections={connections}\n\
             innodb_file_per_table=0\ninnodb_data_home_dir=\ninnodb_data_file_path={space}\n\
             innodb_flush_method={method}\ninnodb_flush_log_at_trx_commit=1\ninnodb_log_file_size=256M\n\
             innodb_buffer_pool_size={pool}\ninnodb_buffer_pool_dump_at_shutdown=0\n\
             innodb_buffer_pool_load_at_startup=0\n",
            data = place.data.display(),
            socket = run("socket"),
            pid = run("pid"),
            connections = place.clients + 20,
            pool = place.pool,
        );
        let path = place.run.join("mariadb.cnf");
        std::fs::write(&path, text).map_err(BenchError::system("write", &path))?;
        Ok(path)
    }

    fn sysbench(place: &ServerConfig, workload: &str, rows: u64) -> Command {
        let mut command = Command::new("sysbench");
        command.arg(workload).arg(format!("--mysql-socket={}", place.run.join("socket").display()));
        command.args(["--mysql-user=root", "--rand-type=uniform"]);
        command.arg(format!("--tables={TABLES}")).arg(format!("--table-size={}", rows / TABLES));
        command
    }

    /// The program that runs single statements. It ignores the user's settings, which may name
    /// another server.
    fn client_program() -> Command {
        let mut command = Command::new("mariadb");
        command.arg("--no-defaults");
        command
    }

    fn rows(place: &ServerConfig) -> u64 {
        std::fs::read_to_string(place.run.join("rows"))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

impl Engine for Mariadb {
    fn check_programs(&self) -> Result<(), BenchError> {
        let programs = ["mariadbd", "mariadb-install-db", "mariadb", "sysbench"].map(Path::new);
        check(
            &programs,
            "apt-get install --no-install-recommends mariadb-server-core mariadb-client-core \
             sysbench",
        )
    }

    fn version(&self) -> Result<String, BenchError> {
        let said = run_for_stdout(Command::new("mariadbd").arg("--version"))?;
        Ok(said
            .split_whitespace()
            .skip_while(|word| *word != "Ver")
            .nth(1)
            .unwrap_or("unknown")
            .to_owned())
    }

    fn own(&self, _directory: &Path) -> Result<(), BenchError> {
        // The server is told to run as root, which may open a raw device.
        Ok(())
    }

    fn make(&self, place: &ServerConfig, bytes: u64) -> Result<(), BenchError> {
        let rows = (bytes / ROW).max(TABLES);
        let mebibytes = (bytes * 3 / 2 + BESIDE) >> 20;
        for (name, text) in [("rows", rows.to_string()), ("space", format!("{mebibytes}M"))] {
            let path = place.run.join(name);
            std::fs::write(&path, text).map_err(BenchError::system("write", &path))?;
        }
        let settings = Self::settings(place)?;
        let install = ["--auth-root-authentication-method=normal", "--skip-test-db"];
        run_for_stdout(
            Command::new("mariadb-install-db")
                .arg(option("defaults-file", &settings))
                .args(install),
        )?;
        let server = Server::start(self, place)?;
        let create = "CREATE DATABASE sbtest";
        run_for_stdout(
            Self::client_program()
                .arg(option("socket", &place.run.join("socket")))
                .args(["-u", "root", "-e", create]),
        )?;
        // sysbench prepares each table in one thread.
        run_for_stdout(
            Self::sysbench(place, "oltp_read_write", rows)
                .arg(format!("--threads={TABLES}"))
                .arg("prepare"),
        )?;
        server.stop()
    }

    fn server(&self, place: &ServerConfig) -> Result<Command, BenchError> {
        let mut command = Command::new("mariadbd");
        // The server reads no other settings file.
        command.arg(option("defaults-file", &Self::settings(place)?));
        Ok(command)
    }

    fn question(&self, place: &ServerConfig) -> Command {
        let mut command = Self::client_program();
        command
            .arg(option("socket", &place.run.join("socket")))
            .args(["-u", "root", "-e", "SELECT 1"]);
        command
    }

    fn stop_signal(&self) -> Signal {
        Signal::TERM
    }

    fn last_signal(&self) -> Signal {
        Signal::KILL
    }

    fn tidy(&self, _place: &ServerConfig) -> Result<(), BenchError> {
        // The server stopped in order: everything is written, and there is nothing to recover.
        Ok(())
    }

    fn client(&self, place: &ServerConfig, workload: &str, seconds: u64) -> Command {
        let mut command = Self::sysbench(place, workload, Self::rows(place));
        command.arg(format!("--threads={}", place.clients)).arg(format!("--time={seconds}"));
        command.args(["--report-interval=1", "--histogram", "run"]);
        command
    }

    fn progress(&self, line: &str) -> Option<f64> {
        let (_, rest) = line.strip_prefix('[')?.split_once(" tps: ")?;
        rest.split_whitespace().next()?.parse().ok()
    }

    fn result(&self, _place: &ServerConfig, said: &str) -> Result<Loaded, BenchError> {
        read(said)
            .ok_or_else(|| BenchError::Asked("what sysbench says is not understood".to_owned()))
    }
}

/// Reads `transactions: N (RATE per sec.)` and the lines `milliseconds |*** count` of the
/// histogram.
fn read(said: &str) -> Option<Loaded> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("transactions:"))?;
    let tps = line.split_once('(')?.1.split_whitespace().next()?.parse().ok()?;
    let mut nanos: Histogram<u64> = histogram();
    for line in said.lines() {
        let Some((value, rest)) = line.split_once('|') else { continue };
        let Ok(millis) = value.trim().parse::<f64>() else { continue };
        let count: u64 = rest.split_whitespace().next_back()?.parse().ok()?;
        nanos.saturating_record_n((millis * 1e6) as u64, count);
    }
    Some(Loaded::new(tps, &nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_says_is_understood() {
        let line = "[ 3s ] thds: 16 tps: 8260.06 qps: 8260.06 (r/w/o: 0.00/8260.06/0.00) lat \
                    (ms,99%): 8.74 err/s: 0.00";
        assert_eq!(Mariadb.progress(line), Some(8260.06));
        assert_eq!(Mariadb.progress("Threads started!"), None);
        let said = "Latency histogram (values are in milliseconds)\n       value  ------------- \
                    distribution ------------- count\n\x20      1.000 \
                    |**************                           300\n\x20      2.000 |*      \
                    99\n       4.000 |    1\n \nSQL statistics:\n    \
                    transactions:                        400  (66.50 per sec.)\n";
        let loaded = read(said).unwrap();
        assert_eq!(loaded.tps, 66.5);
        assert_eq!(loaded.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), 400);
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 0.002, "{found}, {expected}")
        };
        near(loaded.response.p50, 0.001);
        near(loaded.response.p99, 0.002);
        near(loaded.response.max, 0.004);
        near(loaded.response.mean, 0.001_255);
        assert!(read("nothing").is_none());
    }
}
