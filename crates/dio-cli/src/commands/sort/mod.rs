//! `dio sort`: GNU sort's grammar, orders and words, with the bytes moved by dio.
//!
//! `key` says how two lines compare; `engine` reads, sorts, keeps runs in temporary files and merges them.

#[allow(dead_code)]
pub(crate) mod key;
