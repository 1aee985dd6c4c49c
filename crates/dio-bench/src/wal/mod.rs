//! Measures the durable log: commits by method, with and without direct I/O, by one client and by
//! many, compared with the limit from the disk's flushes; appending in large steps; recovery.
//!
//! The reference is the published measurement of PostgreSQL with `wal_sync_method = open_sync`,
//! with and without O_DIRECT.

mod limit;
mod load;
mod page_cache;
mod plan;
mod report;
mod section;
mod stream;

use dio_wal::Preallocate;

use crate::BenchError;
use crate::data::Scratch;
use crate::database;
use crate::environment::Environment;
use crate::progress;
pub use plan::{CommitCase, IN_FLIGHT, WalPlan};
pub use report::{Bottleneck, Commits, Flush, Limit, Stream, WalReport};
pub use stream::{COMMIT, LARGE};

/// The reference: transactions per second with `open_sync`, cached and direct, in two runs
/// (PostgreSQL's hackers list, 2003 to 2005: direct I/O for the write-ahead log).
const REFERENCE: [(f64, f64); 2] = [(109.9, 147.2), (102.7, 150.8)];

/// Measures all ways in turns, and then large steps.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &WalPlan) -> Result<WalReport, BenchError> {
    plan.check()?;
    let (steps, time) = plan.expected(progress::pace(&plan.directory));
    progress::begin(steps, time);
    let load::Measured { mut commits, flushes, block_bytes } =
        if plan.without_log { load::Measured::default() } else { load::measure(plan)? };
    let stream =
        if plan.size > 0 && !plan.without_log { Some(stream::measure(plan)?) } else { None };
    let postgresql = plan.postgresql.as_ref().map(database::run_log).transpose()?;
    let scratch = Scratch::new(&plan.directory)?;
    let environment = Environment::of(&scratch.random_file("data", 1 << 20)?)?;
    for row in &mut commits {
        row.limit = limit::limit(row, &flushes, (plan.record, block_bytes), environment.cpus);
    }
    Ok(WalReport {
        record_bytes: plan.record as u64,
        commits,
        flushes,
        stream,
        postgresql,
        block_bytes,
        reused: plan.reused,
        preallocate: match plan.preallocate {
            Preallocate::Ahead => "ahead".to_owned(),
            Preallocate::Zeros => "zeros".to_owned(),
        },
        runs: plan.runs,
        seconds: plan.time.as_secs_f64(),
        environment,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::time::Duration;

    use dio_wal::Method;
    use dio_wal::format::segment_name;

    use super::*;
    use crate::section::Benchmark;

    pub(crate) fn plan(directory: &Path) -> WalPlan {
        WalPlan {
            directory: directory.to_owned(),
            record: 100,
            clients: vec![1, 4],
            methods: vec![Method::Fdatasync, Method::OpenDatasync],
            direct: vec![true, false],
            in_flight: 20,
            followed: true,
            alone: true,
            time: Duration::from_millis(20),
            size: 4 << 20,
            runs: 1,
            block: None,
            preallocate: Preallocate::Ahead,
            reused: false,
            postgresql: None,
            without_log: false,
        }
    }

    #[test]
    fn every_way_is_measured() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let report = run(&plan(directory.path())).unwrap();
        assert_eq!(report.commits.len(), 24);
        assert!(
            report.commits.iter().all(|row| row.commits_per_second > 0.0 && row.response.p50 > 0.0)
        );
        let stream = report.stream.as_ref().unwrap();
        assert!(
            stream.waiting.median > 0.0
                && stream.recovery.median > 0.0
                && stream.disk_read.median > 0.0
        );
        let text = report.text();
        assert!(text.contains("open_datasync") && text.contains("of the disk"), "{text}");
        assert!(text.contains("by fdatasync, direct; 4 MiB in records of 1 MiB"), "{text}");
        assert_eq!(report.flushes.len(), 4);
        let limits: Vec<Limit> = report.commits.iter().filter_map(|row| row.limit).collect();
        assert_eq!(limits.len(), 24, "{:?}", report.flushes);
        for (row, limit) in report.commits.iter().zip(limits) {
            let together = match row.way {
                CommitCase { in_flight: 1.., .. } => 20,
                CommitCase { grouped: true, clients, .. } => clients,
                _ => 1,
            };
            assert_eq!(limit.records_per_flush, together as f64, "{row:?}");
            assert!(limit.reached > 0.0 && limit.processors > 0.0, "{row:?}");
        }
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left");
    }

    #[test]
    fn segments_may_be_filled_when_they_are_made() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let plan = WalPlan {
            preallocate: Preallocate::Zeros,
            clients: vec![1],
            in_flight: 0,
            followed: false,
            size: 0,
            ..plan(directory.path())
        };
        let report = run(&plan).unwrap();
        assert!(report.commits.iter().all(|row| row.commits_per_second > 0.0));
        assert!(report.text().contains("segments of written zeros"), "{}", report.text());
    }

    #[test]
    fn segments_may_have_held_records_before() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let plan = WalPlan {
            reused: true,
            clients: vec![1],
            methods: vec![Method::Fdatasync],
            direct: vec![true],
            in_flight: 0,
            followed: false,
            size: 0,
            ..plan(directory.path())
        };
        let report = run(&plan).unwrap();
        assert!(report.commits[0].commits_per_second > 0.0);
        assert!(report.text().contains("segments that truncation gave back"), "{}", report.text());
    }

    #[test]
    fn a_log_with_reused_segments_ends_in_written_space() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let options = plan(directory.path()).options(Method::Fdatasync, true);
        let log = dio_wal::Log::open(directory.path(), &options).unwrap();
        load::reuse_segments(&log).unwrap();
        let number = log.layout().segment_of(log.end().0);
        let file = std::fs::File::open(directory.path().join(segment_name(number))).unwrap();
        // Space that was only allocated counts as a hole.
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap();
        assert_eq!(hole, log.layout().segment_bytes());
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        let here = Path::new(".");
        for wrong in [WalPlan { clients: vec![0], ..plan(here) }, WalPlan { runs: 0, ..plan(here) }]
        {
            assert!(matches!(run(&wrong), Err(BenchError::Asked(_))));
        }
    }
}
