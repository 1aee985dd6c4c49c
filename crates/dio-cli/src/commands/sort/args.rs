//! The grammar of `dio sort`: GNU sort's flags and those of every tool. What they mean is decided in `options`.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::words::{CHECKS, SORTS};
use crate::tool::{InPlaceArgs, IoArgs};

/// Sort lines of text, past the page cache
///
/// All FILEs together are sorted to standard output, as bytes unless something else is asked for; without FILE, or for -, standard input.
///
/// KEYDEF is F[.C][OPTS][,F[.C][OPTS]]: the field and the byte in it where a key starts, and those where it ends, counted from 1; the end of the line if they are left out, and for C the start and the end of the field. OPTS are letters of bdfgiMhnRrV, which replace the options that hold for all keys. Without -t, fields are what is between a non-blank and a blank.
///
/// SIZE is a number and one of: % of the memory, b for bytes, K (as without any), M, G, T, P, E, Z, Y, R and Q.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the brackets are those of the grammar of keys, as the help shows it"
)]
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct SortArgs {
    /// Pass over blanks at the start of keys
    #[arg(short = 'b', long)]
    pub ignore_leading_blanks: bool,

    /// Not supported: GNU sort marks the keys with it
    #[arg(long, alias = "de", hide = true)]
    pub debug: bool,

    /// Only blanks, letters and digits count
    #[arg(short = 'd', long)]
    pub dictionary_order: bool,

    /// Small letters count as capitals
    #[arg(short = 'f', long)]
    pub ignore_case: bool,

    /// By floating-point numbers
    #[arg(short = 'g', long)]
    pub general_numeric_sort: bool,

    /// Only bytes that can be printed count
    #[arg(short = 'i', long)]
    pub ignore_nonprinting: bool,

    /// Merge files that are sorted
    #[arg(short, long)]
    pub merge: bool,

    /// By the names of months
    #[arg(short = 'M', long, alias = "mo")]
    pub month_sort: bool,

    /// By numbers with units: 2K, 1G
    #[arg(short = 'h', long)]
    pub human_numeric_sort: bool,

    /// By decimal numbers
    #[arg(short = 'n', long)]
    pub numeric_sort: bool,

    /// At random, but equal keys together
    #[arg(short = 'R', long)]
    pub random_sort: bool,

    /// Take random bytes from FILE
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, action = ArgAction::Append,
          value_hint = ValueHint::FilePath)]
    pub random_source: Vec<OsString>,

    /// In descending order
    // Such aliases are what GNU sort takes for the option, though dio has others that begin alike.
    #[arg(short, long, alias = "re")]
    pub reverse: bool,

    /// By WORD: general-numeric (-g), human-numeric (-h), month (-M), numeric (-n), random (-R) or version (-V)
    #[arg(long, value_name = "WORD", allow_hyphen_values = true, action = ArgAction::Append,
          value_parser = Words(SORTS))]
    pub sort: Vec<OsString>,

    /// By numbers within text
    #[arg(short = 'V', long)]
    pub version_sort: bool,

    /// Merge at most N files at a time
    #[arg(long, value_name = "N", allow_hyphen_values = true, action = ArgAction::Append)]
    pub batch_size: Vec<OsString>,

    /// Say where FILE is not sorted
    #[arg(short = 'c')]
    pub check: bool,

    /// Say whether FILE is sorted: quiet or silent (-C), or diagnose-first (-c)
    #[arg(long = "check", value_name = "WORD", num_args = 0..=1, require_equals = true, action = ArgAction::Append,
          default_missing_value = "diagnose-first", value_parser = Words(CHECKS))]
    pub check_as: Vec<OsString>,

    /// The same as -c without words
    #[arg(short = 'C')]
    pub check_silently: bool,

    /// Compress temporary files with PROG; PROG -d decompresses
    #[arg(long, value_name = "PROG", allow_hyphen_values = true, action = ArgAction::Append)]
    pub compress_program: Vec<OsString>,

    /// Read the names of files from F, each ended by NUL
    #[arg(long, value_name = "F", allow_hyphen_values = true, action = ArgAction::Append,
          value_hint = ValueHint::FilePath)]
    pub files0_from: Vec<OsString>,

    /// Keys, in the order of the command line
    #[command(flatten)]
    pub keys: Keys,

    /// Write to FILE, which may be one that is read
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true, action = ArgAction::Append,
          value_hint = ValueHint::FilePath)]
    pub output: Vec<OsString>,

    /// Lines with equal keys stay as they came
    #[arg(short, long, alias = "st")]
    pub stable: bool,

    /// Use so much memory
    #[arg(short = 'S', long, value_name = "SIZE", allow_hyphen_values = true, action = ArgAction::Append)]
    pub buffer_size: Vec<OsString>,

    /// Fields are separated by SEP; '\0' is the byte zero
    #[arg(short = 't', long, value_name = "SEP", allow_hyphen_values = true, action = ArgAction::Append)]
    pub field_separator: Vec<OsString>,

    /// Make temporary files in DIR, or in turn in several; $TMPDIR or /tmp without
    #[arg(short = 'T', long, value_name = "DIR", allow_hyphen_values = true, action = ArgAction::Append,
          value_hint = ValueHint::DirPath)]
    pub temporary_directory: Vec<OsString>,

    /// Sort with N threads
    #[arg(long, alias = "p", value_name = "N", allow_hyphen_values = true, action = ArgAction::Append)]
    pub parallel: Vec<OsString>,

    /// Of lines with equal keys only the first; with -c, these are out of order
    #[arg(short, long)]
    pub unique: bool,

    /// Lines end in NUL instead of a newline
    #[arg(short, long)]
    pub zero_terminated: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,

    /// The files to sort
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<OsString>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,

    /// How an existing output is replaced
    #[command(flatten)]
    pub in_place: InPlaceArgs,
}

/// What stands between both positions of an obsolete key when they are one argument. No argument of a process holds it.
pub(super) const BETWEEN: u8 = 0;

/// The name of the option for an obsolete key, which only [`super::modern`] gives.
pub(super) const OBSOLETE: &str = "--obsolete-key=";

/// The keys as clap declares them.
#[derive(Args, Clone, Debug)]
struct KeyFlags {
    /// Sort by a part of the line
    #[arg(short = 'k', long, value_name = "KEYDEF", allow_hyphen_values = true, action = ArgAction::Append)]
    key: Vec<OsString>,

    /// +POS1 and -POS2
    #[arg(long, hide = true, allow_hyphen_values = true, action = ArgAction::Append)]
    obsolete_key: Vec<OsString>,
}

/// The argument of `-k`, or the positions of an obsolete key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyText {
    /// `-k KEYDEF`
    Key(OsString),
    /// `+POS1` and `-POS2`, without their signs
    Obsolete(OsString),
}

/// The keys in the order of the command line.
#[derive(Clone, Debug, Default)]
pub struct Keys(pub Vec<KeyText>);

impl Args for Keys {
    fn augment_args(cmd: Command) -> Command {
        KeyFlags::augment_args(cmd)
    }
    fn augment_args_for_update(cmd: Command) -> Command {
        KeyFlags::augment_args_for_update(cmd)
    }
}

impl FromArgMatches for Keys {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, KeyText)> = Vec::new();
        let mut list = |id, key: fn(OsString) -> KeyText| {
            let values = matches.get_many::<OsString>(id).into_iter().flatten();
            found.extend(matches.indices_of(id).into_iter().flatten().zip(values.map(|value| key(value.clone()))));
        };
        list("key", KeyText::Key);
        list("obsolete_key", KeyText::Obsolete);
        found.sort_by_key(|&(at, _)| at);
        Ok(Self(found.into_iter().map(|(_, key)| key).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Takes any word, for they may be abbreviated, and names the whole ones for help and completion.
#[derive(Clone)]
struct Words(&'static [&'static [&'static str]]);

impl TypedValueParser for Words {
    type Value = OsString;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<OsString, clap::Error> {
        Ok(value.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().flat_map(|names| names.iter()).map(|name| PossibleValue::new(*name))))
    }
}
