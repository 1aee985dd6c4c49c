//! The grammar of the tools that have a GNU model.
//!
//! A tool has one table of its options: a [`Flag`] says how an option is written, what help says of
//! it, and what it does to the values that are read. `read` reads a command line by the table as
//! `getopt_long(3)` does (clusters, abbreviations, values that are attached, options of old) and
//! refuses with the words of the C library; `describe` makes help, man pages and completions of the
//! same table. A [`Refusal`] is what any part of a tool says against a command line.

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
use flag::Action;

pub(crate) use choice::{Choice, exact, meant};
pub(crate) use flag::{
    Flag, Given, accepted, among, attached, by_default, checked, effect, help, hidden, optional, own, parsed, repeated,
    switch, text, value, version, word,
};
pub(crate) use line::Line;
pub(crate) use name::{called_as, set_link};
pub(crate) use refusal::Refusal;
pub(crate) use stop::Stop;

/// Whether the environment asks for POSIX of 2001, which took obsolete usage away
/// (`_POSIX2_VERSION`); that of 2008 let it be again.
pub(crate) fn posix_of_2001() -> bool {
    let version = std::env::var("_POSIX2_VERSION").ok().and_then(|version| version.parse::<i64>().ok());
    version.is_some_and(|version| (200_112..200_809).contains(&version))
}

/// A tool as the command line of dio lists it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Returns what help, man page and completions say of the tool of that name.
    pub(crate) describe: fn(&'static str) -> clap::Command,
    /// Runs the tool of that name with the words behind the name.
    pub(crate) run: fn(&'static str, Vec<OsString>) -> ExitCode,
}

/// What takes an operand.
type Operand<L> = fn(&mut L, OsString) -> Result<(), Refusal>;

type TakeOperand<L> = dyn Fn(&mut L, OsString) -> Result<(), Refusal>;

/// What looks at a word in an operand's place that may be an option of old; `true` if it was one.
type Old<L> = fn(&mut L, &OsStr, &mut Line) -> Result<bool, Refusal>;

/// The options and operands of one tool, which are read into an `L`.
pub(crate) struct Grammar<L> {
    name: &'static str,
    about: &'static str,
    details: &'static str,
    usage: &'static str,
    after: &'static str,
    flags: Vec<Flag<L>>,
    operands: Vec<(&'static str, &'static str)>,
    operand: Box<TakeOperand<L>>,
    old: Option<Old<L>>,
    options_first: bool,
    is_literal: bool,
    /// The exit statuses of a command line that cannot be read, and of one that makes no sense.
    statuses: (u8, u8),
}

impl<L: 'static> Grammar<L> {
    /// The grammar of the tool of that name: what it does in a line, and what else there is to say.
    pub(crate) fn new(name: &'static str, about: &'static str, details: &'static str) -> Grammar<L> {
        Grammar {
            name,
            about,
            details,
            usage: "",
            after: "",
            flags: Vec::new(),
            operands: Vec::new(),
            operand: Box::new(|_, word| Err(Refusal::usage(format!("extra operand {}", quoted(word))))),
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

    /// Adds options that help shows below a heading.
    pub(crate) fn section<const N: usize>(self, heading: &'static str, flags: [Flag<L>; N]) -> Grammar<L> {
        self.flags(flags.map(|flag| flag.below(heading)))
    }

    /// Refuses options but those that are allowed, by their names.
    pub(crate) fn allowing(mut self, is_allowed: impl Fn(&str) -> bool, otherwise: &'static str) -> Grammar<L> {
        for flag in self.flags.iter_mut().filter(|flag| !is_allowed(&flag.names.shown())) {
            flag.action =
                Action::Apply(Box::new(move |_, given| Err(Refusal::usage(format!("{}: {otherwise}", given.name())))));
        }
        self
    }

    /// Sets which options are dio's own, by their names (`--mode`).
    pub(crate) fn own(mut self, is_own: impl Fn(&str) -> bool) -> Grammar<L> {
        self.flags.iter_mut().for_each(|flag| flag.is_own = is_own(&flag.names.shown()));
        self
    }

    /// Sets the operands, each a name (`FILE...` for several, `<FILE>` for one that must be) with
    /// what help says of it, and what takes them.
    pub(crate) fn operands(self, operands: &[(&'static str, &'static str)], take: Operand<L>) -> Grammar<L> {
        Grammar { operands: operands.to_vec(), operand: Box::new(take), ..self }
    }

    /// Sets operands that are files, and the list of them.
    pub(crate) fn files(self, help: &'static str, list: fn(&mut L) -> &mut Vec<OsString>) -> Grammar<L> {
        let operand = move |low: &mut L, word| {
            list(low).push(word);
            Ok(())
        };
        Grammar { operands: vec![("FILE...", help)], operand: Box::new(operand), ..self }
    }

    /// Sets what looks at words in an operand's place for options of old (`+1`).
    pub(crate) fn old(self, old: Old<L>) -> Grammar<L> {
        Grammar { old: Some(old), ..self }
    }

    /// Sets what help says at its end.
    pub(crate) fn after(self, after: &'static str) -> Grammar<L> {
        Grammar { after, ..self }
    }

    /// Ends options at the first operand.
    pub(crate) fn options_first(self) -> Grammar<L> {
        Grammar { options_first: true, ..self }
    }

    /// Ends options at the first operand where the environment asks for POSIX (`POSIXLY_CORRECT`).
    pub(crate) fn options_first_in_posix(self) -> Grammar<L> {
        Grammar { options_first: std::env::var_os("POSIXLY_CORRECT").is_some(), ..self }
    }

    /// Sets what help says about the usage, where that does not follow from the table.
    pub(crate) fn usage(self, usage: &'static str) -> Grammar<L> {
        Grammar { usage, ..self }
    }

    /// Takes no beginnings of long options for them, and no word that looks like an option for a
    /// value.
    pub(crate) fn literal(self) -> Grammar<L> {
        Grammar { is_literal: true, ..self }
    }

    /// Sets the exit statuses of a command line that cannot be read, and of one that makes no
    /// sense.
    pub(crate) fn statuses(self, unreadable: u8, senseless: u8) -> Grammar<L> {
        Grammar { statuses: (unreadable, senseless), ..self }
    }

    /// Reads a command line and decides what it means.
    ///
    /// # Errors
    /// The exit status, where there is nothing to be done: help was asked for, or something is
    /// wrong, which was told.
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

    /// The same, beginning with something else than nothing.
    ///
    /// # Errors
    /// As [`Grammar::resolve`].
    pub(crate) fn resolve_from<T>(
        &self,
        mut low: L,
        words: Vec<OsString>,
        decide: impl FnOnce(L) -> Result<T, Refusal>,
    ) -> Result<T, ExitCode> {
        self.fold(&mut low, &mut Line::new(words)).map_err(|stop| self.stopped(stop))?;
        decide(low).map_err(|refusal| self.refuse(&refusal))
    }

    /// Does what ends the reading of a command line.
    pub(crate) fn stopped(&self, stop: Stop) -> ExitCode {
        match stop {
            Stop::Help => self.print_help(),
            Stop::Version => self.print_version(),
            Stop::Unreadable(refusal) => refusal.tell(self.name, self.statuses.0),
            Stop::Refused(refusal) => self.refuse(&refusal),
        }
    }

    /// Tells what is wrong with a command line; returns the exit status.
    pub(crate) fn refuse(&self, refusal: &Refusal) -> ExitCode {
        refusal.tell(self.name, self.statuses.1)
    }
}
