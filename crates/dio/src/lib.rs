//! Direct I/O for Linux: files that move bytes between the storage and the caller's memory without
//! the page cache, under no alignment rule that the caller must know.
//!
//! The layers, each knowing only those below it:
//!
//! | module | what it is |
//! |---|---|
//! | [`transfer`] | the one copy loop: a block read is the block written |
//! | [`pipeline`] | read - work - write: a source, worker threads and a sink, all busy, in order, bounded |
//! | [`stream`] | the standard `Read` over a direct file, with read-ahead |
//! | [`queue`] | many requests in flight, for storage engines |
//! | [`stripe`] | files over several targets |
//! | [`mod@file`] | open modes, locks, reads and writes at any alignment, resize, sync |
//! | [`drive`] | short transfers, retries and draining, written once above every engine |
//! | [`engine`] | runs operations: io_uring, a pool of threads, nothing at all, a simulator |
//! | [`geometry`], [`residency`] | what a file demands and likes; which of its pages are cached |
//! | [`block`] | aligned memory |
//! | [`credentials`] | the user that a thread acts as |
//! | [`quote`] | names in messages |

pub mod block;
pub mod credentials;
pub mod drive;
pub mod engine;
pub mod file;
pub mod geometry;
mod identity;
mod io;
pub mod layout;
pub mod lock;
pub mod names;
mod patience;
pub mod pipeline;
pub mod probe;
pub mod queue;
pub mod quote;
pub mod residency;
pub mod stream;
pub mod stripe;
pub mod transfer;

pub use file::{Class, Counters, File, FileError, Mode, Need, OpenOptions, SyncMethod};
pub use io::{Io, IoError, Limits};

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
