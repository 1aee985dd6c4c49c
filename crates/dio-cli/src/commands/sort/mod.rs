//! `dio sort`: GNU sort's grammar, orders and messages, with data moved by dio.
//!
//! `args` has the table of options, with `spec` for keys and `number` for other values. `options`
//! decides what they mean together, with `names` for `--files0-from`, `random` for `-R` and
//! `locale` for what is not supported. `key` compares two lines. `engine` reads, sorts, keeps runs
//! in temporary files and merges them into the `target`. `check` only reads. `run` calls them in
//! turn.

mod args;
mod check;
mod engine;
mod key;
mod locale;
mod names;
mod number;
mod options;
mod random;
mod run;
mod spec;
mod target;
mod terms;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::grammar::Program;
use crate::tool::Tool;
use options::SortOptions;
use terms::TROUBLE;

/// The exit status when a checked file is not sorted.
const DISORDER: u8 = 1;

pub(crate) const PROGRAM: Program =
    Program { name: "sort", describe: |_| args::grammar().describe(), run };

/// Runs `dio sort`.
///
/// Returns 0 if everything was written or the file is sorted, 1 if the checked file is not sorted,
/// and 2 for any trouble.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let options = match args::grammar().resolve(line, SortOptions::of) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let tool = Tool::new("sort", &options.io);
    if let Err(status) =
        tool.begin(options.inputs.iter().chain(&options.output).map(OsString::as_os_str))
    {
        return status;
    }
    if let Some(told) = options.needs.told(|name| std::env::var_os(name)) {
        tool.note(told);
    }
    let sorted = run::run(&tool, &options);
    let ended = tool.clone();
    // The returned status does not tell disorder from trouble.
    let _ = tool.finish();
    match sorted {
        _ if ended.failed() => ExitCode::from(TROUBLE),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DISORDER),
    }
}
