//! The flags of `dio uniq`, validated, with GNU uniq's words for what is wrong with them.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use super::args::{Flag, UniqArgs};
use super::filter::{Around, Before, What};
use super::key::Part;
use crate::quote::marked;

/// Everything that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) what: What,
    pub(super) part: Part,
    pub(super) delimiter: u8,
    /// `-` is standard input.
    pub(super) input: OsString,
    /// `-` is standard output.
    pub(super) output: OsString,
    /// An existing output is overwritten.
    pub(super) in_place: bool,
}

/// Why nothing is done: a message, which may hold bytes that are no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Told as it is.
    Plain(Vec<u8>),
    /// Told with where to find help.
    Hint(Vec<u8>),
}

impl Refusal {
    fn hint(message: impl Into<Vec<u8>>) -> Refusal {
        Refusal::Hint(message.into())
    }
}

const ALL_REPEATED: [(&str, Before); 3] =
    [("none", Before::None), ("prepend", Before::Prepend), ("separate", Before::Separate)];

const GROUP: [(&str, Around); 4] =
    [("prepend", Around::Prepend), ("append", Around::Append), ("separate", Around::Separate), ("both", Around::Both)];

impl Options {
    /// Checks the flags and decides what they mean together.
    pub(super) fn of(args: UniqArgs) -> Result<Options, Refusal> {
        let mut part = Part { fold: args.ignore_case, ..Part::WHOLE };
        let (mut all, mut group) = (None, None);
        for flag in &args.ordered.0 {
            match flag {
                Flag::AllRepeated(None) => all = Some(Before::None),
                Flag::AllRepeated(Some(word)) => all = Some(method(word, "--all-repeated", &ALL_REPEATED)?),
                Flag::Group(None) => group = Some(Around::Separate),
                Flag::Group(Some(word)) => group = Some(method(word, "--group", &GROUP)?),
                Flag::SkipFields(text) => part.fields = number(text, "invalid number of fields to skip")?,
                Flag::SkipChars(text) => part.skip = number(text, "invalid number of bytes to skip")?,
                Flag::CheckChars(text) => part.width = number(text, "invalid number of bytes to compare")?,
            }
        }
        if let Some(extra) = args.extra.first() {
            return Err(Refusal::hint(format!("extra operand {}", marked(extra.as_bytes()))));
        }
        let (single, repeated) = (!args.repeated && all.is_none(), !args.unique);
        let what = match (group, all) {
            (Some(_), _) if args.count || args.repeated || args.unique || all.is_some() => {
                return Err(Refusal::hint("--group is mutually exclusive with -c/-d/-D/-u"));
            }
            (_, Some(_)) if args.count => {
                let message = "printing all duplicated lines and repeat counts is meaningless";
                return Err(Refusal::hint(message));
            }
            (Some(around), _) => What::Grouped(around),
            (None, Some(before)) => What::Repeated { last: repeated, before },
            (None, None) if single && repeated && !args.count => What::First,
            (None, None) => What::Counted { count: args.count, single, repeated },
        };
        let file = |operand: Option<OsString>| operand.unwrap_or_else(|| "-".into());
        let delimiter = if args.zero_terminated { 0 } else { b'\n' };
        let in_place = args.in_place.in_place;
        Ok(Options { what, part, delimiter, input: file(args.input), output: file(args.output), in_place })
    }
}

/// A number as `strtoumax(3)` reads it, without a sign that means less than nothing; one too large is the largest there is.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
    let text = &text[blanks..];
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let value = |value: u64, digit: &u8| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| digits.iter().fold(0, value))
}

fn number(text: &OsStr, wrong: &str) -> Result<u64, Refusal> {
    // GNU uniq does not quote it.
    unsigned(text.as_bytes()).ok_or_else(|| Refusal::Plain([text.as_bytes(), b": ", wrong.as_bytes()].concat()))
}

/// The method of that name, or that alone begins so.
fn method<M: Copy + PartialEq>(word: &OsStr, option: &str, methods: &[(&str, M)]) -> Result<M, Refusal> {
    let word = word.as_bytes();
    let mut found = methods.iter().filter(|(name, _)| name.as_bytes().starts_with(word));
    let what = match (found.next(), found.next()) {
        (Some((_, method)), None) => return Ok(*method),
        (Some(_), Some(_)) => "ambiguous",
        (None, _) => "invalid",
    };
    let mut message = format!("{what} argument {} for {}\nValid arguments are:", marked(word), marked(option));
    for (name, _) in methods {
        let _ = write!(message, "\n  - {}", marked(name));
    }
    Err(Refusal::hint(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_c_library() {
        for (text, value) in [
            ("0", Some(0)),
            (" \t+7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("+", None),
            ("-1", None),
            ("-0", None),
            ("1 ", None),
            ("1k", None),
            ("++1", None),
        ] {
            assert_eq!(unsigned(text.as_bytes()), value, "{text:?}");
        }
    }
}
