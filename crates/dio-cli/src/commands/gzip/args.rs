//! The grammar of `dio gzip`, `gunzip` and `zcat`: GNU gzip's flags and those of every tool.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use clap::{ArgAction, ValueHint};

use crate::tool::{IoArgs, called_as};

/// Compress files, or decompress them, on all cores and past the page cache
///
/// Each file is replaced by one with the suffix .gz, or the reverse with -d. Without FILE, or when FILE is -, standard input goes to standard output.
///
/// -1 to -9 are from fast to small, 6 is the default; -10, -11 and -12 are smaller and slow.
#[derive(clap::Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct GzipArgs {
    /// Write to standard output, and keep the files
    #[arg(short = 'c', long, alias = "to-stdout", alias = "st", alias = "std")]
    pub stdout: bool,

    /// Decompress
    #[arg(short = 'd', long, alias = "uncompress", alias = "d", alias = "de")]
    pub decompress: bool,

    /// Overwrite files, follow links, and use terminals
    #[arg(short = 'f', long, action = ArgAction::Count)]
    pub force: u8,

    /// Keep the files
    #[arg(short = 'k', long)]
    pub keep: bool,

    /// List what compressed files contain
    #[arg(short = 'l', long)]
    pub list: bool,

    /// Neither save nor restore the name and the time
    #[arg(short = 'n', long, overrides_with = "name")]
    pub no_name: bool,

    /// Save, or restore, the name and the time
    #[arg(short = 'N', long, overrides_with = "no_name")]
    pub name: bool,

    /// Suppress warnings
    #[arg(short = 'q', long, alias = "silent", overrides_with = "verbose")]
    pub quiet: bool,

    /// Go through directories
    #[arg(short = 'r', long, alias = "re", alias = "rec")]
    pub recursive: bool,

    /// Make members that do not depend on each other, so that a change in the file stays small in the compressed one: that
    /// is always so
    #[arg(long)]
    pub rsyncable: bool,

    /// The suffix of compressed files
    #[arg(short = 'S', long, value_name = "SUF", default_value = ".gz", allow_hyphen_values = true)]
    pub suffix: OsString,

    /// Sync what was written
    #[arg(long)]
    pub synchronous: bool,

    /// Test whether compressed files are sound
    #[arg(short = 't', long)]
    pub test: bool,

    /// Tell names and ratios; twice tells more
    #[arg(short = 'v', long, action = ArgAction::Count, overrides_with = "quiet")]
    pub verbose: u8,

    /// Without effect, with a note
    #[arg(short = 'a', long, hide = true)]
    pub ascii: bool,

    /// Without effect: for the format of compress
    #[arg(short = 'b', long, hide = true, value_name = "BITS", allow_hyphen_values = true)]
    pub bits: Option<OsString>,

    /// Do not save or restore the time
    #[arg(short = 'm', hide = true)]
    pub no_time: bool,

    /// Save, or restore, the time
    #[arg(short = 'M', hide = true, overrides_with = "no_time")]
    pub time: bool,

    /// Compress fast: -1
    #[arg(long, overrides_with = "best")]
    pub fast: bool,

    /// Compress well: -9
    #[arg(long, alias = "be", alias = "bes", overrides_with = "fast")]
    pub best: bool,

    /// What -1 to -12 stand for
    #[arg(long, hide = true, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u8).range(1..=12))]
    pub compression_level: u8,

    /// Use N threads [default: one for each core]
    #[arg(short = 'p', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Compression")]
    pub processes: Option<u16>,

    /// Make a member of every 2 MiB instead of one of all
    #[arg(long, help_heading = "Compression")]
    pub members: bool,

    /// Keep what was decompressed before the damage in a damaged file
    #[arg(long, help_heading = "Compression")]
    pub salvage: bool,

    /// Print help
    #[arg(short = 'h', short_alias = 'H', long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// The same
    #[arg(short = 'L', long, hide = true, action = ArgAction::Version)]
    license: Option<bool>,

    /// The files
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<OsString>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,
}

/// The option that a level becomes.
const LEVEL: &str = "--compression-level";

/// The command line `dio gzip …` with levels in the form that clap can read, and with what the variable GZIP holds in
/// front.
///
/// # Errors
/// The exit status for a variable, or an option, that makes no sense, which was told.
pub fn modern(args: Vec<OsString>) -> Result<Vec<OsString>, ExitCode> {
    let name = called_as("gzip");
    let mut out: Vec<OsString> = args[..2].to_vec();
    let given = std::env::var_os("GZIP").unwrap_or_default();
    let given: Vec<&[u8]> = given.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    if let Err(why) = given.iter().try_for_each(|word| allowed(word)) {
        return Err(wrong(&name, &why));
    }
    rewrite(given.iter().map(|word| OsStr::from_bytes(word).to_owned()), &mut out);
    // The last of these letters counts.
    let last = given.concat().iter().rev().find(|letter| b"qv".contains(letter)).copied();
    let quiet = last == Some(b'q') || given.iter().any(|word| word.starts_with(b"--q") || word.starts_with(b"--si"));
    if !given.is_empty() && !quiet {
        let _ = writeln!(
            std::io::stderr(),
            "{name}: warning: GZIP environment variable is deprecated; use an alias or script"
        );
    }
    if args[2..].iter().take_while(|arg| *arg != "--").any(|arg| *arg == "-Z" || *arg == "--lzw") {
        return Err(wrong(&name, "-Z not supported in this version"));
    }
    rewrite(args[2..].iter().cloned(), &mut out);
    Ok(out)
}

/// Tells a command line that makes no sense.
fn wrong(name: &str, why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{name}: {why}\nTry `{name} --help' for more information.");
    ExitCode::FAILURE
}

/// Whether the variable may hold this word: options that do not change what is done with files.
fn allowed(word: &[u8]) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(word).into_owned();
    let not_valid = |option: &str| Err(format!("{option}: option not valid in GZIP environment variable"));
    if let Some(long) = word.strip_prefix(b"--") {
        let harmless = ["best", "fast", "name", "no-name", "quiet", "silent", "rsyncable", "verbose"];
        let fits = |name: &&str| !long.is_empty() && name.as_bytes().starts_with(long);
        return if harmless.iter().any(fits) { Ok(()) } else { not_valid(&shown()) };
    }
    match word.strip_prefix(b"-").filter(|shorts| !shorts.is_empty()) {
        None => Err(format!("{}: non-option in GZIP environment variable", shown())),
        Some(shorts) => match shorts.iter().find(|short| !b"123456789nNqv".contains(short)) {
            Some(short) => not_valid(&format!("-{}", char::from(*short))),
            None => Ok(()),
        },
    }
}

/// Copies words, with levels among short options as options of their own.
fn rewrite(words: impl Iterator<Item = OsString>, out: &mut Vec<OsString>) {
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            return;
        }
        match word.as_bytes() {
            [b'-', b'-', ..] | [b'-'] => out.push(word),
            [b'-', shorts @ ..] => {
                // What the last of them wants may look like an option.
                if cluster(shorts, out) {
                    out.extend(words.next());
                }
            }
            _ => out.push(word),
        }
    }
}

/// Rewrites short options that stand together; true if the next word is the argument of the last.
fn cluster(shorts: &[u8], out: &mut Vec<OsString>) -> bool {
    let mut others = vec![b'-'];
    let mut at = 0;
    let flush = |others: &mut Vec<u8>, out: &mut Vec<OsString>| {
        if others.len() > 1 {
            out.push(OsString::from_vec(std::mem::replace(others, vec![b'-'])));
        }
    };
    while at < shorts.len() {
        let digits = shorts[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        match shorts[at] {
            b'1'..=b'9' => {
                flush(&mut others, out);
                let run = &shorts[at..at + digits];
                // To GNU gzip each digit is a level, and the last of them counts.
                let level = if let b"10" | b"11" | b"12" = run { run } else { &run[digits - 1..] };
                if level == b"0" {
                    out.push("-0".into());
                } else {
                    out.push(format!("{LEVEL}={}", String::from_utf8_lossy(level)).into());
                }
                at += digits;
            }
            b'S' | b'b' | b'p' => {
                others.extend_from_slice(&shorts[at..]);
                flush(&mut others, out);
                return at + 1 == shorts.len();
            }
            other => {
                others.push(other);
                at += 1;
            }
        }
    }
    flush(&mut others, out);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let mut out = Vec::new();
        rewrite(line.split_whitespace().map(OsString::from), &mut out);
        let out: Vec<_> = out.iter().map(|word| word.to_str().unwrap().replace(LEVEL, "L")).collect();
        out.join(" ")
    }

    #[test]
    fn levels_stand_alone() {
        for (line, expected) in [
            ("-9", "L=9"),
            ("-12 -11 a", "L=12 L=11 a"),
            ("-k9vf a", "-k L=9 -vf a"),
            ("-13", "L=3"),
            ("-c12", "-c L=12"),
            ("-0", "-0"),
            ("-S .9 -1", "-S .9 L=1"),
            ("-kS9 -S -9 -3", "-kS9 -S -9 L=3"),
            ("-- -9", "-- -9"),
            ("- a-9 --best", "- a-9 --best"),
        ] {
            assert_eq!(rewritten(line), expected, "{line}");
        }
    }

    #[test]
    fn the_variable_holds_harmless_options_only() {
        for word in ["-9", "-nv", "--best", "--no-n"] {
            assert_eq!(allowed(word.as_bytes()), Ok(()), "{word}");
        }
        for (word, why) in [
            ("-c", "-c: option not valid in GZIP environment variable"),
            ("--stdout", "--stdout: option not valid in GZIP environment variable"),
            ("foo", "foo: non-option in GZIP environment variable"),
        ] {
            assert_eq!(allowed(word.as_bytes()).unwrap_err(), why);
        }
    }
}
