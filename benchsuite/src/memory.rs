//! Distinguishes memory that a virtual machine has not touched yet from memory that it has.
//!
//! A host gives a virtual machine its memory page by page, when each page is first touched. A
//! program that fills the page cache pays for that too: `cp && sync` of 4 GiB took more than twice
//! as long in new memory as in memory that had been used. Therefore the report says which of the
//! two it was; with `--used-memory` it is used memory.

use dio_common::memory::of_machine;

use crate::Result;

/// Bytes of free memory that are left for everything else.
const LEFT: u64 = 1 << 30;

/// Bytes touched at a time.
const PIECE: usize = 64 << 20;

/// Writes to every page of the memory that is free now, and releases it. Returns the number of
/// touched bytes.
pub(crate) fn touch_all() -> Result<u64> {
    let free = of_machine("MemFree").ok_or("/proc/meminfo has no MemFree")?;
    let pieces = free.saturating_sub(LEFT) / PIECE as u64;
    eprintln!("benchsuite: touching {} MiB of memory", pieces * (PIECE as u64 >> 20));
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..pieces {
        // The value is not zero, since an allocator may get zeroed pages from the kernel without
        // touching them.
        all.push(vec![1; PIECE]);
    }
    std::hint::black_box(&all);
    Ok(pieces * PIECE as u64)
}
