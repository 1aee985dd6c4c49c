//! The flags of `dio split`, validated, with GNU split's words for what is wrong with them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::args::{Flag, SplitArgs};
use super::names::{Alphabet, Names, SuffixError, SuffixRules};
use super::number::{self, NumberError, SIZES};
use crate::quote::marked;

/// How the input is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `-b`: so many bytes each.
    Bytes(u64),
    /// `-l`: so many lines each.
    Lines(u64),
    /// `-C`: whole lines, at most so many bytes.
    LineBytes(u64),
    /// `-n`: so many outputs by size, or one of them (counted from 1) to standard output.
    Chunks { count: u64, only: Option<u64> },
    /// `-n l/`: the same with whole lines.
    LineChunks { count: u64, only: Option<u64> },
    /// `-n r/`: lines in turn.
    RoundRobin { count: u64, only: Option<u64> },
}

impl Way {
    /// The only output that is wanted, counted from 1.
    pub(super) fn only(self) -> Option<u64> {
        match self {
            Way::Chunks { only, .. } | Way::LineChunks { only, .. } | Way::RoundRobin { only, .. } => only,
            _ => None,
        }
    }

    /// How many outputs there are, where it is known beforehand.
    pub(super) fn count(self) -> Option<u64> {
        match self {
            Way::Chunks { count, .. } | Way::LineChunks { count, .. } | Way::RoundRobin { count, .. } => Some(count),
            _ => None,
        }
    }
}

/// Everything that was asked for.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) way: Way,
    pub(super) separator: u8,
    pub(super) elide_empty: bool,
    pub(super) unbuffered: bool,
    pub(super) verbose: bool,
    pub(super) filter: Option<OsString>,
    /// `-` is standard input.
    pub(super) input: OsString,
    pub(super) names: Names,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What is wrong.
    Plain(String),
    /// What is wrong, with a hint to `--help`.
    Hint(String),
}

/// The flags as far as they have been read.
#[derive(Debug, Default)]
struct Reading {
    way: Option<Way>,
    suffix_length: u64,
    additional: OsString,
    alphabet: Option<Alphabet>,
    from: Option<Vec<u8>>,
    separator: Option<u8>,
}

impl Options {
    /// What the command line says.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(super) fn of(mut args: SplitArgs) -> Result<Options, Refusal> {
        let mut reading = Reading::default();
        for flag in std::mem::take(&mut args.ordered.0) {
            reading.take(flag)?;
        }
        if let Some(size) = &args.io_blksize {
            positive("invalid IO block size", size.as_bytes(), SIZES)?;
        }
        reading.finish(args)
    }
}

impl Reading {
    fn take(&mut self, flag: Flag) -> Result<(), Refusal> {
        match flag {
            Flag::Bytes(text) => self.split(|| Ok(Way::Bytes(size(&text)?))),
            Flag::LineBytes(text) => self.split(|| Ok(Way::LineBytes(size(&text)?))),
            Flag::Lines(text) => {
                self.split(|| Ok(Way::Lines(positive("invalid number of lines", text.as_bytes(), "")?)))
            }
            Flag::Number(text) => self.split(|| chunks(&text)),
            Flag::SuffixLength(text) => {
                self.suffix_length = limited("invalid suffix length", text.as_bytes(), "", u64::MAX / 8)?;
                Ok(())
            }
            Flag::AdditionalSuffix(text) => self.additional_suffix(text),
            Flag::Decimal(from) => self.suffixes(Alphabet::Decimal, from.as_deref()),
            Flag::Hexadecimal(from) => self.suffixes(Alphabet::Hex, from.as_deref()),
            Flag::Separator(text) => self.separator(&text),
        }
    }

    /// Sets how to split; that can be said once.
    fn split(&mut self, way: impl FnOnce() -> Result<Way, Refusal>) -> Result<(), Refusal> {
        if self.way.is_some() {
            return Err(Refusal::Hint("cannot split in more than one way".into()));
        }
        self.way = Some(way()?);
        Ok(())
    }

    fn additional_suffix(&mut self, suffix: OsString) -> Result<(), Refusal> {
        if suffix.as_bytes().contains(&b'/') {
            let shown = marked(suffix.as_bytes());
            return Err(Refusal::Hint(format!("invalid suffix {shown}, contains directory separator")));
        }
        self.additional = suffix;
        Ok(())
    }

    fn suffixes(&mut self, alphabet: Alphabet, from: Option<&OsStr>) -> Result<(), Refusal> {
        self.alphabet = Some(alphabet);
        let Some(from) = from else { return Ok(()) };
        let digits = from.as_bytes();
        if digits.iter().any(|digit| !alphabet.digits().contains(digit)) {
            return Err(bad_start(alphabet, digits));
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        self.from = Some(digits[zeros.min(digits.len().saturating_sub(1))..].to_vec());
        Ok(())
    }

    fn separator(&mut self, text: &OsStr) -> Result<(), Refusal> {
        let separator = match text.as_bytes() {
            [] => return Err(Refusal::Plain("empty record separator".into())),
            [one] => *one,
            b"\\0" => 0,
            several => return Err(Refusal::Plain(format!("multi-character separator {}", marked(several)))),
        };
        if self.separator.is_some_and(|before| before != separator) {
            return Err(Refusal::Plain("multiple separator characters specified".into()));
        }
        self.separator = Some(separator);
        Ok(())
    }

    fn finish(self, args: SplitArgs) -> Result<Options, Refusal> {
        let way = self.way.unwrap_or(Way::Lines(1000));
        if way.only().is_some() && args.filter.is_some() {
            return Err(Refusal::Hint("--filter does not process a chunk extracted to stdout".into()));
        }
        let alphabet = self.alphabet.unwrap_or(Alphabet::Letters);
        if let Some(from) = self.from.as_deref().filter(|from| from.iter().any(|d| !alphabet.digits().contains(d))) {
            return Err(bad_start(alphabet, from));
        }
        let rules = SuffixRules {
            alphabet,
            length: self.suffix_length,
            from: self.from,
            count: way.count(),
            additional: self.additional,
        };
        // The length that is needed is told before operands are looked at, a start that is too long after them.
        let prefix = args.prefix.unwrap_or_else(|| "x".into());
        let names = Names::new(&prefix, &rules);
        if let Err(SuffixError::TooShort(needed)) = names {
            return Err(Refusal::Plain(format!("the suffix length needs to be at least {needed}")));
        }
        if let Some(extra) = args.extra.first() {
            return Err(Refusal::Hint(format!("extra operand {}", marked(extra.as_bytes()))));
        }
        let names = names
            .map_err(|_| Refusal::Hint("numerical suffix start value is too large for the suffix length".into()))?;
        Ok(Options {
            way,
            separator: self.separator.unwrap_or(b'\n'),
            elide_empty: args.elide_empty_files,
            unbuffered: args.unbuffered,
            verbose: args.verbose,
            filter: args.filter,
            input: args.file.unwrap_or_else(|| "-".into()),
            names,
        })
    }
}

fn bad_start(alphabet: Alphabet, digits: &[u8]) -> Refusal {
    let kind = if alphabet == Alphabet::Hex { "hexadecimal" } else { "numerical" };
    Refusal::Hint(format!("{}: invalid start value for {kind} suffix", marked(digits)))
}

/// The argument of `-n`: `[l/|r/][K/]N`.
fn chunks(text: &OsStr) -> Result<Way, Refusal> {
    let blanks = text.as_bytes().iter().take_while(|b| b.is_ascii_whitespace()).count();
    let text = &text.as_bytes()[blanks..];
    let (kind, text) = match text {
        [kind @ (b'l' | b'r'), b'/', rest @ ..] => (Some(*kind), rest),
        _ => (None, text),
    };
    let (only, count) = match text.iter().position(|b| *b == b'/') {
        Some(at) => (Some(&text[..at]).filter(|only| !only.is_empty()), &text[at + 1..]),
        None => (None, text),
    };
    let count = positive("invalid number of chunks", count, "")?;
    let what = "invalid chunk number";
    let only = match only {
        Some(only) => match positive(what, only, "")? {
            within if within <= count => Some(within),
            _ => return Err(out_of_range(what, only)),
        },
        None => None,
    };
    Ok(match kind {
        Some(b'l') => Way::LineChunks { count, only },
        Some(_) => Way::RoundRobin { count, only },
        None => Way::Chunks { count, only },
    })
}

/// A size in bytes: at least 1, and no more than a file can have.
fn size(text: &OsStr) -> Result<u64, Refusal> {
    let what = "invalid number of bytes";
    let size = limited(what, text.as_bytes(), SIZES, i64::MAX as u64)?;
    if size == 0 { Err(out_of_range(what, text.as_bytes())) } else { Ok(size) }
}

fn positive(what: &str, text: &[u8], units: &str) -> Result<u64, Refusal> {
    match limited(what, text, units, u64::MAX)? {
        0 => Err(out_of_range(what, text)),
        number => Ok(number),
    }
}

fn limited(what: &str, text: &[u8], units: &str, most: u64) -> Result<u64, Refusal> {
    match number::parse(text, units) {
        Ok(number) if number <= most => Ok(number),
        Err(NumberError::Invalid) => Err(Refusal::Plain(format!("{what}: {}", marked(text)))),
        _ => Err(Refusal::Plain(format!("{what}: {}: {}", marked(text), words_of(rustix::io::Errno::OVERFLOW)))),
    }
}

fn out_of_range(what: &str, text: &[u8]) -> Refusal {
    Refusal::Plain(format!("{what}: {}: {}", marked(text), words_of(rustix::io::Errno::RANGE)))
}

fn words_of(errno: rustix::io::Errno) -> String {
    crate::quote::words(errno).to_string()
}
