//! `dio split`: GNU split's grammar, names and words, with the bytes moved by dio.
//!
//! `args` defines the flags; `getopt` reads them in their order and `options` validates them. `cut` says where the input
//! is cut, without I/O; `run` leads the input through it to an outlet: `sequence`, one output after the other, `robin`, all
//! at a time, or `only`, one of them to standard output. `pieces` makes outputs, with `names`; `target` and `filter` write
//! them, and `background` closes them.

mod args;
mod background;
mod cut;
mod failure;
mod filter;
mod getopt;
mod names;
mod number;
mod only;
mod options;
mod pieces;
mod robin;
mod run;
mod sequence;
mod target;
mod words;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command, FromArgMatches};

use crate::tool::{self, IoArgs, Tool};

pub use args::SplitArgs;

use getopt::Grammar;
use options::{Options, Refusal};

const NAME: &str = "split";

/// Runs `dio split` with the arguments behind its name, as they stand: which of several mistakes a user is told depends on
/// their order, and `-5` is an option.
///
/// Returns 0 if everything was written, the status of a filter that failed, else 1.
#[must_use]
pub fn run(args: &[OsString]) -> ExitCode {
    // The last of GNU's own options, in the order of the definition, that has a long name.
    let grammar = Grammar::of(&definition(), "separator");
    let read = Options::read(&grammar, args).and_then(|options| Ok((shared(&options.shared)?, options)));
    let (io, options) = match read {
        Ok(read) => read,
        Err(refusal) => return refuse(refusal),
    };
    let tool = Tool::new(NAME, &io);
    let status = run::run(&tool, options).err().map(|failure| failure.tell(&tool));
    let code = tool.finish();
    status.filter(|status| *status != 1).map_or(code, ExitCode::from)
}

/// What help is made from, and the grammar.
fn definition() -> Command {
    SplitArgs::augment_args(Command::new(NAME).version(env!("CARGO_PKG_VERSION")))
}

/// The flags that all tools of dio share.
fn shared(flags: &[OsString]) -> Result<IoArgs, Refusal> {
    let command = IoArgs::augment_args(Command::new(NAME).no_binary_name(true));
    let parsed = command.try_get_matches_from(flags).and_then(|matches| IoArgs::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let text = error.to_string();
        // The first paragraph says what is wrong; the rest is for `--help`.
        let said = text.split("\n\n").next().unwrap_or_default();
        Refusal::Hint(said.strip_prefix("error: ").unwrap_or(said).trim_end().to_owned())
    })
}

/// Tells why nothing is done, or what was asked for instead.
fn refuse(refusal: Refusal) -> ExitCode {
    let name = tool::called_as(NAME);
    let (message, hint) = match refusal {
        Refusal::Plain(message) => (message, String::new()),
        Refusal::Hint(message) => (message, format!("Try '{name} --help' for more information.\n")),
        Refusal::Help => {
            let mut command = definition().bin_name(name);
            return print(command.render_long_help().to_string());
        }
        Refusal::Version => return print(format!("{name} {}\n", env!("CARGO_PKG_VERSION"))),
    };
    // Nobody can be told that standard error is closed.
    let _ = write!(std::io::stderr().lock(), "{name}: {message}\n{hint}");
    ExitCode::FAILURE
}

/// Writes to standard output; that it is full is the last thing there is to say.
fn print(text: String) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let tool = Tool::new(NAME, &IoArgs::default());
            tool.write_failed(&error);
            tool.finish()
        }
    }
}
