//! Which way to make writes durable is the fastest here, and does the disk keep its word? The
//! workload of `dio synctest`.
//!
//! | module | what it is |
//! |---|---|
//! | `case` | methods, patterns, sizes, threads: what is measured |
//! | `work`, `lane`, `file` | measuring one case: threads, one writer, its file |
//! | `facts`, `sweep` | what the kernel says about the disk; what flushes cost |
//! | `judge`, `advice` | pure functions: is it honest, which settings follow |
//! | `report` | the table |
//! | [`witness`] | the proof: another machine keeps what was acknowledged while the plug is pulled |

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
pub use case::{Case, Descriptor, Matrix, Method, Pattern, Section, Sharing, selection};
pub use error::SyncError;
pub use facts::{Disk, Facts, Unreal};
pub use file::Place;
pub use judge::{Confidence, Evidence, FASTEST_TURNS, Honesty, Verdict, judge};
pub use report::Report;
pub use row::Row;
pub use sweep::{Measured, SamePlace};
pub use work::{Asked, Figures, Outcome};

use crate::environment::Environment;

/// Bytes of the files of one case, unless said otherwise: as many as a segment of PostgreSQL's log
/// has.
pub const FILE_SIZE: u64 = 16 << 20;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A directory, a file that is new, or one that may be overwritten.
    pub path: PathBuf,
    /// Whether `path` may be a file or device whose contents are then lost.
    pub force: bool,
    /// Time for each case.
    pub time: Duration,
    /// Bytes of the files of a case together; more where operations are large.
    pub file_size: u64,
    /// The cases.
    pub cases: Vec<Case>,
    /// Whether flushes are measured and the disk is judged.
    pub honesty: bool,
}

/// Rounds that the time of each case is divided into. A disk that others use too, or that gives a
/// credit of speed at first, is then the same for all cases of a section.
const ROUNDS: u32 = 4;

/// The shortest round: making the files takes some time too.
const ROUND: Duration = Duration::from_millis(100);

/// Cases that are measured by turns at most: each keeps its times in memory meanwhile.
const TURNS: usize = 64;

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Measurements made.
    pub done: usize,
    /// All of them.
    pub all: usize,
    /// About how long it still takes.
    pub left: Duration,
    /// What is measured next; `None` for what flushes cost.
    pub case: Option<&'a Case>,
}

/// Measures every case of a plan. When `asked` says so it ends early, with what there is.
///
/// # Errors
/// [`SyncError`] when nothing can be measured there at all. What fails or is refused of a case is
/// told in its row.
pub fn run(plan: &Plan, progress: &dyn Fn(Progress<'_>), asked: Asked<'_>) -> Result<Report, SyncError> {
    let place = Place::of(&plan.path, plan.force)?;
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
    Ok(Report {
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

/// Measuring by turns.
struct Turns<'a> {
    plan: &'a Plan,
    place: &'a Place,
    rounds: u32,
    done: usize,
    progress: &'a dyn Fn(Progress<'_>),
    asked: Asked<'a>,
}

impl Turns<'_> {
    /// Measures some cases, each in every round, unless the user wants it to end before.
    fn measure(&mut self, cases: &[Case]) -> Vec<Row> {
        let time = self.plan.time / self.rounds;
        let mut samples: Vec<Option<Result<work::Sample, lane::Refusal>>> = cases.iter().map(|_| None).collect();
        for _ in 0..self.rounds {
            for (case, sum) in cases.iter().zip(&mut samples) {
                if (self.asked)() {
                    break;
                }
                self.tell(Some(case));
                self.done += 1;
                match sum {
                    // What was refused once is refused again.
                    Some(Err(_)) => {}
                    None => *sum = Some(work::measure(case, self.place, self.plan.file_size, time, self.asked)),
                    Some(Ok(sample)) => match work::measure(case, self.place, self.plan.file_size, time, self.asked) {
                        Ok(more) => sample.merge(more),
                        Err(refusal) => *sum = Some(Err(refusal)),
                    },
                }
            }
        }
        let row = |(case, sum): (&Case, Option<Result<work::Sample, lane::Refusal>>)| {
            let outcome = match sum? {
                Ok(sample) => Outcome::Measured(sample.figures()),
                Err(refusal) => refusal.into(),
            };
            Some(Row { case: *case, outcome })
        };
        cases.iter().zip(samples).filter_map(row).collect()
    }

    fn tell(&self, case: Option<&Case>) {
        let honesty = usize::from(self.plan.honesty);
        let all = self.plan.cases.len() * self.rounds as usize + honesty;
        let rest = all.saturating_sub(self.done + honesty);
        let left = (self.plan.time / self.rounds).mul_f64(rest as f64) + self.plan.time * honesty as u32;
        (self.progress)(Progress { done: self.done, all, left, case });
    }
}

/// Operations per second of one case.
///
/// # Errors
/// What it was refused with, or how it failed.
pub(crate) fn rate(case: &Case, place: &Place, time: Duration) -> Result<f64, SyncError> {
    match work::measure(case, place, FILE_SIZE, time, &|| false) {
        Ok(sample) => Ok(sample.figures().per_second),
        Err(lane::Refusal::Refused(error) | lane::Refusal::Failed(error)) => Err(error),
    }
}

/// The machine and the storage, asked with a file that is there for the moment.
fn describe(place: &Place) -> Result<(Environment, Facts), SyncError> {
    let file = file::TestFile::new(place, 0)?;
    let report = dio::probe::probe(file.path()).map_err(|error| SyncError::Asked(error.to_string()))?;
    let environment = Environment::of(file.path()).map_err(|error| SyncError::Asked(error.to_string()))?;
    Ok((environment, Facts::of(&report)))
}

/// The directory that a path is in, or is.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}
