//! The grammar of `dio split`: GNU split's flags and those of every tool. What they mean is decided in `options`.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueHint};

use crate::tool::{Found, InOrder, IoArgs, Ordered};

/// Put pieces of a file into files of their own, past the page cache
///
/// The pieces are called PREFIXaa, PREFIXab and so on; PREFIX is x unless it is given. Without -b, -C, -l or -n a piece has 1000 lines.
///
/// SIZE is a number and an optional unit: K, M, G, T, P and E are powers of 1024, KB, MB and so on powers of 1000; KiB is K, b is 512.
///
/// CHUNKS is one of: N, so many files by size; K/N, the Kth of them to standard output; l/N and l/K/N, the same without splitting lines; r/N and r/K/N, lines in turn.
///
/// -NUMBER means -l NUMBER.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct SplitArgs {
    /// Flags whose order on the command line decides
    #[command(flatten)]
    pub ordered: Ordered<Flag>,

    /// Make no empty files with -n
    #[arg(short, long)]
    pub elide_empty_files: bool,

    /// Copy input to output at once with -n r/…
    #[arg(short, long)]
    pub unbuffered: bool,

    /// Write to COMMAND, run by the shell; the name is $FILE
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub filter: Option<OsString>,

    /// Say when an output file is opened
    #[arg(long)]
    pub verbose: bool,

    /// The size of requests to GNU split, which here is that of --block: without effect
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, hide = true)]
    pub io_blksize: Option<OsString>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,

    /// The file to split; standard input without it or for -
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<OsString>,

    /// How the names of the pieces begin
    #[arg(value_name = "PREFIX")]
    pub prefix: Option<OsString>,

    /// Operands that there may not be, to be told in GNU's words
    #[arg(hide = true)]
    pub extra: Vec<OsString>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,
}

/// What `--numeric-suffixes` and `--hex-suffixes` have for FROM where none is given, which is not the same as an empty one.
/// No argument of a process holds this byte.
const NO_START: &str = "\0";

/// The flags whose order matters, as clap declares them.
#[derive(Args, Clone, Debug)]
pub struct OrderedFlags {
    /// Put SIZE bytes into each file
    // The beginning that GNU split knows it by, though dio has --block.
    #[arg(short, long, alias = "b", value_name = "SIZE", allow_hyphen_values = true, action = ArgAction::Append)]
    bytes: Vec<OsString>,

    /// Put NUMBER lines into each file
    #[arg(short, long, value_name = "NUMBER", allow_hyphen_values = true, action = ArgAction::Append)]
    lines: Vec<OsString>,

    /// Put at most SIZE bytes of whole lines into each file
    #[arg(short = 'C', long, value_name = "SIZE", allow_hyphen_values = true, action = ArgAction::Append)]
    line_bytes: Vec<OsString>,

    /// Make CHUNKS files
    #[arg(short, long, value_name = "CHUNKS", allow_hyphen_values = true, action = ArgAction::Append)]
    number: Vec<OsString>,

    /// Make suffixes of length N (2, and longer ones as they are needed)
    #[arg(short = 'a', long, value_name = "N", allow_hyphen_values = true, action = ArgAction::Append)]
    suffix_length: Vec<OsString>,

    /// Put SUFFIX behind the names of the files
    #[arg(long, value_name = "SUFFIX", allow_hyphen_values = true, action = ArgAction::Append)]
    additional_suffix: Vec<OsString>,

    /// Number the files from 0
    #[arg(short = 'd')]
    decimal: bool,

    /// Number the files, from FROM or 0
    #[arg(long, value_name = "FROM", num_args = 0..=1, require_equals = true, default_missing_value = NO_START,
          action = ArgAction::Append)]
    numeric_suffixes: Vec<OsString>,

    /// Number the files from 0 in hexadecimal
    #[arg(short = 'x')]
    hexadecimal: bool,

    /// Number the files in hexadecimal, from FROM or 0
    #[arg(long, value_name = "FROM", num_args = 0..=1, require_equals = true, default_missing_value = NO_START,
          action = ArgAction::Append)]
    hex_suffixes: Vec<OsString>,

    /// Lines end in SEP; '\0' is the byte zero
    #[arg(short = 't', long, value_name = "SEP", allow_hyphen_values = true, action = ArgAction::Append)]
    separator: Vec<OsString>,
}

/// One of the flags whose order matters, with its argument as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `-b`
    Bytes(OsString),
    /// `-l`
    Lines(OsString),
    /// `-C`
    LineBytes(OsString),
    /// `-n`
    Number(OsString),
    /// `-a`
    SuffixLength(OsString),
    /// `--additional-suffix`
    AdditionalSuffix(OsString),
    /// `-d`, and `--numeric-suffixes` with the start if there is one
    Decimal(Option<OsString>),
    /// `-x`, and `--hex-suffixes` with the start if there is one
    Hexadecimal(Option<OsString>),
    /// `-t`
    Separator(OsString),
}

impl InOrder for Flag {
    type Flags = OrderedFlags;

    fn find(found: &mut Found<'_, Flag>) {
        found.switch("decimal", Flag::Decimal(None));
        found.switch("hexadecimal", Flag::Hexadecimal(None));
        found.values("bytes", Flag::Bytes);
        found.values("lines", Flag::Lines);
        found.values("line_bytes", Flag::LineBytes);
        found.values("number", Flag::Number);
        found.values("suffix_length", Flag::SuffixLength);
        found.values("additional_suffix", Flag::AdditionalSuffix);
        found.values("numeric_suffixes", |from| Flag::Decimal(start(from)));
        found.values("hex_suffixes", |from| Flag::Hexadecimal(start(from)));
        found.values("separator", Flag::Separator);
    }
}

/// The start of suffixes, if one was given.
fn start(from: OsString) -> Option<OsString> {
    Some(from).filter(|from| from != NO_START)
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn read(line: &str) -> SplitArgs {
        let command = SplitArgs::augment_args(Command::new("split").version("1").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split('|')).unwrap_or_else(|error| panic!("{line}: {error}"));
        SplitArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn flags_are_in_the_order_of_the_command_line() {
        let read =
            read("-b|1|-dl2|--hex-suffixes|-t|-|in|--numeric-suffixes=|--number=3|-x|--b=4|-C|--|--hex-suffixes=a");
        assert_eq!((read.file.as_deref(), read.prefix), (Some("in".as_ref()), None));
        assert_eq!(
            read.ordered.0,
            [
                Flag::Bytes("1".into()),
                Flag::Decimal(None),
                Flag::Lines("2".into()),
                Flag::Hexadecimal(None),
                Flag::Separator("-".into()),
                Flag::Decimal(Some("".into())),
                Flag::Number("3".into()),
                Flag::Hexadecimal(None),
                Flag::Bytes("4".into()),
                Flag::LineBytes("--".into()),
                Flag::Hexadecimal(Some("a".into())),
            ]
        );
    }

    #[test]
    fn arguments_may_look_like_options_and_be_empty() {
        let read = read("--filter|-v|-b|-d|--filter=|-a|-1||--|-p|-q");
        assert_eq!(read.ordered.0, [Flag::Bytes("-d".into()), Flag::SuffixLength("-1".into())]);
        assert_eq!(read.filter.as_deref(), Some("".as_ref()));
        assert_eq!((read.file, read.prefix, read.extra), (Some("".into()), Some("-p".into()), vec!["-q".into()]));
    }
}
