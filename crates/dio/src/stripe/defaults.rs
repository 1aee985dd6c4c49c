//! The stripes that new files of a directory get: kept in the directory, in a file called [`DEFAULT_NAME`].

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::create::{Plan, create, directory_of, errno};
use super::format::{DEFAULT_LEN, Descriptor, FormatError, decode_default};
use super::open::{descriptor_of, wrong};
use super::reach::through;
use super::trust::{may_steer, not_followed};
use crate::file::FileError;

/// Under this name a directory keeps what its new files get.
pub const DEFAULT_NAME: &str = ".dio-stripe";

const NO_DEVICE: &str = "a device holds one file, and cannot be given to all that are made";
const NOT_REGULAR: &str = "it is no regular file";
const CURE_UNFOLLOWED: &str =
    "new files there are plain; remove it, or set the default as the user who makes the files or as root";

/// The default of a directory, if it has one, whether or not this process would follow it.
///
/// # Errors
/// EBADMSG for a damaged one, or what is no regular file; what reading it answers.
pub fn default_of(directory: impl AsRef<Path>) -> Result<Option<Plan>, FileError> {
    Kept::in_directory(directory.as_ref())?.map(Kept::read).transpose()
}

/// What a directory keeps for its new files.
struct Kept {
    name: PathBuf,
    /// A place: to open what it leads to may wait, or do something.
    place: OwnedFd,
    stat: Stat,
}

impl Kept {
    fn in_directory(directory: &Path) -> Result<Option<Kept>, FileError> {
        let name = directory.join(DEFAULT_NAME);
        let failed = |errno| FileError::new("read the stripes of", directory, errno);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = match rustix::fs::open(&name, flags, Mode::empty()) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let stat = fstat(&place).map_err(failed)?;
        Ok(Some(Kept { name, place, stat }))
    }

    fn read(self) -> Result<Plan, FileError> {
        let system = |errno| FileError::new("read the stripes of", directory_of(&self.name), errno);
        if FileType::from_raw_mode(self.stat.st_mode) != FileType::RegularFile {
            return Err(FileError::new("read the stripes of", &self.name, Errno::BADMSG).with_detail(NOT_REGULAR));
        }
        let again = format!("/proc/self/fd/{}", self.place.as_raw_fd());
        let file = rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(system)?;
        // One byte more than there may be.
        let (mut bytes, most) = (Vec::new(), DEFAULT_LEN + 1);
        fs::File::from(file).take(most).read_to_end(&mut bytes).map_err(|error| system(errno(&error)))?;
        decode_default(&bytes).map_err(|error: FormatError| wrong("read the stripes of", &self.name, &error))
    }
}

/// Whether a directory has a default, which this process may or may not follow.
pub fn has_default(directory: impl AsRef<Path>) -> bool {
    rustix::fs::lstat(directory.as_ref().join(DEFAULT_NAME)).is_ok()
}

/// Whether a file that was made under this name, and of which the system says `made`, may have to be striped: it is empty and
/// regular, its owner may read and write it, and its directory has a default.
pub fn may_apply(path: &Path, made: &Stat) -> bool {
    let usable = FileType::from_raw_mode(made.st_mode) == FileType::RegularFile && made.st_mode & 0o600 == 0o600;
    made.st_size == 0 && usable && has_default(directory_of(path))
}

/// Stripes a file that was just made, and is empty, as its directory has it by default; the caller has closed it, and opens it
/// again afterwards, whatever the answer. `None` where it stays as it is: the directory has no default, or one that is not the
/// user's nor root's, which is kept for [`take_ignored_defaults`](super::take_ignored_defaults); the
/// file is not for its owner to read and write; it has an access control list or other names; somebody else has it open already, has filled it or has striped it.
///
/// # Errors
/// As [`create`]. The file stays as it was.
pub fn stripe_by_default(path: impl AsRef<Path>) -> Result<Option<Descriptor>, FileError> {
    let path = path.as_ref();
    let Some(kept) = Kept::in_directory(directory_of(path))? else { return Ok(None) };
    if let Err(why) = may_steer(&kept.stat) {
        return Ok(unfollowed(&kept.name, why));
    }
    let plan = kept.read()?;
    let is_device =
        |target: &PathBuf| through(target.clone()).metadata().is_ok_and(|it| it.file_type().is_block_device());
    if plan.targets.iter().any(is_device) {
        return Ok(unfollowed(&path.with_file_name(DEFAULT_NAME), NO_DEVICE.to_owned()));
    }
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

/// Notes that a default was not followed, under the name that its directory has.
fn unfollowed(name: &Path, why: String) -> Option<Descriptor> {
    let directory = directory_of(name);
    let found = fs::read_link(directory).ok().filter(|_| directory.starts_with("/proc/self/fd"));
    let name = found.map_or_else(|| name.to_owned(), |directory| directory.join(DEFAULT_NAME));
    not_followed(FileError::new("follow", &name, Errno::PERM).with_detail(why).with_cure(CURE_UNFOLLOWED));
    None
}

/// Whether an open file is the one that was made, or what it became when it was striped: of a file that is to be new, nobody
/// else's may take the place.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a damaged descriptor.
pub fn is_what_was_made(fd: impl AsFd, made: &Stat, striped: Option<&Descriptor>) -> Result<bool, Errno> {
    let found = fstat(&fd)?;
    if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino) {
        return Ok(true);
    }
    let descriptor = descriptor_of(&fd, &found, Path::new("")).map_err(|error| error.errno())?;
    Ok(striped.is_some() && descriptor.as_ref() == striped)
}
