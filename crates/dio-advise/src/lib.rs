//! Records the file I/O of a command as the kernel sees it, and says what it consists of.
//!
//! | module | contents |
//! |---|---|
//! | [`trace`] | the recording: its file, which is readable while it grows |
//! | [`watch`] | system calls as they happen: by programs in the kernel, or by stopping at each |
//! | [`exchange`] | traces in the formats of fio, blkparse and spreadsheets |
//! | [`record`] | runs a command and records it |
//! | [`replay`] | makes the recorded requests again, on other files |
//! | [`sizes`] | which calls, of which sizes, at which places of each file |
//! | [`speed`] | what requests cost on a disk, measured |
//! | [`database`] | which settings suit a database's disk, memory and load |
//! | [`predict`] | how long a recorded command would take by other ways, and which one is advised |
//!
//! The data flows from `watch` through `record` into a trace, and from a trace to `sizes`, `replay`
//! and `predict`, so that a recorded command is judged in the same way as one that runs.

pub mod database;
pub mod exchange;
mod machine;
mod noise;
pub mod predict;
pub mod record;
pub mod replay;
pub mod sizes;
pub mod speed;
pub mod trace;
pub mod watch;

pub use machine::machine_id;
