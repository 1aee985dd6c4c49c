//! Making striped files.
//!
//! The descriptor appears under its name when all objects are there, durably: a crash before leaves objects that nobody
//! refers to, one after leaves the file.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::claim::{Claim, claim};
use super::format::{Descriptor, Header, Id, Target};
use super::head::Head;
use super::hold::Hold;
use super::layout::Layout;
use super::open::{of_object, wrong};
use super::reach::through;
use crate::file::FileError;
use crate::geometry::Geometry;

/// Bytes in a stripe where nobody asks for another size, unless a target likes larger ones: enough that a request of one
/// stripe costs a disk little more than its transfer.
const USUAL_STRIPE: u64 = 1 << 20;

/// How a new file is to be striped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes in a stripe, a multiple of 4096; by default 1 MiB, or what the targets like best if that is more.
    pub stripe: Option<u64>,
    /// How many objects, by default one in each target. With more, the targets have several in turn; with fewer, the first ones
    /// have one.
    pub count: Option<usize>,
    /// Directories for the objects, in order, and block devices that are to be one each.
    pub targets: Vec<PathBuf>,
    /// Whether devices are taken that hold something, which is lost.
    pub force: bool,
}

impl Plan {
    /// What the descriptor of a file of this plan says.
    ///
    /// # Errors
    /// EINVAL for what makes no sense, what looking at the targets answers, ENOTDIR.
    pub(super) fn descriptor(&self, name: &Path) -> Result<Descriptor, FileError> {
        let invalid = |what: &str| FileError::new("stripe", name, Errno::INVAL).with_detail(what);
        if self.targets.is_empty() {
            return Err(invalid("there are no targets"));
        }
        let (mut targets, mut numbers, mut liked) = (Vec::new(), Vec::new(), USUAL_STRIPE);
        for target in &self.targets {
            let failed = |error: io::Error| FileError::new("use as a target", target, errno(&error));
            let path = fs::canonicalize(target).and_then(|path| fs::canonicalize(through(path))).map_err(failed)?;
            let found = fs::metadata(&path).map_err(failed)?;
            let is_device = found.file_type().is_block_device();
            numbers.push(is_device.then_some(found.rdev()));
            if is_device {
                // Under the name that was given, which may be one that lasts, as those below /dev/disk.
                targets.push(Target::Device(std::path::absolute(target).map_err(failed)?));
                continue;
            }
            if !found.is_dir() {
                return Err(FileError::new("use as a target", target, Errno::NOTDIR));
            }
            let block = rustix::fs::statvfs(&path).map_err(|errno| failed(errno.into()))?.f_bsize;
            liked = liked.max(block.checked_next_power_of_two().unwrap_or(0));
            targets.push(Target::Directory(path));
        }
        let count = self.count.unwrap_or(targets.len());
        let layout = Layout::new(self.stripe.unwrap_or(liked), count).map_err(invalid)?;
        let targets: Vec<Target> = targets.into_iter().cycle().take(count).collect();
        let numbers: Vec<Option<u64>> = numbers.into_iter().cycle().take(count).collect();
        let again = |index: &usize| numbers[*index].is_some() && numbers[..*index].contains(&numbers[*index]);
        if let Some(index) = (0..count).find(again) {
            let error = FileError::new("use as a target", targets[index].path(), Errno::INVAL);
            return Err(error.with_detail("it would be two objects; a device is one"));
        }
        let layout = if numbers.iter().any(Option::is_some) { layout.for_devices() } else { layout };
        let id = random_id().map_err(|error| FileError::new("stripe", name, errno(&error)))?;
        Ok(Descriptor { id, layout, targets })
    }
}

fn random_id() -> io::Result<Id> {
    let mut id = [0; 16];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut id)?;
    Ok(Id(id))
}

pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Makes an empty striped file under a name that is free, or that an empty file has, which is replaced.
///
/// # Errors
/// EEXIST when there is something else; EBUSY when somebody has the empty file open ([`Hold`] says where that is not known);
/// what making the objects answers, with the object. Nothing is left behind then.
pub fn create(path: impl AsRef<Path>, plan: &Plan) -> Result<Descriptor, FileError> {
    let path = path.as_ref();
    create_called(path, plan, path)
}

/// As [`create`], for a file that will soon be called `name`: its objects are told so.
///
/// # Errors
/// As [`create`].
pub fn create_called(path: &Path, plan: &Plan, name: &Path) -> Result<Descriptor, FileError> {
    let old = match fs::symlink_metadata(path) {
        Ok(old) if old.is_file() && old.len() == 0 => Some(old),
        Ok(_) => return Err(FileError::new("stripe", path, Errno::EXIST).with_detail("it is no empty file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(FileError::new("stripe", path, errno(&error))),
    };
    let descriptor = plan.descriptor(path)?;
    let claims = claim(path, &descriptor, plan.force)?;
    let new = path.with_file_name(format!("{}.new", descriptor.object_name(0)));
    let outcome = make_head(path, &new, &descriptor, old.as_ref())
        .and_then(|header| make_objects(path, &descriptor, &header, &absolute(name), old.as_ref(), &claims))
        .and_then(|()| publish(path, &new, old.is_some()));
    if outcome.is_err() {
        let files = (0..descriptor.targets.len()).filter(|index| !descriptor.is_device(*index));
        let files = files.map(|index| descriptor.object_path(index));
        files.chain([new]).for_each(|path| drop(fs::remove_file(path)));
        claims.iter().for_each(|claim| claim.undo(descriptor.id));
    }
    outcome.map(|()| descriptor)
}

/// A name that leads there from everywhere, as far as it can be found out.
fn absolute(name: &Path) -> PathBuf {
    let directory = fs::canonicalize(directory_of(name)).unwrap_or_else(|_| directory_of(name).to_owned());
    directory.join(name.file_name().unwrap_or_default())
}

/// The descriptor, durably, under the name that it has until all is ready; which inode it is, and whose.
fn make_head(
    path: &Path,
    new: &Path,
    descriptor: &Descriptor,
    old: Option<&fs::Metadata>,
) -> Result<(Head, u32), FileError> {
    let failed = |error: io::Error| FileError::new("stripe", path, errno(&error));
    let bytes = descriptor.encode().map_err(|error| wrong("stripe", path, &error))?;
    let mut file = open_new(new, old).map_err(failed)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    let head = Head::of(&file).map_err(|errno| failed(errno.into()))?;
    Ok((head, file.metadata().map_err(failed)?.uid()))
}

fn make_objects(
    path: &Path,
    descriptor: &Descriptor,
    &(head, owner): &(Head, u32),
    name: &Path,
    old: Option<&fs::Metadata>,
    claims: &[Claim],
) -> Result<(), FileError> {
    for claim in claims {
        let (name, owner) = (Some(name.to_owned()), Some(owner));
        claim.make(path, &Header { name, owner, ..descriptor.header(claim.index, head) })?;
    }
    for index in (0..descriptor.targets.len()).filter(|index| !descriptor.is_device(*index)) {
        let object = descriptor.object_path(index);
        let failed = |error: io::Error| of_object("stripe", path, index, &object, errno(&error), "cannot be made");
        let header = Header { name: Some(name.to_owned()), ..descriptor.header(index, head) };
        let header = header.encode().map_err(|error| wrong("stripe", path, &error))?;
        let mut file = open_new(&object, old).map_err(failed)?;
        let geometry = Geometry::of(file.as_fd()).map_err(|_| failed(Errno::INVAL.into()))?;
        if descriptor.layout.stripe() % geometry.offset_align().max(geometry.mem_align()) != 0 {
            let what = format!("demands stripes of a multiple of {} bytes", geometry.offset_align());
            return Err(of_object("stripe", path, index, &object, Errno::INVAL, &what));
        }
        let written = file.write_all(&header).and_then(|()| file.set_len(descriptor.layout.start()));
        written.and_then(|()| file.sync_all()).map_err(failed)?;
    }
    let directory = |target: &Target| match target {
        Target::Directory(path) => Some(through(path.clone())),
        Target::Device(_) => None,
    };
    let mut targets: Vec<PathBuf> = descriptor.targets.iter().filter_map(directory).collect();
    targets.dedup();
    for target in targets {
        sync_directory(&target).map_err(|error| FileError::new("sync", &target, errno(&error)))?;
    }
    Ok(())
}

/// A new file with the owner and the permissions of the old one.
fn open_new(path: &Path, old: Option<&fs::Metadata>) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(if old.is_some() { 0o600 } else { 0o666 })
        .open(path)?;
    if let Some(old) = old {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    Ok(file)
}

/// Gives the descriptor its name, which is free, or that of an empty file that nobody has open.
fn publish(path: &Path, new: &Path, replaces: bool) -> Result<(), FileError> {
    let failed = |error: io::Error| FileError::new("stripe", path, errno(&error));
    if replaces {
        let hold = Hold::against_all(path)?;
        if hold.stat().st_size != 0 {
            return Err(failed(Errno::EXIST.into()).with_detail("it is no empty file any more"));
        }
        if hold.give_name_to(new, path)? {
            fs::remove_file(new).map_err(failed)?;
        }
        return Ok(());
    }
    let (here, flags) = (rustix::fs::CWD, RenameFlags::NOREPLACE);
    match renameat_with(here, new, here, path, flags) {
        // File systems without the flag (renameat2(2)): a link is not made over a name either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(new, path).and_then(|()| fs::remove_file(new)).map_err(failed)?;
        }
        other => other.map_err(|errno| failed(errno.into()))?,
    }
    sync_directory(directory_of(path)).map_err(failed)
}

pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match fs::File::open(path)?.sync_all() {
        // Not every file system syncs directories (EINVAL, fsync(2)).
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
        other => other,
    }
}
