//! Finding objects, and the files that they belong to.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dio::names::FileId;
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;

use crate::errno;
use crate::remnants::is_old_descriptor;
use dio::stripe::descriptor_of;
use dio::stripe::object::directory_of;
use dio::stripe::object::header_on;
use dio::stripe::object::may_be_descriptor;
use dio::stripe::object::{identity, remove_name_of};
use dio::stripe::object::{length_of, open_exclusively, wipe};
use dio::stripe::{DESCRIPTOR_LEN, Descriptor, HEADER_LEN, Header, Id};

/// An object that was found in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub header: Header,
    /// Its size in bytes, the header included.
    pub size: u64,
}

/// The objects in a directory, not below it: files that are called as one and have a sound header. Names beginning like one of
/// an object whose header is damaged are not among them. Or the object on a device.
///
/// # Errors
/// What reading the directory or the device answers. Files that cannot be read are passed over.
pub fn objects_in(directory: &Path) -> io::Result<Vec<FoundObject>> {
    let directory = fs::canonicalize(directory)?;
    if fs::metadata(&directory)?.file_type().is_block_device() {
        return Ok(object_on(&directory, &fs::File::open(&directory)?)?.into_iter().collect());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".dio-") && entry.file_type()?.is_file() {
            found.extend(object_at(&entry.path()));
        }
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
    (path.file_name()? == called.as_str()).then(|| FoundObject { path: path.to_owned(), header, size })
}

fn object_on(path: &Path, device: &fs::File) -> io::Result<Option<FoundObject>> {
    let Some(header) = header_on(device)? else { return Ok(None) };
    let start = header.layout.start();
    let size = length_of(device, header.id, start).unwrap_or(start);
    Ok(Some(FoundObject { path: path.to_owned(), header, size }))
}

pub(crate) fn open(path: &Path) -> Option<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

/// The descriptor under a name, if there is a sound one.
pub fn descriptor_at(path: &Path) -> Option<Descriptor> {
    let file = open(path)?;
    descriptor_of(&file, &fstat(&file).ok()?, path).ok()?
}

/// The descriptors in a directory, not below it. Symbolic links are not followed. One that has not got its name is among them as
/// long as somebody seems to be making the file: a [`Remnant`](super::Remnant) of this age is not.
///
/// # Errors
/// What reading the directory answers, and any file that may be a descriptor but cannot be read, or is a damaged one: it may be that
/// of any object.
pub fn descriptors_in(directory: &Path, age: Duration) -> io::Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && !is_old_descriptor(&entry.path(), age) {
            found.extend(sought(&entry.path())?);
        }
    }
    Ok(found)
}

/// The descriptor that a name leads to; `None` where it is certain that there is none: nothing, or something else.
fn sought(path: &Path) -> io::Result<Option<Descriptor>> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("'{}': {error}", path.display()));
    let link = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(told)?.is_symlink(),
    };
    // A link that leads nowhere may lead to what is not mounted.
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !link => return Ok(None),
        other => other.map_err(told)?,
    };
    if !found.is_file() {
        return Ok(None);
    }
    let file = match fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        // It was removed just now; or it has another length, and is no sound descriptor, of whoever.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !link => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !may_be_descriptor(found.len()) => {
            return Ok(None);
        }
        other => other.map_err(told)?,
    };
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, DESCRIPTOR_LEN + 1), &mut bytes).map_err(told)?;
    // What is too long or too short to be a sound one may be a damaged one.
    if !Descriptor::is_one(&bytes) {
        return Ok(None);
    }
    let damaged = |error| told(io::Error::new(io::ErrorKind::InvalidData, format!("a descriptor, but {error}")));
    Descriptor::decode(&bytes).map(Some).map_err(damaged)
}

/// What is known of the file that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there.
    Known,
    /// It is not where the object says, nor beside, nor among those that were found elsewhere.
    Gone,
    /// That cannot be said, in words why. The object must stay.
    Unknown(String),
}

/// Removes objects of one file that were found and have none ([`Standing::Gone`]), unless somebody writes to the file: who does holds
/// a lock of the first object, which is needed here for that, and goes last. What could not be removed, and why.
pub fn remove_orphans<'a>(objects: &'a [FoundObject]) -> Vec<(&'a FoundObject, io::Error)> {
    let none = |error: fn() -> io::Error| objects.iter().map(|object| (object, error())).collect();
    let Some(first) = objects.iter().find(|object| object.header.index == 0) else {
        // Who writes to the file, or makes it, has its devices alone: each of them tells that itself.
        let alone = |object: &'a FoundObject| match object.is_on_device() {
            true => object.remove().err().map(|error| (object, error)),
            false => {
                let what = "the first object of its file, which tells who writes to it, was not found";
                Some((object, io::Error::other(what)))
            }
        };
        return objects.iter().filter_map(alone).collect();
    };
    let held = match hold(first) {
        Ok(held) => held,
        Err(errno) => return objects.iter().map(|object| (object, errno.into())).collect(),
    };
    // Who makes a file has its objects locked until its name leads there.
    if first.standing(&[], Duration::ZERO) == Standing::Known {
        return none(|| Errno::STALE.into());
    }
    let (others, first): (Vec<_>, Vec<_>) = objects.iter().partition(|object| object.header.index > 0);
    let remove = |object: &'a FoundObject| object.remove().err().map(|error| (object, error));
    let mut left: Vec<_> = others.into_iter().filter_map(remove).collect();
    // Without the others nobody can open it, and a device is taken once more to be wiped.
    drop(held);
    left.extend(first.into_iter().filter_map(remove));
    left
}

/// Keeps writers away from the file of a first object.
fn hold(first: &FoundObject) -> Result<fs::File, Errno> {
    if first.is_on_device() {
        return open_exclusively(&first.path).map_err(|error| errno(&error));
    }
    // Network file systems lock alone only what may be written to.
    let mut writable = fs::OpenOptions::new();
    writable.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = writable.open(&first.path).ok().or_else(|| open(&first.path)).ok_or(Errno::STALE)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Errno::BUSY)?;
    Ok(file)
}

impl FoundObject {
    /// The file that it belongs to.
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// Whether a descriptor leads to it, by whatever name.
    pub fn is_of(&self, descriptor: &Descriptor) -> bool {
        let index = self.header.index;
        let identity = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            // A device may have several nodes.
            let is_device = found.file_type().is_block_device();
            Some(if is_device { FileId::from_numbers(found.rdev(), 0) } else { FileId::of_metadata(&found) })
        };
        descriptor.id == self.header.id
            && index < descriptor.targets.len()
            && identity(&self.path).is_some_and(|own| identity(&descriptor.object_path(index)) == Some(own))
    }

    /// What is known of its file: where the object says that it is, in the same directory under another name, and among `known`,
    /// what was found elsewhere; `age` is that of [`descriptors_in`].
    pub fn standing(&self, known: &[Descriptor], age: Duration) -> Standing {
        let Some(name) = &self.header.name else {
            return self.among(known).unwrap_or_else(|| match known {
                [] => Standing::Unknown("it does not say what its file is called".to_owned()),
                _ => Standing::Gone,
            });
        };
        let there = sought(name).map(|found| found.into_iter().collect::<Vec<_>>());
        let beside = || descriptors_in(directory_of(name), age);
        let unknown = |error: io::Error| match error.kind() {
            // It may not be mounted.
            io::ErrorKind::NotFound => format!("the directory of '{}' is not there", name.display()),
            _ => format!("its file cannot be looked for: {error}"),
        };
        match self.among(known) {
            Some(standing) => standing,
            None => match there.and_then(|there| Ok((there, beside()?))) {
                Ok((there, beside)) => self.among(&there).or_else(|| self.among(&beside)).unwrap_or(Standing::Gone),
                Err(error) => Standing::Unknown(unknown(error)),
            },
        }
    }

    /// What descriptors say of it, if any is of its file.
    fn among(&self, descriptors: &[Descriptor]) -> Option<Standing> {
        let mut same = descriptors.iter().filter(|descriptor| descriptor.id == self.header.id).peekable();
        same.peek()?;
        let elsewhere = || Standing::Unknown("its file is there, and leads to another place".to_owned());
        Some(if same.any(|descriptor| self.is_of(descriptor)) { Standing::Known } else { elsewhere() })
    }

    fn is_on_device(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| found.file_type().is_block_device())
    }

    /// Removes it, or wipes it from its device, unless it is another one by now.
    fn remove(&self) -> io::Result<()> {
        if self.is_on_device() {
            let device = open_exclusively(&self.path)?;
            let same = header_on(&device)?.is_some_and(|header| header == self.header);
            let same = same && self.standing(&[], Duration::ZERO) != Standing::Known;
            return if same { wipe(&device) } else { Err(Errno::STALE.into()) };
        }
        let file = open(&self.path).ok_or(Errno::STALE)?;
        if object_in(&self.path, &file).is_none_or(|now| now.header != self.header) {
            return Err(Errno::STALE.into());
        }
        Ok(remove_name_of(&self.path, identity(&fstat(&file)?))?)
    }
}
