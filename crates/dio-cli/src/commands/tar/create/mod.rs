//! `-c`: making an archive.

use super::run::{Ended, Run};

/// Makes the archive.
pub(super) fn run(run: &Run) -> Result<(), Ended> {
    let _ = run;
    Ok(())
}
