//! Direct I/O for Linux.

pub mod lock;
