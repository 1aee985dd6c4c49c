//! libdio: the C interface of dio.
//!
//! `cargo capi` makes of this crate the shared library `libdio.so.1`, the static library
//! `libdio.a`, the header `dio.h` (by cbindgen, from the comments here) and `dio.pc`. The comments
//! of public items are therefore written for C programmers; `docs/c.md` begins with an example.
//!
//! | module | what C gets |
//! |---|---|
//! | `error` | `dio_error` |
//! | `file`, `receipt` | files: open modes, reads and writes at any alignment, sync, what went direct |
//! | `memory` | aligned memory |
//! | `queue` | many requests in flight |
//! | `copy` | copies of files |
//! | `names` | removing, renaming and striping files by name |
//! | `wal`, `reader` | the log |
//!
//! All policy is in the crates `dio` and `dio-wal`. What is here translates: `border` turns
//! pointers into references, errors into numbers and objects, and keeps panics from crossing into
//! C. Nothing runs before `main`, and no thread is started before a function needs one.

// Names and conventions are those of C, since this is what its users read.
#![allow(non_camel_case_types)]
#![allow(unsafe_code, reason = "every pointer comes from C")]
// The header's first comment says once what a caller in C has to keep.
#![allow(clippy::missing_safety_doc)]

mod border;
mod copy;
mod error;
mod file;
mod memory;
mod names;
mod queue;
mod quiet;
mod reader;
mod receipt;
mod wal;

pub use copy::*;
pub use error::*;
pub use file::*;
pub use memory::*;
pub use names::*;
pub use queue::*;
pub use reader::*;
pub use receipt::*;
pub use wal::*;
