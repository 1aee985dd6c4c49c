//! `dio sort`: GNU sort's grammar, orders and words, with the bytes moved by dio.
//!
//! `key` says how two lines compare; `engine` reads, sorts, keeps runs in temporary files and merges them.

pub(crate) mod engine;
#[allow(dead_code)]
pub(crate) mod key;
