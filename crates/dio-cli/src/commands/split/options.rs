//! The flags of `dio split`, validated, with GNU split's words for what is wrong with them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::getopt::{Grammar, Word};
use super::names::{Alphabet, Names, SuffixError, SuffixRules};
use super::number::{self, NumberError, SIZES};
use super::words::told;

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
    /// Flags that all tools of dio share, as they stood: `--flag` or `--flag=value`.
    pub(super) shared: Vec<OsString>,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What is wrong.
    Plain(String),
    /// What is wrong, with a hint to `--help`.
    Hint(String),
    /// Help was asked for.
    Help,
    /// The version was asked for.
    Version,
}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal::Hint(message)
    }
}

/// The flags as far as they have been read.
#[derive(Debug, Default)]
struct Reading {
    way: Option<Way>,
    /// The argument of the command line that the latest digit of an obsolete `-NUMBER` is in.
    digits_in: Option<usize>,
    suffix_length: u64,
    additional: OsString,
    alphabet: Option<Alphabet>,
    from: Option<Vec<u8>>,
    separator: Option<u8>,
    elide_empty: bool,
    unbuffered: bool,
    verbose: bool,
    filter: Option<OsString>,
    shared: Vec<OsString>,
}

impl Options {
    /// Reads the command line behind the name of the tool.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(super) fn read(grammar: &Grammar, args: &[OsString]) -> Result<Options, Refusal> {
        let mut reading = Reading::default();
        let operands = grammar.read(args, |word| reading.take(word))?;
        reading.finish(operands)
    }
}

impl Reading {
    fn take(&mut self, word: Word) -> Result<(), Refusal> {
        let (id, value) = match word {
            Word::Digit(digit, index) => return self.digit(digit, index),
            Word::Option(id, value) => (id, value),
        };
        let text = value.as_deref().unwrap_or_default();
        match id.as_str() {
            "bytes" => self.split(|| Ok(Way::Bytes(size(text)?))),
            "line_bytes" => self.split(|| Ok(Way::LineBytes(size(text)?))),
            "lines" => self.split(|| Ok(Way::Lines(positive("invalid number of lines", text.as_bytes(), "")?))),
            "number" => self.split(|| chunks(text)),
            "suffix_length" => {
                let what = "invalid suffix length";
                self.suffix_length = limited(what, text.as_bytes(), "", u64::MAX / 8)?;
                Ok(())
            }
            "additional_suffix" => self.additional_suffix(text),
            "numeric_suffixes" => self.suffixes(Alphabet::Decimal, value.as_deref()),
            "decimal" => self.suffixes(Alphabet::Decimal, None),
            "hex_suffixes" => self.suffixes(Alphabet::Hex, value.as_deref()),
            "hexadecimal" => self.suffixes(Alphabet::Hex, None),
            "separator" => self.separator(text),
            "io_blksize" => positive("invalid IO block size", text.as_bytes(), SIZES).map(drop),
            "elide_empty_files" => set(&mut self.elide_empty),
            "unbuffered" => set(&mut self.unbuffered),
            "verbose" => set(&mut self.verbose),
            "filter" => {
                self.filter = value;
                Ok(())
            }
            "help" => Err(Refusal::Help),
            "version" => Err(Refusal::Version),
            shared => {
                let mut flag = OsString::from(format!("--{shared}"));
                if let Some(value) = value {
                    flag.push("=");
                    flag.push(value);
                }
                self.shared.push(flag);
                Ok(())
            }
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

    /// One digit of `-NUMBER`. Digits of one argument belong together; those of another begin anew.
    fn digit(&mut self, digit: u8, index: usize) -> Result<(), Refusal> {
        let before = match (self.way, self.digits_in) {
            (None, _) => 0,
            (Some(Way::Lines(before)), Some(same)) if same == index => before,
            (Some(Way::Lines(_)), Some(_)) => 0,
            _ => return Err(Refusal::Hint("cannot split in more than one way".into())),
        };
        let lines = before.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit))).ok_or_else(|| {
            // As many digits as fitted are told, and this one.
            Refusal::Plain(format!("line count option -{before}{digit}... is too large"))
        })?;
        (self.way, self.digits_in) = (Some(Way::Lines(lines)), Some(index));
        Ok(())
    }

    fn additional_suffix(&mut self, suffix: &OsStr) -> Result<(), Refusal> {
        if suffix.as_bytes().contains(&b'/') {
            let shown = told(suffix.as_bytes());
            return Err(Refusal::Hint(format!("invalid suffix {shown}, contains directory separator")));
        }
        self.additional = suffix.to_owned();
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
            several => return Err(Refusal::Plain(format!("multi-character separator {}", told(several)))),
        };
        if self.separator.is_some_and(|before| before != separator) {
            return Err(Refusal::Plain("multiple separator characters specified".into()));
        }
        self.separator = Some(separator);
        Ok(())
    }

    fn finish(self, operands: Vec<OsString>) -> Result<Options, Refusal> {
        let way = self.way.unwrap_or(Way::Lines(1000));
        if way.only().is_some() && self.filter.is_some() {
            return Err(Refusal::Hint("--filter does not process a chunk extracted to stdout".into()));
        }
        if way == Way::Lines(0) {
            return Err(Refusal::Hint(format!("invalid number of lines: {}", told(b"0"))));
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
        let prefix = operands.get(1).cloned().unwrap_or_else(|| "x".into());
        let names = Names::new(&prefix, &rules);
        if let Err(SuffixError::TooShort(needed)) = names {
            return Err(Refusal::Plain(format!("the suffix length needs to be at least {needed}")));
        }
        if let Some(extra) = operands.get(2) {
            return Err(Refusal::Hint(format!("extra operand {}", told(extra.as_bytes()))));
        }
        let names = names
            .map_err(|_| Refusal::Hint("numerical suffix start value is too large for the suffix length".into()))?;
        Ok(Options {
            way,
            separator: self.separator.unwrap_or(b'\n'),
            elide_empty: self.elide_empty,
            unbuffered: self.unbuffered,
            verbose: self.verbose,
            filter: self.filter,
            input: operands.into_iter().next().unwrap_or_else(|| "-".into()),
            names,
            shared: self.shared,
        })
    }
}

fn set(flag: &mut bool) -> Result<(), Refusal> {
    *flag = true;
    Ok(())
}

fn bad_start(alphabet: Alphabet, digits: &[u8]) -> Refusal {
    let kind = if alphabet == Alphabet::Hex { "hexadecimal" } else { "numerical" };
    Refusal::Hint(format!("{}: invalid start value for {kind} suffix", told(digits)))
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
        Err(NumberError::Invalid) => Err(Refusal::Plain(format!("{what}: {}", told(text)))),
        _ => Err(Refusal::Plain(format!("{what}: {}: {}", told(text), words_of(rustix::io::Errno::OVERFLOW)))),
    }
}

fn out_of_range(what: &str, text: &[u8]) -> Refusal {
    Refusal::Plain(format!("{what}: {}: {}", told(text), words_of(rustix::io::Errno::RANGE)))
}

fn words_of(errno: rustix::io::Errno) -> String {
    crate::quote::words(errno).to_string()
}
