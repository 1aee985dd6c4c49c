//! The grammar of `dio gzip`, `gunzip` and `zcat`: GNU gzip's options and those of every tool.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use super::names;
use crate::grammar::{
    Flag, GivenFlag, Grammar, Line, Refusal, Stop, accepted, by_default, called_as, checked, help,
    hidden, own, parsed, repeated, switch, value, version,
};
use crate::tool::{IoArgs, io_flags, number};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct GzipArgs {
    pub(super) stdout: bool,
    pub(super) decompress: bool,
    pub(super) force: bool,
    pub(super) keep: bool,
    pub(super) list: bool,
    /// Whether the name (and the time) is neither saved nor restored; `None` if no option decides
    /// that.
    pub(super) no_name: Option<bool>,
    pub(super) no_time: Option<bool>,
    pub(super) quiet: bool,
    pub(super) recursive: bool,
    pub(super) suffix: OsString,
    pub(super) synchronous: bool,
    pub(super) test: bool,
    pub(super) verbose: u8,
    pub(super) ascii: bool,
    pub(super) level: u8,
    pub(super) processes: Option<u32>,
    pub(super) members: bool,
    pub(super) salvage: bool,
    pub(super) files: Vec<OsString>,
    pub(super) io: IoArgs,
}

const DETAILS: &str = "\
Each file is replaced by one with the suffix .gz, or the reverse with -d. Without FILE, or when \
FILE is -, standard input goes to standard output.

-1 to -9 are from fast to small, 6 is the default; -10, -11 and -12 are smaller and slow.";

pub(super) fn grammar(name: &'static str) -> Grammar<GzipArgs> {
    let about = match name {
        "gunzip" => "Decompress files, on all cores and past the page cache",
        "zcat" => "Decompress files to standard output",
        _ => "Compress files, or decompress them, on all cores and past the page cache",
    };
    Grammar::<GzipArgs>::new(name, about, DETAILS)
        .flags(files())
        .flags(contents())
        .section("Compression", own_options())
        .flags([
            help("-h, -H, --help"),
            version("-V, --version"),
            hidden(checked("-Z, --lzw", "Not supported", |_, _| {
                Err(Refusal::usage("-Z not supported in this version"))
            })),
        ])
        .flags(io_flags(|gzip| &mut gzip.io))
        .files("The files", |gzip| &mut gzip.files)
}

fn files() -> [Flag<GzipArgs>; 13] {
    [
        hidden(switch("-a, --ascii", "Without effect, with a note", |gzip| gzip.ascii = true)),
        switch(
            "-c, --stdout, --to-stdout",
            "Write to standard output, and keep the files",
            |gzip| gzip.stdout = true,
        ),
        switch("-d, --decompress, --uncompress", "Decompress", |gzip| gzip.decompress = true),
        switch("-f, --force", "Overwrite files, follow links, and use terminals", |gzip| {
            gzip.force = true
        }),
        switch("-k, --keep", "Keep the files", |gzip| gzip.keep = true),
        switch("-l, --list", "List what compressed files contain", |gzip| gzip.list = true),
        hidden(version("-L, --license")),
        switch("-n, --no-name", "Neither save nor restore the name and the time", |gzip| {
            (gzip.no_name, gzip.no_time) = (Some(true), Some(true));
        }),
        switch("-N, --name", "Save, or restore, the name and the time", |gzip| {
            (gzip.no_name, gzip.no_time) = (Some(false), Some(false));
        }),
        hidden(switch("-m", "Do not save or restore the time", |gzip| gzip.no_time = Some(true))),
        hidden(switch("-M", "Save, or restore, the time", |gzip| gzip.no_time = Some(false))),
        switch("-q, --quiet, --silent", "Suppress warnings", |gzip| {
            (gzip.quiet, gzip.verbose) = (true, 0)
        }),
        switch("-r, --recursive", "Go through directories", |gzip| gzip.recursive = true),
    ]
}

fn contents() -> [Flag<GzipArgs>; 9] {
    [
        accepted(
            "--rsyncable",
            "Make members that do not depend on each other, so that a change in the file stays \
             small in the compressed one: that is always so",
        ),
        by_default(
            ".gz",
            value("-S, --suffix=SUF", "The suffix of compressed files", |gzip, suffix| {
                gzip.suffix = suffix
            }),
        ),
        switch("--synchronous", "Sync what was written", |gzip| gzip.synchronous = true),
        switch("-t, --test", "Test whether compressed files are sound", |gzip| gzip.test = true),
        repeated(switch("-v, --verbose", "Tell names and ratios; twice tells more", |gzip| {
            (gzip.quiet, gzip.verbose) = (false, gzip.verbose.saturating_add(1));
        })),
        switch("--fast", "Compress fast: -1", |gzip| gzip.level = 1),
        switch("--best", "Compress well: -9", |gzip| gzip.level = 9),
        hidden(value("-b, --bits=BITS", "Without effect: for the format of compress", |_, _| ())),
        hidden(checked("-123456789", "A level", level)),
    ]
}

fn own_options() -> [Flag<GzipArgs>; 3] {
    [
        parsed(
            "-p, --processes=N",
            "Use N threads [default: one for each core]",
            |text| number(text, 1..=1024),
            |gzip, count| gzip.processes = count,
        ),
        own(switch("--members", "Make a member of every 2 MiB instead of one of all", |gzip| {
            gzip.members = true
        })),
        own(switch(
            "--salvage",
            "Keep what was decompressed before the damage in a damaged file",
            |gzip| {
                gzip.salvage = true;
            },
        )),
    ]
}

/// Takes a run of digits. To GNU gzip each is a level, and the last one counts; 10, 11 and 12 are
/// dio's own.
fn level(gzip: &mut GzipArgs, given: &mut GivenFlag<'_>) -> Result<(), Refusal> {
    let count = given.line.letters().iter().take_while(|letter| letter.is_ascii_digit()).count();
    let digits = [vec![given.short()], given.line.take_letters(count)].concat();
    gzip.level = match &digits[..] {
        b"10" => 10,
        b"11" => 11,
        b"12" => 12,
        digits if digits.contains(&b'0') => return Err(Refusal::usage("invalid option -- '0'")),
        digits => digits[digits.len() - 1] - b'0',
    };
    Ok(())
}

/// Parses the variable GZIP and then the command line.
///
/// # Errors
/// The exit status if the command must not run.
pub(super) fn read(name: &'static str, line: Vec<OsString>) -> Result<GzipArgs, ExitCode> {
    let (stdout, decompress) = (name == "zcat", name != "gzip");
    let mut args =
        GzipArgs { stdout, decompress, suffix: ".gz".into(), level: 6, ..GzipArgs::default() };
    let grammar = grammar(name);
    let variable = std::env::var_os("GZIP").unwrap_or_default();
    read_variable(name, &mut args, &variable).map_err(|stop| grammar.stopped(stop))?;
    grammar.resolve_from(args, line, |args| match args.suffix.len() {
        1..=names::LONGEST => Ok(args),
        _ => Err(Refusal::plain(format!("invalid suffix '{}'", args.suffix.display()))),
    })
}

/// Options that the variable may hold, because they do not change which files are written or
/// removed.
const HARMLESS: [&str; 8] =
    ["-1", "--best", "--fast", "--name", "--no-name", "--quiet", "--rsyncable", "--verbose"];

fn read_variable(name: &'static str, args: &mut GzipArgs, variable: &OsStr) -> Result<(), Stop> {
    let words = variable.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
    if words.is_empty() {
        return Ok(());
    }
    if words.iter().any(|word| word == "--") {
        return Err(Refusal::usage("--: option not valid in GZIP environment variable").into());
    }
    let grammar = grammar(name)
        .allowing(
            |option| HARMLESS.contains(&option),
            "option not valid in GZIP environment variable",
        )
        .operands(&[], |_, word| {
            Err(Refusal::usage(
                [word.as_bytes(), b": non-option in GZIP environment variable"].concat(),
            ))
        });
    grammar.fold(args, &mut Line::new(words))?;
    if !args.quiet {
        let name = called_as(name);
        // If standard error is closed, there is nowhere to report that.
        let _ = writeln!(
            std::io::stderr(),
            "{name}: warning: GZIP environment variable is deprecated; use an alias or script"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<GzipArgs, Stop> {
        let mut args = GzipArgs::default();
        grammar("gzip")
            .fold(&mut args, &mut Line::new(line.split_whitespace().map(OsString::from)))
            .map(|()| args)
    }

    #[test]
    fn levels_stand_among_letters() {
        for (line, level) in [
            ("-9", 9),
            ("-12 -11 a", 11),
            ("-k9vf a", 9),
            ("-13", 3),
            ("-112", 2),
            ("-c12", 12),
            ("-S .9 -1", 1),
            ("-kS9 -S -9 -3", 3),
            ("-- -9", 0),
            ("- a-9 --best", 9),
            ("--best -1", 1),
        ] {
            let args = read(line).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
            assert_eq!(args.level, level, "{line}");
        }
        let args = read("-k9vf a").unwrap();
        assert!(args.keep && args.verbose == 1 && args.force && args.files == ["a"]);
        assert_eq!(read("-- -9").unwrap().files, ["-9"]);
        let refused = |line| format!("{:?}", read(line).unwrap_err());
        assert_eq!(
            (refused("-103"), refused("-20")),
            (
                format!("{:?}", Stop::Refused(Refusal::usage("invalid option -- '0'"))),
                refused("-103")
            )
        );
        assert!(refused("-0").contains("Unreadable"));
    }

    #[test]
    fn the_variable_holds_harmless_options_only() {
        let read = |text: &str| read_variable("gzip", &mut GzipArgs::default(), text.as_ref());
        for text in ["-9q", "-nvq", "--best -q", "--no-n --silent"] {
            assert_eq!(read(text), Ok(()), "{text}");
        }
        for (text, why) in [
            ("-c", "-c: option not valid in GZIP environment variable"),
            ("--stdout", "--stdout: option not valid in GZIP environment variable"),
            ("foo", "foo: non-option in GZIP environment variable"),
        ] {
            assert_eq!(read(text), Err(Stop::Refused(Refusal::usage(why))));
        }
    }
}
