//! Direct I/O for Linux.

pub mod geometry;
pub mod residency;
pub mod sys;
