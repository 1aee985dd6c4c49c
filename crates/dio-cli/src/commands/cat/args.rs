//! The grammar of `dio cat`: GNU cat's flags and those of every tool.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use super::format::{Format, Numbered};
use crate::tool::IoArgs;

/// Write files to standard output, past the page cache
///
/// With no FILE, or where FILE is -, standard input is read.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct CatArgs {
    /// Files to write, one after the other
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,

    /// Show everything: -v -E -T
    #[arg(short = 'A', long)]
    pub show_all: bool,

    /// Number the lines that are not empty; stronger than -n
    #[arg(short = 'b', long)]
    pub number_nonblank: bool,

    /// Same as -v -E
    #[arg(short = 'e')]
    pub nonprinting_and_ends: bool,

    /// Put $ at the end of each line
    #[arg(short = 'E', long)]
    pub show_ends: bool,

    /// Number all lines
    #[arg(short, long)]
    pub number: bool,

    /// Keep one of several empty lines in a row
    #[arg(short, long)]
    pub squeeze_blank: bool,

    /// Same as -v -T
    #[arg(short = 't')]
    pub nonprinting_and_tabs: bool,

    /// Show tabs as ^I
    #[arg(short = 'T', long)]
    pub show_tabs: bool,

    /// Accepted for POSIX: what one read gave is passed on at once in any case
    #[arg(short = 'u')]
    pub unbuffered: bool,

    /// Show what does not print, as ^X and M-X, except tabs and newlines
    #[arg(short = 'v', long)]
    pub show_nonprinting: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,
}

impl CatArgs {
    /// What is to be done to the text.
    pub(super) fn format(&self) -> Format {
        let (e, t) = (self.nonprinting_and_ends, self.nonprinting_and_tabs);
        Format {
            numbered: match (self.number_nonblank, self.number) {
                (true, _) => Numbered::NonBlank,
                (false, true) => Numbered::All,
                (false, false) => Numbered::None,
            },
            squeeze: self.squeeze_blank,
            ends: self.show_ends || e || self.show_all,
            tabs: self.show_tabs || t || self.show_all,
            nonprinting: self.show_nonprinting || e || t || self.show_all,
        }
    }
}
