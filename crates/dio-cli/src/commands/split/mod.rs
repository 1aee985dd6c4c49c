//! `dio split`: GNU split's grammar, names and messages; dio moves the bytes.
//!
//! `args` has the table of options, and `options` checks and combines them. `cut` decides where the
//! input is cut, without I/O. `run` passes the input through a cutter to an outlet: `sequence`
//! writes one output after the other, `robin` all at a time, and `only` writes one of them to
//! standard output. `pieces` creates outputs, named by `names`; `target` and `filter` write them,
//! and `background` closes them.

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
use options::SplitOptions;

pub(crate) const PROGRAM: Program =
    Program { name: "split", describe: |_| args::grammar().describe(), run };

/// Runs `dio split`.
///
/// Returns 0 if everything was written, the status of a filter that failed, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let options = match args::grammar().resolve(line, SplitOptions::of) {
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
