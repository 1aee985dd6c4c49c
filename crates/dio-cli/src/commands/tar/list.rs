//! `-t`: listing an archive.

use super::format::Entry;
use super::options::Options;
use super::run::{Ended, Run};

/// Not merged yet.
pub(super) fn run(_: &Run) -> Result<(), Ended> {
    Err(Ended::Fatal("-t cannot be done yet".into()))
}

/// The line of an entry in a list.
pub(super) fn line(_: &Options, entry: &Entry) -> Vec<u8> {
    entry.path.clone()
}
