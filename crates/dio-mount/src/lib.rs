//! A directory mounted so that every program's I/O below it is direct, concurrent, cached or chosen
//! by request.
//!
//! `mount` connects the modules; `session` mounts and serves; `serve` translates the requests of
//! the kernel (FUSE) into calls of the three modules below it: `names` (the tree: inodes, names,
//! attributes), `file` (open files: modes, reads, writes, syncs) and `stats` (counters). None of
//! these three depends on the FUSE protocol. `control` lets other programs query and change a
//! running mount.

pub mod control;
mod errno;
pub mod file;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod mount;
pub mod names;
pub mod options;
pub mod run;
mod serve;
pub mod session;
mod set_id;
pub mod stats;
mod users;

pub use mount::{Mounted, mount, serve};
pub use options::{IdlePolling, Mode, MountOptions, Rings, Rules, Settings};
pub use session::{MountError, MountSession, Serving};
