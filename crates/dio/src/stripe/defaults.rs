//! The default stripes of a directory, which new files in it get. They are stored in the directory,
//! in a file called [`DEFAULT_NAME`].

use std::ffi::CStr;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use dio_sys::{fd_path, reopen};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, statat};
use rustix::io::Errno;

use super::create::create;
use super::cures::CURE_COPIED;
use super::directory::directory_of;
use super::error::format_error;
use super::format::{DEFAULT_LEN, DefaultText, Descriptor, FormatError};
use super::head::DirectoryInode;
use super::open::{LeaseWait, descriptor_of};
use super::plan::StripePlan;
use super::redirect::redirected;
use super::trust::{check_default_trusted, record_ignored_default};
use crate::file::{FileError, errno_of};
use crate::identity::FileId;

/// The name of the file that holds the default of a directory.
pub const DEFAULT_NAME: &str = ".dio-stripe";

const NO_DEVICE: &str = "a device holds one file, and cannot be given to all that are made";
const NOT_REGULAR: &str = "it is no regular file";
const CURE_UNFOLLOWED: &str = "new files there are plain; remove it, or set the default as the \
                               user who makes the files or as root";
const OF_ANOTHER: &str = "it was made for another directory";
const OF_UNKNOWN: &str =
    "it is of an older version, which does not say for which directory it was made";

/// The default of a directory; `None` if it has none. It is returned whether or not this process
/// would follow it.
///
/// # Errors
/// EBADMSG for a damaged default, or something that is no regular file; what reading it answers.
pub fn default_of(directory: impl AsRef<Path>) -> Result<Option<StripePlan>, FileError> {
    let stored = StoredDefault::in_directory(directory.as_ref())?;
    stored.map(|stored| stored.read().map(|text| text.plan)).transpose()
}

/// The file that holds the default of a directory.
struct StoredDefault {
    name: PathBuf,
    /// Opened with `O_PATH`, because opening the file itself may block or have effects.
    place: OwnedFd,
    stat: Stat,
}

impl StoredDefault {
    fn in_directory(directory: &Path) -> Result<Option<StoredDefault>, FileError> {
        let name = directory.join(DEFAULT_NAME);
        let failed = |errno| FileError::new("read the stripes of", directory, errno);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = match rustix::fs::open(&name, flags, Mode::empty()) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let stat = fstat(&place).map_err(failed)?;
        Ok(Some(StoredDefault { name, place, stat }))
    }

    /// Checks that the default, whose contents are `text`, was made for the directory in which it
    /// is. The error is the reason in words.
    fn check_made_for(&self, text: &DefaultText) -> Result<Result<(), &'static str>, FileError> {
        let failed = |errno| FileError::new("read the stripes of", directory_of(&self.name), errno);
        let Some(made_for) = text.directory else { return Ok(Err(OF_UNKNOWN)) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(directory_of(&self.name), flags, Mode::empty()).map_err(failed)?;
        // The directory may have been exchanged since the default was found.
        let named = statat(&directory, DEFAULT_NAME, AtFlags::SYMLINK_NOFOLLOW);
        let is_here = named.is_ok_and(|named| FileId::of(&named) == FileId::of(&self.stat));
        let found = DirectoryInode::of(&directory).map_err(failed)?;
        Ok(if is_here && made_for.is(&found) { Ok(()) } else { Err(OF_ANOTHER) })
    }

    fn read(&self) -> Result<DefaultText, FileError> {
        let system = |errno| FileError::new("read the stripes of", directory_of(&self.name), errno);
        if FileType::from_raw_mode(self.stat.st_mode) != FileType::RegularFile {
            return Err(FileError::new("read the stripes of", &self.name, Errno::BADMSG)
                .with_detail(NOT_REGULAR));
        }
        // A lease of somebody else is not waited for.
        let file = reopen(&self.place, OFlags::RDONLY | OFlags::NONBLOCK).map_err(system)?;
        // One byte more than a valid default has.
        let (mut bytes, most) = (Vec::new(), DEFAULT_LEN + 1);
        fs::File::from(file)
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| system(errno_of(&error)))?;
        DefaultText::decode(&bytes)
            .map_err(|error: FormatError| format_error("read the stripes of", &self.name, &error))
    }
}

/// Whether a directory has a default, followed or not.
pub fn has_default(directory: impl AsRef<Path>) -> bool {
    rustix::fs::lstat(directory.as_ref().join(DEFAULT_NAME)).is_ok()
}

/// Whether `name` in an open directory is a default that was made for that directory: a setting of
/// it, which says nothing in a copy. A default that came with a copy is a file like others.
pub fn is_own_default(directory: impl AsFd, name: &CStr) -> bool {
    if name.to_bytes() != DEFAULT_NAME.as_bytes() {
        return false;
    }
    let directory = fd_path(directory);
    let Ok(Some(stored)) = StoredDefault::in_directory(&directory) else { return false };
    stored.read().is_ok_and(|text| matches!(stored.check_made_for(&text), Ok(Ok(()))))
}

/// Whether the default of its directory may apply to a file just created under this name, with the
/// `stat` `made`: the file is regular and empty, its owner may read and write it, and the directory
/// has a default.
pub fn default_may_apply(path: &Path, made: &Stat) -> bool {
    let usable = FileType::from_raw_mode(made.st_mode) == FileType::RegularFile
        && made.st_mode & 0o600 == 0o600;
    made.st_size == 0 && usable && has_default(directory_of(path))
}

/// Stripes an empty file that was just created, if the default of its directory applies. The caller
/// has closed the file, and opens it again afterwards in any case. Returns `None` if the file stays
/// as it is: the directory has no default, or one that belongs to neither the user nor root or was
/// made for another directory (reported by
/// [`take_ignored_defaults`](super::take_ignored_defaults)); its owner may not read and write the
/// file; it has an access control list or other names; somebody else has opened, filled or striped
/// it already.
///
/// # Errors
/// As [`create`]. The file stays as it was.
pub fn apply_default(path: impl AsRef<Path>) -> Result<Option<Descriptor>, FileError> {
    let path = path.as_ref();
    let Some(kept) = StoredDefault::in_directory(directory_of(path))? else { return Ok(None) };
    if let Err(why) = check_default_trusted(&kept.stat) {
        return Ok(ignored_default(&kept.name, why, CURE_UNFOLLOWED));
    }
    let text = kept.read()?;
    if let Err(why) = kept.check_made_for(&text)? {
        return Ok(ignored_default(&kept.name, why.to_owned(), CURE_COPIED));
    }
    let plan = text.plan;
    let is_device = |target: &PathBuf| {
        redirected(target.clone()).metadata().is_ok_and(|it| it.file_type().is_block_device())
    };
    if plan.targets.iter().any(is_device) {
        return Ok(ignored_default(&kept.name, NO_DEVICE.to_owned(), CURE_UNFOLLOWED));
    }
    if !rustix::fs::lstat(path).is_ok_and(|found| default_may_apply(path, &found)) {
        return Ok(None);
    }
    match create(path, &plan) {
        // The file is not empty any more, is being striped by somebody else or has gone; or it has
        // more rights than objects could have.
        Err(error)
            if matches!(error.errno(), Errno::EXIST | Errno::BUSY | Errno::OPNOTSUPP)
                && error.path() == path =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Records that a default was not followed, under the real name of its directory.
fn ignored_default(name: &Path, why: String, cure: &'static str) -> Option<Descriptor> {
    let directory = directory_of(name);
    let found = fs::read_link(directory).ok().filter(|_| directory.starts_with("/proc/self/fd"));
    let name = found.map_or_else(|| name.to_owned(), |directory| directory.join(DEFAULT_NAME));
    record_ignored_default(
        FileError::new("follow", &name, Errno::PERM).with_detail(why).with_cure(cure),
    );
    None
}

/// Whether an open file is the one just created, or the striped file that it became. With `O_EXCL`,
/// no other file may take its place.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a damaged descriptor.
pub fn is_created_file(
    fd: impl AsFd,
    made: &Stat,
    striped: Option<&Descriptor>,
) -> Result<bool, Errno> {
    let found = fstat(&fd)?;
    if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino) {
        return Ok(true);
    }
    let descriptor = descriptor_of(&fd, &found, Path::new(""), LeaseWait::AsOpen)
        .map_err(|error| error.errno())?;
    Ok(striped.is_some() && descriptor.as_ref() == striped)
}
