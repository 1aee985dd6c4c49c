//! Blocks on the kernel's locks: the report, for either method of measuring.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::class::{Class, WaitMode};

/// The most functions that are named for each class.
const TOLD: usize = 4;

/// How blocks on the kernel's locks were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every block, by the tracepoints `lock:contention_begin` and `lock:contention_end` with
    /// kernel stacks.
    #[default]
    Tracepoint,
    /// Samples of the functions in which the command's threads sleep: blocks are a lower bound,
    /// times an estimate.
    WaitChannels,
}

/// A function that wanted a lock of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Number of times that it was blocked.
    pub blocks: u64,
}

/// Locks of one class that were wanted in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelLockRow {
    /// The objects that the locks guard.
    pub class: Class,
    /// The mode in which they were wanted.
    #[serde(default)]
    pub side: WaitMode,
    /// Number of times that a thread was blocked.
    #[serde(default)]
    pub blocks: u64,
    /// Blocks per second.
    pub blocks_per_second: f64,
    /// Sum of the times of all waits, in seconds.
    #[serde(default)]
    pub waited_seconds: f64,
    /// The functions that wanted them, the most frequent first.
    #[serde(default)]
    pub functions: Vec<Function>,
}

/// Blocks on the kernel's locks during a period of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// How they were measured.
    #[serde(default)]
    pub method: Method,
    /// Remarks: why the better method was not used, and which data are missing.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Rows by class and side, those with the most blocks first.
    pub rows: Vec<KernelLockRow>,
}

impl Kernel {
    /// Blocks per second on locks of a class, in all modes together.
    pub fn rate(&self, class: Class) -> f64 {
        // The sum starts from 0, since the `sum` of an empty iterator would be -0.
        self.rows
            .iter()
            .filter(|row| row.class == class)
            .fold(0.0, |sum, row| sum + row.blocks_per_second)
    }
}

/// Number and total time of some waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) blocks: u64,
    pub(super) nanos: u64,
}

/// Sums up counts by class.
#[derive(Debug, Default)]
pub(super) struct Sums(HashMap<(Class, WaitMode), (Count, HashMap<String, u64>)>);

impl Sums {
    pub(super) fn add(&mut self, class: Class, side: WaitMode, function: &str, count: Count) {
        let (sum, functions) = self.0.entry((class, side)).or_default();
        sum.blocks += count.blocks;
        sum.nanos += count.nanos;
        *functions.entry(function.to_owned()).or_default() += count.blocks;
    }

    /// The rows of a period of `seconds` seconds.
    pub(super) fn rows(self, seconds: f64) -> Vec<KernelLockRow> {
        let row = |((class, side), (count, functions)): (
            (Class, WaitMode),
            (Count, HashMap<String, u64>),
        )| {
            let mut functions: Vec<Function> =
                functions.into_iter().map(|(name, blocks)| Function { name, blocks }).collect();
            functions.sort_by(|one, other| {
                other.blocks.cmp(&one.blocks).then_with(|| one.name.cmp(&other.name))
            });
            functions.truncate(TOLD);
            let blocks_per_second = if seconds > 0.0 { count.blocks as f64 / seconds } else { 0.0 };
            let waited_seconds = count.nanos as f64 / 1e9;
            KernelLockRow {
                class,
                side,
                blocks: count.blocks,
                blocks_per_second,
                waited_seconds,
                functions,
            }
        };
        let mut rows: Vec<KernelLockRow> = self.0.into_iter().map(row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.blocks), row.class, row.side));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sums_by_class_and_side_with_the_most_frequent_function_first() {
        let mut sums = Sums::default();
        let count = |blocks, nanos| Count { blocks, nanos };
        sums.add(Class::Inode, WaitMode::Write, "a_write_iter", count(3, 1_000_000_000));
        sums.add(Class::Inode, WaitMode::Write, "b_write_iter", count(5, 500_000_000));
        sums.add(Class::Inode, WaitMode::Read, "a_read_iter", count(20, 0));
        let rows = sums.rows(2.0);
        assert_eq!(
            rows.iter().map(|row| (row.side, row.blocks)).collect::<Vec<_>>(),
            [(WaitMode::Read, 20), (WaitMode::Write, 8)]
        );
        assert_eq!((rows[1].blocks_per_second, rows[1].waited_seconds), (4.0, 1.5));
        assert_eq!(rows[1].functions[0], Function { name: "b_write_iter".to_owned(), blocks: 5 });
        let kernel = Kernel { method: Method::Tracepoint, notes: Vec::new(), rows };
        assert_eq!((kernel.rate(Class::Inode), kernel.rate(Class::Mmap)), (14.0, 0.0));
    }
}
