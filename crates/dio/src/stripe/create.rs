//! Making striped files.
//!
//! The descriptor appears under its name when all objects are there, durably: a crash before leaves objects that nobody
//! refers to, one after leaves the file. Until then what is made is locked, so that nobody takes it for what a crash has left.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, fstat, renameat_with};
use rustix::io::Errno;

use super::format::{Descriptor, Header, Id};
use super::head::Head;
use super::hold::{Hold, leads_to};
use super::layout::Layout;
use super::names::Names;
use super::open::{of_object, wrong};
use super::reach::through;
use super::remnants::take;
use crate::file::FileError;
use crate::geometry::Geometry;

/// Bytes in a stripe where nobody asks for another size, unless a target likes larger ones: enough that a request of one
/// stripe costs a disk little more than its transfer.
const USUAL_STRIPE: u64 = 1 << 20;

/// The attribute that is the access control list of a file (`acl(5)`).
const ACL: &str = "system.posix_acl_access";

/// How a new file is to be striped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes in a stripe, a multiple of 4096; by default 1 MiB, or what the targets like best if that is more.
    pub stripe: Option<u64>,
    /// How many objects, by default one in each target. With more, the targets have several in turn; with fewer, the first ones
    /// have one.
    pub count: Option<usize>,
    /// Directories for the objects, in order.
    pub targets: Vec<PathBuf>,
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
        let (mut targets, mut liked) = (Vec::new(), USUAL_STRIPE);
        for target in &self.targets {
            let failed = |error: io::Error| FileError::new("use as a target", target, errno(&error));
            let path = fs::canonicalize(target).and_then(|path| fs::canonicalize(through(path))).map_err(failed)?;
            if !fs::metadata(&path).map_err(failed)?.is_dir() {
                return Err(FileError::new("use as a target", target, Errno::NOTDIR));
            }
            let block = rustix::fs::statvfs(&path).map_err(|errno| failed(errno.into()))?.f_bsize;
            liked = liked.max(block.checked_next_power_of_two().unwrap_or(0));
            targets.push(path);
        }
        let count = self.count.unwrap_or(targets.len());
        let layout = Layout::new(self.stripe.unwrap_or(liked), count).map_err(invalid)?;
        let targets = targets.into_iter().cycle().take(count).collect();
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
/// EEXIST when there is something else, or an empty file with several names; EOPNOTSUPP for one with an access control list; EBUSY when somebody has the empty file open ([`Hold`] says where that is not known);
/// what making the objects answers, with the object. Nothing is left behind then, but for a file that has its name already, of
/// which only that could not be made durable.
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
        Ok(old) if old.is_file() && old.len() == 0 => {
            keepable(path, &old)?;
            Some(old)
        }
        Ok(_) => return Err(FileError::new("stripe", path, Errno::EXIST).with_detail("it is no empty file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(FileError::new("stripe", path, errno(&error))),
    };
    let descriptor = plan.descriptor(path)?;
    let new = path.with_file_name(format!("{}.new", descriptor.object_name(0)));
    let names = Names::of(directory_of(path)).map_err(|errno| FileError::new("stripe", path, errno))?;
    let mut made = Made::default();
    let outcome = made
        .make_head(path, &new, &descriptor, old.as_ref())
        .and_then(|head| made.make_objects(path, &descriptor, head, &absolute(name), old.as_ref()))
        .and_then(|()| made.publish(path, &new, &names, old.is_some()));
    if outcome.is_err() {
        made.withdraw(path, &new, &names, &descriptor);
    }
    outcome.map(|()| descriptor)
}

/// What there is already of a file that is being made.
#[derive(Default)]
struct Made {
    /// The descriptor.
    head: Option<fs::File>,
    /// The first object. Until it is certain that the file stays, nobody writes to it: who has found it by its name waits.
    first: Option<fs::File>,
}

/// Whether what takes the place of an empty file can be like it.
fn keepable(path: &Path, old: &fs::Metadata) -> Result<(), FileError> {
    let refused = |errno, what: &str| Err(FileError::new("stripe", path, errno).with_detail(what));
    if old.nlink() > 1 {
        return refused(Errno::EXIST, "it has other names, which would stay those of an ordinary file");
    }
    if has_acl(path) {
        return refused(Errno::OPNOTSUPP, "it has an access control list, which its objects would not have");
    }
    Ok(())
}

/// Whether a file has an access control list (`acl(5)`) beside its permissions, of which those of the group are then but a bound.
pub fn has_acl(path: &Path) -> bool {
    // Longer than this it is, if it is there.
    matches!(rustix::fs::lgetxattr(path, ACL, &mut [0u8; 1][..]), Err(Errno::RANGE))
}

/// A name that leads there from everywhere, as far as it can be found out.
fn absolute(name: &Path) -> PathBuf {
    let directory = fs::canonicalize(directory_of(name)).unwrap_or_else(|_| directory_of(name).to_owned());
    directory.join(name.file_name().unwrap_or_default())
}

impl Made {
    /// The descriptor, durably, under the name that it has until all is ready.
    fn make_head(
        &mut self,
        path: &Path,
        new: &Path,
        descriptor: &Descriptor,
        old: Option<&fs::Metadata>,
    ) -> Result<Head, FileError> {
        let failed = |error: io::Error| FileError::new("stripe", path, errno(&error));
        let bytes = descriptor.encode().map_err(|error| wrong("stripe", path, &error))?;
        let file = self.head.insert(open_new(new, old).map_err(failed)?);
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        Head::of(file).map_err(|errno| failed(errno.into()))
    }

    fn make_objects(
        &mut self,
        path: &Path,
        descriptor: &Descriptor,
        head: Head,
        name: &Path,
        old: Option<&fs::Metadata>,
    ) -> Result<(), FileError> {
        for index in 0..descriptor.targets.len() {
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
            if index == 0 {
                // Where there are no such locks, nobody waits for one either.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                self.first = Some(file);
            }
        }
        let mut targets: Vec<PathBuf> = descriptor.targets.iter().cloned().map(through).collect();
        targets.dedup();
        for target in targets {
            sync_directory(&target).map_err(|error| FileError::new("sync", &target, errno(&error)))?;
        }
        Ok(())
    }

    /// Gives the descriptor its name, which is free, or that of an empty file that nobody has open.
    fn publish(&self, path: &Path, new: &Path, names: &Names, replaces: bool) -> Result<(), FileError> {
        let failed = |error: io::Error| FileError::new("stripe", path, errno(&error));
        let head = self.head.as_ref().expect("a descriptor is made before it is published");
        if replaces {
            let hold = Hold::against_all(path)?;
            if hold.stat().st_size != 0 {
                return Err(failed(Errno::EXIST.into()).with_detail("it is no empty file any more"));
            }
            if hold.give_name_to(new, head, path)? {
                // The file is made. What stays if this fails is the empty one.
                let _ = fs::remove_file(new);
            }
            return Ok(());
        }
        match renameat_with(CWD, new, CWD, path, RenameFlags::NOREPLACE) {
            // File systems without the flag (renameat2(2)): a link is not made over a name either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::hard_link(new, path).and_then(|()| fs::remove_file(new)).map_err(failed)?;
            }
            other => other.map_err(|errno| failed(errno.into()))?,
        }
        names.sync(head).map_err(|errno| failed(errno.into()))
    }

    /// Takes away what was made, unless it has its name: what failed then is to make that durable, and the file is whole.
    fn withdraw(&self, path: &Path, new: &Path, names: &Names, descriptor: &Descriptor) {
        // Without a descriptor there are no objects yet.
        let Some(head) = &self.head else { return };
        if fstat(head).is_ok_and(|head| leads_to(path, &head)) {
            return;
        }
        // The error that is told is the first. The name may have led there for a moment, and may after a crash.
        let _ = fs::remove_file(new);
        if names.sync(head).is_ok() {
            let objects = (0..descriptor.targets.len()).map(|index| descriptor.object_path(index));
            objects.for_each(|path| drop(fs::remove_file(path)));
        }
    }
}

/// A new file with the owner and the permissions of the old one, locked.
fn open_new(path: &Path, old: Option<&fs::Metadata>) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(if old.is_some() { 0o600 } else { 0o666 })
        .open(path)?;
    take(&file)?;
    if let Some(old) = old {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        // What the directory hands down would give rights that the old file does not.
        match rustix::fs::fremovexattr(&file, ACL) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            other => other?,
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    Ok(file)
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
