//! The grammar of `dio tee`: GNU tee's options and those common to all tools.

use std::ffi::OsString;

use super::policy::{MODES, OutputError};
use crate::grammar::{Grammar, help, switch, version, word};
use crate::tool::{IoArgs, io_flags};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct TeeArgs {
    pub(super) files: Vec<OsString>,
    pub(super) append: bool,
    pub(super) ignore_interrupts: bool,
    pub(super) output_error: Option<OutputError>,
    pub(super) io: IoArgs,
}

pub(super) fn grammar() -> Grammar<TeeArgs> {
    let about = "Copy standard input to standard output and to files, past the page cache";
    Grammar::<TeeArgs>::new(
        "tee",
        about,
        "Files that exist are emptied at the start and written in place.",
    )
    .flags([
        switch(
            "-a, --append",
            "Write behind the end of FILEs instead of replacing what they hold",
            |tee| {
                tee.append = true;
            },
        ),
        switch("-i, --ignore-interrupts", "Ignore the interrupt signal", |tee| {
            tee.ignore_interrupts = true
        }),
        switch("-p", "Same as --output-error=warn-nopipe", |tee| {
            tee.output_error = Some(OutputError::WarnNopipe)
        }),
        word(
            "--output-error[=MODE]",
            "What to do when an output cannot be written: warn and go on with the others, or exit; \
             with -nopipe, a closed pipe is no error",
            MODES,
            |tee, mode| tee.output_error = Some(mode.unwrap_or(OutputError::WarnNopipe)),
        ),
        help("--help"),
        version("--version"),
    ])
    .flags(io_flags(|tee| &mut tee.io))
    .files("Files to write; - is a file of that name", |tee| &mut tee.files)
}
