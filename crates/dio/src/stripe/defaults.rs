//! The stripes that new files of a directory get: kept in the directory, in a file called [`DEFAULT_NAME`].

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::create::{Plan, create, directory_of, errno, sync_directory};
use super::format::{Descriptor, FormatError, decode_default, encode_default};
use super::open::{descriptor_of, wrong};
use crate::file::FileError;

/// Under this name a directory keeps what its new files get.
pub const DEFAULT_NAME: &str = ".dio-stripe";

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
        return Err(error.with_detail("a device holds one file, and cannot be given to all that are made"));
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

/// The default of a directory, if it has one.
///
/// # Errors
/// EBADMSG for a damaged one; what reading it answers.
pub fn default_of(directory: impl AsRef<Path>) -> Result<Option<Plan>, FileError> {
    let directory = directory.as_ref();
    match fs::read(directory.join(DEFAULT_NAME)) {
        Ok(bytes) => decode_default(&bytes)
            .map(Some)
            .map_err(|error: FormatError| wrong("read the stripes of", &directory.join(DEFAULT_NAME), &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::new("read the stripes of", directory, errno(&error))),
    }
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

/// Whether a directory has a default.
pub fn has_default(directory: impl AsRef<Path>) -> bool {
    rustix::fs::access(directory.as_ref().join(DEFAULT_NAME), rustix::fs::Access::EXISTS).is_ok()
}

/// Whether a file that was made under this name, and of which the system says `made`, may have to be striped: it is empty and
/// regular, its owner may read and write it, and its directory has a default.
pub fn may_apply(path: &Path, made: &Stat) -> bool {
    let usable = FileType::from_raw_mode(made.st_mode) == FileType::RegularFile && made.st_mode & 0o600 == 0o600;
    made.st_size == 0 && usable && has_default(directory_of(path))
}

/// Stripes a file that was just made, and is empty, as its directory has it by default; the caller has closed it, and opens it
/// again afterwards, whatever the answer. `None` where it stays as it is: the directory has no default, or one of somebody who
/// must not decide where the bytes of this user go (neither the user himself, nor the owner of the directory, nor root); the
/// file is not for its owner to read and write; it has an access control list or other names; somebody else has it open already, has filled it or has striped it.
///
/// # Errors
/// As [`create`]. The file stays as it was.
pub fn stripe_by_default(path: impl AsRef<Path>) -> Result<Option<Descriptor>, FileError> {
    let path = path.as_ref();
    if !has_default(directory_of(path)) || !is_trusted(directory_of(path)) {
        return Ok(None);
    }
    let Some(plan) = default_of(directory_of(path))? else { return Ok(None) };
    if !rustix::fs::lstat(path).is_ok_and(|found| may_apply(path, &found)) {
        return Ok(None);
    }
    match create(path, &plan) {
        // It is not empty any more, is somebody's who is striping it too, or has gone.
        // Or it has more rights than objects could have.
        Err(error)
            if matches!(error.errno(), Errno::EXIST | Errno::BUSY | Errno::OPNOTSUPP) && error.path() == path =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn is_trusted(directory: &Path) -> bool {
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.uid());
    let (default, directory) = (owner(&directory.join(DEFAULT_NAME)), fs::metadata(directory).ok().map(|it| it.uid()));
    default.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw()) || default == directory
}

/// Whether an open file is the one that was made, or what it became when it was striped: of a file that is to be new, nobody
/// else's may take the place.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a damaged descriptor.
pub fn is_what_was_made(fd: impl AsFd, made: &Stat, striped: Option<&Descriptor>) -> Result<bool, Errno> {
    let found = rustix::fs::fstat(&fd)?;
    if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino) {
        return Ok(true);
    }
    let descriptor = descriptor_of(&fd, &found, Path::new("")).map_err(|error| error.errno())?;
    Ok(striped.is_some() && descriptor.as_ref() == striped)
}
