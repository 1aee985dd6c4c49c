//! Arguments that are words, which may be abbreviated as long as they mean one thing.

use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};

/// Takes the variants of an enum by their names and by beginnings that only one of them has, as
/// GNU's tools do (`argmatch`).
#[derive(Clone, Copy, Debug)]
pub struct Abbreviated<E>(PhantomData<fn() -> E>);

impl<E> Abbreviated<E> {
    /// For every variant.
    #[must_use]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<E> Default for Abbreviated<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for Abbreviated<E> {
    type Value = E;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<E, clap::Error> {
        let names: Vec<String> = names::<E>().map(|name| name.get_name().to_owned()).collect();
        let given = value.to_str().unwrap_or_default();
        let mut meant = names.iter().filter(|name| name.starts_with(given));
        let whole = match (names.iter().find(|name| *name == given), meant.next(), meant.next()) {
            (Some(name), ..) | (None, Some(name), None) => OsStr::new(name),
            _ => value,
        };
        EnumValueParser::<E>::new().parse_ref(command, arg, whole)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(names::<E>()))
    }
}

fn names<E: ValueEnum + 'static>() -> impl Iterator<Item = PossibleValue> {
    E::value_variants().iter().filter_map(ValueEnum::to_possible_value)
}
