//! Setting the stripes that new files of a directory get.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use dio::FileError;
use dio::stripe::object::{encode_default, sync_directory, wrong};
use dio::stripe::{DEFAULT_NAME, Plan};
use rustix::io::Errno;

use crate::errno;

const NO_DEVICE: &str = "a device holds one file, and cannot be given to all that are made";

/// Gives a directory its default, durably: files that programs of dio make in it from now on are striped so. Directories
/// below it have their own.
///
/// # Errors
/// EINVAL for what makes no sense; what writing answers.
pub fn set_default(directory: impl AsRef<Path>, plan: &Plan) -> Result<(), FileError> {
    let directory = directory.as_ref();
    let failed = |error: io::Error| FileError::new("set the stripes of", directory, errno(&error));
    // As far as it can be tried now.
    let descriptor = plan.descriptor(directory)?;
    if descriptor.has_devices() {
        let error = FileError::new("set the stripes of", directory, Errno::INVAL);
        return Err(error.with_detail(NO_DEVICE));
    }
    let kept = Plan { targets: canonical(plan, directory)?, ..plan.clone() };
    let bytes = encode_default(&kept).map_err(|error| wrong("set the stripes of", directory, &error))?;
    let (new, name) = (directory.join(format!("{DEFAULT_NAME}.{}", descriptor.id)), directory.join(DEFAULT_NAME));
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &name)?;
        sync_directory(directory)
    };
    write().map_err(|error| {
        // The error that is told is the first.
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

fn canonical(plan: &Plan, directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |error: io::Error| FileError::new("set the stripes of", directory, errno(&error));
    plan.targets.iter().map(|target| fs::canonicalize(target).map_err(failed)).collect()
}

/// Takes the default of a directory away; files that are striped stay so.
///
/// # Errors
/// ENOENT where there is none; what `unlink(2)` answers.
pub fn clear_default(directory: impl AsRef<Path>) -> Result<(), FileError> {
    let directory = directory.as_ref();
    let removed = fs::remove_file(directory.join(DEFAULT_NAME)).and_then(|()| sync_directory(directory));
    removed.map_err(|error| FileError::new("remove the default stripes of", directory, errno(&error)))
}
