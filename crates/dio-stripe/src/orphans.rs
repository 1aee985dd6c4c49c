//! Finds objects, and the files to which they belong.

use dio::quote::quoted;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dio::names::FileId;
use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

use crate::regular::{Regular, entries_of, open, open_for};
use crate::remnants::is_old_descriptor;
use crate::system::errno;
use dio::stripe::object::as_owner;
use dio::stripe::object::directory_of;
use dio::stripe::object::read_device_header;
use dio::stripe::object::remove_name_of;
use dio::stripe::object::{device_length, open_exclusive, wipe};
use dio::stripe::{DESCRIPTOR_LEN, Descriptor, HEADER_LEN, Header, Id, LeaseWait, descriptor_of};

/// An object found in a directory or on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// Its path.
    pub path: PathBuf,
    /// Its header.
    pub header: Header,
    /// Its size in bytes, header included.
    pub size: u64,
}

/// Returns the objects in a directory, without its subdirectories: files with the name of an object
/// and a valid header. For a device, returns the object on it.
///
/// # Errors
/// Those of reading the directory or the device. Files that cannot be read are skipped.
pub fn objects_in(directory: &Path) -> io::Result<Vec<FoundObject>> {
    let directory = fs::canonicalize(directory)?;
    if fs::metadata(&directory)?.file_type().is_block_device() {
        return Ok(object_on(&directory, &fs::File::open(&directory)?)?.into_iter().collect());
    }
    let mut found = Vec::new();
    let may_be_object = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".dio-"))
    };
    for path in entries_of(&directory)?.into_iter().filter(may_be_object) {
        found.extend(object_at(&path));
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn object_at(path: &Path) -> Option<FoundObject> {
    object_in(path, &open(path)?)
}

fn object_in(path: &Path, file: &fs::File) -> Option<FoundObject> {
    let mut bytes = vec![0; HEADER_LEN as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let header = Header::decode(&bytes).ok()?;
    let size = file.metadata().ok()?.len();
    let called = header.id.object_name(header.index);
    (path.file_name()? == called.as_str()).then(|| FoundObject {
        path: path.to_owned(),
        header,
        size,
    })
}

fn object_on(path: &Path, device: &fs::File) -> io::Result<Option<FoundObject>> {
    let Some(header) = read_device_header(device)? else { return Ok(None) };
    let start = header.layout.start();
    let size = device_length(device, header.id, start).unwrap_or(start);
    Ok(Some(FoundObject { path: path.to_owned(), header, size }))
}

/// Returns the descriptor at a path; `None` if there is none, or a damaged one.
pub fn descriptor_at(path: &Path) -> Option<Descriptor> {
    let file = open(path)?;
    descriptor_of(&file, &fstat(&file).ok()?, path, LeaseWait::Briefly).ok()?
}

/// A descriptor, and the owner of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDescriptor {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The owner of the descriptor file.
    pub owner: u32,
}

/// Returns the descriptors in a directory, without its subdirectories. Symbolic links are not
/// followed. A descriptor that does not have its final name yet is included while a process seems
/// to be making the file, that is, unless it is a [`Remnant`](super::Remnant) of this age.
///
/// # Errors
/// Those of reading the directory. Also an error for any file that may be a descriptor but is
/// damaged or cannot be read: any object may belong to it. A file with another length than a
/// descriptor may be a descriptor if one of `objects` names its inode.
pub fn descriptors_in(
    directory: &Path,
    age: Duration,
    objects: &[FoundObject],
) -> io::Result<Vec<FoundDescriptor>> {
    let mut found = Vec::new();
    for path in entries_of(directory)? {
        let is_file = fs::symlink_metadata(&path).map(|found| found.is_file());
        // A file that is gone is no descriptor.
        if is_file.is_ok_and(|is_file| is_file) && !is_old_descriptor(&path, age) {
            found.extend(sought(&path, objects)?);
        }
    }
    Ok(found)
}

/// Returns the descriptor at a path; `None` only if it is certain that there is none.
fn sought(path: &Path, objects: &[FoundObject]) -> io::Result<Option<FoundDescriptor>> {
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", quoted(path)));
    let link = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(told)?.is_symlink(),
    };
    // A dangling link may lead to a file system that is not mounted.
    let found = match Regular::at(path, OFlags::empty()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !link => return Ok(None),
        other => other.map_err(told)?,
    };
    // The creator of an object chose the file that the object names, and may have chosen any file:
    // only a possible descriptor is opened.
    let known = objects.iter().map(|object| object.header.head);
    let Some(found) = found.filter(|found| found.may_be_descriptor(known)) else { return Ok(None) };
    let (file, owner) = (found.open(OFlags::RDONLY).map_err(told)?, found.stat.st_uid);
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, DESCRIPTOR_LEN + 1), &mut bytes)
        .map_err(told)?;
    // A file of nearly the length may be a damaged descriptor.
    if !Descriptor::is_one(&bytes) {
        return Ok(None);
    }
    let damaged = |error| {
        told(io::Error::new(io::ErrorKind::InvalidData, format!("a descriptor, but {error}")))
    };
    let descriptor = Descriptor::decode(&bytes).map_err(damaged)?;
    Ok(Some(FoundDescriptor { descriptor, owner }))
}

/// The result of the search for an object's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwningFile {
    /// The file exists.
    Known,
    /// The file is neither at the recorded name, nor in that directory, nor among the descriptors
    /// found elsewhere.
    Gone,
    /// Unknown, with the reason in words. The object must stay.
    Unknown(String),
}

/// Removes the objects of one file that were found to have no file ([`OwningFile::Gone`]), unless a
/// process writes to the file. Such a process holds a lock on the first object, so the first object
/// is needed for the check, and is removed last. Returns the objects that could not be removed,
/// with the errors.
pub fn remove_orphans<'a>(objects: &'a [FoundObject]) -> Vec<(&'a FoundObject, io::Error)> {
    let none = |error: fn() -> io::Error| objects.iter().map(|object| (object, error())).collect();
    let Some(first) = objects.iter().find(|object| object.header.index == 0) else {
        // A process that writes to the file, or makes it, has the file's devices open exclusively:
        // each device can be checked by itself.
        let alone = |object: &'a FoundObject| match object.is_on_device() {
            true => object.remove().err().map(|error| (object, error)),
            false => {
                let what =
                    "the first object of its file, which tells who writes to it, was not found";
                Some((object, io::Error::other(what)))
            }
        };
        return objects.iter().filter_map(alone).collect();
    };
    let held = match hold(first) {
        Ok(held) => held,
        Err(errno) => return objects.iter().map(|object| (object, errno.into())).collect(),
    };
    // The process that makes a file keeps its objects locked until the file has its name.
    if first.owning_file(&[], Duration::ZERO) == OwningFile::Known {
        return none(|| Errno::STALE.into());
    }
    let (others, first): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object.header.index > 0);
    let remove = |object: &'a FoundObject| object.remove().err().map(|error| (object, error));
    let mut left: Vec<_> = others.into_iter().filter_map(remove).collect();
    // Without the other objects the file cannot be opened. A device must be opened exclusively
    // again to be wiped.
    drop(held);
    left.extend(first.into_iter().filter_map(remove));
    left
}

/// Excludes writers from the file to which a first object belongs.
fn hold(first: &FoundObject) -> Result<fs::File, Errno> {
    if first.is_on_device() {
        return open_exclusive(&first.path).map_err(|error| errno(&error));
    }
    // Network file systems grant exclusive locks only on files that are open for writing.
    let file = open_for(&first.path, OFlags::RDWR)
        .ok()
        .or_else(|| open(&first.path))
        .ok_or(Errno::STALE)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Errno::BUSY)?;
    Ok(file)
}

impl FoundObject {
    /// The identity of its file.
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// Whether a descriptor refers to this object, by any path. Root follows the path with the
    /// rights of the descriptor's owner.
    pub fn is_of(&self, found: &FoundDescriptor) -> bool {
        let (index, descriptor) = (self.header.index, &found.descriptor);
        let identity = |found: io::Result<fs::Metadata>| {
            let found = found.ok()?;
            // A device may have several device nodes.
            let is_device = found.file_type().is_block_device();
            Some(if is_device {
                FileId::from_numbers(found.rdev(), 0)
            } else {
                FileId::of_metadata(&found)
            })
        };
        descriptor.id == self.header.id
            && index < descriptor.targets.len()
            && identity(fs::metadata(&self.path)).is_some_and(|own| {
                let path = descriptor.object_path(index);
                identity(as_owner(found.owner, || fs::metadata(path))) == Some(own)
            })
    }

    /// Looks for the file of the object: at the recorded name, in the same directory under other
    /// names, and among `known`, which are descriptors found elsewhere. `age` is as in
    /// [`descriptors_in`].
    pub fn owning_file(&self, known: &[FoundDescriptor], age: Duration) -> OwningFile {
        let Some(name) = &self.header.name else {
            return self.among(known).unwrap_or_else(|| match known {
                [] => OwningFile::Unknown("it does not say what its file is called".to_owned()),
                _ => OwningFile::Gone,
            });
        };
        let own = std::slice::from_ref(self);
        let there = sought(name, own).map(|found| found.into_iter().collect::<Vec<_>>());
        let beside = || descriptors_in(directory_of(name), age, own);
        let unknown = |error: io::Error| match error.kind() {
            // The file system that contains it may not be mounted.
            io::ErrorKind::NotFound => format!("the directory of {} is not there", quoted(name)),
            _ => format!("its file cannot be looked for: {error}"),
        };
        match self.among(known) {
            Some(owning_file) => owning_file,
            None => match there.and_then(|there| Ok((there, beside()?))) {
                Ok((there, beside)) => {
                    self.among(&there).or_else(|| self.among(&beside)).unwrap_or(OwningFile::Gone)
                }
                Err(error) => OwningFile::Unknown(unknown(error)),
            },
        }
    }

    /// Looks for the object's file among descriptors; `None` if none of them has its identity.
    fn among(&self, descriptors: &[FoundDescriptor]) -> Option<OwningFile> {
        let mut same =
            descriptors.iter().filter(|found| found.descriptor.id == self.header.id).peekable();
        same.peek()?;
        let elsewhere =
            || OwningFile::Unknown("its file is there, and leads to another place".to_owned());
        Some(if same.any(|found| self.is_of(found)) { OwningFile::Known } else { elsewhere() })
    }

    fn is_on_device(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| found.file_type().is_block_device())
    }

    /// Removes the object, or wipes it from its device, unless it has been replaced by another
    /// object.
    fn remove(&self) -> io::Result<()> {
        if self.is_on_device() {
            let device = open_exclusive(&self.path)?;
            let same = read_device_header(&device)?.is_some_and(|header| header == self.header);
            let same = same && self.owning_file(&[], Duration::ZERO) != OwningFile::Known;
            return if same { wipe(&device) } else { Err(Errno::STALE.into()) };
        }
        let file = open(&self.path).ok_or(Errno::STALE)?;
        if object_in(&self.path, &file).is_none_or(|now| now.header != self.header) {
            return Err(Errno::STALE.into());
        }
        Ok(remove_name_of(&self.path, FileId::of(&fstat(&file)?))?)
    }
}
