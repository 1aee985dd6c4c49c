//! The command-line parser of the tools that reimplement an existing tool, which the comments call
//! the original.
//!
//! Each tool has one table of its options: a [`Flag`] holds an option's spelling, its help text,
//! and its effect on the parsed values. `read` parses a command line by the table as
//! `getopt_long(3)` does (clusters, abbreviations, attached values, obsolete options), and rejects
//! errors with the messages of the C library. `describe` makes help, man pages and completions from
//! the same table. A [`Refusal`] is the error with which any part of a tool rejects a command line.

mod choice;
mod describe;
mod flag;
mod line;
mod name;
mod read;
mod refusal;
mod stop;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use crate::quote::quoted;
use flag::FlagAction;

pub(crate) use choice::{Choice, exact, meant};
pub(crate) use flag::{
    Flag, GivenFlag, accepted, among, attached, by_default, checked, effect, help, hidden,
    optional, own, parsed, repeated, switch, text, value, version, word,
};
pub(crate) use line::Line;
pub(crate) use name::{called_as, set_link, set_program};
pub(crate) use refusal::Refusal;
pub(crate) use stop::Stop;

/// Returns whether the environment requests POSIX of 2001 (`_POSIX2_VERSION`), which removed
/// obsolete usage; POSIX of 2008 allows it again.
pub(crate) fn posix_of_2001() -> bool {
    let version =
        std::env::var("_POSIX2_VERSION").ok().and_then(|version| version.parse::<i64>().ok());
    version.is_some_and(|version| (200_112..200_809).contains(&version))
}

/// A tool, as the command line of dio lists it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Returns the help, man page and completions of the tool of that name.
    pub(crate) describe: fn(&'static str) -> clap::Command,
    /// Runs the tool of that name with the words behind the name.
    pub(crate) run: fn(&'static str, Vec<OsString>) -> ExitCode,
}

/// Stores an operand.
type Operand<L> = fn(&mut L, OsString) -> Result<(), Refusal>;

type TakeOperand<L> = dyn Fn(&mut L, OsString) -> Result<(), Refusal>;

/// Parses a word that is an operand or an obsolete option; returns `true` if it was an option.
type ObsoleteParser<L> = fn(&mut L, &OsStr, &mut Line) -> Result<bool, Refusal>;

/// The options and operands of one tool, which are parsed into an `L`.
pub(crate) struct Grammar<L> {
    name: &'static str,
    about: &'static str,
    details: &'static str,
    usage: &'static str,
    after: &'static str,
    flags: Vec<Flag<L>>,
    operands: Vec<(&'static str, &'static str)>,
    operand: Box<TakeOperand<L>>,
    old: Option<ObsoleteParser<L>>,
    options_first: bool,
    is_literal: bool,
    /// The exit statuses for a command line that cannot be parsed, and for one that is rejected
    /// later.
    statuses: (u8, u8),
}

impl<L: 'static> Grammar<L> {
    /// Creates the grammar of the tool `name`, with a summary line and further details for the
    /// help.
    pub(crate) fn new(
        name: &'static str,
        about: &'static str,
        details: &'static str,
    ) -> Grammar<L> {
        Grammar {
            name,
            about,
            details,
            usage: "",
            after: "",
            flags: Vec::new(),
            operands: Vec::new(),
            operand: Box::new(|_, word| {
                Err(Refusal::usage(format!("extra operand {}", quoted(word))))
            }),
            old: None,
            options_first: false,
            is_literal: false,
            statuses: (1, 1),
        }
    }

    /// Adds options.
    pub(crate) fn flags<const N: usize>(mut self, flags: [Flag<L>; N]) -> Grammar<L> {
        self.flags.extend(flags);
        self
    }

    /// Adds options that the help shows below a heading.
    pub(crate) fn section<const N: usize>(
        self,
        heading: &'static str,
        flags: [Flag<L>; N],
    ) -> Grammar<L> {
        self.flags(flags.map(|flag| flag.below(heading)))
    }

    /// Rejects all options except those that `is_allowed` accepts by name.
    pub(crate) fn allowing(
        mut self,
        is_allowed: impl Fn(&str) -> bool,
        otherwise: &'static str,
    ) -> Grammar<L> {
        for flag in self.flags.iter_mut().filter(|flag| !is_allowed(&flag.names.shown())) {
            flag.action = FlagAction::Apply(Box::new(move |_, given| {
                Err(Refusal::usage(format!("{}: {otherwise}", given.name())))
            }));
        }
        self
    }

    /// Sets which options are dio's own, by name (`--mode`).
    pub(crate) fn own(mut self, is_own: impl Fn(&str) -> bool) -> Grammar<L> {
        self.flags.iter_mut().for_each(|flag| flag.is_own = is_own(&flag.names.shown()));
        self
    }

    /// Sets the operands and the function that stores them. Each operand has a name (`FILE...` for
    /// several, `<FILE>` for a required one) and a help text.
    pub(crate) fn operands(
        self,
        operands: &[(&'static str, &'static str)],
        take: Operand<L>,
    ) -> Grammar<L> {
        Grammar { operands: operands.to_vec(), operand: Box::new(take), ..self }
    }

    /// Declares that the operands are files, which are pushed to `list`.
    pub(crate) fn files(
        self,
        help: &'static str,
        list: fn(&mut L) -> &mut Vec<OsString>,
    ) -> Grammar<L> {
        let operand = move |low: &mut L, word| {
            list(low).push(word);
            Ok(())
        };
        Grammar { operands: vec![("FILE...", help)], operand: Box::new(operand), ..self }
    }

    /// Sets the parser of obsolete options that look like operands (`+1`).
    pub(crate) fn old(self, old: ObsoleteParser<L>) -> Grammar<L> {
        Grammar { old: Some(old), ..self }
    }

    /// Sets the text at the end of the help.
    pub(crate) fn after(self, after: &'static str) -> Grammar<L> {
        Grammar { after, ..self }
    }

    /// Stops parsing options at the first operand.
    pub(crate) fn options_first(self) -> Grammar<L> {
        Grammar { options_first: true, ..self }
    }

    /// Stops parsing options at the first operand if the environment requests POSIX
    /// (`POSIXLY_CORRECT`).
    pub(crate) fn options_first_in_posix(self) -> Grammar<L> {
        Grammar { options_first: std::env::var_os("POSIXLY_CORRECT").is_some(), ..self }
    }

    /// Sets the usage line of the help, if it cannot be derived from the table.
    pub(crate) fn usage(self, usage: &'static str) -> Grammar<L> {
        Grammar { usage, ..self }
    }

    /// Rejects abbreviated long options, and words that look like options as separate values.
    pub(crate) fn literal(self) -> Grammar<L> {
        Grammar { is_literal: true, ..self }
    }

    /// Sets the exit statuses for a command line that cannot be parsed, and for one that is
    /// rejected later.
    pub(crate) fn statuses(self, unreadable: u8, senseless: u8) -> Grammar<L> {
        Grammar { statuses: (unreadable, senseless), ..self }
    }

    /// Parses a command line and passes the result to `decide`, which checks it.
    ///
    /// # Errors
    /// The exit status if the tool must not run: help was printed, or an error was reported.
    pub(crate) fn resolve<T>(
        &self,
        words: Vec<OsString>,
        decide: impl FnOnce(L) -> Result<T, Refusal>,
    ) -> Result<T, ExitCode>
    where
        L: Default,
    {
        self.resolve_from(L::default(), words, decide)
    }

    /// Does the same, starting from `low` instead of the default.
    ///
    /// # Errors
    /// Errors of [`Grammar::resolve`].
    pub(crate) fn resolve_from<T>(
        &self,
        mut low: L,
        words: Vec<OsString>,
        decide: impl FnOnce(L) -> Result<T, Refusal>,
    ) -> Result<T, ExitCode> {
        self.fold(&mut low, &mut Line::new(words)).map_err(|stop| self.stopped(stop))?;
        decide(low).map_err(|refusal| self.refuse(&refusal))
    }

    /// Performs the action that ended parsing, and returns the exit status.
    pub(crate) fn stopped(&self, stop: Stop) -> ExitCode {
        match stop {
            Stop::Help => self.print_help(),
            Stop::Version => self.print_version(),
            Stop::Unreadable(refusal) => refusal.tell(self.name, self.statuses.0),
            Stop::Refused(refusal) => self.refuse(&refusal),
        }
    }

    /// Prints why a command line is rejected; returns the exit status.
    pub(crate) fn refuse(&self, refusal: &Refusal) -> ExitCode {
        refusal.tell(self.name, self.statuses.1)
    }
}
