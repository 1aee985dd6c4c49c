//! The grammar of `dio tee`: GNU tee's flags and those of every tool.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgAction, Args, Command};

use dio_sys::start::pipes_were_ignored;

use super::policy::OutputError;
use crate::tool::IoArgs;

/// Copy standard input to standard output and to files, past the page cache
///
/// Files that exist are emptied at the start and written in place.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct TeeArgs {
    /// Files to write; - is a file of that name
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,

    /// Write behind the end of FILEs instead of replacing what they hold
    #[arg(short, long)]
    pub append: bool,

    /// Ignore the interrupt signal
    #[arg(short, long)]
    pub ignore_interrupts: bool,

    /// Same as --output-error=warn-nopipe
    #[arg(short = 'p', overrides_with = "output_error")]
    pub no_pipe_errors: bool,

    /// What to do when an output cannot be written: warn and go on with the others, or exit; with -nopipe, a closed pipe
    /// is no error
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "warn-nopipe",
          overrides_with = "no_pipe_errors", value_parser = Words)]
    pub output_error: Option<OsString>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,
}

impl TeeArgs {
    /// What to do about outputs that fail.
    ///
    /// # Errors
    /// No such mode, in GNU's words.
    pub(super) fn on_error(&self) -> Result<OutputError, String> {
        match &self.output_error {
            Some(word) => OutputError::of(word),
            None if self.no_pipe_errors => Ok(OutputError::WarnNopipe),
            // No signal will say it, so nothing does.
            None if pipes_were_ignored() => Ok(OutputError::WarnNopipe),
            None => Ok(OutputError::Sigpipe),
        }
    }
}

/// Takes any word, for they may be abbreviated, and names the whole ones for help and completion.
#[derive(Clone)]
struct Words;

impl TypedValueParser for Words {
    type Value = OsString;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<OsString, clap::Error> {
        Ok(value.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(OutputError::NAMES.iter().map(|(name, _)| PossibleValue::new(*name))))
    }
}
