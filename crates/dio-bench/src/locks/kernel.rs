//! Blocks on locks of the kernel: what is reported, however it was seen.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::class::{Class, Side};

/// Functions named for each class.
const TOLD: usize = 4;

/// How the kernel's locks were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every block, by the tracepoints `lock:contention_begin` and `lock:contention_end` with
    /// kernel stacks.
    #[default]
    Tracepoint,
    /// What the command's threads sleep in, looked at again and again: blocks are a lower bound,
    /// times an estimate.
    WaitChannels,
}

/// A function that wanted locks of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Times it was blocked.
    pub blocks: u64,
}

/// Locks of one class, waited for in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What they guard.
    pub class: Class,
    /// How they were wanted.
    #[serde(default)]
    pub side: Side,
    /// Times that a thread was blocked.
    #[serde(default)]
    pub blocks: u64,
    /// The same for each second.
    pub blocks_per_second: f64,
    /// Time of all waits together, in seconds.
    #[serde(default)]
    pub waited_seconds: f64,
    /// The functions that wanted them, the most frequent first.
    #[serde(default)]
    pub functions: Vec<Function>,
}

/// The kernel's locks in a stretch of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// How they were seen.
    #[serde(default)]
    pub method: Method,
    /// What is worth knowing about it: why it is not the better method, what is missing.
    #[serde(default)]
    pub notes: Vec<String>,
    /// By class and side, the most blocks first.
    pub rows: Vec<Row>,
}

impl Kernel {
    /// Blocks per second on locks of a class, wanted in any way.
    pub fn rate(&self, class: Class) -> f64 {
        // From 0, as the sum of no numbers would be -0.
        self.rows.iter().filter(|row| row.class == class).fold(0.0, |sum, row| sum + row.blocks_per_second)
    }
}

/// Counts of one place that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) blocks: u64,
    pub(super) nanos: u64,
}

/// Sums up counts by class.
#[derive(Debug, Default)]
pub(super) struct Sums(HashMap<(Class, Side), (Count, HashMap<String, u64>)>);

impl Sums {
    pub(super) fn add(&mut self, class: Class, side: Side, function: &str, count: Count) {
        let (sum, functions) = self.0.entry((class, side)).or_default();
        sum.blocks += count.blocks;
        sum.nanos += count.nanos;
        *functions.entry(function.to_owned()).or_default() += count.blocks;
    }

    /// The rows of a stretch of so many seconds.
    pub(super) fn rows(self, seconds: f64) -> Vec<Row> {
        let row = |((class, side), (count, functions)): ((Class, Side), (Count, HashMap<String, u64>))| {
            let mut functions: Vec<Function> =
                functions.into_iter().map(|(name, blocks)| Function { name, blocks }).collect();
            functions.sort_by(|one, other| other.blocks.cmp(&one.blocks).then_with(|| one.name.cmp(&other.name)));
            functions.truncate(TOLD);
            let blocks_per_second = if seconds > 0.0 { count.blocks as f64 / seconds } else { 0.0 };
            let waited_seconds = count.nanos as f64 / 1e9;
            Row { class, side, blocks: count.blocks, blocks_per_second, waited_seconds, functions }
        };
        let mut rows: Vec<Row> = self.0.into_iter().map(row).collect();
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
        sums.add(Class::Inode, Side::Write, "a_write_iter", count(3, 1_000_000_000));
        sums.add(Class::Inode, Side::Write, "b_write_iter", count(5, 500_000_000));
        sums.add(Class::Inode, Side::Read, "a_read_iter", count(20, 0));
        let rows = sums.rows(2.0);
        assert_eq!(
            rows.iter().map(|row| (row.side, row.blocks)).collect::<Vec<_>>(),
            [(Side::Read, 20), (Side::Write, 8)]
        );
        assert_eq!((rows[1].blocks_per_second, rows[1].waited_seconds), (4.0, 1.5));
        assert_eq!(rows[1].functions[0], Function { name: "b_write_iter".to_owned(), blocks: 5 });
        let kernel = Kernel { method: Method::Tracepoint, notes: Vec::new(), rows };
        assert_eq!((kernel.rate(Class::Inode), kernel.rate(Class::Mmap)), (14.0, 0.0));
    }
}
