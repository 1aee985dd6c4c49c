//! The `dio` command line: grammar, messages, receipts and exit statuses above the library.

pub mod cli;
pub mod codec;
pub mod commands;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod grammar;
pub mod locale;
mod overview;
pub mod quote;
pub mod receipt;
pub use dio_common::size;
pub mod stop;
pub mod tool;
