//! `dio uniq`: GNU uniq's grammar, output and words, with the bytes moved by dio.
//!
//! `args` defines the flags, `obsolete` brings those of old into that form, `options` validates them. `filter` compares
//! lines, found by `lines`, in what `key` says of them, without I/O; `run` leads the input through it to the output.

mod args;
mod filter;
mod key;
mod lines;
mod obsolete;
mod options;
mod run;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::tool::{self, Tool};

pub use args::UniqArgs;

use options::{Options, Refusal};

const NAME: &str = "uniq";

/// Runs `dio uniq`; returns 0 if everything was read and written, else 1.
#[must_use]
pub fn run(args: UniqArgs) -> ExitCode {
    let io = args.io.clone();
    let options = match Options::of(args) {
        Ok(options) => options,
        Err(refusal) => return refuse(refusal),
    };
    let tool = Tool::new(NAME, &io);
    if let Err(status) = tool.begin([options.input.as_os_str(), &options.output]) {
        return status;
    }
    run::run(&tool, &options);
    tool.finish()
}

/// The command line, `dio uniq` and all, with `-N` and `+N` as options that can be declared.
#[must_use]
pub fn modern(mut args: Vec<OsString>) -> Vec<OsString> {
    let own = obsolete::modern(&args.split_off(2), obsolete::Rules::of_environment());
    args.extend(own);
    args
}

/// Tells why nothing is done.
fn refuse(refusal: Refusal) -> ExitCode {
    let name = tool::called_as(NAME);
    let (message, hint) = match refusal {
        Refusal::Plain(message) => (message, String::new()),
        Refusal::Hint(message) => (message, format!("Try '{name} --help' for more information.\n")),
    };
    let text = [name.as_bytes(), b": ", &message, b"\n", hint.as_bytes()].concat();
    // Nobody can be told that standard error is closed.
    let _ = std::io::stderr().lock().write_all(&text);
    ExitCode::FAILURE
}
