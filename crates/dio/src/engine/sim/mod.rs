//! Simulated storage, for tests of storage engines and of everything above them.
//!
//! A [`SimDisk`] holds files ([`SimMedium`]) of which a *live* image, what reads see, and a *durable* one, what a power
//! cut cannot take, are kept apart. It checks alignment as Linux does, fails operations by a seeded plan ([`Faults`]),
//! records every operation ([`Trace`]) and has a service time and a bandwidth, so that a [`SimEngine`] can run
//! operations in *virtual time* ([`SimClock`]): the busy fraction of two disks during a copy is computed, not measured.
//!
//! Everything random comes from seeds; equal seeds give equal runs. A disk or engine that is dropped while its thread
//! panics prints its seed and, for a disk, its last operations.
//!
//! ```
//! use std::sync::Arc;
//! use dio::block::Pool;
//! use dio::engine::sim::{Fault, Faults, SimClock, SimDisk, SimDiskModel, SimEngine};
//! use dio::engine::{Engine, Flags, Kind, Op, Route};
//!
//! let clock = SimClock::new();
//! let disk = SimDisk::new(&clock, SimDiskModel::default(), 1);
//! disk.set_faults(Faults::none().at(0, Fault::Interrupted));
//! let file = disk.file(b"hello");
//! let mut engine = SimEngine::new(&clock, 4, 1);
//! let op = |memory| Op {
//!     kind: Kind::Read, route: Route::Direct, flags: Flags::default(), medium: Arc::new(file.clone()),
//!     offset: 0, skip: 0, mem: Some(memory), ticket: 0,
//! };
//! let pool = Pool::new(4096, 2).unwrap();
//! engine.start(op(pool.take_many(1).remove(0).into_mem(0..4096))).unwrap();
//! engine.start(op(pool.take_many(1).remove(0).into_mem(0..4096))).unwrap();
//! let mut done = Vec::new();
//! engine.finish(2, &mut done).unwrap();
//! assert_eq!(done[0].result, Err(rustix::io::Errno::INTR));
//! assert_eq!(done[1].result, Ok(5));
//! ```

mod clock;
mod disk;
mod engine;
mod faults;
mod file;
mod image;
mod medium;
mod random;
#[cfg(test)]
mod tests;
mod trace;

pub use clock::SimClock;
pub use disk::{SimDisk, SimDiskModel};
pub use engine::SimEngine;
pub use faults::{Fault, Faults};
pub use image::pattern;
pub use medium::SimMedium;
pub use random::SplitMix64;
pub use trace::{Action, Trace, TraceEntry};
