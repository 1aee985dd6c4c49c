//! Direct I/O for Linux.

pub mod block;
pub mod engine;
pub mod geometry;
mod sys;
