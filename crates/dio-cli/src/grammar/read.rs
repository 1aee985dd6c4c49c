//! Reading a command line, as `getopt_long(3)` does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::flag::{Flag, FlagAction, FlagValue, GivenFlag};
use super::line::Line;
use super::stop::Stop;
use super::{Grammar, Refusal};

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

fn unreadable(message: &[&[u8]]) -> Stop {
    Stop::Unreadable(Refusal::usage(message.concat()))
}

impl<L: 'static> Grammar<L> {
    /// Parses the rest of a command line into `low`, from left to right.
    ///
    /// # Errors
    /// The first error, or the first request for help or the version.
    pub(crate) fn fold(&self, low: &mut L, line: &mut Line) -> Result<(), Stop> {
        let mut options = true;
        while let Some(word) = line.next_word() {
            match word.as_bytes() {
                b"--" if options => options = false,
                [b'-', b'-', name @ ..] if options => self.long(low, name, line)?,
                [b'-', letters @ ..] if options && !letters.is_empty() => {
                    line.set_letters(letters);
                    while let Some(&letter) = line.letters().first() {
                        line.take_letters(1);
                        self.short(low, letter, line)?;
                    }
                }
                _ => {
                    let is_old = match &self.old {
                        Some(old) if options => old(low, &word, line)?,
                        _ => false,
                    };
                    if !is_old {
                        (self.operand)(low, word)?;
                        options &= !self.options_first;
                    }
                }
            }
        }
        Ok(())
    }

    /// Parses the first word of a command line if it consists of option letters without a dash, as
    /// old tar took them. Their values are the following words, in the order of the letters.
    ///
    /// # Errors
    /// Errors of [`Grammar::fold`].
    pub(crate) fn fold_letters(&self, low: &mut L, line: &mut Line) -> Result<(), Stop> {
        let is_old = |word: &OsStr| !word.is_empty() && !word.as_bytes().starts_with(b"-");
        let Some(letters) = line.next_if(is_old) else { return Ok(()) };
        for &letter in letters.as_bytes() {
            let flag = self.flag_of(letter)?;
            let value = match flag.names.takes {
                FlagValue::Value(_) => {
                    let missing = || {
                        Refusal::usage(
                            [b"Old option '", &[letter][..], b"' requires an argument."].concat(),
                        )
                    };
                    Some(line.next_word().ok_or_else(missing)?)
                }
                _ => None,
            };
            flag.apply(
                low,
                GivenFlag { names: &flag.names, letter: Some(letter), value, separate: true, line },
            )?;
        }
        Ok(())
    }

    /// Takes the next word as a value.
    fn value(&self, line: &mut Line) -> Option<OsString> {
        line.next_if(|word| {
            !(self.is_literal && word.len() > 1 && word.as_bytes().starts_with(b"-"))
        })
    }

    fn flag_of(&self, letter: u8) -> Result<&Flag<L>, Stop> {
        let flag = self.flags.iter().find(|flag| flag.names.shorts.contains(&letter));
        flag.ok_or_else(|| unreadable(&[b"invalid option -- '", &[letter], b"'"]))
    }

    fn short(&self, low: &mut L, letter: u8, line: &mut Line) -> Result<(), Stop> {
        let flag = self.flag_of(letter)?;
        let mut given = GivenFlag {
            names: &flag.names,
            letter: Some(letter),
            value: None,
            separate: false,
            line,
        };
        if matches!(flag.names.takes, FlagValue::Value(_)) {
            let count = (flag.attached)(given.line.letters());
            given.value = given.line.attached(count);
            given.separate = given.value.is_none();
            if given.separate {
                let missing =
                    || unreadable(&[b"option requires an argument -- '", &[letter], b"'"]);
                given.value = Some(self.value(given.line).ok_or_else(missing)?);
            }
        }
        flag.apply(low, given)
    }

    /// Parses a long option; `text` is the word without its dashes.
    fn long(&self, low: &mut L, text: &[u8], line: &mut Line) -> Result<(), Stop> {
        let (name, value) = match text.iter().position(|byte| *byte == b'=') {
            Some(at) => (&text[..at], Some(OsStr::from_bytes(&text[at + 1..]).to_owned())),
            None => (text, None),
        };
        let flag = self.named(name, text)?;
        let shown = flag.names.shown();
        let mut given =
            GivenFlag { names: &flag.names, letter: None, value, separate: false, line };
        match (flag.names.takes, &given.value) {
            (FlagValue::Nothing, Some(_)) => {
                return Err(unreadable(&[
                    b"option '",
                    shown.as_bytes(),
                    b"' doesn't allow an argument",
                ]));
            }
            (FlagValue::Value(_), None) => {
                let missing =
                    || unreadable(&[b"option '", shown.as_bytes(), b"' requires an argument"]);
                (given.value, given.separate) =
                    (Some(self.value(given.line).ok_or_else(missing)?), true);
            }
            _ => {}
        }
        flag.apply(low, given)
    }

    /// Returns the long option of that name, or the only one with that prefix; `text` is the word
    /// as it was given.
    fn named(&self, name: &[u8], text: &[u8]) -> Result<&Flag<L>, Stop> {
        let named = |flag: &&Flag<L>| flag.names.longs.iter().any(|long| long.as_bytes() == name);
        if let Some(flag) = self.flags.iter().find(named) {
            return Ok(flag);
        }
        let begun = |flag: &&Flag<L>| {
            !self.is_literal && flag.names.longs.iter().any(|long| begins(long, name))
        };
        let all: Vec<&Flag<L>> = self.flags.iter().filter(begun).collect();
        // If a prefix fits options of the original tool, those win over dio's own.
        let model: Vec<&Flag<L>> = all.iter().copied().filter(|flag| !flag.is_own).collect();
        let possible = if model.is_empty() { all } else { model };
        match possible[..] {
            [flag] => Ok(flag),
            [] => Err(unreadable(&[b"unrecognized option '--", text, b"'"])),
            _ => {
                let longs = possible
                    .iter()
                    .flat_map(|flag| flag.names.longs.iter().find(|long| begins(long, name)));
                let longs: String = longs.map(|long| format!(" '--{long}'")).collect();
                Err(unreadable(&[
                    b"option '--",
                    text,
                    b"' is ambiguous; possibilities:",
                    longs.as_bytes(),
                ]))
            }
        }
    }
}

fn begins(long: &str, name: &[u8]) -> bool {
    long.as_bytes().starts_with(name)
}

impl<L> Flag<L> {
    fn apply(&self, low: &mut L, mut given: GivenFlag<'_>) -> Result<(), Stop> {
        match &self.action {
            FlagAction::Help => Err(Stop::Help),
            FlagAction::Version => Err(Stop::Version),
            FlagAction::Apply(apply) => Ok(apply(low, &mut given)?),
        }
    }
}
