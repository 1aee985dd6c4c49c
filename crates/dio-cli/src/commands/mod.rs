//! One module for each command: its flags, and what it does.

pub mod bench;
pub mod cache;
pub mod cat;
pub mod cp;
pub mod dd;
pub mod probe;
pub mod split;
pub mod sum;
pub mod tar;
pub mod tee;

pub(crate) use dio::file::words_of as words;
