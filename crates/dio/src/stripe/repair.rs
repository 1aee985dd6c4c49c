//! Cutting off what a crash has left behind the end of a striped file, where opening it does not dare to.

use std::path::Path;

use rustix::io::Errno;

use super::open::keep_alone;
use crate::file::{FileError, OpenOptions};

/// Cuts off what objects hold behind the end of a file, wherever they are, durably. Who opens a file for writing does that only
/// on file systems of this machine alone: where the locks of other machines are not seen, somebody there may be making the file
/// longer at that moment, and the caller has to know that nobody does.
///
/// # Errors
/// EINVAL for what is no striped file; EBUSY when somebody has it open for writing, as far as this machine knows; what opening and
/// resizing it answer.
pub fn repair(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if file.layout().is_none() {
        return Err(FileError::new("repair", path, Errno::INVAL).with_detail("it is no striped file"));
    }
    keep_alone(&file)?;
    file.set_size(file.size()?)?;
    file.sync_all()
}
