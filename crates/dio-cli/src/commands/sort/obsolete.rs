//! What GNU sort's command line has that no grammar of today does: keys as `+POS1 -POS2`, and `-y`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::args::{BETWEEN, OBSOLETE, SortArgs};
use super::spec::Spec;
use crate::tool::obsolete::{Grammar, cut, posix_of_2001, put};

/// What the environment says about obsolete keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Customs {
    /// `+POS1` is a key even without `-POS2`: unless POSIX of 2001 is to be conformed to.
    alone: bool,
    /// It is one with `-POS2` in any case.
    with_end: bool,
}

impl Customs {
    /// As the environment has it (`POSIXLY_CORRECT`, `_POSIX2_VERSION`).
    pub(super) fn of_environment() -> Customs {
        let alone = !posix_of_2001();
        Customs { alone, with_end: alone || std::env::var_os("POSIXLY_CORRECT").is_none() }
    }
}

/// The arguments behind the name of the tool, in today's form: obsolete keys as one option, no `-y`, and `-t '='` for `-t=`,
/// where clap would take the sign for a part of the syntax.
pub(super) fn modern(args: &[OsString], customs: Customs) -> Vec<OsString> {
    let grammar = Grammar::of::<SortArgs>();
    let mut out: Vec<OsString> = Vec::with_capacity(args.len() + 1);
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        let value_follows = match arg.as_bytes() {
            b"--" => {
                out.push(arg.clone());
                break;
            }
            [b'-', b'-', name @ ..] => {
                out.push(arg.clone());
                grammar.long_takes(name)
            }
            [b'-', letters @ ..] if !letters.is_empty() => {
                let (flags, value) = cut(letters, |letter| letter == b'y' || grammar.short_takes(letter));
                if let [flags @ .., b'y'] = flags {
                    put(flags, &[], &mut out);
                    if value.is_empty() {
                        args.next_if(|next| next.as_bytes().iter().all(u8::is_ascii_digit));
                    }
                    continue;
                }
                put(flags, value, &mut out);
                value.is_empty() && flags.last().is_some_and(|letter| grammar.short_takes(*letter))
            }
            [b'+', start @ ..] => {
                let is_end = |next: &&OsString| matches!(next.as_bytes(), [b'-', b'0'..=b'9', ..]);
                let ends = args.peek().is_some_and(is_end);
                let allowed = customs.alone || (ends && customs.with_end);
                if !allowed || Spec::of_obsolete_start(start).is_none() {
                    out.push(arg.clone());
                    continue;
                }
                let mut key = [OBSOLETE.as_bytes(), start].concat();
                if let Some(end) = args.next_if(|_| ends) {
                    key.push(BETWEEN);
                    key.extend_from_slice(&end.as_bytes()[1..]);
                }
                out.push(OsString::from_vec(key));
                false
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

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str, alone: bool) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let out = modern(&args, Customs { alone, with_end: true });
        out.join(" ".as_ref()).into_string().unwrap().replace('\0', "|")
    }

    #[test]
    fn old_keys_become_options() {
        for (old, new) in [
            ("+1", "--obsolete-key=1"),
            ("+1 -2 in", "--obsolete-key=1|2 in"),
            ("in +1.2n -3.4b -n", "in --obsolete-key=1.2n|3.4b -n"),
            ("+1 -n", "--obsolete-key=1 -n"),
            ("+x -2", "+x -2"),
            ("-k +1", "-k +1"),
            ("-nk +1 +2", "-nk +1 --obsolete-key=2"),
            ("--key +1", "--key +1"),
            ("--key=3 +1", "--key=3 --obsolete-key=1"),
            ("-- +1 -2", "-- +1 -2"),
            ("-y 5 in", "in"),
            ("-y5 in", "in"),
            ("-ny x", "-n x"),
            ("-t= -o=x", "-t = -o =x"),
            ("--check +1", "--check --obsolete-key=1"),
        ] {
            assert_eq!(written(old, true), new, "{old}");
        }
        assert_eq!(written("+1 in", false), "+1 in");
        assert_eq!(written("+1 -2 in", false), "--obsolete-key=1|2 in");
    }
}
