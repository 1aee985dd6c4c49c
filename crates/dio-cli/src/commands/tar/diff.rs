//! `-d`: comparing an archive with the files.

use super::run::{Ended, Run};

/// Not merged yet.
pub(super) fn run(_: &Run) -> Result<(), Ended> {
    Err(Ended::Fatal("-d cannot be done yet".into()))
}
