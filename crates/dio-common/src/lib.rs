//! Small things that several crates of dio share, which do not depend on each other.

pub mod lock_waits;
pub mod memory;
pub mod processes;
pub mod recent;
pub mod size;
pub mod time;
pub mod units;
