//! The grammar of `dio cat`: GNU cat's options and those common to all tools.

use std::ffi::OsString;

use super::format::{Format, Numbered};
use crate::grammar::{Grammar, accepted, help, switch, version};
use crate::tool::{IoArgs, io_flags};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct CatArgs {
    pub(super) files: Vec<OsString>,
    pub(super) format: Format,
    pub(super) io: IoArgs,
}

pub(super) fn grammar() -> Grammar<CatArgs> {
    let about = "Write files to standard output, past the page cache";
    let details = "With no FILE, or where FILE is -, standard input is read.";
    let format = |spec, text, set: fn(&mut Format)| {
        switch(spec, text, set).within(|cat: &mut CatArgs| &mut cat.format)
    };
    Grammar::<CatArgs>::new("cat", about, details)
        .flags([
            format("-A, --show-all", "Show everything: -v -E -T", |format| {
                (format.nonprinting, format.ends, format.tabs) = (true, true, true);
            }),
            format(
                "-b, --number-nonblank",
                "Number the lines that are not empty; stronger than -n",
                |format| {
                    format.numbered = Numbered::NonBlank;
                },
            ),
            format("-e", "Same as -v -E", |format| {
                (format.nonprinting, format.ends) = (true, true)
            }),
            format("-E, --show-ends", "Put $ at the end of each line", |format| format.ends = true),
            format("-n, --number", "Number all lines", |format| {
                format.numbered = format.numbered.max(Numbered::All);
            }),
            format("-s, --squeeze-blank", "Keep one of several empty lines in a row", |format| {
                format.squeeze = true
            }),
            format("-t", "Same as -v -T", |format| {
                (format.nonprinting, format.tabs) = (true, true)
            }),
            format("-T, --show-tabs", "Show tabs as ^I", |format| format.tabs = true),
            accepted(
                "-u",
                "Accepted for POSIX: what one read gave is passed on at once in any case",
            ),
            format(
                "-v, --show-nonprinting",
                "Show what does not print, as ^X and M-X, except tabs and newlines",
                |format| format.nonprinting = true,
            ),
            help("--help"),
            version("--version"),
        ])
        .flags(io_flags(|cat| &mut cat.io))
        .files("Files to write, one after the other", |cat| &mut cat.files)
}
