//! Memory that is new to a virtual machine, and memory that is not.
//!
//! A host gives a virtual machine its memory page by page, when it is touched first. What fills the
//! page cache then pays for that too: `cp && sync` of 4 GiB took more than twice as long in such
//! memory as in memory that had been used. So it is said which of the two it was, and with
//! `--used-memory` it is the second.

use dio_common::memory::of_machine;

use crate::Result;

/// Left to everything else, in bytes.
const LEFT: u64 = 1 << 30;

/// Bytes touched at a time.
const PIECE: usize = 64 << 20;

/// Writes to every page of the memory that is free now, and gives it back. Returns how many bytes
/// that were.
pub(crate) fn touch_all() -> Result<u64> {
    let free = of_machine("MemFree").ok_or("/proc/meminfo has no MemFree")?;
    let pieces = free.saturating_sub(LEFT) / PIECE as u64;
    eprintln!("benchsuite: touching {} MiB of memory", pieces * (PIECE as u64 >> 20));
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..pieces {
        // Not zeros, which an allocator may leave to the kernel.
        all.push(vec![1; PIECE]);
    }
    std::hint::black_box(&all);
    Ok(pieces * PIECE as u64)
}
