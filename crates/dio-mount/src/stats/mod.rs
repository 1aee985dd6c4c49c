//! What happened: requests, bytes by class, latencies, waits for locks.
//!
//! Who serves requests counts here, cheaply; who wants to know takes a [`Snapshot`] and, for rates, the [`Interval`]
//! between two of them. How the rooms of a mount use it:
//!
//! ```text
//! serve   let mut timer = stats.begin(Operation::Read);          latency, recorded when the timer is dropped
//!         timer.fail(errno);                                     if it came to that
//! file    let figures = stats.file(inode, path);                 at open; one for all opens of the inode, dropped with it
//!         let attached = figures.attach(Arc::clone(&file), Wait::Range);   its dio::File: bytes by class and reason, waits
//!                                                                by class; dropped together with the file
//!         figures.read(Class::Direct, bytes, latency);           each request of a program: read, written, synced, error
//!         figures.count(Event::ReadAheadHit, bytes);             what else happened
//!         figures.waited(Wait::Queue, duration);                 waits that the dio::File does not know of
//! names   stats.gauge(Gauge::Inodes, move || names.known());     what is asked when a snapshot is taken
//! ```
//!
//! Memory is bounded: latencies have a fixed number of buckets for each operation in use and each shard; of closed files
//! the busiest [`KEPT`] paths are remembered, the others only in the sums.

mod counter;
mod file;
mod latency;
mod operation;
mod path;
pub mod prometheus;
mod snapshot;

pub use file::{Attached, FileStats, Source};
pub use latency::Latency;
pub use operation::{Event, Gauge, Kind, Operation, Wait};
pub use snapshot::{FileFigures, Interval, Snapshot};
