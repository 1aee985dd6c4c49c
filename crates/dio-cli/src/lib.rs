//! The `dio` command line: grammar, messages, receipts and exit statuses above the library.

pub mod cli;
