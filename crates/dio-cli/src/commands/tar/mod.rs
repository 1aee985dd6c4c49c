//! `dio tar`: archives of files, written and read past the page cache.

pub mod format;
