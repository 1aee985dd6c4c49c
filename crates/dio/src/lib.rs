//! Direct I/O for Linux.

pub mod geometry;
pub mod probe;
pub mod residency;
pub mod sys;
