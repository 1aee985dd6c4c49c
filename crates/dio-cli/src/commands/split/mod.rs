//! `dio split`: GNU split's grammar, names and words, with the bytes moved by dio.
//!
//! `args` defines the flags, `obsolete` brings those of old into that form, `options` validates them. `cut` says where the input
//! is cut, without I/O; `run` leads the input through it to an outlet: `sequence`, one output after the other, `robin`, all
//! at a time, or `only`, one of them to standard output. `pieces` makes outputs, with `names`; `target` and `filter` write
//! them, and `background` closes them.

mod args;
mod background;
mod cut;
mod failure;
mod filter;
mod names;
mod number;
mod obsolete;
mod only;
mod options;
mod pieces;
mod robin;
mod run;
mod sequence;
mod target;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::tool::{self, Tool};

pub use args::SplitArgs;

use options::{Options, Refusal};

const NAME: &str = "split";

/// Runs `dio split`.
///
/// Returns 0 if everything was written, the status of a filter that failed, else 1.
#[must_use]
pub fn run(args: SplitArgs) -> ExitCode {
    let io = args.io.clone();
    let options = match Options::of(args) {
        Ok(options) => options,
        Err(refusal) => return refuse(&refusal),
    };
    let tool = Tool::new(NAME, &io);
    if let Err(status) = tool.begin([options.input.as_os_str()]) {
        return status;
    }
    let status = run::run(&tool, options).err().map(|failure| failure.tell(&tool));
    let code = tool.finish();
    status.filter(|status| *status != 1).map_or(code, ExitCode::from)
}

/// The command line, `dio split` and all, with `-NUMBER` as an option that can be declared.
///
/// # Errors
/// The status, if a NUMBER makes no sense; that is told.
pub fn modern(mut args: Vec<OsString>) -> Result<Vec<OsString>, ExitCode> {
    let own = obsolete::modern(&args.split_off(2)).map_err(|refusal| refuse(&refusal))?;
    args.extend(own);
    Ok(args)
}

/// Tells why nothing is done.
fn refuse(refusal: &Refusal) -> ExitCode {
    let name = tool::called_as(NAME);
    let (message, hint) = match refusal {
        Refusal::Plain(message) => (message, String::new()),
        Refusal::Hint(message) => (message, format!("Try '{name} --help' for more information.\n")),
    };
    // Nobody can be told that standard error is closed.
    let _ = write!(std::io::stderr().lock(), "{name}: {message}\n{hint}");
    ExitCode::FAILURE
}
