//! Compares the library's streams with the page cache in the workloads in which direct I/O used to
//! be slower: small steps, many streams in one file, and random reads, which read-ahead must not
//! slow down.
//!
//! Every workload is done in several ways, of which the first is the library's stream. The ways
//! take turns, each run beginning with another one, and each starts cold.

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
pub use plan::{StreamWorkload, StreamsPlan};
pub use report::{StreamsReport, Variant, Workload};
pub use run::StreamRun;

/// Measures the requested workloads.
///
/// # Errors
/// [`BenchError`]; [`BenchError::NotCold`] if the cache cannot be emptied.
pub fn run(plan: &StreamsPlan) -> Result<StreamsReport, BenchError> {
    let size = plan::check(plan)?;
    // The choice of an engine costs each process some time once, so it is made before the runs.
    dio::Io::shared()?;
    let (runs, time) = plan.expected(size, progress::pace(&plan.directory));
    progress::begin(runs, time);
    let scratch = Scratch::new(&plan.directory)?;
    let source = match &plan.file {
        Some(path) => path.clone(),
        None if plan.parts.iter().any(|part| *part != StreamWorkload::Write) => {
            scratch.random_file("source", size)?
        }
        // The file is needed only to describe the storage below it.
        None => scratch.random_file("source", 1)?,
    };
    let mut workloads = Vec::new();
    if plan.parts.contains(&StreamWorkload::Read) {
        steps::read(plan, &source, size, &mut workloads)?;
    }
    if plan.parts.contains(&StreamWorkload::Write) {
        steps::write(plan, &scratch.path("target"), size, &mut workloads)?;
    }
    if plan.parts.contains(&StreamWorkload::Many) {
        workloads.push(many::read(plan, &source, size)?);
    }
    if plan.parts.contains(&StreamWorkload::Random) {
        workloads.push(random::read(plan, &source, size)?);
    }
    Ok(StreamsReport { workloads, environment: Environment::of(&source)?, runs: plan.runs })
}
