//! The result: the ways of each workload, compared with the library's stream.

use serde::{Deserialize, Serialize};

use super::plan::StreamWorkload;
use super::run::StreamRun;
use crate::environment::Environment;
use crate::measure::Usage;
use crate::stats::{Summary, number};

/// One way to do a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Elapsed seconds; the median.
    #[serde(default)]
    pub seconds: f64,
    /// CPU seconds of the process, kernel time included; the median.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Bytes per second, from the median of the elapsed time.
    #[serde(default, deserialize_with = "number")]
    pub bytes_per_second: f64,
    /// Steps per second, from the median of the elapsed time. A step is one call of the program,
    /// however many requests go to the device.
    #[serde(default, deserialize_with = "number")]
    pub steps_per_second: f64,
    /// Elapsed time of the stream divided by that of this way, run by run; the median of these
    /// quotients. Below 1 the stream is faster.
    #[serde(deserialize_with = "number")]
    pub stream_ratio: f64,
    /// Bytes read in vain for each requested byte; the greatest of all runs.
    pub in_vain_part: Option<f64>,
    /// Bytes of the streams' buffers.
    pub buffer_bytes: Option<u64>,
    /// Pages of the file in the page cache afterwards; the most of all runs.
    pub pages_after: u64,
    /// The single runs.
    pub samples: Vec<StreamRun>,
}

/// One workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// The name of the workload.
    pub name: String,
    /// The group it belongs to.
    #[serde(default)]
    pub part: StreamWorkload,
    /// Bytes of each step.
    pub step_bytes: u64,
    /// Bytes read or written in all.
    pub bytes: u64,
    /// The stream, then the ways that it is compared with.
    pub ways: Vec<Variant>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamsReport {
    /// The workloads, in the order of [`StreamWorkload`].
    pub workloads: Vec<Workload>,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
    /// Runs of each way.
    pub runs: usize,
}

impl Workload {
    pub(super) fn new(
        name: String,
        part: StreamWorkload,
        (step, bytes): (u64, u64),
        runs: Vec<(&'static str, Vec<StreamRun>)>,
    ) -> Workload {
        let stream: Vec<f64> = runs[0].1.iter().map(|run| run.usage.wall_seconds).collect();
        let ways = runs
            .into_iter()
            .map(|(name, samples)| Variant::new(name, (step, bytes), samples, &stream));
        Workload { name, part, step_bytes: step, bytes, ways: ways.collect() }
    }
}

impl Variant {
    fn new(
        name: &'static str,
        (step, bytes): (u64, u64),
        samples: Vec<StreamRun>,
        stream: &[f64],
    ) -> Variant {
        let median =
            |of: fn(&Usage) -> f64| Summary::of(samples.iter().map(|run| of(&run.usage))).median;
        let wall = median(|usage| usage.wall_seconds);
        let ratios =
            samples.iter().zip(stream).map(|(run, stream)| stream / run.usage.wall_seconds);
        let in_vain: Option<Vec<u64>> = samples.iter().map(|run| run.in_vain_bytes).collect();
        Variant {
            name: name.to_owned(),
            seconds: wall,
            cpu_seconds: median(|usage| usage.cpu_seconds),
            bytes_per_second: bytes as f64 / wall,
            steps_per_second: bytes.div_ceil(step) as f64 / wall,
            stream_ratio: Summary::of(ratios).median,
            in_vain_part: in_vain
                .and_then(|bytes| bytes.into_iter().max())
                .map(|worst| worst as f64 / bytes as f64),
            buffer_bytes: samples.iter().filter_map(|run| run.buffer_bytes).max(),
            pages_after: samples.iter().map(|run| run.pages_after).max().unwrap_or(0),
            samples,
        }
    }

    pub(super) fn wall(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|run| run.usage.wall_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::took;
    use super::*;

    #[test]
    fn ratios_pair_the_runs_and_the_worst_run_tells_what_was_read_in_vain() {
        let runs = vec![
            ("stream", vec![took(1.0), took(10.0), took(100.0)]),
            ("peer", [2.0, 20.0, 200.0].map(took).into()),
        ];
        let workload = Workload::new("w".to_owned(), StreamWorkload::Read, (10, 4000), runs);
        assert_eq!((workload.ways[0].stream_ratio, workload.ways[1].stream_ratio), (1.0, 0.5));
        assert_eq!((workload.ways[0].seconds, workload.ways[0].steps_per_second), (10.0, 40.0));
        assert_eq!(workload.ways[0].in_vain_part, Some(0.25));
    }
}
