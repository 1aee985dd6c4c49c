//! One option of a tool's table.

use std::ffi::OsString;
use std::fmt::Display;

use super::choice::{Choice, meant};
use super::line::Line;
use super::refusal::Refusal;
use crate::quote::quoted;

/// The value that an option takes, with its name in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagValue {
    Nothing,
    Value(&'static str),
    /// An optional value: only behind the `=` of a long option.
    Optional(&'static str),
}

/// The spellings of an option.
#[derive(Clone, Debug)]
pub(super) struct FlagNames {
    /// For example `-o, --output=FILE`, `-o FILE`, `--progress[=WHEN]`. Further long or short names
    /// are aliases that the help does not show.
    pub(super) spec: &'static str,
    pub(super) shorts: Vec<u8>,
    pub(super) longs: Vec<&'static str>,
    pub(super) takes: FlagValue,
}

impl FlagNames {
    fn of(spec: &'static str) -> FlagNames {
        let mut names =
            FlagNames { spec, shorts: Vec::new(), longs: Vec::new(), takes: FlagValue::Nothing };
        for part in spec.split(", ") {
            let (name, takes) = match part.split_once("[=").or_else(|| part.split_once(['=', ' ']))
            {
                Some((name, value)) => match value.strip_suffix(']') {
                    Some(value) => (name, FlagValue::Optional(value)),
                    None => (name, FlagValue::Value(value)),
                },
                None => (part, FlagValue::Nothing),
            };
            match name.strip_prefix("--") {
                Some(long) => names.longs.push(long),
                // Several letters are aliases.
                None => names.shorts.extend(name.trim_start_matches('-').bytes()),
            }
            names.takes = takes;
        }
        names
    }

    /// Returns the long name with its dashes, or the letter of an option that has none.
    pub(super) fn shown(&self) -> String {
        match (self.longs.first(), self.shorts.first()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(letter)) => format!("-{}", char::from(*letter)),
            (None, None) => String::new(),
        }
    }
}

/// Applies an option to the parsed command line, unless it rejects the option.
pub(crate) type Apply<L> = fn(&mut L, &mut GivenFlag<'_>) -> Result<(), Refusal>;

type Effect<L> = dyn Fn(&mut L, &mut GivenFlag<'_>) -> Result<(), Refusal>;

/// The action of an option.
pub(super) enum FlagAction<L> {
    Help,
    Version,
    Apply(Box<Effect<L>>),
}

/// An option: its spelling, its help text, and its action.
pub(crate) struct Flag<L> {
    pub(super) names: FlagNames,
    pub(super) help: &'static str,
    pub(super) heading: Option<&'static str>,
    pub(super) default: Option<&'static str>,
    /// The words that it accepts, with their help texts.
    pub(super) words: Vec<(&'static str, &'static str)>,
    pub(super) is_own: bool,
    pub(super) is_hidden: bool,
    pub(super) is_repeated: bool,
    pub(super) attached: fn(&[u8]) -> usize,
    pub(super) action: FlagAction<L>,
}

impl<L> Flag<L> {
    fn with(spec: &'static str, help: &'static str, action: FlagAction<L>) -> Flag<L> {
        Flag {
            names: FlagNames::of(spec),
            help,
            heading: None,
            default: None,
            words: Vec::new(),
            is_own: false,
            is_hidden: false,
            is_repeated: false,
            attached: <[u8]>::len,
            action,
        }
    }

    /// Shows the option below a heading of the help.
    pub(crate) fn below(self, heading: &'static str) -> Flag<L> {
        Flag { heading: Some(heading), ..self }
    }
}

/// Marks an option that dio adds to those of the original tool. An abbreviation that fits both
/// means the original's.
pub(crate) fn own<L>(flag: Flag<L>) -> Flag<L> {
    Flag { is_own: true, ..flag }
}

/// Hides an option from the help.
pub(crate) fn hidden<L>(flag: Flag<L>) -> Flag<L> {
    Flag { is_hidden: true, ..flag }
}

/// Marks an option that may be given several times.
pub(crate) fn repeated<L>(flag: Flag<L>) -> Flag<L> {
    Flag { is_repeated: true, ..flag }
}

/// Sets the default value that the help shows; `L::default()` must have that value.
pub(crate) fn by_default<L>(value: &'static str, flag: Flag<L>) -> Flag<L> {
    Flag { default: Some(value), ..flag }
}

/// Sets the words that the option accepts as its value.
pub(crate) fn among<L, T>(choices: &[Choice<T>], flag: Flag<L>) -> Flag<L> {
    Flag { words: choices.iter().map(|(name, _, help)| (*name, *help)).collect(), ..flag }
}

/// Limits an attached value to so many of the letters behind the option; the rest are options
/// again.
pub(crate) fn attached<L>(count: fn(&[u8]) -> usize, flag: Flag<L>) -> Flag<L> {
    Flag { attached: count, ..flag }
}

impl<L: 'static> Flag<L> {
    /// Adapts the option to an `M` that contains an `L`.
    pub(crate) fn within<M: 'static>(self, part: fn(&mut M) -> &mut L) -> Flag<M> {
        let action = match self.action {
            FlagAction::Help => FlagAction::Help,
            FlagAction::Version => FlagAction::Version,
            FlagAction::Apply(apply) => {
                FlagAction::Apply(Box::new(move |whole, given| apply(part(whole), given)))
            }
        };
        let Flag {
            names,
            help,
            heading,
            default,
            words,
            is_own,
            is_hidden,
            is_repeated,
            attached,
            ..
        } = self;
        Flag {
            names,
            help,
            heading,
            default,
            words,
            is_own,
            is_hidden,
            is_repeated,
            attached,
            action,
        }
    }
}

/// Makes the option that prints help.
pub(crate) fn help<L>(spec: &'static str) -> Flag<L> {
    Flag::with(spec, "Print help", FlagAction::Help)
}

/// Makes the option that prints the version.
pub(crate) fn version<L>(spec: &'static str) -> Flag<L> {
    Flag::with(spec, "Print version", FlagAction::Version)
}

/// Makes an option that may be rejected, or that reads the words behind it.
pub(crate) fn checked<L: 'static>(
    spec: &'static str,
    help: &'static str,
    apply: Apply<L>,
) -> Flag<L> {
    Flag::with(spec, help, FlagAction::Apply(Box::new(apply)))
}

/// Does the same for a closure that captures variables; its parameter types must be written out.
pub(crate) fn effect<L: 'static>(
    spec: &'static str,
    help: &'static str,
    apply: impl Fn(&mut L, &mut GivenFlag<'_>) -> Result<(), Refusal> + 'static,
) -> Flag<L> {
    Flag::with(spec, help, FlagAction::Apply(Box::new(apply)))
}

/// Makes an option without a value.
pub(crate) fn switch<L: 'static>(
    spec: &'static str,
    help: &'static str,
    set: fn(&mut L),
) -> Flag<L> {
    applied(spec, help, move |low, _| set(low))
}

/// Makes an option that is accepted without effect.
pub(crate) fn accepted<L: 'static>(spec: &'static str, help: &'static str) -> Flag<L> {
    applied(spec, help, |_, _| ())
}

/// Makes an option with a value.
pub(crate) fn value<L: 'static>(
    spec: &'static str,
    help: &'static str,
    set: fn(&mut L, OsString),
) -> Flag<L> {
    applied(spec, help, move |low, given| set(low, given.take()))
}

/// Makes an option with a value that must be UTF-8.
pub(crate) fn text<L: 'static>(
    spec: &'static str,
    help: &'static str,
    set: fn(&mut L, String),
) -> Flag<L> {
    effect(spec, help, move |low, given| {
        let value = given.take().into_string();
        let wrong = |value: OsString| {
            Refusal::usage(format!(
                "invalid value {} for '{}': it is no text",
                quoted(value),
                given.name()
            ))
        };
        set(low, value.map_err(wrong)?);
        Ok(())
    })
}

/// Makes an option with an optional value.
pub(crate) fn optional<L: 'static>(
    spec: &'static str,
    help: &'static str,
    set: fn(&mut L, Option<OsString>),
) -> Flag<L> {
    applied(spec, help, move |low, given| set(low, given.value.take()))
}

/// Makes an option whose value, if it is given, is one of a list of words.
pub(crate) fn word<L: 'static, T: Copy + PartialEq + 'static>(
    spec: &'static str,
    help: &'static str,
    choices: &'static [Choice<T>],
    set: fn(&mut L, Option<T>),
) -> Flag<L> {
    let apply = move |low: &mut L, given: &mut GivenFlag<'_>| {
        let chosen = given.value.take().map(|word| meant(&given.names.shown(), &word, choices));
        set(low, chosen.transpose()?);
        Ok(())
    };
    among(choices, Flag::with(spec, help, FlagAction::Apply(Box::new(apply))))
}

/// Makes an option of dio's own, whose value, if it is given, is text that is parsed into a `T`.
pub(crate) fn parsed<L: 'static, T: 'static, E: Display + 'static>(
    spec: &'static str,
    help: &'static str,
    parse: fn(&str) -> Result<T, E>,
    set: fn(&mut L, Option<T>),
) -> Flag<L> {
    let apply = move |low: &mut L, given: &mut GivenFlag<'_>| {
        let value = given.value.take().map(|value| {
            let text = value.to_str().ok_or_else(|| "it is no text".to_owned());
            text.and_then(|text| parse(text).map_err(|error| error.to_string())).map_err(|why| {
                let name = given.names.shown();
                Refusal::usage(format!("invalid value '{}' for '{name}': {why}", value.display()))
            })
        });
        set(low, value.transpose()?);
        Ok(())
    };
    own(Flag::with(spec, help, FlagAction::Apply(Box::new(apply))))
}

fn applied<L: 'static>(
    spec: &'static str,
    help: &'static str,
    apply: impl Fn(&mut L, &mut GivenFlag<'_>) + 'static,
) -> Flag<L> {
    let apply = move |low: &mut L, given: &mut GivenFlag<'_>| {
        apply(low, given);
        Ok(())
    };
    Flag::with(spec, help, FlagAction::Apply(Box::new(apply)))
}

/// An option as it was given on the command line.
#[derive(Debug)]
pub(crate) struct GivenFlag<'g> {
    pub(super) names: &'g FlagNames,
    /// The letter, if it was given as a short option.
    pub(crate) letter: Option<u8>,
    /// The value, if there is one.
    pub(crate) value: Option<OsString>,
    /// Whether the value was a separate word.
    pub(crate) separate: bool,
    /// The rest of the command line.
    pub(crate) line: &'g mut Line,
}

impl GivenFlag<'_> {
    /// Returns the value of an option that has one.
    pub(crate) fn take(&mut self) -> OsString {
        self.value.take().unwrap_or_default()
    }

    /// Returns the letter of an option that has one, even if the long name was given.
    pub(crate) fn short(&self) -> u8 {
        self.letter.or(self.names.shorts.first().copied()).unwrap_or_default()
    }

    /// Returns the long name of an option that has one, even if the letter was given.
    pub(crate) fn full_name(&self) -> String {
        self.names.shown()
    }

    /// Returns the option as it was given, but unabbreviated: `-S` or `--buffer-size`.
    pub(crate) fn name(&self) -> String {
        match self.letter {
            Some(letter) => format!("-{}", char::from(letter)),
            None => self.names.shown(),
        }
    }
}
