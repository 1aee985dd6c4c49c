//! What a request costs, from what was measured.

use std::collections::BTreeMap;

use super::load::LoadTimes;
use super::model::{Cost, Operation};

/// The costs of several rounds, each the times of the same loads.
pub fn costs_of_rounds(rounds: &[Vec<LoadTimes>]) -> Vec<Cost> {
    let mut groups: BTreeMap<_, Vec<&LoadTimes>> = BTreeMap::new();
    for times in rounds.iter().flatten() {
        let key = (times.operation, &times.tool, times.threads, times.bytes);
        groups.entry(key).or_default().push(times);
    }
    let cost =
        |((operation, tool, threads, bytes), times): ((_, &String, _, _), Vec<&LoadTimes>)| {
            let mut seconds: Vec<f64> = times.iter().map(|times| times.seconds).collect();
            seconds.sort_by(f64::total_cmp);
            let cpu = times.iter().map(|times| times.cpu_seconds).sum::<f64>() / times.len() as f64;
            Cost {
                operation,
                tool: tool.clone(),
                bytes,
                threads,
                seconds: seconds[seconds.len() / 2],
                low: seconds[0],
                high: seconds[seconds.len() - 1],
                cpu_seconds: cpu,
            }
        };
    groups.into_iter().map(cost).collect()
}

/// Which rounds count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The fastest.
    Low,
    /// Those in the middle.
    Median,
    /// The slowest.
    High,
}

/// The costs of one way, by which the cost of any request is found.
#[derive(Clone, Debug)]
pub struct CostTable {
    costs: Vec<Cost>,
}

impl CostTable {
    /// A table of these costs, of those of one tool if it has a name.
    pub fn new(costs: &[Cost], tool: &str, level: Level) -> CostTable {
        let is_of_it = |cost: &&Cost| cost.tool.is_empty() || cost.tool == tool;
        let mut costs: Vec<Cost> = costs.iter().filter(is_of_it).cloned().collect();
        costs.sort_by_key(|cost| cost.bytes);
        for cost in &mut costs {
            cost.seconds = match level {
                Level::Low => cost.low,
                Level::Median => cost.seconds,
                Level::High => cost.high,
            };
        }
        CostTable { costs }
    }

    /// Seconds of a request of so many bytes; `None` if the operation was not measured.
    pub fn seconds(&self, operation: Operation, bytes: u64) -> Option<f64> {
        self.interpolated(operation, bytes, |cost| cost.seconds, |cost| cost.threads == 1)
    }

    /// Seconds that the disk is occupied by a request, so that no other is served: the time of a
    /// request where many threads make them, or else that of one thread.
    pub fn occupied(&self, operation: Operation, bytes: u64) -> Option<f64> {
        let many = |cost: &Cost| cost.threads > 1;
        self.interpolated(operation, bytes, |cost| cost.seconds, many)
            .or_else(|| self.seconds(operation, bytes))
    }

    /// Seconds of processor time of a request.
    pub fn cpu(&self, operation: Operation, bytes: u64) -> f64 {
        self.interpolated(operation, bytes, |cost| cost.cpu_seconds, |cost| cost.threads == 1)
            .unwrap_or(0.0)
    }

    /// The value for requests of so many bytes: linear between the sizes that were measured, in
    /// proportion to the bytes above the largest, and that of the smallest below it.
    fn interpolated(
        &self,
        operation: Operation,
        bytes: u64,
        value: impl Fn(&Cost) -> f64,
        is_wanted: impl Fn(&Cost) -> bool,
    ) -> Option<f64> {
        let mut below: Option<&Cost> = None;
        for cost in &self.costs {
            if cost.operation != operation || !is_wanted(cost) {
                continue;
            }
            if cost.bytes >= bytes {
                return Some(below.map_or(value(cost), |below| {
                    let part = (bytes - below.bytes) as f64 / (cost.bytes - below.bytes) as f64;
                    value(below) + (value(cost) - value(below)) * part
                }));
            }
            below = Some(cost);
        }
        below.map(|last| value(last) * bytes as f64 / last.bytes.max(1) as f64)
    }
}
