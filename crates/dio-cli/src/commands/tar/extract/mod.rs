//! `-x`: extracting from an archive.

use super::run::{Ended, Run};

/// Not merged yet.
pub(super) fn run(_: &Run) -> Result<(), Ended> {
    Err(Ended::Fatal("-x cannot be done yet".into()))
}
