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
mod pages;
mod pool;

pub(crate) use divide::{DividedMem, MemDivider};
pub use mem::{Loans, Mem, Segment, scope};
pub use pages::with_pages;
pub use pool::{BLOCK_ALIGN, Block, Pool};
