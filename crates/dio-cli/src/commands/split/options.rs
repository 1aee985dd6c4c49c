//! Checks and combines the options of `dio split`, with GNU split's messages.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::names::{Alphabet, OutputNames, SuffixError, SuffixRules};
use super::number::{self, NumberError, SIZES};
use crate::grammar::Refusal;
use crate::quote::marked;
use crate::tool::IoArgs;

/// How the input is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SplitMethod {
    /// `-b`: this many bytes each.
    Bytes(u64),
    /// `-l`: this many lines each.
    Lines(u64),
    /// `-C`: whole lines, at most this many bytes.
    LineBytes(u64),
    /// `-n`: this many outputs of equal size, or one of them (counted from 1) to standard output.
    Chunks { count: u64, only: Option<u64> },
    /// `-n l/`: the same with whole lines.
    LineChunks { count: u64, only: Option<u64> },
    /// `-n r/`: lines in turn.
    RoundRobin { count: u64, only: Option<u64> },
}

impl SplitMethod {
    /// Returns the only output that is requested, counted from 1.
    pub(super) fn only(self) -> Option<u64> {
        match self {
            SplitMethod::Chunks { only, .. }
            | SplitMethod::LineChunks { only, .. }
            | SplitMethod::RoundRobin { only, .. } => only,
            _ => None,
        }
    }

    /// Returns the number of outputs, if it is known beforehand.
    pub(super) fn count(self) -> Option<u64> {
        match self {
            SplitMethod::Chunks { count, .. }
            | SplitMethod::LineChunks { count, .. }
            | SplitMethod::RoundRobin { count, .. } => Some(count),
            _ => None,
        }
    }
}

/// The validated options.
#[derive(Debug)]
pub(super) struct SplitOptions {
    pub(super) way: SplitMethod,
    pub(super) separator: u8,
    pub(super) elide_empty: bool,
    pub(super) unbuffered: bool,
    pub(super) verbose: bool,
    pub(super) filter: Option<OsString>,
    /// `-` is standard input.
    pub(super) input: OsString,
    pub(super) names: OutputNames,
    pub(super) io: IoArgs,
}

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct SplitArgs {
    pub(super) way: Option<SplitMethod>,
    /// The number of the word whose digits form the number of lines.
    digits: Option<usize>,
    pub(super) suffix_length: u64,
    additional: OsString,
    pub(super) alphabet: Option<Alphabet>,
    pub(super) from: Option<Vec<u8>>,
    pub(super) separator: Option<u8>,
    pub(super) elide_empty: bool,
    pub(super) unbuffered: bool,
    pub(super) verbose: bool,
    pub(super) filter: Option<OsString>,
    pub(super) operands: Vec<OsString>,
    pub(super) io: IoArgs,
}

impl SplitArgs {
    /// Sets how to cut, which may be given only once.
    pub(super) fn cut(
        &mut self,
        way: impl FnOnce() -> Result<SplitMethod, Refusal>,
    ) -> Result<(), Refusal> {
        if self.way.is_some() {
            return Err(Refusal::usage("cannot split in more than one way"));
        }
        self.way = Some(way()?);
        Ok(())
    }

    /// Takes a digit among options as part of the number of lines. Digits in a later word start the
    /// number again.
    pub(super) fn digit(&mut self, digit: u8, word: usize) -> Result<(), Refusal> {
        let before = match (self.way, self.digits.replace(word)) {
            (Some(SplitMethod::Lines(lines)), Some(before)) if before == word => lines,
            (Some(_), None) => return self.cut(|| Ok(SplitMethod::Lines(0))),
            _ => 0,
        };
        let lines = before.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit)));
        // The message shows the digits that fitted, and this one.
        let large =
            || Refusal::plain(format!("line count option -{before}{digit}... is too large"));
        self.way = Some(SplitMethod::Lines(lines.ok_or_else(large)?));
        Ok(())
    }

    pub(super) fn additional_suffix(&mut self, suffix: OsString) -> Result<(), Refusal> {
        if suffix.as_bytes().contains(&b'/') {
            let shown = marked(suffix.as_bytes());
            return Err(Refusal::usage(format!(
                "invalid suffix {shown}, contains directory separator"
            )));
        }
        self.additional = suffix;
        Ok(())
    }

    pub(super) fn suffixes(
        &mut self,
        alphabet: Alphabet,
        from: Option<OsString>,
    ) -> Result<(), Refusal> {
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

    pub(super) fn separator(&mut self, text: &OsStr) -> Result<(), Refusal> {
        let separator = match text.as_bytes() {
            [] => return Err(Refusal::plain("empty record separator")),
            [one] => *one,
            b"\\0" => 0,
            several => {
                return Err(Refusal::plain(format!(
                    "multi-character separator {}",
                    marked(several)
                )));
            }
        };
        if self.separator.is_some_and(|before| before != separator) {
            return Err(Refusal::plain("multiple separator characters specified"));
        }
        self.separator = Some(separator);
        Ok(())
    }
}

impl SplitOptions {
    /// Checks the command line.
    ///
    /// # Errors
    /// The first error.
    pub(super) fn of(args: SplitArgs) -> Result<SplitOptions, Refusal> {
        let way = args.way.unwrap_or(SplitMethod::Lines(1000));
        if way.only().is_some() && args.filter.is_some() {
            return Err(Refusal::usage("--filter does not process a chunk extracted to stdout"));
        }
        if way == SplitMethod::Lines(0) {
            return Err(Refusal::usage(format!("invalid number of lines: {}", marked("0"))));
        }
        let alphabet = args.alphabet.unwrap_or(Alphabet::Letters);
        if let Some(from) =
            args.from.as_deref().filter(|from| from.iter().any(|d| !alphabet.digits().contains(d)))
        {
            return Err(bad_start(alphabet, from));
        }
        let rules = SuffixRules {
            alphabet,
            length: args.suffix_length,
            from: args.from,
            count: way.count(),
            additional: args.additional,
        };
        // As in GNU split, a suffix length that is too short is reported before errors of operands,
        // and a start that is too long after them.
        let mut operands = args.operands.into_iter();
        let input = operands.next().unwrap_or_else(|| "-".into());
        let prefix = operands.next().unwrap_or_else(|| "x".into());
        let names = OutputNames::new(&prefix, &rules);
        if let Err(SuffixError::TooShort(needed)) = names {
            return Err(Refusal::plain(format!("the suffix length needs to be at least {needed}")));
        }
        if let Some(extra) = operands.next() {
            return Err(Refusal::usage(format!("extra operand {}", marked(extra.as_bytes()))));
        }
        let names = names.map_err(|_| {
            Refusal::usage("numerical suffix start value is too large for the suffix length")
        })?;
        Ok(SplitOptions {
            way,
            separator: args.separator.unwrap_or(b'\n'),
            elide_empty: args.elide_empty,
            unbuffered: args.unbuffered,
            verbose: args.verbose,
            filter: args.filter,
            input,
            names,
            io: args.io,
        })
    }
}

fn bad_start(alphabet: Alphabet, digits: &[u8]) -> Refusal {
    let kind = if alphabet == Alphabet::Hex { "hexadecimal" } else { "numerical" };
    Refusal::usage(format!("{}: invalid start value for {kind} suffix", marked(digits)))
}

/// Parses the argument of `-n`: `[l/|r/][K/]N`.
pub(super) fn chunks(text: &OsStr) -> Result<SplitMethod, Refusal> {
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
        Some(b'l') => SplitMethod::LineChunks { count, only },
        Some(_) => SplitMethod::RoundRobin { count, only },
        None => SplitMethod::Chunks { count, only },
    })
}

/// Parses a size in bytes: at least 1, and at most the largest size of a file.
pub(super) fn size(text: &OsStr) -> Result<u64, Refusal> {
    let what = "invalid number of bytes";
    let size = limited(what, text.as_bytes(), SIZES, i64::MAX as u64)?;
    if size == 0 { Err(out_of_range(what, text.as_bytes())) } else { Ok(size) }
}

pub(super) fn positive(what: &str, text: &[u8], units: &str) -> Result<u64, Refusal> {
    match limited(what, text, units, u64::MAX)? {
        0 => Err(out_of_range(what, text)),
        number => Ok(number),
    }
}

/// Parses the argument of `-a`.
pub(super) fn suffix_length(text: &OsStr) -> Result<u64, Refusal> {
    limited("invalid suffix length", text.as_bytes(), "", u64::MAX / 8)
}

fn limited(what: &str, text: &[u8], units: &str, most: u64) -> Result<u64, Refusal> {
    match number::parse(text, units) {
        Ok(number) if number <= most => Ok(number),
        Err(NumberError::Invalid) => Err(Refusal::plain(format!("{what}: {}", marked(text)))),
        _ => Err(Refusal::plain(format!(
            "{what}: {}: {}",
            marked(text),
            words_of(rustix::io::Errno::OVERFLOW)
        ))),
    }
}

fn out_of_range(what: &str, text: &[u8]) -> Refusal {
    Refusal::plain(format!("{what}: {}: {}", marked(text), words_of(rustix::io::Errno::RANGE)))
}

fn words_of(errno: rustix::io::Errno) -> String {
    crate::quote::words(errno).to_string()
}
