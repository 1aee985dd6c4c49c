//! The storage that the segments of a log are in.
//!
//! [`Directory`] is a directory of the system, accessed through `dio`. Tests implement [`Storage`]
//! by a simulated directory whose power can be cut. A storage executes calls and reports what
//! happened; all policy is above it.

mod directory;
mod interface;

pub use directory::Directory;
pub use interface::{AtomicWrites, BlockSizes, Durability, Method, SegmentFile, Storage};
