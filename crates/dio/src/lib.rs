//! Direct I/O for Linux.

pub mod residency;
pub mod sys;
