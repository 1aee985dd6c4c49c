//! `dio sort`: GNU sort's grammar, orders and words, with the bytes moved by dio.
//!
//! `args` defines the flags, `obsolete` brings those of old into that form, and `options` validates them, with `spec` for keys,
//! `number` and `words` for other arguments, `names` for `--files0-from`, `random` for `-R` and `locale` for what is not
//! supported. `key` says how two lines compare; `engine` reads, sorts, keeps runs in temporary files and merges them into the
//! `target`; `check` only looks. `run` leads through it.

mod args;
mod check;
mod engine;
mod key;
mod locale;
mod names;
mod number;
mod obsolete;
mod options;
mod random;
mod run;
mod spec;
mod target;
mod words;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::tool::{self, Tool};

pub use args::SortArgs;

use options::{Options, Refusal};

const NAME: &str = "sort";

/// The exit status when a file that was to be checked is not sorted.
const DISORDER: u8 = 1;

/// The exit status of everything that goes wrong.
const TROUBLE: u8 = 2;

/// Runs `dio sort`.
///
/// Returns 0 if everything was written or the file is sorted, 1 if it is not, else 2.
#[must_use]
pub fn run(args: SortArgs) -> ExitCode {
    let io = args.io.clone();
    let options = match Options::of(args) {
        Ok(options) => options,
        Err(refusal) => return refuse(&refusal),
    };
    let tool = Tool::new(NAME, &io);
    if let Err(status) = tool.begin(options.inputs.iter().chain(&options.output).map(OsString::as_os_str)) {
        return status;
    }
    if let Some(told) = options.needs.told(|name| std::env::var_os(name)) {
        tool.note(told);
    }
    let sorted = run::run(&tool, &options);
    let ended = tool.clone();
    // Its status does not tell disorder from trouble.
    let _ = tool.finish();
    match sorted {
        _ if ended.failed() => ExitCode::from(TROUBLE),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DISORDER),
    }
}

/// The command line, `dio sort` and all, with keys of old as options that can be declared.
#[must_use]
pub fn modern(mut args: Vec<OsString>) -> Vec<OsString> {
    let own = obsolete::modern(&args.split_off(2), obsolete::Customs::of_environment());
    args.extend(own);
    args
}

/// Tells why nothing is done.
fn refuse(refusal: &Refusal) -> ExitCode {
    let name = tool::called_as(NAME);
    let text = match refusal {
        Refusal::Plain(message) => format!("{name}: {message}\n"),
        Refusal::Hint(message) | Refusal::Word(message) => {
            format!("{name}: {message}\nTry '{name} --help' for more information.\n")
        }
        Refusal::Several(messages) => messages.iter().map(|message| format!("{name}: {message}\n")).collect(),
    };
    // Nobody can be told that standard error is closed.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    if matches!(refusal, Refusal::Word(_)) { ExitCode::FAILURE } else { ExitCode::from(TROUBLE) }
}
