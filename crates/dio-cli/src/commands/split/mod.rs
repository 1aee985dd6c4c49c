//! `dio split`: GNU split's grammar, names and words, with the bytes moved by dio.
//!
//! `args` has the table of options, `options` decides what they mean. `cut` says where the input is
//! cut, without I/O; `run` leads the input through it to an outlet: `sequence`, one output after
//! the other, `robin`, all at a time, or `only`, one of them to standard output. `pieces` makes
//! outputs, with `names`; `target` and `filter` write them, and `background` closes them.

mod args;
mod background;
mod cut;
mod failure;
mod filter;
mod names;
mod number;
mod only;
mod options;
mod pieces;
mod robin;
mod run;
mod sequence;
mod target;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::grammar::Program;
use crate::tool::Tool;
use options::Options;

pub(crate) const PROGRAM: Program = Program { name: "split", describe: |_| args::grammar().describe(), run };

/// Runs `dio split`.
///
/// Returns 0 if everything was written, the status of a filter that failed, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let options = match args::grammar().resolve(line, Options::of) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let tool = Tool::new("split", &options.io);
    if let Err(status) = tool.begin([options.input.as_os_str()]) {
        return status;
    }
    let status = run::run(&tool, options).err().map(|failure| failure.tell(&tool));
    let code = tool.finish();
    status.filter(|status| *status != 1).map_or(code, ExitCode::from)
}
