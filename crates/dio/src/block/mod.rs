//! Aligned memory: regions, fixed pools of blocks, and loans of a caller's buffer.
//!
//! Direct I/O hands memory to the device, so a buffer must be aligned, must stay where it is and
//! must not change while an operation is in flight (`open(2)`, NOTES under `O_DIRECT`; checksumming
//! file systems and mirrors read it twice). Ownership enforces the last two: an operation *owns*
//! its memory as a [`Mem`]. That is either [`Block`]s taken from a [`Pool`] or slices lent inside a
//! [`scope`]. The user gets it back only when the engine returns the operation.
//!
//! In this crate, this folder and `engine::uring` alone may contain `unsafe` code.
#![allow(unsafe_code)]

mod divide;
mod mem;
mod pool;

pub(crate) use divide::{DividedMem, MemDivider};
pub use mem::{Loans, Mem, Segment, scope};
pub use pool::{Block, Pool};

/// Alignment of every block in memory, in bytes. It is a page, which satisfies every
/// `dio_mem_align` seen on Linux (`statx(2)`; 4 to 4096).
pub const BLOCK_ALIGN: usize = 4096;
