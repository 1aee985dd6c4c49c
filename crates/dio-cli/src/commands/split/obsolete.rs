//! What GNU split's command line has that no grammar of today does: `-NUMBER`, and little besides.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::args::SplitArgs;
use super::options::Refusal;
use crate::quote::marked;
use crate::tool::obsolete::{Grammar, cut, put};

/// The arguments behind the name of the tool, in today's form: `--lines=NUMBER` for digits among short options, of which
/// the last argument with some counts; `-t '='` for `-t=`, where clap would take the sign for a part of the syntax; and
/// `--io-blksize` for `---io-blksize`, which GNU split keeps to itself.
///
/// # Errors
/// A number of lines that is none, in GNU's words.
pub(super) fn modern(args: &[OsString]) -> Result<Vec<OsString>, Refusal> {
    let grammar = Grammar::of::<SplitArgs>();
    let mut out: Vec<OsString> = Vec::with_capacity(args.len() + 1);
    // Where the number of lines is, and what it is.
    let mut lines: Option<(usize, u64)> = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value_follows = match arg.as_bytes() {
            b"--" => {
                out.push(arg.clone());
                break;
            }
            [b'-', b'-', name @ ..] => {
                let hidden = name.strip_prefix(b"-").filter(|name| name.starts_with(b"io-blksize"));
                let name = hidden.unwrap_or(name);
                out.push(OsString::from_vec([b"--", name].concat()));
                grammar.long_takes(name)
            }
            [b'-', letters @ ..] if !letters.is_empty() => {
                let (flags, value) = cut(letters, |letter| grammar.short_takes(letter));
                let (digits, flags): (Vec<u8>, Vec<u8>) = flags.iter().copied().partition(u8::is_ascii_digit);
                if !digits.is_empty() {
                    if let Some((before, _)) = lines {
                        out.remove(before);
                    }
                    lines = Some((out.len(), number(&digits)?));
                    out.push(OsString::from_vec([b"--lines=", &*digits].concat()));
                }
                put(&flags, value, &mut out);
                value.is_empty() && flags.last().is_some_and(|letter| grammar.short_takes(*letter))
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
    match lines {
        Some((_, 0)) => Err(Refusal::Hint(format!("invalid number of lines: {}", marked(b"0")))),
        _ => Ok(out),
    }
}

/// The value of the digits of one argument.
fn number(digits: &[u8]) -> Result<u64, Refusal> {
    digits.iter().map(|digit| digit - b'0').try_fold(0u64, |before, digit| {
        let tens = before.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit)));
        // As many digits as fitted are told, and this one.
        tens.ok_or_else(|| Refusal::Plain(format!("line count option -{before}{digit}... is too large")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str) -> Result<String, Refusal> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Ok(modern(&args)?.join(" ".as_ref()).into_string().unwrap())
    }

    #[test]
    fn digits_among_options_are_a_number_of_lines() {
        for (old, new) in [
            ("-5", "--lines=5"),
            ("-5 in", "--lines=5 in"),
            ("in -12d -", "in --lines=12 -d -"),
            ("-d5", "--lines=5 -d"),
            ("-2d3", "--lines=23 -d"),
            ("-5b3", "--lines=5 -b3"),
            ("-5b", "--lines=5 -b"),
            ("-1 -e -02", "-e --lines=02"),
            ("-1 -l 3 -2", "-l 3 --lines=2"),
            ("-0 -1", "--lines=1"),
            ("-5Z", "--lines=5 -Z"),
        ] {
            assert_eq!(written(old).as_deref(), Ok(new), "{old}");
        }
    }

    #[test]
    fn digits_elsewhere_are_not() {
        for same in [
            "-a5d",
            "-da5",
            "-a -5",
            "-da -5",
            "-b -1 -C -2 -t -3",
            "--lines -5",
            "--filter -5",
            "--fil -5 --b -3",
            "-- -5",
            "-d -- -5",
            "in 5",
            "--mode -5",
            "- -b5",
            "--lines=3 -d",
        ] {
            assert_eq!(written(same).as_deref(), Ok(same));
        }
        // These take no argument, or none from the next word.
        for (old, new) in [
            ("--verbose -5", "--verbose --lines=5"),
            ("--numeric-suffixes -5", "--numeric-suffixes --lines=5"),
            ("--lines=3 -5", "--lines=3 --lines=5"),
            ("-x -5", "-x --lines=5"),
            ("--progress -5", "--progress --lines=5"),
        ] {
            assert_eq!(written(old).as_deref(), Ok(new), "{old}");
        }
    }

    #[test]
    fn no_number_of_lines_is_refused() {
        assert_eq!(written("-00"), Err(Refusal::Hint(format!("invalid number of lines: {}", marked(b"0")))));
        assert_eq!(written("-1 -0"), written("-0"));
        assert_eq!(written("-18446744073709551615").as_deref(), Ok("--lines=18446744073709551615"));
        let told = "line count option -18446744073709551616... is too large";
        assert_eq!(written("-184467440737095516161"), Err(Refusal::Plain(told.to_owned())));
    }

    #[test]
    fn an_equals_sign_may_be_an_argument() {
        for (old, new) in [("-t=", "-t ="), ("-dt=", "-dt ="), ("-l=3 in", "-l =3 in"), ("-d=5", "--lines=5 -d=")] {
            assert_eq!(written(old).as_deref(), Ok(new), "{old}");
        }
        assert_eq!(written("---io-blksize=5 ---io-blksize -6").as_deref(), Ok("--io-blksize=5 --io-blksize -6"));
    }
}
