//! The sizes of requests, and their course over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::replay::planned::Plan;

/// The slots into which the time of a command is divided.
const SLOTS: u64 = 120;

/// How many requests asked for bytes of about one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCount {
    /// The size: a power of two. Requests of more than half of it, up to it, count here.
    pub bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that write.
    pub writes: u64,
}

/// The requests of a part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineSlot {
    /// When it began, in seconds.
    pub seconds: f64,
    /// How long it lasted.
    pub length: f64,
    /// Bytes read by requests that began in it.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that were new to the page cache, with what was read ahead.
    pub missed_bytes: u64,
}

/// How many requests had which size. Calls that move nothing are left out.
pub(super) fn sizes(plan: &Plan) -> Vec<SizeCount> {
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for request in plan.requests().filter(|request| request.bytes > 0) {
        let size = request.bytes.checked_next_power_of_two().unwrap_or(1 << 63);
        let (reads, writes) = counts.entry(size).or_default();
        *reads += u64::from(request.call.reads());
        *writes += u64::from(request.call.writes());
    }
    let moves = counts.into_iter().filter(|(_, (reads, writes))| reads + writes > 0);
    moves.map(|(bytes, (reads, writes))| SizeCount { bytes, reads, writes }).collect()
}

/// The requests over the recorded time.
pub(super) fn timeline(plan: &Plan) -> Vec<TimelineSlot> {
    let length = plan.recorded.div_ceil(SLOTS).max(1);
    let count = plan.recorded.div_ceil(length).min(SLOTS);
    let slot = |number| TimelineSlot {
        seconds: (number * length) as f64 / 1e9,
        length: length as f64 / 1e9,
        ..TimelineSlot::default()
    };
    let mut slots: Vec<TimelineSlot> = (0..count).map(slot).collect();
    for request in plan.requests() {
        let Some(slot) = slots.get_mut((request.start / length) as usize) else { continue };
        if request.call.reads() {
            slot.read_bytes = slot.read_bytes.saturating_add(request.done);
        } else if request.call.writes() {
            slot.written_bytes = slot.written_bytes.saturating_add(request.done);
        }
        slot.missed_bytes = slot.missed_bytes.saturating_add(request.new_to_cache);
    }
    slots
}
