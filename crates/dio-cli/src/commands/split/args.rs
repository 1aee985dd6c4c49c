//! The flags of `dio split`. They are read by `getopt`, in the order in which they stand; help, man page and completions
//! are made from what is said here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use crate::tool::IoArgs;

/// Put pieces of a file into files of their own, past the page cache
///
/// The pieces are called PREFIXaa, PREFIXab and so on; PREFIX is x unless it is given. Without -b, -C, -l or -n a piece has 1000 lines.
///
/// SIZE is a number and an optional unit: K, M, G, T, P and E are powers of 1024, KB, MB and so on powers of 1000; KiB is K, b is 512.
///
/// CHUNKS is one of: N, so many files by size; K/N, the Kth of them to standard output; l/N and l/K/N, the same without splitting lines; r/N and r/K/N, lines in turn.
///
/// -NUMBER means -l NUMBER.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct SplitArgs {
    /// Put SIZE bytes into each file
    #[arg(short, long, value_name = "SIZE")]
    pub bytes: Option<OsString>,
    /// Put NUMBER lines into each file
    #[arg(short, long, value_name = "NUMBER")]
    pub lines: Option<OsString>,
    /// Put at most SIZE bytes of whole lines into each file
    #[arg(short = 'C', long, value_name = "SIZE")]
    pub line_bytes: Option<OsString>,
    /// Make CHUNKS files
    #[arg(short, long, value_name = "CHUNKS")]
    pub number: Option<OsString>,
    /// Make no empty files with -n
    #[arg(short, long)]
    pub elide_empty_files: bool,
    /// Copy input to output at once with -n r/…
    #[arg(short, long)]
    pub unbuffered: bool,
    /// Make suffixes of length N (2, and longer ones as they are needed)
    #[arg(short = 'a', long, value_name = "N")]
    pub suffix_length: Option<OsString>,
    /// Put SUFFIX behind the names of the files
    #[arg(long, value_name = "SUFFIX")]
    pub additional_suffix: Option<OsString>,
    /// Number the files, from FROM or 0
    #[arg(long, value_name = "FROM", num_args = 0..=1, require_equals = true)]
    pub numeric_suffixes: Option<OsString>,
    /// Number the files in hexadecimal, from FROM or 0
    #[arg(long, value_name = "FROM", num_args = 0..=1, require_equals = true)]
    pub hex_suffixes: Option<OsString>,
    /// Write to COMMAND, run by the shell; the name is $FILE
    #[arg(long, value_name = "COMMAND")]
    pub filter: Option<OsString>,
    /// Say when an output file is opened
    #[arg(long)]
    pub verbose: bool,
    /// Lines end in SEP; '\0' is the byte zero
    #[arg(short = 't', long, value_name = "SEP")]
    pub separator: Option<OsString>,
    /// Number the files from 0
    #[arg(short = 'd')]
    pub decimal: bool,
    /// Number the files from 0 in hexadecimal
    #[arg(short = 'x')]
    pub hexadecimal: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    pub version: Option<bool>,
    /// The file to split; standard input without it or for -
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// How the names of the pieces begin
    #[arg(value_name = "PREFIX")]
    pub prefix: Option<OsString>,
    /// How bytes are moved.
    #[command(flatten)]
    pub io: IoArgs,
}
