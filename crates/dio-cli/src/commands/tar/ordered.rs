//! The flags of `dio tar` whose order decides: names, directories and how patterns match, each concerning what comes after it.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueHint};

use crate::tool::{Found, InOrder};

use super::options::{Omit, Refusal};

/// The flags whose order matters, as clap declares them.
#[derive(Args, Clone, Debug)]
pub struct OrderedFlags {
    /// Files to archive, or members of the archive
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    names: Vec<OsString>,

    /// Add FILE, whatever its name begins with
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = NAMES, action = ArgAction::Append)]
    add_file: Vec<OsString>,

    /// Change to DIR
    #[arg(short = 'C', long, value_name = "DIR", allow_hyphen_values = true, help_heading = NAMES,
          value_hint = ValueHint::DirPath, action = ArgAction::Append)]
    directory: Vec<OsString>,

    /// Take names from FILE, one a line
    #[arg(short = 'T', long, value_name = "FILE", allow_hyphen_values = true, help_heading = NAMES,
          value_hint = ValueHint::FilePath, action = ArgAction::Append)]
    files_from: Vec<OsString>,

    /// Names of -T end in NUL, and are nothing but names
    #[arg(short = '0', long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    null: Vec<OsString>,

    /// Names of -T end with the line
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_null: Vec<OsString>,

    /// Names of -T are nothing but names
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    verbatim_files_from: Vec<OsString>,

    /// Names of -T that begin with - are options
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_verbatim_files_from: Vec<OsString>,

    /// \n and its like in names of -T are characters (default)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    unquote: Vec<OsString>,

    /// Names of -T are taken as they are
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_unquote: Vec<OsString>,

    /// What is in directories too (default)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    recursion: Vec<OsString>,

    /// Directories without what is in them
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_recursion: Vec<OsString>,

    /// Leave out what matches PATTERN
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = NAMES, action = ArgAction::Append)]
    exclude: Vec<OsString>,

    /// Leave out what matches a pattern in FILE
    #[arg(short = 'X', long, value_name = "FILE", allow_hyphen_values = true, help_heading = NAMES,
          value_hint = ValueHint::FilePath, action = ArgAction::Append)]
    exclude_from: Vec<OsString>,

    /// Leave out backup and lock files
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    exclude_backups: Vec<OsString>,

    /// Leave out the contents of directories with a CACHEDIR.TAG, but for that file
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    exclude_caches: Vec<OsString>,

    /// Leave out everything under directories with a CACHEDIR.TAG
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    exclude_caches_under: Vec<OsString>,

    /// Leave out directories with a CACHEDIR.TAG
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    exclude_caches_all: Vec<OsString>,

    /// Leave out the contents of directories with FILE, but for that file
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = NAMES, action = ArgAction::Append)]
    exclude_tag: Vec<OsString>,

    /// Leave out everything under directories with FILE
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = NAMES, action = ArgAction::Append)]
    exclude_tag_under: Vec<OsString>,

    /// Leave out directories with FILE
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = NAMES, action = ArgAction::Append)]
    exclude_tag_all: Vec<OsString>,

    /// Leave out what version control systems keep
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    exclude_vcs: Vec<OsString>,

    /// Patterns match from the start of a name (default for members)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    anchored: Vec<OsString>,

    /// Patterns match behind any / too (default for --exclude)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_anchored: Vec<OsString>,

    /// Patterns have wildcards (default for --exclude)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    wildcards: Vec<OsString>,

    /// Patterns are names (default for members)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_wildcards: Vec<OsString>,

    /// Wildcards match / (default)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    wildcards_match_slash: Vec<OsString>,

    /// Wildcards do not match /
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_wildcards_match_slash: Vec<OsString>,

    /// Upper and lower case are the same
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    ignore_case: Vec<OsString>,

    /// Upper and lower case differ (default)
    #[arg(long, help_heading = NAMES, num_args = 0, default_missing_value = "", action = ArgAction::Append)]
    no_ignore_case: Vec<OsString>,
}

/// What the help has above the flags whose order matters.
const NAMES: &str = "Names, in the order of the command line";

/// One of the flags whose order matters, with its argument as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// An operand
    Name(OsString),
    /// `--add-file`
    AddFile(OsString),
    /// `-C`
    Directory(OsString),
    /// `-T`
    FilesFrom(OsString),
    /// `--exclude`
    Exclude(OsString),
    /// `-X`
    ExcludeFrom(OsString),
    /// `--exclude-vcs`
    ExcludeVcs,
    /// `--exclude-backups`
    ExcludeBackups,
    /// `--exclude-caches`, `--exclude-tag` and the like: what is left out of directories with the tag, and the tag's name where
    /// it was given
    ExcludeTag(Omit, Option<OsString>),
    /// One without an argument, and whether it sets what it is named after
    Set(Switch, bool),
    /// One of those that say how existing files are treated, by its long name
    Treat(&'static str),
}

/// What the flags without an argument set for those after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// `--null`
    Null,
    /// `--verbatim-files-from`
    Verbatim,
    /// `--unquote`
    Unquote,
    /// `--recursion`
    Recursion,
    /// `--anchored`
    Anchored,
    /// `--wildcards`
    Wildcards,
    /// `--wildcards-match-slash`
    MatchSlash,
    /// `--ignore-case`
    IgnoreCase,
}

const SWITCHES: [(&str, Switch, bool); 16] = [
    ("null", Switch::Null, true),
    ("no_null", Switch::Null, false),
    ("verbatim_files_from", Switch::Verbatim, true),
    ("no_verbatim_files_from", Switch::Verbatim, false),
    ("unquote", Switch::Unquote, true),
    ("no_unquote", Switch::Unquote, false),
    ("recursion", Switch::Recursion, true),
    ("no_recursion", Switch::Recursion, false),
    ("anchored", Switch::Anchored, true),
    ("no_anchored", Switch::Anchored, false),
    ("wildcards", Switch::Wildcards, true),
    ("no_wildcards", Switch::Wildcards, false),
    ("wildcards_match_slash", Switch::MatchSlash, true),
    ("no_wildcards_match_slash", Switch::MatchSlash, false),
    ("ignore_case", Switch::IgnoreCase, true),
    ("no_ignore_case", Switch::IgnoreCase, false),
];

/// Flags that leave something out of directories with a tag of caches, or with one that is given.
const TAGS: [(&str, &str, Omit); 3] = [
    ("exclude_caches", "exclude_tag", Omit::Contents),
    ("exclude_caches_under", "exclude_tag_under", Omit::Under),
    ("exclude_caches_all", "exclude_tag_all", Omit::All),
];

/// Flags that say how existing files are treated; GNU tar takes no two of them. A list of names (`-T`) has none.
const TREATMENTS: [(&str, &str); 7] = [
    ("keep_old_files", "keep-old-files"),
    ("skip_old_files", "skip-old-files"),
    ("keep_newer_files", "keep-newer-files"),
    ("overwrite", "overwrite"),
    ("unlink_first", "unlink-first"),
    ("no_overwrite_dir", "no-overwrite-dir"),
    ("overwrite_dir", "overwrite-dir"),
];

/// How existing files are treated can be said in one way only.
///
/// # Errors
/// It was said in two ways.
pub(super) fn check_ordered(flags: &[Flag]) -> Result<(), Refusal> {
    let mut given = flags.iter().filter_map(|flag| if let Flag::Treat(name) = flag { Some(*name) } else { None });
    let Some(first) = given.next() else { return Ok(()) };
    match given.find(|other| *other != first) {
        Some(other) => Err(Refusal::usage(format!("'--{other}' cannot be used with '--{first}'"))),
        None => Ok(()),
    }
}

impl InOrder for Flag {
    type Flags = OrderedFlags;

    fn find(found: &mut Found<'_, Flag>) {
        for (id, switch, value) in SWITCHES {
            found.switch(id, Flag::Set(switch, value));
        }
        for (id, name) in TREATMENTS {
            found.switch(id, Flag::Treat(name));
        }
        found.switch("exclude_vcs", Flag::ExcludeVcs);
        found.switch("exclude_backups", Flag::ExcludeBackups);
        for (caches, tag, omit) in TAGS {
            found.switch(caches, Flag::ExcludeTag(omit, None));
            found.values(tag, |name| Flag::ExcludeTag(omit, Some(name)));
        }
        found.values("names", Flag::Name);
        found.values("add_file", Flag::AddFile);
        found.values("directory", Flag::Directory);
        found.values("files_from", Flag::FilesFrom);
        found.values("exclude", Flag::Exclude);
        found.values("exclude_from", Flag::ExcludeFrom);
    }
}
