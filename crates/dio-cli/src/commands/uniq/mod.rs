//! `dio uniq`: GNU uniq's grammar, output and messages, with data moved by dio.
//!
//! `args` has the table of options; `options` decides what they mean together. `filter` compares
//! lines without I/O; `lines` finds the lines, and `key` selects the part to compare. `run` passes
//! the input through the filter to the output.

mod args;
mod filter;
mod key;
mod lines;
mod options;
mod print;
mod run;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::grammar::Program;
use crate::tool::Tool;
use options::UniqOptions;

pub(crate) const PROGRAM: Program =
    Program { name: "uniq", describe: |_| args::grammar().describe(), run };

/// Runs `dio uniq`; returns 0 if everything was read and written, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let options = match args::grammar().resolve(line, UniqOptions::of) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let tool = Tool::new("uniq", &options.io);
    if let Err(status) = tool.begin([options.input.as_os_str(), &options.output]) {
        return status;
    }
    run::run(&tool, &options);
    tool.finish()
}
