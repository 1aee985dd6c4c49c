//! A record of the operations on a simulated disk.

use std::time::Duration;

use rustix::io::Errno;

use super::action::SimAction;
use super::faults::Fault;
use crate::engine::{OpFlags, OpKind, Route};

/// One operation that a disk has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Its number on the disk, in the order of starting, from 0. [`Faults::at`](super::Faults::at)
    /// takes this number.
    pub number: u64,
    /// The file's number on the disk, in the order of making, from 0.
    pub file: usize,
    /// What it did.
    pub action: SimAction,
    /// The route; `None` for anything but a transfer.
    pub route: Option<Route>,
    /// Where it began, in bytes. For a change of size, the new size.
    pub offset: u64,
    /// Bytes asked for.
    pub len: u64,
    /// Its flags.
    pub flags: OpFlags,
    /// Its result.
    pub result: Result<usize, Errno>,
    /// The fault that was injected.
    pub fault: Option<Fault>,
    /// When it was handed to the disk.
    pub issued: Duration,
    /// When the disk began to serve it.
    pub start: Duration,
    /// When it was complete.
    pub end: Duration,
}

/// The operations of a disk, in order of completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The operations.
    pub entries: Vec<TraceEntry>,
}

impl Trace {
    /// The operations that `wanted` picks.
    pub fn only(&self, wanted: impl Fn(&TraceEntry) -> bool) -> Trace {
        Trace { entries: self.entries.iter().filter(|entry| wanted(entry)).cloned().collect() }
    }

    /// The transfers of one kind.
    pub fn kind(&self, kind: OpKind) -> Trace {
        self.only(|entry| entry.action == SimAction::Transfer(kind))
    }

    /// Time during which the disk served at least one of the operations.
    pub fn busy(&self) -> Duration {
        self.intervals().iter().map(|(start, end)| *end - *start).sum()
    }

    /// Time during which both disks served one of their operations.
    pub fn overlap(&self, other: &Trace) -> Duration {
        let (ours, theirs) = (self.intervals(), other.intervals());
        let (mut total, mut i, mut j) = (Duration::ZERO, 0, 0);
        while i < ours.len() && j < theirs.len() {
            let start = ours[i].0.max(theirs[j].0);
            let end = ours[i].1.min(theirs[j].1);
            total += end.saturating_sub(start);
            if ours[i].1 < theirs[j].1 { i += 1 } else { j += 1 }
        }
        total
    }

    /// From the start of the first operation to the end of the last; `None` without any.
    pub fn span(&self) -> Option<(Duration, Duration)> {
        let start = self.entries.iter().map(|entry| entry.start).min()?;
        let end = self.entries.iter().map(|entry| entry.end).max()?;
        Some((start, end))
    }

    /// Bytes that the operations transferred.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.result.unwrap_or(0) as u64).sum()
    }

    /// The times of service, merged and in order.
    fn intervals(&self) -> Vec<(Duration, Duration)> {
        let mut raw: Vec<_> = self.entries.iter().map(|entry| (entry.start, entry.end)).collect();
        raw.sort_unstable();
        let mut merged: Vec<(Duration, Duration)> = Vec::new();
        for (start, end) in raw {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}
