//! Sets and clears the default stripes of directories.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use dio::FileError;
use dio::stripe::object::{encode_default, format_error, sync_directory};
use dio::stripe::{DEFAULT_NAME, DirectoryInode, StripePlan};
use rustix::io::Errno;

use crate::system::errno;

const NO_DEVICE: &str = "a device holds one file, and cannot be given to all that are made";

/// Sets the default layout of a directory, durably: from now on, programs of dio stripe the files
/// that they create in it. Subdirectories have defaults of their own. The default applies to this
/// directory only: a copy of the file in another directory has no effect.
///
/// # Errors
/// EINVAL for an invalid plan; those of writing the file.
pub fn set_default(directory: impl AsRef<Path>, plan: &StripePlan) -> Result<(), FileError> {
    let directory = directory.as_ref();
    let failed = |error: io::Error| FileError::new("set the stripes of", directory, errno(&error));
    // Finds the errors of the plan that can be found now.
    let descriptor = plan.descriptor(directory)?;
    if descriptor.has_devices() {
        let error = FileError::new("set the stripes of", directory, Errno::INVAL);
        return Err(error.with_detail(NO_DEVICE));
    }
    let kept = StripePlan { targets: canonical(plan, directory)?, ..plan.clone() };
    let (new, name) =
        (directory.join(format!("{DEFAULT_NAME}.{}", descriptor.id)), directory.join(DEFAULT_NAME));
    let write = || {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&new)
            .map_err(failed)?;
        // Determined after the new file exists: creating it can make an overlay copy the directory.
        let own = fs::File::open(directory).map_err(failed)?;
        let own = DirectoryInode::of(&own).map_err(|errno| failed(errno.into()))?;
        let bytes = encode_default(&kept, own)
            .map_err(|error| format_error("set the stripes of", directory, &error))?;
        let written = file
            .write_all(&bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &name));
        written.and_then(|()| sync_directory(directory)).map_err(failed)
    };
    write().inspect_err(|_| {
        // The first error is returned.
        let _ = fs::remove_file(&new);
    })
}

fn canonical(plan: &StripePlan, directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |error: io::Error| FileError::new("set the stripes of", directory, errno(&error));
    plan.targets.iter().map(|target| fs::canonicalize(target).map_err(failed)).collect()
}

/// Removes the default of a directory. Striped files stay striped.
///
/// # Errors
/// ENOENT if there is none; those of `unlink(2)`.
pub fn clear_default(directory: impl AsRef<Path>) -> Result<(), FileError> {
    let directory = directory.as_ref();
    let removed =
        fs::remove_file(directory.join(DEFAULT_NAME)).and_then(|()| sync_directory(directory));
    removed
        .map_err(|error| FileError::new("remove the default stripes of", directory, errno(&error)))
}
