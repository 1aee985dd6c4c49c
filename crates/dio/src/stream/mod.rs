//! The standard traits over direct files. Direct I/O bypasses the kernel's read-ahead together with
//! its page cache, so this module reads ahead itself: the window starts small, doubles while
//! reading proves sequential, and keeps several requests in flight.
//!
//! ```no_run
//! use std::io::{BufRead, Write};
//! use dio::stream::{Reader, Writer};
//! use dio::{File, OpenOptions};
//!
//! let mut reader = Reader::new(File::open("log")?)?;
//! let target = OpenOptions::new().write(true).create(true).open("errors")?;
//! let mut writer = Writer::new(target)?;
//! let mut line = String::new();
//! while reader.read_line(&mut line)? > 0 {
//!     if line.contains("error") {
//!         writer.write_all(line.as_bytes())?;
//!     }
//!     line.clear();
//! }
//! writer.finish()?;
//! writer.file().sync_data()?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod append;
mod bounds;
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
pub use reader::{AccessPattern, ReadAhead, ReadStats, Reader};
pub use writer::{WriteBehind, Writer};
