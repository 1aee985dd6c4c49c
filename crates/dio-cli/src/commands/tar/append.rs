//! `-r`, `-u`, `-A`: adding to an archive.

use super::run::{Ended, Run};

/// Not merged yet.
pub(super) fn run(_: &Run) -> Result<(), Ended> {
    Err(Ended::Fatal("-r, -u and -A cannot be done yet".into()))
}
