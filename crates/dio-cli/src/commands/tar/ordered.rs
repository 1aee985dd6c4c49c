//! The options of `dio tar` whose order matters: names, directories and pattern options. Each of
//! them applies to what comes after it.

use std::ffi::OsString;

use super::terms::OmittedPart;
use crate::grammar;

/// An option whose order matters, with its value as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flag {
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
    /// `--exclude-caches`, `--exclude-tag` and similar: which part of a directory with the tag is
    /// left out, and the name of the tag file if one was given
    ExcludeTag(OmittedPart, Option<OsString>),
    /// An option without an argument, and whether it turns its setting on
    Set(Switch, bool),
}

/// The settings that options without an argument change for the names and patterns after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
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

/// An option of the table. Each option is appended to those before it.
type Row = grammar::Flag<Vec<Flag>>;

/// An option with a value, of which `flag` makes its variant.
fn with(spec: &'static str, text: &'static str, flag: fn(OsString) -> Flag) -> Row {
    grammar::effect(spec, text, move |all: &mut Vec<Flag>, given| {
        all.push(flag(given.take()));
        Ok(())
    })
}

/// An option without a value.
fn plain(spec: &'static str, text: &'static str, flag: Flag) -> Row {
    grammar::effect(spec, text, move |all: &mut Vec<Flag>, _| {
        all.push(flag.clone());
        Ok(())
    })
}

/// An option that turns a switch on or off for the names after it.
fn set(spec: &'static str, text: &'static str, switch: Switch, on: bool) -> Row {
    plain(spec, text, Flag::Set(switch, on))
}

/// The options that add names, and those that say how lists of names are read.
pub(super) fn names() -> [Row; 11] {
    [
        with("--add-file=FILE", "Add FILE, whatever its name begins with", Flag::AddFile),
        with("-C, --directory=DIR", "Change to DIR", Flag::Directory),
        with("-T, --files-from=FILE", "Take names from FILE, one a line", Flag::FilesFrom),
        set("-0, --null", "Names of -T end in NUL, and are nothing but names", Switch::Null, true),
        set("--no-null", "Names of -T end with the line", Switch::Null, false),
        set("--verbatim-files-from", "Names of -T are nothing but names", Switch::Verbatim, true),
        set(
            "--no-verbatim-files-from",
            "Names of -T that begin with - are options",
            Switch::Verbatim,
            false,
        ),
        set(
            "--unquote",
            "\\n and its like in names of -T are characters (default)",
            Switch::Unquote,
            true,
        ),
        set("--no-unquote", "Names of -T are taken as they are", Switch::Unquote, false),
        set("--recursion", "What is in directories too (default)", Switch::Recursion, true),
        set("--no-recursion", "Directories without what is in them", Switch::Recursion, false),
    ]
    .map(grammar::repeated)
}

/// The options that leave files out.
pub(super) fn exclusions() -> [Row; 10] {
    let caches = |spec, text, omit| plain(spec, text, Flag::ExcludeTag(omit, None));
    [
        with("--exclude=PATTERN", "Leave out what matches PATTERN", Flag::Exclude),
        with(
            "-X, --exclude-from=FILE",
            "Leave out what matches a pattern in FILE",
            Flag::ExcludeFrom,
        ),
        plain("--exclude-backups", "Leave out backup and lock files", Flag::ExcludeBackups),
        caches(
            "--exclude-caches",
            "Leave out the contents of directories with a CACHEDIR.TAG, but for that file",
            OmittedPart::Contents,
        ),
        caches(
            "--exclude-caches-under",
            "Leave out everything under directories with a CACHEDIR.TAG",
            OmittedPart::Under,
        ),
        caches(
            "--exclude-caches-all",
            "Leave out directories with a CACHEDIR.TAG",
            OmittedPart::All,
        ),
        with(
            "--exclude-tag=FILE",
            "Leave out the contents of directories with FILE, but for that file",
            |name| Flag::ExcludeTag(OmittedPart::Contents, Some(name)),
        ),
        with(
            "--exclude-tag-under=FILE",
            "Leave out everything under directories with FILE",
            |name| Flag::ExcludeTag(OmittedPart::Under, Some(name)),
        ),
        with("--exclude-tag-all=FILE", "Leave out directories with FILE", |name| {
            Flag::ExcludeTag(OmittedPart::All, Some(name))
        }),
        plain("--exclude-vcs", "Leave out what version control systems keep", Flag::ExcludeVcs),
    ]
    .map(grammar::repeated)
}

/// The options that say what a pattern matches.
pub(super) fn matching() -> [Row; 8] {
    [
        set(
            "--anchored",
            "Patterns match from the start of a name (default for members)",
            Switch::Anchored,
            true,
        ),
        set(
            "--no-anchored",
            "Patterns match behind any / too (default for --exclude)",
            Switch::Anchored,
            false,
        ),
        set(
            "--wildcards",
            "Patterns have wildcards (default for --exclude)",
            Switch::Wildcards,
            true,
        ),
        set("--no-wildcards", "Patterns are names (default for members)", Switch::Wildcards, false),
        set("--wildcards-match-slash", "Wildcards match / (default)", Switch::MatchSlash, true),
        set("--no-wildcards-match-slash", "Wildcards do not match /", Switch::MatchSlash, false),
        set("--ignore-case", "Upper and lower case are the same", Switch::IgnoreCase, true),
        set("--no-ignore-case", "Upper and lower case differ (default)", Switch::IgnoreCase, false),
    ]
    .map(grammar::repeated)
}
