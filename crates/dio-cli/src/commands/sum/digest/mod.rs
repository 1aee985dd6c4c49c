//! The digest algorithms, and their computation in sequence or in parts on several threads.

mod algorithm;
mod hasher;
mod parts;

pub(crate) use algorithm::{Algorithm, Kind};
pub(crate) use hasher::{Hasher, Sum};
pub(crate) use parts::{Joiner, Part, part};

#[cfg(test)]
mod tests;
