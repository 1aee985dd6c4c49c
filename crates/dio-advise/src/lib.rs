//! Records the file I/O of a command as the kernel sees it, and says what it consists of.
//!
//! | module | contents |
//! |---|---|
//! | [`trace`] | the recording: its file, which is readable while it grows |
//! | [`watch`] | the kernel's side: programs at the entry and the exit of system calls |
//! | [`exchange`] | traces in the formats of fio, blkparse and spreadsheets |
//! | [`record`] | runs a command and records it |
//! | [`replay`] | makes the recorded requests again, on other files |
//! | [`sizes`] | which calls, of which sizes, at which places of each file |
//!
//! The data flows from `watch` through `record` into a trace, and from a trace to `sizes` and
//! `replay`, so that a recorded command is judged in the same way as one that runs.

pub mod exchange;
pub mod record;
pub mod replay;
pub mod sizes;
pub mod trace;
pub mod watch;
