//! Finding objects, and the files that they belong to.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, fstat};

use super::claim::header_on;
use super::create::directory_of;
use super::device::{length_of, open_exclusively, wipe};
use super::format::{Descriptor, HEADER_LEN, Header, Id};
use super::open::descriptor_of;

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
    let file = open(path)?;
    let mut bytes = vec![0; HEADER_LEN as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let header = Header::decode(&bytes).ok()?;
    let size = file.metadata().ok()?.len();
    let called = format!(".dio-{}.{}", header.id, header.index);
    (path.file_name()? == called.as_str()).then(|| FoundObject { path: path.to_owned(), header, size })
}

fn object_on(path: &Path, device: &fs::File) -> io::Result<Option<FoundObject>> {
    let Some(header) = header_on(device)? else { return Ok(None) };
    let start = header.layout.start();
    let size = length_of(device, header.id, start).unwrap_or(start);
    Ok(Some(FoundObject { path: path.to_owned(), header, size }))
}

fn open(path: &Path) -> Option<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

/// The descriptor under a name, if there is a sound one.
pub fn descriptor_at(path: &Path) -> Option<Descriptor> {
    let file = open(path)?;
    descriptor_of(&file, &fstat(&file).ok()?, path).ok()?
}

/// The descriptors in a directory, not below it; what cannot be read is passed over.
///
/// # Errors
/// What reading the directory answers.
pub fn descriptors_in(directory: &Path) -> io::Result<Vec<Descriptor>> {
    let names = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().filter_map(|name| descriptor_at(name)).collect())
}

impl FoundObject {
    /// The file that it belongs to.
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// Whether a descriptor leads to it.
    pub fn is_of(&self, descriptor: &Descriptor) -> bool {
        let index = self.header.index;
        descriptor.id == self.header.id
            && index < descriptor.targets.len()
            && fs::canonicalize(descriptor.object_path(index)).is_ok_and(|path| path == self.path)
    }

    /// Whether the descriptor is where the object says, or in the same directory under another name.
    pub fn is_known(&self) -> bool {
        let Some(name) = &self.header.name else { return false };
        let there = descriptor_at(name).is_some_and(|descriptor| self.is_of(&descriptor));
        let beside = || descriptors_in(directory_of(name)).unwrap_or_default();
        there || beside().iter().any(|descriptor| self.is_of(descriptor))
    }

    /// Removes it, or wipes it from its device, unless it is another one by now, or somebody writes to it.
    ///
    /// # Errors
    /// EBUSY or ESTALE then; what `unlink(2)` answers.
    pub fn remove(&self) -> io::Result<()> {
        let stale = || io::Error::from(rustix::io::Errno::STALE);
        if fs::metadata(&self.path)?.file_type().is_block_device() {
            let device = open_exclusively(&self.path)?;
            let same = header_on(&device)?.is_some_and(|header| header == self.header);
            return if same { wipe(&device) } else { Err(stale()) };
        }
        if object_at(&self.path).is_none_or(|now| now.header != self.header) {
            return Err(stale());
        }
        let file = open(&self.path).ok_or_else(stale)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| rustix::io::Errno::BUSY)?;
        fs::remove_file(&self.path)
    }
}
