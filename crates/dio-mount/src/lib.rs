//! A directory mounted so that every program's I/O below it is direct, concurrent, cached or chosen
//! by request.
//!
//! `mount` puts the rooms together; `session` mounts and serves; `serve` translates the requests of
//! the kernel (FUSE) into calls of the three rooms below it: `names` (the tree: inodes, names,
//! attributes), `file` (what is open: modes, reads, writes, syncs) and `stats` (what happened).
//! None of the rooms knows the protocol. `control` lets other programs ask a running mount.

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
pub use options::{Mode, Options, Rings, Rules, Settings};
pub use session::{MountError, Serving, Session};
