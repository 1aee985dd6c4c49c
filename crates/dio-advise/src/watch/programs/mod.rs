//! The programs that run in the kernel.

mod aio;
mod batches;
mod maps;
mod pages;
mod parts;
mod system_calls;
mod uring;

pub(super) use aio::{aio_completed, aio_submitted};
pub(super) use batches::{DENSE, WAS_DENSE, ended};
pub(super) use maps::{COUNTERS, LEVEL, LOST, Maps, TASK_BYTES};
pub(super) use pages::{added, dirtied, touched};
pub(super) use system_calls::{enter, exit, fork, level};
pub(super) use uring::{ENTRIES, ENTRY_BYTES, uring_completed, uring_submitted};
