//! What GNU uniq's command line has that no grammar of today does: `-N` and `+N`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::args::UniqArgs;
use super::options::unsigned;
use crate::tool::obsolete::{Grammar, cut, posix_of_2001, put};

/// What the environment says about command lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// Options end at the first operand (`POSIXLY_CORRECT`).
    pub(super) options_first: bool,
    /// `+N` is a file (`_POSIX2_VERSION` is one that says so).
    pub(super) plus_is_a_file: bool,
}

impl Rules {
    pub(super) fn of_environment() -> Rules {
        Rules { options_first: std::env::var_os("POSIXLY_CORRECT").is_some(), plus_is_a_file: posix_of_2001() }
    }
}

/// Digits among short options: fields to skip, which may come in several arguments.
#[derive(Debug, Default)]
struct Fields {
    number: Option<u64>,
    /// Where they stand in the new command line.
    at: usize,
}

impl Fields {
    /// One more digit. After `-f` a new number begins.
    fn digit(&mut self, digit: u8) {
        let number = self.number.unwrap_or(0);
        let longer = number.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
        self.number = Some(longer.unwrap_or(u64::MAX));
    }

    /// The number so far, where the last of its digits is.
    fn put(&mut self, before: bool, out: &mut Vec<OsString>) {
        if before {
            out.remove(self.at);
        }
        self.at = out.len();
        out.extend(self.number.map(|number| format!("--skip-fields={number}").into()));
    }
}

/// The arguments behind the name of the tool, in today's form: `--skip-fields=N` for digits among short options,
/// `--skip-chars=N` for an operand `+N`, and `-f '='` for `-f=`, where clap would take the sign for a part of the syntax.
pub(super) fn modern(args: &[OsString], rules: Rules) -> Vec<OsString> {
    let grammar = Grammar::of::<UniqArgs>();
    let mut out: Vec<OsString> = Vec::with_capacity(args.len() + 1);
    let mut fields = Fields::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value_follows = match arg.as_bytes() {
            b"--" => {
                out.push(arg.clone());
                break;
            }
            [b'-', b'-', name @ ..] => {
                let own = name.split(|byte| *byte == b'=').next().unwrap_or_default();
                if own.starts_with(b"skip-f") && "skip-fields".as_bytes().starts_with(own) {
                    fields.number = None;
                }
                out.push(arg.clone());
                grammar.long_takes(name)
            }
            [b'-', letters @ ..] if !letters.is_empty() => cluster(letters, &grammar, &mut fields, &mut out),
            [b'+', number @ ..]
                if !rules.plus_is_a_file && number.first().is_some_and(u8::is_ascii_digit) && fits(number) =>
            {
                out.push(OsString::from_vec([b"--skip-chars=", number].concat()));
                false
            }
            _ if rules.options_first => {
                out.extend(["--".into(), arg.clone()]);
                break;
            }
            _ => {
                out.push(arg.clone());
                false
            }
        };
        if value_follows {
            out.extend(args.next().cloned());
        }
    }
    out.extend(args.cloned());
    out
}

/// Short options in one argument. Returns whether the value of the last is the next argument.
fn cluster(letters: &[u8], grammar: &Grammar, fields: &mut Fields, out: &mut Vec<OsString>) -> bool {
    let (flags, value) = cut(letters, |letter| grammar.short_takes(letter));
    let (digits, flags): (Vec<u8>, Vec<u8>) = flags.iter().copied().partition(u8::is_ascii_digit);
    if !digits.is_empty() {
        let before = fields.number.is_some();
        digits.into_iter().for_each(|digit| fields.digit(digit));
        fields.put(before, out);
    }
    put(&flags, value, out);
    if flags.last() == Some(&b'f') {
        fields.number = None;
    }
    value.is_empty() && flags.last().is_some_and(|letter| grammar.short_takes(*letter))
}

/// Whether a number is one, and small enough for GNU uniq to take it for one.
fn fits(number: &[u8]) -> bool {
    std::str::from_utf8(number).is_ok_and(|text| text.parse::<u64>().is_ok()) && unsigned(number).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_by(rules: Rules, line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        modern(&args, rules).join(" ".as_ref()).into_string().unwrap()
    }

    fn written(line: &str) -> String {
        written_by(Rules::default(), line)
    }

    #[test]
    fn digits_among_options_are_fields() {
        for (old, new) in [
            ("-5", "--skip-fields=5"),
            ("-1c2 in", "--skip-fields=12 -c in"),
            ("-1 -c -2", "-c --skip-fields=12"),
            ("-1 -f 3", "--skip-fields=1 -f 3"),
            ("-1 -f 3 -2", "--skip-fields=1 -f 3 --skip-fields=2"),
            ("-1 --skip-f 3 -2", "--skip-fields=1 --skip-f 3 --skip-fields=2"),
            ("-1 -cf3 -2", "--skip-fields=1 -cf3 --skip-fields=2"),
            ("-99999999999999999999999", "--skip-fields=18446744073709551615"),
            ("--count -5", "--count --skip-fields=5"),
            ("--group -5", "--group --skip-fields=5"),
        ] {
            assert_eq!(written(old), new, "{old}");
        }
    }

    #[test]
    fn an_operand_with_a_plus_sign_is_a_number_of_bytes() {
        for (old, new) in [
            ("+5 in", "--skip-chars=5 in"),
            ("in +5 out", "in --skip-chars=5 out"),
            ("+1x", "+1x"),
            ("+", "+"),
            ("++1", "++1"),
            ("+18446744073709551615", "--skip-chars=18446744073709551615"),
            ("+18446744073709551616", "+18446744073709551616"),
            ("-- +5", "-- +5"),
            ("-s +5", "-s +5"),
        ] {
            assert_eq!(written(old), new, "{old}");
        }
        let rules = Rules { plus_is_a_file: true, ..Rules::default() };
        assert_eq!(written_by(rules, "+5 -1"), "+5 --skip-fields=1");
    }

    #[test]
    fn the_environment_may_end_options_at_the_first_operand() {
        let rules = Rules { options_first: true, ..Rules::default() };
        for (old, new) in [
            ("-c in -5", "-c -- in -5"),
            ("+5 -c - +5", "--skip-chars=5 -c -- - +5"),
            ("-1 -- -5", "--skip-fields=1 -- -5"),
        ] {
            assert_eq!(written_by(rules, old), new, "{old}");
        }
    }

    #[test]
    fn what_belongs_to_other_options_stays() {
        for same in ["-f -5", "-cs -5", "--check-chars -5", "--skip-chars=5", "-- -5", "--mode -5", "-w5", "in 5", "-"]
        {
            assert_eq!(written(same), same);
        }
        assert_eq!(written("-f=3 -cw="), "-f =3 -cw =");
    }
}
