//! One module for each command: its flags, and what it does.

pub mod bench;
pub mod cache;
pub mod cp;
pub mod probe;
pub mod split;

pub(crate) use dio::file::words_of as words;
