//! Flags whose order on the command line matters.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};

/// A flag that is told by its place among the others.
pub trait InOrder: Clone {
    /// The flags as clap declares them.
    type Flags: Args;

    /// Finds each in what clap read.
    fn find(found: &mut Found<'_, Self>);
}

/// The flags given, in the order of the command line. Flattened into the arguments of a command.
#[derive(Clone, Debug)]
pub struct Ordered<F>(pub Vec<F>);

/// What clap read, and the flags found in it so far with their places.
#[derive(Debug)]
pub struct Found<'a, F> {
    matches: &'a ArgMatches,
    flags: Vec<(usize, F)>,
}

impl<F: Clone> Found<'_, F> {
    /// A flag without a value, by the name of its field; a grammar that lacks it does not have it set.
    pub fn switch(&mut self, id: &str, flag: F) {
        let known = self.matches.try_contains_id(id).unwrap_or(false);
        if known && self.matches.value_source(id) == Some(ValueSource::CommandLine) {
            self.flags.extend(self.matches.indices_of(id).into_iter().flatten().map(|at| (at, flag.clone())));
        }
    }

    /// A flag with values, which must be a list (`ArgAction::Append`), by the name of its field.
    pub fn values<T: Clone + Send + Sync + 'static>(&mut self, id: &str, flag: impl Fn(T) -> F) {
        let values = self.matches.get_many::<T>(id).into_iter().flatten();
        let places = self.matches.indices_of(id).into_iter().flatten();
        self.flags.extend(places.zip(values.map(|value| flag(value.clone()))));
    }
}

impl<F: InOrder> Args for Ordered<F> {
    fn augment_args(command: clap::Command) -> clap::Command {
        F::Flags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        F::Flags::augment_args_for_update(command)
    }
}

impl<F: InOrder> FromArgMatches for Ordered<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Found { matches, flags: Vec::new() };
        F::find(&mut found);
        found.flags.sort_by_key(|&(at, _)| at);
        Ok(Self(found.flags.into_iter().map(|(_, flag)| flag).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
