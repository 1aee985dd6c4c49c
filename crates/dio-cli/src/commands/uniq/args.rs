//! The grammar of `dio uniq`: GNU uniq's flags and those of every tool. What they mean is decided in `options`.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueHint};

use crate::tool::{Found, InOrder, InPlaceArgs, IoArgs, Ordered};

/// Leave out or count lines that are as the one before, past the page cache
///
/// With no INPUT, or where INPUT is -, standard input is read; with no OUTPUT, standard output is written. Only neighbours are compared: equal lines elsewhere are found after sorting.
///
/// Fields are runs of blanks with the text that follows each; they are skipped before bytes.
///
/// -N and +N mean -f N and -s N.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct UniqArgs {
    /// Put the number of lines before each group
    #[arg(short, long)]
    pub count: bool,

    /// Print only groups of more than one line, the first of each
    // The beginnings that GNU uniq knows it by, though dio has --receipt.
    #[arg(short = 'd', long, aliases = ["r", "re"])]
    pub repeated: bool,

    /// Flags whose order on the command line decides
    #[command(flatten)]
    pub ordered: Ordered<Flag>,

    /// Take upper and lower case of letters for the same
    // As above, though dio has --in-place.
    #[arg(short, long, alias = "i")]
    pub ignore_case: bool,

    /// Print only lines that differ from those before and behind
    #[arg(short, long)]
    pub unique: bool,

    /// Lines end in NUL, not newline
    #[arg(short, long)]
    pub zero_terminated: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,

    /// The file to read
    #[arg(value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub input: Option<OsString>,

    /// The file to write
    #[arg(value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub output: Option<OsString>,

    /// Operands that there may not be, to be told in GNU's words
    #[arg(hide = true)]
    pub extra: Vec<OsString>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,

    /// How an existing output is replaced
    #[command(flatten)]
    pub in_place: InPlaceArgs,
}

/// What an option has for METHOD where none is given, which is not the same as an empty one. No argument of a process holds
/// this byte.
const NO_METHOD: &str = "\0";

/// The flags whose order matters, as clap declares them.
#[derive(Args, Clone, Debug)]
pub struct OrderedFlags {
    /// Print all lines of groups of more than one
    #[arg(short = 'D')]
    all: bool,

    /// The same, with an empty line before each group (prepend), between groups (separate) or nowhere (none)
    #[arg(long, value_name = "METHOD", num_args = 0..=1, require_equals = true, default_missing_value = NO_METHOD,
          action = ArgAction::Append)]
    all_repeated: Vec<OsString>,

    /// Print all lines, with an empty line between groups (separate), before or behind each (prepend, append) or both [default: separate]
    #[arg(long, value_name = "METHOD", num_args = 0..=1, require_equals = true, default_missing_value = NO_METHOD,
          action = ArgAction::Append)]
    group: Vec<OsString>,

    /// Leave the first N fields out of the comparison
    #[arg(short = 'f', long, value_name = "N", allow_hyphen_values = true, action = ArgAction::Append)]
    skip_fields: Vec<OsString>,

    /// Leave the first N bytes out of the comparison
    #[arg(short = 's', long, value_name = "N", allow_hyphen_values = true, action = ArgAction::Append)]
    skip_chars: Vec<OsString>,

    /// Compare at most N bytes
    #[arg(short = 'w', long, value_name = "N", allow_hyphen_values = true, action = ArgAction::Append)]
    check_chars: Vec<OsString>,
}

/// One of the flags whose order matters, with its argument as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `-D`, and `--all-repeated` with the method if there is one
    AllRepeated(Option<OsString>),
    /// `--group` with the method if there is one
    Group(Option<OsString>),
    /// `-f`
    SkipFields(OsString),
    /// `-s`
    SkipChars(OsString),
    /// `-w`
    CheckChars(OsString),
}

impl InOrder for Flag {
    type Flags = OrderedFlags;

    fn find(found: &mut Found<'_, Flag>) {
        found.switch("all", Flag::AllRepeated(None));
        found.values("all_repeated", |method| Flag::AllRepeated(given(method)));
        found.values("group", |method| Flag::Group(given(method)));
        found.values("skip_fields", Flag::SkipFields);
        found.values("skip_chars", Flag::SkipChars);
        found.values("check_chars", Flag::CheckChars);
    }
}

/// The method, if one was given.
fn given(method: OsString) -> Option<OsString> {
    Some(method).filter(|method| method != NO_METHOD)
}
