//! A trace: the requests of a command's threads to files, in the order in which they ended.
//!
//! A trace is a file that only grows. It begins with [`MAGIC`] and the version, and goes on with
//! frames: the length of the payload and its CRC-32C, 32 bits each with the lowest byte first, and
//! the payload, a sequence of events. No event spans two frames, and the numbers in a frame are
//! relative to others in the same frame only. So a trace that is cut anywhere is complete up to the
//! last frame that is whole, and one that grows can be read at any time.
//!
//! Numbers are written in groups of 7 bits, the lowest first (LEB128); signed numbers are folded so
//! that small ones stay short (0, -1, 1, -2, …). A request takes some ten bytes.

mod encode;
mod event;
mod frame;
mod name;
mod reader;
mod sink;
mod writer;

pub use event::{Call, DATA_ONLY, Event, FileInfo, FileKind, Heading, Request, WatchCost};
pub use frame::{MAGIC, VERSION};
pub use name::name_number;
pub use reader::{TraceEnd, TraceError, read};
pub use sink::EventSink;
pub use writer::TraceWriter;

#[cfg(test)]
mod tests;
