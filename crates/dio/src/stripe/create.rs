//! Making striped files.
//!
//! The descriptor appears under its name when all objects are there, durably: a crash before leaves objects that nobody
//! refers to, one after leaves the file. Neither has a name before it is complete, where the file system has files without one; and until the end
//! what is made is locked, so that nobody takes it for what a crash has left.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode as Permissions, OFlags, RenameFlags, flock, fstat, linkat, open, renameat_with,
};
use rustix::io::Errno;

use super::claim::{Claim, claim};
use super::directory::Names;
use super::format::{Descriptor, HEADER_LEN, Header, Id, Target};
use super::head::Head;
use super::hold::{Hold, leads_to};
use super::open::{of_object, wrong};
use super::reach::{may_look, through};
use super::stamp::Stamp;
use crate::file::FileError;
use crate::geometry::Geometry;
use crate::layout::Layout;

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
    pub fn descriptor(&self, name: &Path) -> Result<Descriptor, FileError> {
        let invalid = |what: &str| FileError::new("stripe", name, Errno::INVAL).with_detail(what);
        if self.targets.is_empty() {
            return Err(invalid("there are no targets"));
        }
        may_look().map_err(|errno| FileError::new("use as a target", &self.targets[0], errno))?;
        let (mut targets, mut numbers, mut liked) = (Vec::new(), Vec::new(), USUAL_STRIPE);
        let mut given: Vec<(&Path, (u64, u64))> = Vec::new();
        for target in &self.targets {
            let failed = |error: io::Error| FileError::new("use as a target", target, errno(&error));
            // One that leads through a mount of this process is not looked for there: nobody would answer.
            let is_own = through(target.clone()) != *target;
            let path = if is_own { target.clone() } else { fs::canonicalize(target).map_err(failed)? };
            let place = open(through(path.clone()), OFlags::PATH | OFlags::CLOEXEC, Permissions::empty());
            let place = fs::File::from(place.map_err(|errno| failed(errno.into()))?);
            let found = place.metadata().map_err(failed)?;
            let is_device = found.file_type().is_block_device();
            // By whatever name, through links or bind mounts. A device has no inode of its own.
            let own = if is_device { (found.rdev(), 0) } else { (found.dev(), found.ino()) };
            if let Some((first, _)) = given.iter().find(|(_, known)| *known == own) {
                let error = FileError::new("use as a target", target, Errno::INVAL);
                let what = if first == target { "it is given twice".to_owned() } else { twice(first) };
                return Err(error.with_detail(what).with_cure(CURE_TWICE));
            }
            given.push((target, own));
            numbers.push(is_device.then_some(found.rdev()));
            if is_device {
                // Under the name that was given, which may be one that lasts, as those below /dev/disk.
                targets.push(Target::Device(std::path::absolute(target).map_err(failed)?));
                continue;
            }
            if !found.is_dir() {
                return Err(FileError::new("use as a target", target, Errno::NOTDIR));
            }
            let block = rustix::fs::fstatvfs(&place).map_err(|errno| failed(errno.into()))?.f_bsize;
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

fn twice(first: &Path) -> String {
    format!("it leads to the same place as '{}'", first.display())
}

const CURE_TWICE: &str =
    "name each target once; a number of objects (-c) that exceeds that of the targets deals them out in turn";

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
    make(path, plan, name, old.as_ref(), old.is_some()).map(|(descriptor, _)| descriptor)
}

/// Makes an empty striped file under a name that is free, with the owner and the permissions of another one. It will soon
/// be called `name`: its objects are told so. Returns the descriptor, open for writing: in a directory of somebody else,
/// what has the name a moment later may be another file.
///
/// # Errors
/// As [`create`].
pub fn create_like(
    path: &Path,
    plan: &Plan,
    name: &Path,
    like: &fs::Metadata,
) -> Result<(Descriptor, OwnedFd), FileError> {
    make(path, plan, name, Some(like), false)
}

fn make(
    path: &Path,
    plan: &Plan,
    name: &Path,
    like: Option<&fs::Metadata>,
    replaces: bool,
) -> Result<(Descriptor, OwnedFd), FileError> {
    let descriptor = plan.descriptor(path)?;
    let claims = claim(path, &descriptor, plan.force)?;
    let names = Names::of(directory_of(path)).map_err(|errno| FileError::new("stripe", path, errno))?;
    let mut making = Making { path, descriptor: &descriptor, names, like, replaces, claims, head: None, first: None };
    making.make(&absolute(name)).inspect_err(|_| making.withdraw())?;
    let head = making.head.take().expect("a descriptor was made");
    drop(making);
    Ok((descriptor, head.file.into()))
}

/// Whether what takes the place of an empty file can be like it.
fn keepable(path: &Path, old: &fs::Metadata) -> Result<(), FileError> {
    let refused = |errno, what: &str| Err(FileError::new("stripe", path, errno).with_detail(what));
    if old.nlink() > 1 {
        return refused(Errno::EXIST, "it has other names, which would stay those of an ordinary file");
    }
    if is_list(rustix::fs::lgetxattr(path, ACL, &mut [0u8; 1][..])) {
        return refused(Errno::OPNOTSUPP, "it has an access control list, which its objects would not have");
    }
    Ok(())
}

/// Whether an open file has an access control list (`acl(5)`) beside its permissions, of which those of the group are then
/// but a bound.
pub fn has_acl(file: impl AsFd) -> bool {
    is_list(rustix::fs::fgetxattr(file, ACL, &mut [0u8; 1][..]))
}

/// What asking for a list with room for one byte has answered: longer than that it is, if it is there.
fn is_list(answer: Result<usize, Errno>) -> bool {
    matches!(answer, Err(Errno::RANGE))
}

/// A name that leads there from everywhere, as far as it can be found out.
fn absolute(name: &Path) -> PathBuf {
    let directory = directory_of(name);
    // In a mount of this process nobody answers; what is open there has a name all the same.
    let found = fs::canonicalize(directory).or_else(|_| fs::read_link(directory));
    found.unwrap_or_else(|_| directory.to_owned()).join(name.file_name().unwrap_or_default())
}

/// A striped file on its way.
struct Making<'a> {
    path: &'a Path,
    descriptor: &'a Descriptor,
    /// The directory of the name.
    names: Names,
    /// The file whose owner and permissions it gets.
    like: Option<&'a fs::Metadata>,
    /// That one is an empty file that has the name.
    replaces: bool,
    /// The devices among the targets.
    claims: Vec<Claim>,
    /// The descriptor.
    head: Option<Draft>,
    /// The first object. Until it is certain that the file stays, nobody writes to it: who has found it by its name waits.
    first: Option<Draft>,
}

impl<'a> Making<'a> {
    fn make(&mut self, name: &Path) -> Result<(), FileError> {
        let (head, owner) = self.make_head()?;
        // The first object first: what an interruption leaves is told from what somebody makes by that one.
        if self.descriptor.is_device(0) {
            self.make_devices(head, owner, name)?;
            self.make_objects(head, name)?;
        } else {
            self.make_objects(head, name)?;
            self.make_devices(head, owner, name)?;
        }
        self.publish()
    }

    fn make_devices(&self, head: Head, owner: u32, name: &Path) -> Result<(), FileError> {
        for claim in &self.claims {
            let (name, owner) = (Some(name.to_owned()), Some(owner));
            claim.make(self.path, &Header { name, owner, ..self.descriptor.header(claim.index, head) })?;
        }
        Ok(())
    }

    fn failed(&self, error: io::Error) -> FileError {
        FileError::new("stripe", self.path, errno(&error))
    }

    /// The name of the descriptor where it needs one before it has its own.
    fn unfinished(&self) -> PathBuf {
        self.path.with_file_name(self.descriptor.unfinished_name())
    }

    /// The descriptor, durably; which inode it is, and whose.
    fn make_head(&mut self) -> Result<(Head, u32), FileError> {
        let bytes = self.descriptor.encode().map_err(|error| wrong("stripe", self.path, &error))?;
        let draft = Draft::begin(&self.unfinished(), self.like).map_err(|error| self.failed(error))?;
        let mut file = &self.head.insert(draft).file;
        let written = file.write_all(&bytes).and_then(|()| file.sync_all());
        let head = written.and_then(|()| Ok((Head::of(file)?, file.metadata()?.uid())));
        head.map_err(|error| self.failed(error))
    }

    /// The objects that are files.
    fn files(&self) -> impl Iterator<Item = usize> + use<'a> {
        let descriptor = self.descriptor;
        (0..descriptor.targets.len()).filter(|index| !descriptor.is_device(*index))
    }

    fn make_objects(&mut self, head: Head, name: &Path) -> Result<(), FileError> {
        for index in self.files() {
            let draft = self.make_object(index, head, name)?;
            self.first.get_or_insert(draft);
        }
        let directory = |target: &Target| match target {
            Target::Directory(path) => Some(through(path.clone())),
            Target::Device(_) => None,
        };
        let mut targets: Vec<PathBuf> = self.descriptor.targets.iter().filter_map(directory).collect();
        targets.dedup();
        for target in targets {
            sync_directory(&target).map_err(|error| FileError::new("sync", &target, errno(&error)))?;
        }
        Ok(())
    }

    /// An object with its header, durably but for its name.
    fn make_object(&self, index: usize, head: Head, name: &Path) -> Result<Draft, FileError> {
        let (path, layout) = (self.descriptor.object_path(index), &self.descriptor.layout);
        let failed = |error: io::Error| of_object("stripe", self.path, index, &path, errno(&error), "cannot be made");
        let header = Header { name: Some(name.to_owned()), ..self.descriptor.header(index, head) };
        let senseless = |error| wrong("stripe", self.path, &error);
        let stamp = Stamp::first(self.descriptor.id, index, layout.start()).encode().map_err(senseless)?;
        let mut header = [header.encode().map_err(senseless)?, stamp].concat();
        header.resize(HEADER_LEN as usize, b'\n');
        let mut draft = Draft::begin(&path, self.like).map_err(failed)?;
        let geometry = Geometry::of(draft.file.as_fd()).map_err(|_| failed(Errno::INVAL.into()))?;
        if layout.stripe() % geometry.offset_align().max(geometry.mem_align()) != 0 {
            let what = format!("demands stripes of a multiple of {} bytes", geometry.offset_align());
            return Err(of_object("stripe", self.path, index, &path, Errno::INVAL, &what));
        }
        let written = draft.file.write_all(&header).and_then(|()| draft.file.set_len(layout.start()));
        written.and_then(|()| draft.file.sync_all()).and_then(|()| draft.name(&path)).map_err(failed)?;
        Ok(draft)
    }

    /// Gives the descriptor its name, which is free, or that of an empty file that nobody has open.
    fn publish(&mut self) -> Result<(), FileError> {
        let (path, new) = (self.path, self.unfinished());
        let failed = |error: io::Error| FileError::new("stripe", path, errno(&error));
        let head = self.head.as_mut().expect("a descriptor is made before it is published");
        if self.replaces {
            let hold = Hold::against_all(path)?;
            if hold.stat().st_size != 0 {
                return Err(failed(Errno::EXIST.into()).with_detail("it is no empty file any more"));
            }
            head.name(&new).map_err(failed)?;
            if hold.give_name_to(&new, &head.file, path)? {
                // The file is made. What stays if this fails is the empty one.
                let _ = fs::remove_file(&new);
            }
            return Ok(());
        }
        if head.named {
            match renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE) {
                // File systems without the flag (renameat2(2)): a link is not made over a name either.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    fs::hard_link(&new, path).and_then(|()| fs::remove_file(&new)).map_err(failed)?;
                }
                other => other.map_err(|errno| failed(errno.into()))?,
            }
        } else {
            head.name(path).map_err(failed)?;
        }
        self.names.sync(&head.file).map_err(|errno| failed(errno.into()))
    }

    /// Takes away what was made, unless it has its name: what failed then is to make that durable, and the file is whole.
    fn withdraw(&self) {
        // Without a descriptor there are no objects yet.
        let Some(Draft { file: head, .. }) = &self.head else { return };
        if fstat(head).is_ok_and(|head| leads_to(self.path, &head)) {
            return;
        }
        // The error that is told is the first. The name may have led there for a moment, and may after a crash.
        let _ = fs::remove_file(self.unfinished());
        if self.names.sync(head).is_ok() {
            self.files().for_each(|index| drop(fs::remove_file(self.descriptor.object_path(index))));
            self.claims.iter().for_each(|claim| claim.undo(self.descriptor));
        }
    }
}

/// A file that is being made, locked. It has no name before it is complete (`O_TMPFILE`, `open(2)`), where the file system can do that.
struct Draft {
    file: fs::File,
    named: bool,
}

impl Draft {
    /// A file that is to be called `path`, or is at once, with the owner and the permissions of the old one.
    fn begin(path: &Path, old: Option<&fs::Metadata>) -> io::Result<Draft> {
        let mut options = fs::OpenOptions::new();
        options.write(true).mode(if old.is_some() { 0o600 } else { 0o666 });
        let mut unnamed = options.clone();
        unnamed.custom_flags(libc::O_TMPFILE);
        let draft = match unnamed.open(directory_of(path)) {
            // By this it gets its name later.
            Ok(file) if Path::new(&called(&file)).exists() => {
                // Where there are no such locks, nobody asks for one either.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                Draft { file, named: false }
            }
            // Whatever it was, a name may help; if not, its error tells more.
            _ => {
                let file = options.create_new(true).open(path)?;
                take_new(&file)?;
                Draft { file, named: true }
            }
        };
        if let Some(old) = old {
            be_like(&draft.file, old)?;
        }
        Ok(draft)
    }

    /// Gives it its name, if it has none; one that is free.
    fn name(&mut self, path: &Path) -> io::Result<()> {
        if !self.named {
            linkat(CWD, called(&self.file), CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            self.named = true;
        }
        Ok(())
    }
}

/// Gives a new file the owner and the permissions of the old one.
fn be_like(file: &fs::File, old: &fs::Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    // What the directory hands down would give rights that the old file does not.
    match rustix::fs::fremovexattr(file, ACL) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        other => other?,
    }
    file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))
}

/// How a file is called that has no name.
fn called(file: &fs::File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The directory that a name is in.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes durable what names a directory has.
///
/// # Errors
/// What opening and `fsync(2)` answer.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    match fs::File::open(path)?.sync_all() {
        // Not every file system syncs directories (EINVAL, fsync(2)).
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
        other => other,
    }
}

/// How often a new file is asked for by its maker; whoever looks at it has it for a moment only.
const TAKE_ATTEMPTS: u32 = 10;

/// Locks a new file for its maker until it is closed, so that nobody takes it for what a crash has left.
///
/// # Errors
/// EBUSY when somebody else keeps it, ESTALE when it was removed before this.
pub fn take_new(file: &fs::File) -> io::Result<()> {
    for attempt in 0.. {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if attempt < TAKE_ATTEMPTS => {
                std::thread::sleep(Duration::from_millis(1 << attempt));
            }
            Err(Errno::WOULDBLOCK) => return Err(Errno::BUSY.into()),
            // Where there are no such locks, it goes by its age.
            Ok(()) | Err(_) => break,
        }
    }
    if file.metadata()?.nlink() == 0 { Err(Errno::STALE.into()) } else { Ok(()) }
}
