//! Code that the program `dio` and its benchmarks (`dio-bench`) share. It is a crate of its own so
//! that neither of them depends on the other.

pub mod lock_waits;
pub mod memory;
pub mod processes;
pub mod size;
pub mod units;
