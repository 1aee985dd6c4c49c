//! Computes the upper limit of commits: a commit is durable when a flush is, and a flush has a
//! fixed cost independent of the amount of data.

use std::time::Duration;

use dio_wal::Method;

use super::plan::{CommitCase, WalPlan};
use super::report::{Bottleneck, Commits, Flush, Limit};
use crate::stats::Summary;
use crate::synctest::{self, Pattern, Section, SyncCase, TestLocation};

/// Share of all processors' time from which on the processors count as the bottleneck.
const BUSY: f64 = 0.9;

/// Share of a limit from which on it counts as reached.
const REACHED: f64 = 0.9;

/// The rate of plain flushes in one run; `None` if the file system refuses the method or direct
/// I/O.
pub(super) fn flush(
    plan: &WalPlan,
    place: &std::path::Path,
    (method, direct): (Method, bool),
    block: u64,
) -> Option<f64> {
    let method = synctest::Method::ALL.into_iter().find(|known| known.name() == method.name())?;
    let case = SyncCase {
        size: block,
        pattern: Pattern::Overwrite,
        ..SyncCase::new(Section::Matrix, method, direct)
    };
    let time = (plan.time / 2).max(Duration::from_millis(20));
    synctest::rate(&case, &TestLocation::Directory(place.to_owned()), time).ok()
}

/// Determines the limit of one row by the flushes of its method.
pub(super) fn limit(
    row: &Commits,
    flushes: &[Flush],
    (record, block): (usize, u64),
    cpus: usize,
) -> Option<Limit> {
    let CommitCase { method, direct, clients, grouped, in_flight, .. } = row.way;
    let flush = flushes.iter().find(|flush| flush.method == method && flush.direct == direct)?;
    // A block holds whole records only, and a flush carries at least one record, however many
    // blocks that record has.
    let per_block = (block / dio_wal::format::record_bytes(record)).max(1) as f64;
    let together = if grouped { (clients * in_flight.max(1)) as f64 } else { 1.0 };
    let per_flush = together.min(per_block);
    let parts = row
        .samples
        .iter()
        .zip(&flush.samples)
        .map(|(commits, flushes)| commits / (per_flush * flushes));
    let parts: Vec<f64> = parts.filter(|part| part.is_finite()).collect();
    if parts.is_empty() {
        return None;
    }
    let reached = Summary::of(parts).median;
    let processors = row.commits_per_second * row.cpu_seconds_per_commit / cpus as f64;
    let binds = match () {
        () if reached < REACHED && processors >= BUSY => Bottleneck::Processors,
        () if reached < REACHED => Bottleneck::Nothing,
        () if together <= 1.0 => Bottleneck::Flush,
        () if together < per_block => Bottleneck::Clients,
        () => Bottleneck::Block,
    };
    Some(Limit {
        records_per_block: per_block,
        records_per_flush: per_flush,
        flushes_per_second: flush.flushes_per_second,
        commits_per_second: per_flush * flush.flushes_per_second,
        reached,
        processors,
        binds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    fn row(clients: usize, rate: f64, cpu: f64) -> Commits {
        Commits {
            way: CommitCase {
                method: Method::Fdatasync,
                direct: true,
                clients,
                grouped: true,
                in_flight: 0,
                followed: false,
            },
            commits_per_second: rate,
            response: Histogram::default().latency(),
            cpu_seconds_per_commit: cpu,
            log_bytes_per_commit: 128.0,
            resident_pages: 0,
            samples: vec![rate; 3],
            limit: None,
        }
    }

    #[test]
    fn the_least_of_clients_and_records_of_a_block_counts() {
        let flushes = [Flush {
            method: Method::Fdatasync,
            direct: true,
            flushes_per_second: 1000.0,
            samples: vec![1000.0; 3],
        }];
        let of = |row: &Commits| limit(row, &flushes, (100, 4096), 2).unwrap();
        let one = of(&row(1, 950.0, 1e-5));
        assert_eq!(
            (one.records_per_block, one.commits_per_second, one.binds),
            (32.0, 1000.0, Bottleneck::Flush)
        );
        let few = of(&row(8, 7900.0, 1e-5));
        assert_eq!((few.commits_per_second, few.binds), (8000.0, Bottleneck::Clients));
        let many = of(&row(64, 48_000.0, 1e-5));
        assert_eq!(
            (many.commits_per_second, many.reached, many.binds),
            (32_000.0, 1.5, Bottleneck::Block)
        );
        let busy = of(&row(64, 20_000.0, 9.5e-5));
        assert!(
            (0.94..0.96).contains(&busy.processors) && busy.binds == Bottleneck::Processors,
            "{busy:?}"
        );
        assert_eq!(of(&row(64, 20_000.0, 1e-5)).binds, Bottleneck::Nothing);
        let mut turns = row(64, 990.0, 1e-5);
        turns.way.grouped = false;
        assert_eq!(of(&turns).binds, Bottleneck::Flush);
        let long = limit(&row(1, 950.0, 1e-5), &flushes, (8192 - 24, 4096), 2).unwrap();
        assert_eq!((long.records_per_block, long.commits_per_second), (1.0, 1000.0));
        assert_eq!(limit(&row(1, 1.0, 1.0), &[], (100, 4096), 2), None);
    }
}
