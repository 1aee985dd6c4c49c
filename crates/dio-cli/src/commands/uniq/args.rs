//! The grammar of `dio uniq`: GNU uniq's options and those common to all tools. `options` decides
//! what they mean together.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::key::ComparedPart;
use super::print::{Before, EmptyLines};
use crate::grammar::{
    Choice, Flag, Grammar, Refusal, checked, help, hidden, posix_of_2001, switch, version, word,
};
use crate::quote::marked;
use crate::tool::{IoArgs, in_place_flag, io_flags};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct UniqArgs {
    pub(super) count: bool,
    pub(super) repeated: bool,
    pub(super) unique: bool,
    pub(super) zero_terminated: bool,
    pub(super) all_repeated: Option<Before>,
    pub(super) group: Option<EmptyLines>,
    pub(super) part: ComparedPart,
    /// The number of fields was set by `-f`, so a digit after it starts a new number.
    fields_are_whole: bool,
    pub(super) in_place: bool,
    pub(super) input: Option<OsString>,
    pub(super) output: Option<OsString>,
    pub(super) io: IoArgs,
}

const ALL_REPEATED: &[Choice<Before>] = &[
    ("none", Before::None, ""),
    ("prepend", Before::Prepend, ""),
    ("separate", Before::Separate, ""),
];

const GROUP: &[Choice<EmptyLines>] = &[
    ("prepend", EmptyLines::Prepend, ""),
    ("append", EmptyLines::Append, ""),
    ("separate", EmptyLines::Separate, ""),
    ("both", EmptyLines::Both, ""),
];

const DETAILS: &str = "\
With no INPUT, or where INPUT is -, standard input is read; with no OUTPUT, standard output is \
written. Only neighbours are compared: equal lines elsewhere are found after sorting.

Fields are runs of blanks with the text that follows each; they are skipped before bytes.

-N and +N mean -f N and -s N.";

pub(super) fn grammar() -> Grammar<UniqArgs> {
    Grammar::<UniqArgs>::new(
        "uniq",
        "Leave out or count lines that are as the one before, past the page cache",
        DETAILS,
    )
    .flags(group_flags())
    .flags(comparison_flags())
    .flags([
        switch(
            "-u, --unique",
            "Print only lines that differ from those before and behind",
            |uniq| {
                uniq.unique = true;
            },
        ),
        switch("-z, --zero-terminated", "Lines end in NUL, not newline", |uniq| {
            uniq.zero_terminated = true
        }),
        help("--help"),
        version("--version"),
    ])
    .flags(io_flags(|uniq| &mut uniq.io))
    .flags([in_place_flag(|uniq| uniq.in_place = true)])
    .operands(&[("INPUT", "The file to read"), ("OUTPUT", "The file to write")], |uniq, file| {
        let Some(free) = [&mut uniq.input, &mut uniq.output].into_iter().find(|one| one.is_none())
        else {
            return Err(Refusal::usage(format!("extra operand {}", marked(file.as_bytes()))));
        };
        *free = Some(file);
        Ok(())
    })
    .old(|uniq, word, _| {
        let number = word.as_bytes().strip_prefix(b"+").filter(|_| !posix_of_2001());
        // GNU uniq treats it as a file if the number is too large.
        let small = number.and_then(|digits| str::from_utf8(digits).ok()?.parse::<u64>().ok());
        let fits = |text: &&[u8]| small.is_some() && text.first().is_some_and(u8::is_ascii_digit);
        let skip = number.filter(fits).and(small);
        uniq.part.skip = skip.unwrap_or(uniq.part.skip);
        Ok(skip.is_some())
    })
    .options_first_in_posix()
}

/// The options that choose what is printed of each group.
fn group_flags() -> [Flag<UniqArgs>; 5] {
    [
        switch("-c, --count", "Put the number of lines before each group", |uniq| {
            uniq.count = true
        }),
        switch(
            "-d, --repeated",
            "Print only groups of more than one line, the first of each",
            |uniq| {
                uniq.repeated = true;
            },
        ),
        switch("-D", "Print all lines of groups of more than one", |uniq| {
            uniq.all_repeated = Some(Before::None)
        }),
        word(
            "--all-repeated[=METHOD]",
            "The same, with an empty line before each group (prepend), between groups (separate) \
             or nowhere (none)",
            ALL_REPEATED,
            |uniq, method| uniq.all_repeated = Some(method.unwrap_or(Before::None)),
        ),
        word(
            "--group[=METHOD]",
            "Print all lines, with an empty line between groups (separate), before or behind each \
             (prepend, append) or both [default: separate]",
            GROUP,
            |uniq, method| uniq.group = Some(method.unwrap_or(EmptyLines::Separate)),
        ),
    ]
}

/// The options that choose what is compared of each line.
fn comparison_flags() -> [Flag<UniqArgs>; 5] {
    [
        checked(
            "-f, --skip-fields=N",
            "Leave the first N fields out of the comparison",
            |uniq, given| {
                uniq.part.fields = number(&given.take(), "invalid number of fields to skip")?;
                uniq.fields_are_whole = true;
                Ok(())
            },
        ),
        hidden(checked(
            "-0123456789",
            "A digit of the number of fields to leave out",
            |uniq, given| {
                let before =
                    if std::mem::take(&mut uniq.fields_are_whole) { 0 } else { uniq.part.fields };
                let digit = u64::from(given.letter.unwrap_or(b'0') - b'0');
                let longer = before.checked_mul(10).and_then(|tens| tens.checked_add(digit));
                uniq.part.fields = longer.unwrap_or(u64::MAX);
                Ok(())
            },
        )),
        checked(
            "-s, --skip-chars=N",
            "Leave the first N bytes out of the comparison",
            |uniq, given| {
                uniq.part.skip = number(&given.take(), "invalid number of bytes to skip")?;
                Ok(())
            },
        ),
        checked("-w, --check-chars=N", "Compare at most N bytes", |uniq, given| {
            uniq.part.width = number(&given.take(), "invalid number of bytes to compare")?;
            Ok(())
        }),
        switch("-i, --ignore-case", "Take upper and lower case of letters for the same", |uniq| {
            uniq.part.fold = true;
        }),
    ]
}

/// Parses a number as `strtoumax(3)` does, but rejects a minus sign. A number that is too large
/// becomes the largest one.
fn unsigned(text: &[u8]) -> Option<u64> {
    let blanks =
        text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
    let text = &text[blanks..];
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let value =
        |value: u64, digit: &u8| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
        .then(|| digits.iter().fold(0, value))
}

fn number(text: &OsStr, wrong: &str) -> Result<u64, Refusal> {
    // GNU uniq does not quote the value.
    unsigned(text.as_bytes())
        .ok_or_else(|| Refusal::plain([text.as_bytes(), b": ", wrong.as_bytes()].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Line;

    fn read(line: &str) -> UniqArgs {
        let mut args = UniqArgs::default();
        let grammar = grammar();
        grammar
            .fold(&mut args, &mut Line::new(line.split(' ').map(OsString::from)))
            .unwrap_or_else(|stop| {
                panic!("{line}: {stop:?}");
            });
        args
    }

    #[test]
    fn digits_among_options_are_fields() {
        for (line, fields) in [
            ("-5", 5),
            ("-1c2 in", 12),
            ("-1 -c -2", 12),
            ("-1 -f 3", 3),
            ("-1 -f 3 -2", 2),
            ("-1 --skip-f 3 -2", 2),
            ("-1 -cf3 -2", 2),
            ("-99999999999999999999999", u64::MAX),
            ("--count -5", 5),
            ("--group -5", 5),
        ] {
            assert_eq!(read(line).part.fields, fields, "{line}");
        }
        assert!(read("-1c2 in").count && read("-1c2 in").input.is_some());
    }

    #[test]
    fn an_operand_with_a_plus_sign_is_a_number_of_bytes() {
        let plain = ComparedPart::default();
        for (line, skip, input, output) in [
            ("+5 in", 5, Some("in"), None),
            ("in +5 out", 5, Some("in"), Some("out")),
            ("+1x", 0, Some("+1x"), None),
            ("+", 0, Some("+"), None),
            ("++1", 0, Some("++1"), None),
            ("+18446744073709551615", u64::MAX, None, None),
            ("+18446744073709551616", 0, Some("+18446744073709551616"), None),
            ("-- +5", 0, Some("+5"), None),
        ] {
            let args = read(line);
            assert_eq!(args.part, ComparedPart { skip, ..plain }, "{line}");
            assert_eq!(
                (args.input, args.output),
                (input.map(Into::into), output.map(Into::into)),
                "{line}"
            );
        }
        assert_eq!(read("-s +5").part.skip, 5);
    }

    #[test]
    fn what_belongs_to_other_options_stays() {
        assert_eq!(
            read("--skip-chars=5 -w5 in").part,
            ComparedPart { skip: 5, width: 5, ..ComparedPart::default() }
        );
        assert_eq!((read("-- -5").input, read("-").input), (Some("-5".into()), Some("-".into())));
    }

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
