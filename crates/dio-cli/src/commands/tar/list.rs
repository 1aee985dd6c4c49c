//! `-t`: listing an archive.

use super::run::{Ended, Run};

/// Not merged yet.
pub(super) fn run(_: &Run) -> Result<(), Ended> {
    Err(Ended::Fatal("-t cannot be done yet".into()))
}
