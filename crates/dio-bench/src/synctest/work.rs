//! Measures one case.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use serde::{Deserialize, Serialize};

use super::case::{Pattern, Sharing, SyncCase};
use super::error::SyncError;
use super::file::{TestFile, TestLocation};
use super::lane::{CaseWriter, Refusal, Space, renew};
use crate::histogram::Histogram;

/// Whether the user wants the run to end.
pub type StopCheck<'a> = &'a (dyn Fn() -> bool + Sync);

/// Measurements of one case. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Operations per second, of all threads together.
    pub per_second: f64,
    /// Operations per second of the slowest round.
    pub least: f64,
    /// Operations per second of the fastest round.
    pub most: f64,
    /// Number of operations.
    #[serde(default)]
    pub count: u64,
    /// Number of syncs, or of groups of synced writes. It is smaller than `count` if one sync
    /// serves several operations.
    #[serde(default)]
    pub syncs: u64,
    /// Mean duration of an operation.
    pub mean: f64,
    /// The 5th percentile: the duration of an operation that nothing delays.
    #[serde(default)]
    pub p05: f64,
    /// The median duration.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest duration.
    pub max: f64,
    /// Pages of the files in the page cache at the end; `None` if the kernel does not report them.
    pub cached_pages: Option<u64>,
    /// Number of rounds.
    #[serde(default)]
    pub rounds: u32,
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    /// It was measured.
    Measured(Figures),
    /// The file system or the kernel does not support it; the text says why.
    Refused(String),
    /// It failed; the text says why.
    Failed(String),
}

impl From<Refusal> for CaseOutcome {
    fn from(refusal: Refusal) -> CaseOutcome {
        match refusal {
            Refusal::Refused(error) => CaseOutcome::Refused(error.to_string()),
            Refusal::Failed(error) => CaseOutcome::Failed(error.to_string()),
        }
    }
}

/// The measurements of one thread.
#[derive(Default)]
struct ThreadCounts {
    histogram: Histogram,
    /// Sum of the durations of all operations.
    busy: Duration,
    /// Time from the first operation to the last, without parts that are not measured.
    elapsed: Duration,
    /// Operations that were made durable by the sync of another operation.
    for_others: u64,
}

/// Measurements of a case in some rounds.
pub(crate) struct Sample {
    histogram: Histogram,
    /// Sum of the durations of all operations in seconds.
    busy: f64,
    /// Operations per second of each round.
    rates: Vec<f64>,
    syncs: u64,
    cached_pages: Option<u64>,
}

impl Sample {
    fn of(counted: &[ThreadCounts], cached_pages: Option<u64>) -> Sample {
        let mut histogram = Histogram::default();
        let (mut rate, mut busy, mut for_others) = (0.0, 0.0, 0);
        for thread in counted {
            for_others += thread.for_others;
            histogram.merge(&thread.histogram);
            busy += thread.busy.as_secs_f64();
            rate += thread.histogram.count() as f64 / thread.elapsed.as_secs_f64().max(1e-9);
        }
        let syncs = histogram.count() - for_others;
        Sample { histogram, busy, rates: vec![rate], syncs, cached_pages }
    }

    /// Adds another round.
    pub(crate) fn merge(&mut self, other: Sample) {
        self.histogram.merge(&other.histogram);
        self.busy += other.busy;
        self.rates.extend(other.rates);
        self.syncs += other.syncs;
        self.cached_pages = self.cached_pages.max(other.cached_pages);
    }

    /// The figures over all rounds, which were equally long.
    pub(crate) fn figures(&self) -> Figures {
        let latency = self.histogram.latency();
        let rates = &self.rates;
        Figures {
            per_second: rates.iter().sum::<f64>() / rates.len() as f64,
            least: rates.iter().copied().fold(f64::INFINITY, f64::min),
            most: rates.iter().copied().fold(0.0, f64::max),
            count: self.histogram.count(),
            syncs: self.syncs,
            mean: self.busy / self.histogram.count().max(1) as f64,
            p05: self.histogram.quantile(0.05) as f64 / 1e9,
            p50: latency.p50,
            p99: latency.p99,
            p999: latency.p999,
            max: latency.max,
            cached_pages: self.cached_pages,
            rounds: rates.len() as u32,
        }
    }
}

/// Measures a case for `time`, with files of `budget` bytes in total.
///
/// # Errors
/// [`Refusal`].
pub(crate) fn measure(
    case: &SyncCase,
    place: &TestLocation,
    budget: u64,
    time: Duration,
    asked: StopCheck<'_>,
) -> Result<Sample, Refusal> {
    let count = if case.sharing == Sharing::Own { case.threads } else { 1 };
    // A file holds a whole number of operations; if threads share it, of one operation of each
    // thread.
    let unit = case.span() * u64::from(case.threads / count);
    let bytes = (budget / u64::from(count) / unit).max(4) * unit;
    let files =
        (0..count).map(|number| TestFile::new(place, number)).collect::<Result<Vec<_>, _>>();
    let files = files.map_err(Refusal::of)?;
    for file in &files {
        file.prepare(case.pattern, bytes, (!case.direct).then_some(case.size))
            .map_err(Refusal::of)?;
        // One operation that is not measured: a case that is not supported is refused here, and
        // one-time costs fall on this operation.
        CaseWriter::new(case, file, Space { start: 0, bytes })?.operation(1)?;
        renew(case, file, bytes).map_err(Refusal::of)?;
    }
    let end = End { time, asked, failed: AtomicBool::new(false) };
    let counted = match case.sharing {
        Sharing::Own => own(case, &files, bytes, &end),
        Sharing::Shared => shared(case, &files[0], bytes, &end),
        Sharing::Grouped => grouped(case, &files[0], bytes, &end),
    }?;
    let resident = files.iter().map(|file| dio::residency::resident_pages(file.fd()));
    Ok(Sample::of(&counted, resident.sum::<Result<u64, _>>().ok()))
}

/// The conditions under which threads stop.
struct End<'a> {
    time: Duration,
    asked: StopCheck<'a>,
    /// A thread has failed.
    failed: AtomicBool,
}

impl End<'_> {
    fn is_over(&self, elapsed: Duration) -> bool {
        elapsed >= self.time || (self.asked)() || self.failed.load(Ordering::Relaxed)
    }
}

/// Repeats `operation` until the end. Each call returns the part of its time that is not to be
/// measured. The clock is read only once for each operation, since unsynced writes take hardly
/// longer than reading the clock.
fn repeat(
    end: &End<'_>,
    mut operation: impl FnMut() -> Result<Duration, Refusal>,
) -> Result<ThreadCounts, Refusal> {
    let mut counted = ThreadCounts::default();
    let start = Instant::now();
    let (mut before, mut idle) = (start, Duration::ZERO);
    loop {
        let aside = match operation() {
            Ok(aside) => aside,
            Err(refusal) => {
                end.failed.store(true, Ordering::Relaxed);
                return Err(refusal);
            }
        };
        let now = Instant::now();
        let took = (now - before).saturating_sub(aside);
        counted.histogram.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        counted.busy += took;
        idle += aside;
        before = now;
        if end.is_over(now - start) {
            counted.elapsed = (now - start).saturating_sub(idle);
            return Ok(counted);
        }
    }
}

/// Runs a writer on each of several threads. Each thread waits for `go` when it is ready, so that
/// none begins before all are started.
fn together(
    threads: u32,
    end: &End<'_>,
    writer: impl Fn(u32, &RwLock<()>) -> Result<ThreadCounts, Refusal> + Sync,
) -> Result<Vec<ThreadCounts>, Refusal> {
    let go = RwLock::new(());
    if threads == 1 {
        return Ok(vec![writer(0, &go)?]);
    }
    std::thread::scope(|scope| {
        let (gate, writer) = (&go, &writer);
        let hold = go.write();
        let start = |number| {
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            let started = thread.spawn_scoped(scope, move || writer(number, gate));
            started.map_err(|error| {
                end.failed.store(true, Ordering::Relaxed);
                Refusal::Failed(SyncError::Asked(format!(
                    "cannot start {threads} threads: {error}"
                )))
            })
        };
        let started: Vec<_> = (0..threads).map(start).collect();
        drop(hold);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        started.into_iter().map(|thread| join(thread?)).collect()
    })
}

/// Waits until all threads are started.
fn wait_for(go: &RwLock<()>) {
    drop(go.read());
}

fn own(
    case: &SyncCase,
    files: &[TestFile],
    bytes: u64,
    end: &End<'_>,
) -> Result<Vec<ThreadCounts>, Refusal> {
    together(case.threads, end, |number, go| {
        let lane = CaseWriter::new(case, &files[number as usize], Space { start: 0, bytes });
        wait_for(go);
        let mut lane = lane?;
        repeat(end, || {
            let aside = lane.make_room(1)?;
            lane.operation(1)?;
            Ok(aside)
        })
    })
}

fn shared(
    case: &SyncCase,
    file: &TestFile,
    bytes: u64,
    end: &End<'_>,
) -> Result<Vec<ThreadCounts>, Refusal> {
    let next = AtomicU64::new(0);
    // Threads that write hold it shared; a thread that restarts the file holds it exclusively.
    let gate = RwLock::new(());
    let span = case.span();
    together(case.threads, end, |number, go| {
        let lane = CaseWriter::new(case, file, Space { start: 0, bytes });
        wait_for(go);
        let mut lane = lane?;
        repeat(end, || {
            if case.pattern == Pattern::Overwrite {
                lane.operation_at(1, u64::from(number) * span)?;
                return Ok(Duration::ZERO);
            }
            let mut aside = Duration::ZERO;
            loop {
                let writing = gate.read();
                let at = next.fetch_add(span, Ordering::Relaxed);
                if at + span <= bytes {
                    lane.operation_at(1, at)?;
                    return Ok(aside);
                }
                drop(writing);
                let start = Instant::now();
                let _alone = gate.write();
                if next.load(Ordering::Relaxed) + span > bytes {
                    renew(case, file, bytes).map_err(Refusal::of)?;
                    next.store(0, Ordering::Relaxed);
                }
                aside += start.elapsed();
            }
        })
    })
}

/// Group commit: a writer that arrives during a sync waits, and the first of the waiting writers
/// syncs for all of them.
struct SyncGroup<'a> {
    state: Mutex<CommitRun>,
    changed: Condvar,
    lane: Mutex<CaseWriter<'a>>,
}

#[derive(Default)]
struct CommitRun {
    /// Number of operations that have arrived.
    come: u64,
    /// Number of these operations whose bytes are durable.
    durable: u64,
    leading: bool,
    /// The error of a failed write or sync: all later operations fail too.
    failed: Option<String>,
    /// Time since the start that was spent on unmeasured work.
    aside: Duration,
    /// Number of syncs.
    syncs: u64,
}

fn grouped(
    case: &SyncCase,
    file: &TestFile,
    bytes: u64,
    end: &End<'_>,
) -> Result<Vec<ThreadCounts>, Refusal> {
    let lane = Mutex::new(CaseWriter::new(case, file, Space { start: 0, bytes })?);
    let group = SyncGroup { state: Mutex::default(), changed: Condvar::new(), lane };
    let mut counted = together(case.threads, end, |_, go| {
        wait_for(go);
        repeat(end, || group.commit())
    })?;
    let state = group.state.lock();
    counted[0].for_others = state.come - state.syncs;
    Ok(counted)
}

impl SyncGroup<'_> {
    fn commit(&self) -> Result<Duration, Refusal> {
        let mut state = self.state.lock();
        let aside = state.aside;
        state.come += 1;
        let ticket = state.come;
        while state.durable < ticket {
            if let Some(words) = &state.failed {
                return Err(Refusal::Failed(SyncError::Asked(words.clone())));
            }
            if state.leading {
                self.changed.wait(&mut state);
                continue;
            }
            state.leading = true;
            let (upto, writers) = (state.come, state.come - state.durable);
            drop(state);
            let outcome = self.lead(writers as u32);
            state = self.state.lock();
            state.leading = false;
            if let Err(Refusal::Failed(error) | Refusal::Refused(error)) = &outcome {
                state.failed = Some(error.to_string());
            }
            self.changed.notify_all();
            state.aside += outcome?;
            state.durable = upto;
            state.syncs += 1;
        }
        Ok(state.aside - aside)
    }

    fn lead(&self, writers: u32) -> Result<Duration, Refusal> {
        let mut lane = self.lane.lock();
        let aside = lane.make_room(writers)?;
        lane.operation(writers)?;
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synctest::case::{Descriptor, Method, Section};

    const MIB: u64 = 1 << 20;

    fn figures_of(case: &SyncCase) -> Figures {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = TestLocation::Directory(directory.path().to_owned());
        let outcome = measure(case, &place, MIB, Duration::from_millis(30), &|| false);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        outcome.unwrap_or_else(|refusal| panic!("{case:?}: {refusal:?}")).figures()
    }

    #[test]
    fn every_pattern_and_way_to_share_is_measured_past_the_end_of_its_space() {
        for pattern in Pattern::ALL {
            for sharing in Sharing::ALL {
                // Writes are not synced, so that the space is used up several times.
                let base = SyncCase::new(Section::Matrix, Method::None, false);
                let figures =
                    figures_of(&SyncCase { pattern, sharing, threads: 3, size: 65536, ..base });
                assert!(figures.count > 50, "{pattern:?} {sharing:?}: {figures:?}");
                assert!(
                    figures.p05 <= figures.p50
                        && figures.p50 <= figures.p99
                        && figures.p99 <= figures.max
                );
                assert!(figures.mean > 0.0 && figures.per_second > 0.0, "{figures:?}");
            }
        }
    }

    #[test]
    fn a_group_of_writers_syncs_less_often_than_each_for_itself() {
        let base = SyncCase {
            pattern: Pattern::Zeroed,
            ..SyncCase::new(Section::Matrix, Method::Fdatasync, false)
        };
        for sharing in Sharing::ALL {
            let figures = figures_of(&SyncCase { threads: 16, sharing, ..base });
            // Most of the sixteen threads wait while one of them syncs.
            let few = figures.syncs * 2 <= figures.count;
            assert_eq!(few, sharing == Sharing::Grouped, "{sharing:?}: {figures:?}");
        }
    }

    #[test]
    fn descriptors_are_reopened_and_the_end_comes_when_asked() {
        for descriptor in [Descriptor::Reopened, Descriptor::Other] {
            figures_of(&SyncCase {
                descriptor,
                ..SyncCase::new(Section::Descriptors, Method::Fsync, false)
            });
        }
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = TestLocation::Directory(directory.path().to_owned());
        let case = SyncCase::new(Section::Matrix, Method::None, false);
        let outcome = measure(&case, &place, MIB, Duration::from_secs(3600), &|| true);
        assert_eq!(outcome.unwrap().figures().count, 1);
    }

    #[test]
    fn what_is_refused_is_no_failure() {
        let case = SyncCase { size: 513, ..SyncCase::new(Section::Matrix, Method::None, true) };
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = TestLocation::Directory(directory.path().to_owned());
        match measure(&case, &place, MIB, Duration::from_millis(1), &|| false) {
            Err(Refusal::Refused(error)) => {
                assert!(error.to_string().contains("Invalid argument"), "{error}")
            }
            // Some file systems accept any length.
            Ok(_) => {}
            Err(Refusal::Failed(error)) => panic!("{error}"),
        }
        let place = TestLocation::Directory(directory.path().join("missing"));
        let outcome = measure(&case, &place, MIB, Duration::from_millis(1), &|| false);
        let failed = outcome.err().map(CaseOutcome::from);
        assert!(
            matches!(&failed, Some(CaseOutcome::Failed(words)) if words.contains("No such file")),
            "{failed:?}"
        );
    }

    #[test]
    fn rounds_are_put_together() {
        let sample = |rate: f64, times: &[u64]| {
            let mut histogram = Histogram::default();
            times.iter().for_each(|time| histogram.add(*time));
            let busy = times.iter().sum::<u64>() as f64 / 1e9;
            Sample {
                histogram,
                busy,
                rates: vec![rate],
                syncs: times.len() as u64,
                cached_pages: Some(times.len() as u64),
            }
        };
        let mut sum = sample(100.0, &[1000, 3000]);
        sum.merge(sample(300.0, &[2000]));
        let figures = sum.figures();
        assert_eq!((figures.per_second, figures.least, figures.most), (200.0, 100.0, 300.0));
        assert_eq!((figures.count, figures.syncs, figures.cached_pages), (3, 3, Some(2)));
        assert!((figures.mean - 2e-6).abs() < 1e-12 && figures.max == 3e-6, "{figures:?}");
    }
}
