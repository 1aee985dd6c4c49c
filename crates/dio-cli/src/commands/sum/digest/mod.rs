//! The digest algorithms, and their computation in sequence or in parts on several threads.

mod algorithm;
mod hasher;
mod parts;

pub(crate) use algorithm::{Algorithm, DigestKind};
pub(crate) use hasher::{Hasher, Sum};
pub(crate) use parts::{DigestPart, Joiner, part};

#[cfg(test)]
mod tests;
