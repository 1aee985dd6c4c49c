//! Single runs, and the order in which the runs of several ways are made.

use std::path::Path;

use dio::File;
use dio::stream::ReadStats;
use serde::{Deserialize, Serialize};

use super::plan::StreamsPlan;
use crate::BenchError;
use crate::cold::resident_pages;
use crate::measure::Usage;
use crate::progress;

/// One run of one way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StreamRun {
    /// Time, CPU time, and bytes from the device.
    #[serde(flatten)]
    pub usage: Usage,
    /// Bytes that were read but not requested: the greatest of the values from the counters of the
    /// device, of the file and of the streams. The first two miss bytes read in vain if as many
    /// other bytes were kept and requested again; the last misses reads in flight. `None` if no
    /// counter exists, and for writing.
    pub in_vain_bytes: Option<u64>,
    /// Bytes of the streams' buffers; `None` for ways without the library.
    pub buffer_bytes: Option<u64>,
    /// Pages of the file in the page cache afterwards.
    #[serde(default)]
    pub pages_after: u64,
}

impl StreamRun {
    /// The result of a run that read `bytes` of a file that is closed now.
    pub(super) fn read(
        usage: Usage,
        bytes: u64,
        path: &Path,
        counted: Option<LibraryCounts>,
    ) -> Result<StreamRun, BenchError> {
        let beyond =
            [usage.device_bytes, counted.map(|counted| counted.file)].into_iter().flatten();
        let in_vain = beyond
            .map(|read| read.saturating_sub(bytes))
            .chain(counted.map(|counted| counted.streams));
        Ok(StreamRun {
            usage,
            in_vain_bytes: in_vain.max(),
            buffer_bytes: None,
            pages_after: resident_pages(path)?,
        })
    }

    pub(super) fn with_buffers(self, bytes: usize) -> StreamRun {
        StreamRun { buffer_bytes: Some(bytes as u64), ..self }
    }
}

/// The library's counters in a run.
#[derive(Clone, Copy)]
pub(super) struct LibraryCounts {
    /// Bytes read from the file.
    file: u64,
    /// Bytes that streams read ahead and that were never requested.
    streams: u64,
}

impl LibraryCounts {
    /// The counters of a file whose streams are closed; `stats` are the last values of each stream.
    pub(super) fn of(file: &File, stats: impl IntoIterator<Item = ReadStats>) -> LibraryCounts {
        let streams = stats.into_iter().map(|stats| stats.unused + stats.ahead).sum();
        LibraryCounts { file: file.counters().read.total(), streams }
    }
}

/// A name, and a function that makes one run.
pub(super) type Runner<'a> = (&'static str, Box<dyn FnMut() -> Result<StreamRun, BenchError> + 'a>);

/// Makes the runs of all ways in turns: A B C, B C A, …. Neither a drift of the machine nor the
/// state that one way leaves behind affects the same way in every round.
pub(super) fn in_turns(
    plan: &StreamsPlan,
    ways: &mut [Runner<'_>],
) -> Result<Vec<(&'static str, Vec<StreamRun>)>, BenchError> {
    let mut results: Vec<_> = ways.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for run in 0..plan.runs {
        for turn in 0..ways.len() {
            let index = (plan.round + run + turn) % ways.len();
            progress::step(ways[index].0);
            results[index].1.push(ways[index].1()?);
        }
    }
    Ok(results)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    pub(in crate::streams) fn took(wall_seconds: f64) -> StreamRun {
        let usage = Usage { wall_seconds, ..Usage::default() };
        StreamRun {
            usage,
            in_vain_bytes: Some((wall_seconds * 10.0) as u64),
            buffer_bytes: None,
            pages_after: 0,
        }
    }

    #[test]
    fn every_run_begins_with_another_way() {
        let order = std::cell::RefCell::new(String::new());
        let way = |name: &'static str| -> Runner<'_> {
            let order = &order;
            (
                name,
                Box::new(move || {
                    order.borrow_mut().push_str(name);
                    Ok(took(1.0))
                }),
            )
        };
        let results = in_turns(&plan(), &mut [way("A"), way("B"), way("C")]).unwrap();
        assert!(results.iter().all(|(_, runs)| runs.len() == 3));
        assert_eq!(*order.borrow(), "BCACABABC");
    }
}
