//! The workload of `dio synctest`: finds the fastest method of making writes durable on this
//! storage, and whether the disk keeps its promises.
//!
//! | module | what it is |
//! |---|---|
//! | `case` | a case to measure: method, pattern, sizes, threads |
//! | `work`, `lane`, `file` | measuring one case: threads, one writer, its file |
//! | `facts`, `sweep` | the kernel's facts about the disk; the cost of flushes |
//! | `judge`, `advice` | pure functions: the verdict about the disk, advised settings |
//! | `report` | the table |
//! | [`witness`] | the proof: another machine keeps the acknowledged numbers while the plug is pulled |

mod advice;
mod case;
mod error;
mod facts;
mod file;
mod judge;
mod lane;
mod report;
mod row;
mod section;
mod sweep;
pub mod witness;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use advice::{Advice, advise};
pub use case::{Descriptor, Matrix, Method, Pattern, Section, Sharing, SyncCase, selection};
pub use error::SyncError;
pub use facts::{Disk, StorageFacts, VirtualReason};
pub use file::TestLocation;
pub use judge::{Confidence, Evidence, FASTEST_TURNS, Honesty, Verdict, judge};
pub use report::SynctestReport;
pub use row::SynctestRow;
pub use sweep::{Measured, SamePlace};
pub use work::{CaseOutcome, Figures, StopCheck};

use crate::environment::Environment;

/// Default bytes of the files of one case: the size of a segment of PostgreSQL's log.
pub const FILE_SIZE: u64 = 16 << 20;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct SynctestPlan {
    /// A directory, a new file, or a file that may be overwritten.
    pub path: PathBuf,
    /// Whether `path` may be an existing file or device, whose contents are then lost.
    pub force: bool,
    /// Duration of each case.
    pub time: Duration,
    /// Bytes of all files of a case together; more if operations are large.
    pub file_size: u64,
    /// The cases.
    pub cases: Vec<SyncCase>,
    /// Whether to measure flushes and judge the disk.
    pub honesty: bool,
}

/// Rounds that the time of each case is divided into. Load by other programs, or a burst of speed
/// at the beginning, then affects all cases of a section alike.
const ROUNDS: u32 = 4;

/// The shortest round, since making the files takes some time too.
const ROUND: Duration = Duration::from_millis(100);

/// The most cases that are measured in turns: each keeps its measured times in memory.
const TURNS: usize = 64;

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Number of finished measurements.
    pub done: usize,
    /// Number of all measurements.
    pub all: usize,
    /// Estimate of the remaining time.
    pub left: Duration,
    /// The next case; `None` for the measurement of flushes.
    pub case: Option<&'a SyncCase>,
}

/// Measures every case of a plan. It ends early, with the results so far, if `asked` returns true.
///
/// # Errors
/// [`SyncError`] when nothing can be measured at all. A case that fails or is refused is reported
/// in its row.
pub fn run(
    plan: &SynctestPlan,
    progress: &dyn Fn(Progress<'_>),
    asked: StopCheck<'_>,
) -> Result<SynctestReport, SyncError> {
    let place = TestLocation::of(&plan.path, plan.force)?;
    let (environment, storage) = describe(&place)?;
    let rounds = if plan.time >= ROUND * ROUNDS { ROUNDS } else { 1 };
    let mut turns = Turns { plan, place: &place, rounds, done: 0, progress, asked };
    let mut rows = Vec::new();
    for section in plan.cases.chunk_by(|one, next| one.section == next.section) {
        section.chunks(TURNS).for_each(|cases| rows.extend(turns.measure(cases)));
    }
    let flushes = if plan.honesty && !asked() {
        turns.tell(None);
        Some(sweep::measure(&place, &storage, plan.time, asked)?)
    } else {
        None
    };
    let honesty = flushes.as_ref().map(|flushes| judge(&storage, flushes));
    let advice = advise(&rows, storage.disk.as_ref(), honesty.as_ref());
    Ok(SynctestReport {
        path: plan.path.clone(),
        environment,
        storage,
        seconds: plan.time.as_secs_f64(),
        rounds,
        interrupted: asked(),
        rows,
        flushes,
        honesty,
        advice,
    })
}

/// The state of measuring cases in turns.
struct Turns<'a> {
    plan: &'a SynctestPlan,
    place: &'a TestLocation,
    rounds: u32,
    done: usize,
    progress: &'a dyn Fn(Progress<'_>),
    asked: StopCheck<'a>,
}

impl Turns<'_> {
    /// Measures some cases, each in every round, unless the user ends the run early.
    fn measure(&mut self, cases: &[SyncCase]) -> Vec<SynctestRow> {
        let time = self.plan.time / self.rounds;
        let mut samples: Vec<Option<Result<work::Sample, lane::Refusal>>> =
            cases.iter().map(|_| None).collect();
        for _ in 0..self.rounds {
            for (case, sum) in cases.iter().zip(&mut samples) {
                if (self.asked)() {
                    break;
                }
                self.tell(Some(case));
                self.done += 1;
                match sum {
                    // A refused case would be refused again.
                    Some(Err(_)) => {}
                    None => {
                        *sum = Some(work::measure(
                            case,
                            self.place,
                            self.plan.file_size,
                            time,
                            self.asked,
                        ))
                    }
                    Some(Ok(sample)) => {
                        match work::measure(case, self.place, self.plan.file_size, time, self.asked)
                        {
                            Ok(more) => sample.merge(more),
                            Err(refusal) => *sum = Some(Err(refusal)),
                        }
                    }
                }
            }
        }
        let row = |(case, sum): (&SyncCase, Option<Result<work::Sample, lane::Refusal>>)| {
            let outcome = match sum? {
                Ok(sample) => CaseOutcome::Measured(sample.figures()),
                Err(refusal) => refusal.into(),
            };
            Some(SynctestRow { case: *case, outcome })
        };
        cases.iter().zip(samples).filter_map(row).collect()
    }

    fn tell(&self, case: Option<&SyncCase>) {
        let honesty = usize::from(self.plan.honesty);
        let all = self.plan.cases.len() * self.rounds as usize + honesty;
        let rest = all.saturating_sub(self.done + honesty);
        let left =
            (self.plan.time / self.rounds).mul_f64(rest as f64) + self.plan.time * honesty as u32;
        (self.progress)(Progress { done: self.done, all, left, case });
    }
}

/// Operations per second of one case.
///
/// # Errors
/// The refusal or the failure.
pub(crate) fn rate(
    case: &SyncCase,
    place: &TestLocation,
    time: Duration,
) -> Result<f64, SyncError> {
    match work::measure(case, place, FILE_SIZE, time, &|| false) {
        Ok(sample) => Ok(sample.figures().per_second),
        Err(lane::Refusal::Refused(error) | lane::Refusal::Failed(error)) => Err(error),
    }
}

/// Describes the machine and the storage by means of a temporary file.
fn describe(place: &TestLocation) -> Result<(Environment, StorageFacts), SyncError> {
    let file = file::TestFile::new(place, 0)?;
    let report =
        dio::probe::probe(file.path()).map_err(|error| SyncError::Asked(error.to_string()))?;
    let environment =
        Environment::of(file.path()).map_err(|error| SyncError::Asked(error.to_string()))?;
    Ok((environment, StorageFacts::of(&report)))
}

/// The parent directory of a path; `.` if it has none.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}
