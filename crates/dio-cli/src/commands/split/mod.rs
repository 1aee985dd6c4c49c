//! `dio split`: GNU split's grammar, names and words, with the bytes moved by dio.

mod args;
mod cut;
mod getopt;
mod names;
mod number;
mod options;
mod words;

pub use args::SplitArgs;
