//! Simulated storage, for tests of storage engines and of everything above them.
//!
//! A [`SimDisk`] holds files ([`SimMedium`]). Each has a *live* image, which reads return, and a
//! *durable* image, which survives a power cut. The disk checks alignment as Linux does, fails
//! operations by a seeded plan ([`Faults`]) and records every operation ([`Trace`]). It has a
//! service time and a bandwidth, so that a [`SimEngine`] can run operations in *virtual time*
//! ([`SimClock`]): how busy two disks are during a copy is computed, not measured.
//!
//! Everything random comes from seeds, and equal seeds give equal runs. A disk or engine that is
//! dropped while its thread panics prints its seed; a disk prints its last operations too.
//!
//! ```
//! use std::sync::Arc;
//! use dio::block::Pool;
//! use dio::engine::sim::{Fault, Faults, SimClock, SimDisk, SimDiskModel, SimEngine};
//! use dio::engine::{Engine, Op, OpFlags, OpKind, Route};
//!
//! let clock = SimClock::new();
//! let disk = SimDisk::new(&clock, SimDiskModel::default(), 1);
//! disk.set_faults(Faults::none().at(0, Fault::Interrupted));
//! let file = disk.file(b"hello");
//! let mut engine = SimEngine::new(&clock, 4, 1);
//! let read = |memory| Op {
//!     kind: OpKind::Read, route: Route::Direct, flags: OpFlags::default(),
//!     medium: Arc::new(file.clone()), offset: 0, skip: 0, mem: Some(memory), ticket: 0,
//! };
//! let pool = Pool::new(4096, 2).unwrap();
//! engine.start(read(pool.take_many(1).remove(0).into_mem(0..4096))).unwrap();
//! engine.start(read(pool.take_many(1).remove(0).into_mem(0..4096))).unwrap();
//! let mut done = Vec::new();
//! engine.finish(2, &mut done).unwrap();
//! assert_eq!(done[0].result, Err(rustix::io::Errno::INTR));
//! assert_eq!(done[1].result, Ok(5));
//! ```

mod action;
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

pub use action::SimAction;
pub use clock::SimClock;
pub use disk::{SimDisk, SimDiskModel};
pub use engine::SimEngine;
pub use faults::{Fault, Faults};
pub use image::pattern;
pub use medium::SimMedium;
pub use random::SplitMix64;
pub use trace::{Trace, TraceEntry};
