//! The standard traits over direct files. The kernel's read-ahead is bypassed together with its cache, so it is done here:
//! it starts small, doubles as the pattern proves sequential, and keeps several requests in flight.

mod append;
mod chunk;
mod input;
mod options;
mod output;
pub mod pipe;
mod reader;
mod writer;

pub use chunk::Chunk;
pub use input::Input;
pub use options::StreamOptions;
pub use output::Output;
pub use reader::{Pattern, ReadAhead, ReadStats, Reader};
pub use writer::{WriteBehind, Writer};
