//! The library's streams against the page cache, where direct I/O used to lose: small steps, many
//! streams in one file, and random reads, which no read-ahead may slow down.
//!
//! Every workload has several ways to do the same; the first is the stream. They take turns, each
//! run beginning with another one, and each starts cold.

mod many;
mod plan;
mod random;
mod report;
mod run;
mod section;
mod steps;

use crate::BenchError;
use crate::data::Scratch;
use crate::environment::Environment;
use crate::progress;
pub use plan::{Part, Plan};
pub use report::{Report, Way, Workload};
pub use run::Run;

/// Measures every workload asked for.
///
/// # Errors
/// [`BenchError`]; [`BenchError::NotCold`] where the cache cannot be emptied.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    let size = plan::check(plan)?;
    // What a process pays once, whatever it reads: the choice of an engine.
    dio::Io::shared()?;
    let (runs, time) = plan.expected(size, progress::pace(&plan.directory));
    progress::begin(runs, time);
    let scratch = Scratch::new(&plan.directory)?;
    let source = match &plan.file {
        Some(path) => path.clone(),
        None if plan.parts.iter().any(|part| *part != Part::Write) => scratch.random_file("source", size)?,
        // Only to learn where it is.
        None => scratch.random_file("source", 1)?,
    };
    let mut workloads = Vec::new();
    if plan.parts.contains(&Part::Read) {
        steps::read(plan, &source, size, &mut workloads)?;
    }
    if plan.parts.contains(&Part::Write) {
        steps::write(plan, &scratch.path("target"), size, &mut workloads)?;
    }
    if plan.parts.contains(&Part::Many) {
        workloads.push(many::read(plan, &source, size)?);
    }
    if plan.parts.contains(&Part::Random) {
        workloads.push(random::read(plan, &source, size)?);
    }
    Ok(Report { workloads, environment: Environment::of(&source)?, runs: plan.runs })
}
