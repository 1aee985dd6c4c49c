//! PostgreSQL by `wal_sync_method`: transactions per second with the log on the file system itself,
//! cached and direct, and below a mount.
//!
//! Only `pg_wal` is moved, by a symbolic link; tables and everything else stay on the file system
//! itself. PostgreSQL up to 15 opens its log with `O_DIRECT` under `open_sync` and `open_datasync`
//! if nothing but itself reads the log (`wal_level=minimal`, no WAL senders: `get_sync_bit` of
//! `xlog.c`). From version 16 on it does so for every method if the setting `debug_io_direct=wal`
//! asks for it.

use std::borrow::Cow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::client::{LoadGenerator, REPORT_INTERVAL};
use super::engine::{Engine, ServerConfig};
use super::postgres::Postgres;
use super::server::Server;
use crate::BenchError;
use crate::cold::make_tree_cold;
use crate::data::Scratch;
use crate::progress;
use crate::stats::Summary;
use crate::study::mount::{Mounter, StudyMount};
use crate::study::{Contender, Response, turns};

/// The values of `wal_sync_method` that are available on Linux.
pub const METHODS: [&str; 4] = ["open_datasync", "fdatasync", "fsync", "open_sync"];

/// Length of the load that warms the server up before the measured loads.
const WARM: Duration = Duration::from_secs(1);

/// The place of the log, which determines how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPlace {
    /// On the file system, through the page cache.
    Cached,
    /// On the file system, past the page cache where PostgreSQL can.
    Direct,
    /// Below a mount in concurrent mode, which makes it direct.
    Mount,
}

impl LogPlace {
    /// All of them.
    pub const ALL: [LogPlace; 3] = [LogPlace::Cached, LogPlace::Direct, LogPlace::Mount];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            LogPlace::Cached => "cached",
            LogPlace::Direct => "direct",
            LogPlace::Mount => "mount, cio",
        }
    }

    /// The settings with which a server of this major version writes its log in this mode; `None`
    /// if the version cannot.
    fn settings(self, version: u32, method: &str) -> Option<Vec<String>> {
        let more: &[&str] = match self {
            LogPlace::Cached | LogPlace::Mount => &[],
            LogPlace::Direct if version >= 16 => &["debug_io_direct=wal"],
            LogPlace::Direct if method.starts_with("open_") => {
                &["wal_level=minimal", "max_wal_senders=0"]
            }
            LogPlace::Direct => return None,
        };
        let mut settings =
            vec![format!("wal_sync_method={method}"), "min_wal_size=512MB".to_owned()];
        settings.extend(more.iter().map(|&setting| setting.to_owned()));
        Some(settings)
    }
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct LogPlan {
    /// The directory in which files are created; absolute.
    pub directory: PathBuf,
    /// Values of `wal_sync_method`.
    pub methods: Vec<&'static str>,
    /// Places of the log.
    pub places: Vec<LogPlace>,
    /// Numbers of clients; each number gets a load of its own.
    pub clients: Vec<usize>,
    /// A builtin script of pgbench.
    pub workload: String,
    /// Bytes of data, about.
    pub size: u64,
    /// Bytes of PostgreSQL's own cache.
    pub pool: u64,
    /// How long each load takes, in whole seconds.
    pub time: Duration,
    /// Runs of each method and place, in turns.
    pub rounds: usize,
    /// More options of the mount.
    pub mount_options: Vec<String>,
    /// The program that mounts: `dio`.
    pub program: PathBuf,
}

impl LogPlan {
    fn check(&self) -> Result<(), BenchError> {
        let asked = |text: &str| Err(BenchError::Asked(text.to_owned()));
        let none = self.methods.is_empty() || self.places.is_empty() || self.clients.is_empty();
        if none || self.clients.contains(&0) || self.rounds == 0 {
            return asked("methods that PostgreSQL has, clients and runs must be positive");
        }
        if self.time < REPORT_INTERVAL || self.time.subsec_nanos() > 0 {
            return asked("pgbench loads for whole seconds, at least one");
        }
        Ok(())
    }

    /// The greatest possible number of runs, and about how long they take. A server starts and
    /// stops in four seconds, and the preparation takes half a minute.
    pub(crate) fn expected(&self) -> (usize, Duration) {
        let runs = self.methods.len() * self.places.len() * self.rounds;
        let each = self.time * self.clients.len() as u32 + Duration::from_secs(4);
        (runs, Duration::from_secs(30) + each * runs as u32)
    }

    /// All combinations of method and place that a server of this version supports.
    fn ways(&self, version: u32) -> Vec<LogCase> {
        let mut ways = Vec::new();
        for &method in &self.methods {
            let of = |&place: &LogPlace| {
                Some(LogCase { method, place, settings: place.settings(version, method)? })
            };
            ways.extend(self.places.iter().filter_map(of));
        }
        ways
    }
}

/// One combination of method and place, with the settings for it.
#[derive(Clone, Debug)]
struct LogCase {
    method: &'static str,
    place: LogPlace,
    settings: Vec<String>,
}

/// The results of one method, place and number of clients: medians of the runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRow {
    /// The value of `wal_sync_method`.
    pub method: Cow<'static, str>,
    /// The place of the log.
    pub place: LogPlace,
    /// Number of clients.
    pub clients: usize,
    /// Transactions per second.
    #[serde(default)]
    pub tps: Summary,
    /// Mean response time of each run, in seconds.
    pub response_seconds: Summary,
    /// 99th percentile of each run, in seconds.
    pub p99_seconds: Summary,
    /// The most pages of the log that were in the page cache after a load.
    pub resident_pages: u64,
    /// Transactions per second of the single runs.
    pub samples: Vec<f64>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogReport {
    /// PostgreSQL's version.
    pub version: String,
    /// The script of pgbench.
    pub workload: String,
    /// Bytes of data, about.
    pub bytes: u64,
    /// Seconds of each load.
    pub seconds: f64,
    /// Runs of each method and place.
    pub rounds: usize,
    /// More options of the mount.
    #[serde(default)]
    pub mount_options: Vec<String>,
    /// One row for each method, place and number of clients.
    pub rows: Vec<LogRow>,
}

/// The results of all runs of one method, place and number of clients.
#[derive(Clone, Default)]
struct Sum {
    tps: Vec<f64>,
    response: Vec<Response>,
    resident: u64,
}

/// The directories of a measurement.
struct StudyFiles<'a> {
    plan: &'a LogPlan,
    data: PathBuf,
    log: PathBuf,
    at: PathBuf,
    scratch: Scratch,
}

/// Runs every combination of method and place in turns.
///
/// # Errors
/// [`BenchError`]: a program is not installed, a server does not start or stop, a load fails, or
/// this process may not mount.
pub fn run_log(plan: &LogPlan) -> Result<LogReport, BenchError> {
    plan.check()?;
    Postgres.check_programs()?;
    let version = Postgres.version()?;
    let ways = plan.ways(major(&version));
    let mut sums = vec![vec![Sum::default(); plan.clients.len()]; ways.len()];
    let ground = StudyFiles::prepare(plan)?;
    for (round, turn) in turns(plan.rounds, ways.len()) {
        let way = &ways[turn];
        let shown = format!("PostgreSQL, {}, {}", way.method, way.place.name());
        progress::step(&shown);
        let named = |error: BenchError| BenchError::Asked(format!("{shown}: {error}"));
        ground.run(way, &mut sums[turn]).map_err(named)?;
        let last = |sum: &Sum| format!("{:.0}", sum.tps.last().copied().unwrap_or(0.0));
        let told: Vec<String> = sums[turn].iter().map(last).collect();
        eprintln!("{shown}, round {} of {}: {} tps", round + 1, plan.rounds, told.join(", "));
    }
    let mut rows = Vec::new();
    for (place, clients) in plan.clients.iter().enumerate() {
        rows.extend(
            ways.iter().zip(&sums).map(|(way, sums)| LogRow::new(way, *clients, &sums[place])),
        );
    }
    Ok(LogReport {
        version,
        workload: plan.workload.clone(),
        bytes: plan.size,
        seconds: plan.time.as_secs_f64(),
        rounds: plan.rounds,
        mount_options: plan.mount_options.clone(),
        rows,
    })
}

/// The major version: the number before the first point.
fn major(version: &str) -> u32 {
    version
        .split(|letter: char| !letter.is_ascii_digit())
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

impl LogRow {
    fn new(way: &LogCase, clients: usize, sum: &Sum) -> LogRow {
        LogRow {
            method: way.method.into(),
            place: way.place,
            clients,
            tps: Summary::of(sum.tps.iter().copied()),
            response_seconds: Summary::of(sum.response.iter().map(|response| response.mean)),
            p99_seconds: Summary::of(sum.response.iter().map(|response| response.p99)),
            resident_pages: sum.resident,
            samples: sum.tps.clone(),
        }
    }
}

impl<'a> StudyFiles<'a> {
    /// Creates the data, and moves the log out of them.
    fn prepare(plan: &'a LogPlan) -> Result<StudyFiles<'a>, BenchError> {
        let scratch = Scratch::new(&plan.directory)?;
        let [data, log, at] = ["data", "log", "at"].map(|name| scratch.path(name));
        for directory in [&data, &at] {
            std::fs::create_dir(directory).map_err(BenchError::system("create", directory))?;
        }
        Postgres.own(&scratch.path(""))?;
        Postgres.own(&data)?;
        let ground = StudyFiles { plan, data, log, at, scratch };
        Postgres.make(&ground.place(Vec::new(), 1), plan.size)?;
        let inside = ground.inside();
        std::fs::rename(&inside, &ground.log).map_err(BenchError::system("rename", &inside))?;
        Ok(ground)
    }

    /// The path of the log inside the data directory.
    fn inside(&self) -> PathBuf {
        self.data.join("pg_wal")
    }

    fn place(&self, settings: Vec<String>, clients: usize) -> ServerConfig {
        let (data, run) = (self.data.clone(), self.scratch.path(""));
        ServerConfig {
            data,
            raw: None,
            run,
            pool: self.plan.pool,
            buffered: true,
            clients,
            settings,
        }
    }

    /// Makes one run: starts a server, and loads it with each number of clients.
    fn run(&self, way: &LogCase, sums: &mut [Sum]) -> Result<(), BenchError> {
        make_tree_cold(&self.log)?;
        let mount = self.enter(way.place)?;
        let most = self.plan.clients.iter().copied().max().unwrap_or(1);
        let place = self.place(way.settings.clone(), most);
        let server = Server::start(&Postgres, &place)?;
        let load = |place: &ServerConfig, time| {
            LoadGenerator {
                engine: &Postgres,
                place,
                workload: &self.plan.workload,
                begin: Instant::now(),
            }
            .load(time)
        };
        load(&place, WARM)?;
        for (clients, sum) in self.plan.clients.iter().zip(sums) {
            Postgres.tidy(&place)?;
            let loaded =
                load(&ServerConfig { clients: *clients, ..place.clone() }, self.plan.time)?;
            sum.tps.push(loaded.tps);
            sum.response.push(loaded.response);
            sum.resident = sum.resident.max(resident(&self.log)?);
        }
        server.stop()?;
        mount.map_or(Ok(()), StudyMount::leave)
    }

    /// Points the symbolic link `pg_wal` to the log, or to its mount.
    fn enter(&self, place: LogPlace) -> Result<Option<StudyMount>, BenchError> {
        let inside = self.inside();
        let mount = match place {
            LogPlace::Mount => {
                // As root, the server runs as another user.
                let root = rustix::process::geteuid().is_root();
                let allow = root.then(|| "allow_other".to_owned());
                let options: Vec<String> =
                    self.plan.mount_options.iter().cloned().chain(allow).collect();
                let mounter =
                    Mounter { program: &self.plan.program, io_uring: false, options: &options };
                mounter.mount(Contender::Concurrent, &self.log, &self.at)?
            }
            LogPlace::Cached | LogPlace::Direct => None,
        };
        // Before the first run there is no link.
        let _ = std::fs::remove_file(&inside);
        let to = if mount.is_some() { &self.at } else { &self.log };
        symlink(to, &inside).map_err(BenchError::system("link", &inside))?;
        Ok(mount)
    }
}

/// Pages of the log's segments that are in the page cache. The server may remove or rename a
/// segment meanwhile; such a segment is skipped.
fn resident(log: &Path) -> Result<u64, BenchError> {
    let entries = std::fs::read_dir(log).map_err(BenchError::system("read", log))?;
    let files =
        entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let files = files.filter_map(|entry| std::fs::File::open(entry.path()).ok());
    Ok(files.filter_map(|file| dio::residency::resident_pages(&file).ok()).sum())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with rows for 1 client and for 16.
    pub(crate) fn report() -> LogReport {
        let row = |method: &'static str, place, clients, tps: f64| LogRow {
            method: method.into(),
            place,
            clients,
            tps: Summary { median: tps, min: tps * 0.9, max: tps * 1.1 },
            response_seconds: Summary::of([1.0 / tps]),
            p99_seconds: Summary::of([2.0 / tps]),
            resident_pages: u64::from(place == LogPlace::Cached),
            samples: vec![tps * 0.9, tps, tps * 1.1],
        };
        let rows = vec![
            row("open_sync", LogPlace::Cached, 1, 1000.0),
            row("open_sync", LogPlace::Direct, 1, 1340.0),
            row("open_sync", LogPlace::Mount, 1, 900.0),
            row("fdatasync", LogPlace::Cached, 16, 5000.0),
        ];
        let workload = "simple-update".to_owned();
        let mount_options = vec!["native".to_owned()];
        LogReport {
            version: "15.18".into(),
            workload,
            bytes: 150 << 20,
            seconds: 3.0,
            rounds: 3,
            mount_options,
            rows,
        }
    }

    fn plan() -> LogPlan {
        LogPlan {
            directory: PathBuf::from("/nowhere"),
            methods: METHODS.to_vec(),
            places: LogPlace::ALL.to_vec(),
            clients: vec![1, 16],
            workload: "simple-update".to_owned(),
            size: 1 << 20,
            pool: 16 << 20,
            time: REPORT_INTERVAL,
            rounds: 1,
            mount_options: Vec::new(),
            program: PathBuf::from("dio"),
        }
    }

    #[test]
    fn a_server_is_direct_where_its_version_can() {
        assert_eq!((major("15.18"), major("16beta1"), major("unknown")), (15, 16, 0));
        let ways = |version| plan().ways(version);
        assert_eq!(ways(15).len(), 4 * 2 + 2);
        assert_eq!(ways(16).len(), 4 * 3);
        let settings = |version, method| LogPlace::Direct.settings(version, method);
        assert_eq!(settings(15, "fdatasync"), None);
        assert!(settings(15, "open_sync").unwrap().contains(&"wal_level=minimal".to_owned()));
        assert!(settings(17, "fdatasync").unwrap().contains(&"debug_io_direct=wal".to_owned()));
        assert_eq!(LogPlace::Mount.settings(15, "fsync").unwrap()[0], "wal_sync_method=fsync");
    }

    #[test]
    fn what_makes_no_study_is_refused_before_anything_is_made() {
        let wrong = [
            LogPlan { methods: Vec::new(), ..plan() },
            LogPlan { clients: vec![0], ..plan() },
            LogPlan { time: Duration::from_millis(1500), ..plan() },
        ];
        for plan in wrong {
            assert!(matches!(run_log(&plan), Err(BenchError::Asked(_))), "{plan:?}");
        }
    }
}
