//! Makes striped files.
//!
//! The descriptor gets its name when all objects exist durably. A crash before leaves objects that
//! nobody refers to; a crash after leaves the file. Neither descriptor nor objects have a name
//! before they are complete, if the file system has unnamed files. Until the end they are locked,
//! so that nobody takes them for what a crash has left.

use crate::quote::quoted;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dio_sys::fd_path;
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode as Permissions, OFlags, RenameFlags, flock, fstat, linkat,
    open, renameat_with,
};
use rustix::io::Errno;

use super::claim::{ClaimedDevice, claim_devices};
use super::directory::{NameDirectory, directory_of, sync_directory};
use super::error::{format_error, object_error};
use super::format::{Descriptor, HEADER_LEN, Header, Id, StripeTarget};
use super::head::DescriptorInode;
use super::hold::{ReplaceGuard, leads_to};
use super::plan::StripePlan;
use super::redirect::{check_may_open_objects, redirected};
use super::stamp::Stamp;
use super::trust::{as_owner, explained, refused_to_owner};
use crate::file::{FileError, errno_of};
use crate::geometry::{Geometry, Mount};
use crate::layout::Layout;
use crate::patience::take_within;

/// Default size of a stripe in bytes, unless a target prefers a larger one: large enough that a
/// request of one stripe costs a disk little more than its transfer.
const DEFAULT_STRIPE_BYTES: u64 = 1 << 20;

/// The user whose rights are not limited, in a process of root's.
const ROOT: u32 = 0;

/// The extended attribute that holds the access control list of a file (`acl(5)`).
const ACL: &str = "system.posix_acl_access";

impl StripePlan {
    /// Makes the descriptor of a new file from this plan.
    ///
    /// # Errors
    /// EINVAL for a plan that makes no sense; ENOTDIR for a target that is neither a directory nor
    /// a block device; what opening the targets answers.
    pub fn descriptor(&self, name: &Path) -> Result<Descriptor, FileError> {
        let invalid = |what: &str| FileError::new("stripe", name, Errno::INVAL).with_detail(what);
        if self.targets.is_empty() {
            return Err(invalid("there are no targets"));
        }
        check_may_open_objects()
            .map_err(|errno| FileError::new("use as a target", &self.targets[0], errno))?;
        let (mut targets, mut numbers, mut liked) = (Vec::new(), Vec::new(), DEFAULT_STRIPE_BYTES);
        let mut given: Vec<(&Path, (u64, u64))> = Vec::new();
        for target in &self.targets {
            let failed =
                |error: io::Error| FileError::new("use as a target", target, errno_of(&error));
            // A target below a mount served by this process is not resolved through it: this
            // process could not answer itself.
            let is_own = redirected(target.clone()) != *target;
            let path =
                if is_own { target.clone() } else { fs::canonicalize(target).map_err(failed)? };
            let place = open(
                redirected(path.clone()),
                OFlags::PATH | OFlags::CLOEXEC,
                Permissions::empty(),
            );
            let place = fs::File::from(place.map_err(|errno| failed(errno.into()))?);
            let found = place.metadata().map_err(failed)?;
            let is_device = found.file_type().is_block_device();
            // Identifies the target whatever its name is, through links and bind mounts. A device
            // has no inode of its own.
            let own = if is_device { (found.rdev(), 0) } else { (found.dev(), found.ino()) };
            if let Some((first, _)) = given.iter().find(|(_, known)| *known == own) {
                let error = FileError::new("use as a target", target, Errno::INVAL);
                let what = if first == target {
                    "it is given twice".to_owned()
                } else {
                    same_place(first)
                };
                return Err(error.with_detail(what).with_cure(CURE_TWICE));
            }
            given.push((target, own));
            numbers.push(is_device.then_some(found.rdev()));
            if is_device {
                // The given name is kept, because it may be a lasting one, as those below
                // /dev/disk.
                targets.push(StripeTarget::Device(std::path::absolute(target).map_err(failed)?));
                continue;
            }
            if !found.is_dir() {
                return Err(FileError::new("use as a target", target, Errno::NOTDIR));
            }
            let block = rustix::fs::fstatvfs(&place).map_err(|errno| failed(errno.into()))?.f_bsize;
            liked = liked.max(block.checked_next_power_of_two().unwrap_or(0));
            targets.push(StripeTarget::Directory(path));
        }
        let count = self.count.unwrap_or(targets.len());
        let layout = Layout::new(self.stripe.unwrap_or(liked), count).map_err(invalid)?;
        let targets: Vec<StripeTarget> = targets.into_iter().cycle().take(count).collect();
        let numbers: Vec<Option<u64>> = numbers.into_iter().cycle().take(count).collect();
        let again = |index: &usize| {
            numbers[*index].is_some() && numbers[..*index].contains(&numbers[*index])
        };
        if let Some(index) = (0..count).find(again) {
            let error = FileError::new("use as a target", targets[index].path(), Errno::INVAL);
            return Err(error.with_detail("it would be two objects; a device is one"));
        }
        let layout =
            if numbers.iter().any(Option::is_some) { layout.for_devices() } else { layout };
        let id = random_id().map_err(|error| FileError::new("stripe", name, errno_of(&error)))?;
        Ok(Descriptor { id, layout, targets })
    }
}

fn same_place(first: &Path) -> String {
    format!("it leads to the same place as {}", quoted(first))
}

const BELOW_MOUNT: &str = "it is below a mount of dio, whose server makes the striped files there";
const CURE_BELOW_MOUNT: &str = "name it in the directory that is mounted; a default of its \
                                directory is followed below the mount, too";
const CURE_TWICE: &str = "name each target once; a number of objects (-c) that exceeds that of the \
                          targets deals them out in turn";

fn random_id() -> io::Result<Id> {
    let mut id = [0; 16];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut id)?;
    Ok(Id(id))
}

/// Makes an empty striped file under a free name, or in place of an empty file.
///
/// # Errors
/// EEXIST if the name belongs to anything else, or to an empty file with several names; EOPNOTSUPP
/// if the empty file has an access control list, or below a mount of dio; EBUSY if somebody has it
/// open ([`ReplaceGuard`] says when that cannot be known); what making the objects answers, with
/// the object. Nothing is left behind then, except a file that has its name already and of which
/// only that could not be made durable.
pub fn create(path: impl AsRef<Path>, plan: &StripePlan) -> Result<Descriptor, FileError> {
    let path = path.as_ref();
    create_to_be_renamed(path, plan, path)
}

/// As [`create`], for a file that will soon be renamed to `name`, which is recorded in its objects.
///
/// # Errors
/// As [`create`].
pub fn create_to_be_renamed(
    path: &Path,
    plan: &StripePlan,
    name: &Path,
) -> Result<Descriptor, FileError> {
    let old = match fs::symlink_metadata(path) {
        Ok(old) if old.is_file() && old.len() == 0 => {
            check_replaceable(path, &old)?;
            Some(old)
        }
        Ok(_) => {
            return Err(
                FileError::new("stripe", path, Errno::EXIST).with_detail("it is no empty file")
            );
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(FileError::new("stripe", path, errno_of(&error))),
    };
    make(path, plan, name, old.as_ref(), old.is_some()).map(|(descriptor, _)| descriptor)
}

/// Makes an empty striped file under a free name, with the owner and the permissions of `like`. It
/// will soon be renamed to `name`, which is recorded in its objects. Returns the descriptor file
/// open for writing: in a directory of another user, the name may belong to another file a moment
/// later.
///
/// # Errors
/// As [`create`].
pub fn create_like(
    path: &Path,
    plan: &StripePlan,
    name: &Path,
    like: &fs::Metadata,
) -> Result<(Descriptor, OwnedFd), FileError> {
    make(path, plan, name, Some(like), false)
}

fn make(
    path: &Path,
    plan: &StripePlan,
    name: &Path,
    like: Option<&fs::Metadata>,
    replaces: bool,
) -> Result<(Descriptor, OwnedFd), FileError> {
    check_not_below_mount(path)?;
    let owner = like.map_or(ROOT, MetadataExt::uid);
    let descriptor = as_owner(owner, || Ok::<_, Errno>(plan.descriptor(path)));
    let descriptor = descriptor.map_err(|errno| FileError::new("stripe", path, errno))?;
    let descriptor = descriptor.map_err(|error| explained(error, owner))?;
    let claims = claim_devices(path, &descriptor, plan.force)?;
    let names = NameDirectory::of(directory_of(path))
        .map_err(|errno| FileError::new("stripe", path, errno))?;
    let mut making = Creation {
        path,
        descriptor: &descriptor,
        names,
        like,
        replaces,
        claims,
        head: None,
        first: None,
    };
    making.make(&absolute(name)).inspect_err(|_| making.undo())?;
    let head = making.head.take().expect("a descriptor was made");
    drop(making);
    Ok((descriptor, head.file.into()))
}

/// Checks that the directory of a new striped file is not reached through a mount of dio. There the
/// server would take the descriptor for the file itself.
fn check_not_below_mount(path: &Path) -> Result<(), FileError> {
    let failed = |errno| FileError::new("stripe", path, errno);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(directory_of(path), flags, Permissions::empty()).map_err(failed)?;
    if Mount::is_of_dio(directory.as_fd()) {
        return Err(failed(Errno::OPNOTSUPP).with_detail(BELOW_MOUNT).with_cure(CURE_BELOW_MOUNT));
    }
    Ok(())
}

/// Checks that a striped file can take the place of this empty file with the same attributes.
fn check_replaceable(path: &Path, old: &fs::Metadata) -> Result<(), FileError> {
    let refused = |errno, what: &str| Err(FileError::new("stripe", path, errno).with_detail(what));
    if old.nlink() > 1 {
        return refused(
            Errno::EXIST,
            "it has other names, which would stay those of an ordinary file",
        );
    }
    if path_has_acl(path) {
        return refused(
            Errno::OPNOTSUPP,
            "it has an access control list, which its objects would not have",
        );
    }
    Ok(())
}

/// Whether an open file has an access control list (`acl(5)`) beside its permissions. The group
/// permissions are then only an upper bound.
pub fn has_acl(file: impl AsFd) -> bool {
    has_list(rustix::fs::fgetxattr(file, ACL, &mut [0u8; 1][..]))
}

/// As [`has_acl`], of what a path names; a link is not followed.
pub fn path_has_acl(path: &Path) -> bool {
    has_list(rustix::fs::lgetxattr(path, ACL, &mut [0u8; 1][..]))
}

/// Whether an access control list exists, by the answer to a request with room for one byte: a list
/// is always longer than that.
fn has_list(answer: Result<usize, Errno>) -> bool {
    matches!(answer, Err(Errno::RANGE))
}

/// The absolute path of `name`, as far as it can be determined.
fn absolute(name: &Path) -> PathBuf {
    let directory = directory_of(name);
    // Below a mount of this process canonicalize would wait for itself; an open directory has a
    // path in /proc.
    let found = fs::canonicalize(directory).or_else(|_| fs::read_link(directory));
    found.unwrap_or_else(|_| directory.to_owned()).join(name.file_name().unwrap_or_default())
}

/// A striped file that is being made.
struct Creation<'a> {
    path: &'a Path,
    descriptor: &'a Descriptor,
    /// The directory in which the file gets its name.
    names: NameDirectory,
    /// The file whose owner and permissions the new one gets.
    like: Option<&'a fs::Metadata>,
    /// Whether `like` is an empty file under the name, which is replaced.
    replaces: bool,
    /// The devices among the targets.
    claims: Vec<ClaimedDevice>,
    /// The descriptor file.
    head: Option<NewFile>,
    /// The first object, kept locked until the file is certain to stay: a process that has found it
    /// by its name and wants to write waits.
    first: Option<NewFile>,
}

impl<'a> Creation<'a> {
    fn make(&mut self, name: &Path) -> Result<(), FileError> {
        let (head, owner) = self.make_head()?;
        // The first object is made first, because by it an interrupted creation is distinguished
        // from one under way.
        if self.descriptor.is_device(0) {
            self.make_devices(head, owner, name)?;
            self.make_objects(head, owner, name)?;
        } else {
            self.make_objects(head, owner, name)?;
            self.make_devices(head, owner, name)?;
        }
        self.publish()
    }

    fn make_devices(
        &self,
        head: DescriptorInode,
        owner: u32,
        name: &Path,
    ) -> Result<(), FileError> {
        for claim in &self.claims {
            let (name, owner) = (Some(name.to_owned()), Some(owner));
            claim.make(
                self.path,
                &Header { name, owner, ..self.descriptor.header(claim.index, head) },
            )?;
        }
        Ok(())
    }

    fn failed(&self, error: io::Error) -> FileError {
        FileError::new("stripe", self.path, errno_of(&error))
    }

    /// The temporary name of the descriptor file, on file systems without unnamed files.
    fn unfinished(&self) -> PathBuf {
        self.path.with_file_name(self.descriptor.unfinished_name())
    }

    /// Makes the descriptor file durably. Returns its inode and its owner.
    fn make_head(&mut self) -> Result<(DescriptorInode, u32), FileError> {
        let bytes =
            self.descriptor.encode().map_err(|error| format_error("stripe", self.path, &error))?;
        let draft = NewFile::begin(&self.unfinished(), self.like, ROOT)
            .map_err(|error| self.failed(error))?;
        let mut file = &self.head.insert(draft).file;
        let written = file.write_all(&bytes).and_then(|()| file.sync_all());
        let head = written.and_then(|()| Ok((DescriptorInode::of(file)?, file.metadata()?.uid())));
        head.map_err(|error| self.failed(error))
    }

    /// The indexes of the objects that are files.
    fn files(&self) -> impl Iterator<Item = usize> + use<'a> {
        let descriptor = self.descriptor;
        (0..descriptor.targets.len()).filter(|index| !descriptor.is_device(*index))
    }

    fn make_objects(
        &mut self,
        head: DescriptorInode,
        owner: u32,
        name: &Path,
    ) -> Result<(), FileError> {
        for index in self.files() {
            let draft = self.make_object(index, head, owner, name)?;
            self.first.get_or_insert(draft);
        }
        let directory = |target: &StripeTarget| match target {
            StripeTarget::Directory(path) => Some(redirected(path.clone())),
            StripeTarget::Device(_) => None,
        };
        let mut targets: Vec<PathBuf> =
            self.descriptor.targets.iter().filter_map(directory).collect();
        targets.dedup();
        for target in targets {
            let synced = as_owner(owner, || sync_directory(&target));
            synced.map_err(|error| {
                explained(FileError::new("sync", &target, errno_of(&error)), owner)
            })?;
        }
        Ok(())
    }

    /// Makes an object with its header, with the rights of `owner`. All but its name is durable.
    fn make_object(
        &self,
        index: usize,
        head: DescriptorInode,
        owner: u32,
        name: &Path,
    ) -> Result<NewFile, FileError> {
        let (path, layout) = (self.descriptor.object_path(index), &self.descriptor.layout);
        let failed = |error: io::Error| match (
            errno_of(&error),
            refused_to_owner(owner, errno_of(&error)),
        ) {
            (errno, "") => object_error("stripe", self.path, index, &path, errno, "cannot be made"),
            (errno, refused) => object_error("stripe", self.path, index, &path, errno, refused),
        };
        let header = Header { name: Some(name.to_owned()), ..self.descriptor.header(index, head) };
        let senseless = |error| format_error("stripe", self.path, &error);
        let stamp =
            Stamp::first(self.descriptor.id, index, layout.start()).encode().map_err(senseless)?;
        let mut header = [header.encode().map_err(senseless)?, stamp].concat();
        header.resize(HEADER_LEN as usize, b'\n');
        let mut draft = NewFile::begin(&path, self.like, owner).map_err(failed)?;
        let geometry = Geometry::of(draft.file.as_fd()).map_err(|_| failed(Errno::INVAL.into()))?;
        if layout.stripe() % geometry.offset_align().max(geometry.mem_align()) != 0 {
            let what =
                format!("demands stripes of a multiple of {} bytes", geometry.offset_align());
            return Err(object_error("stripe", self.path, index, &path, Errno::INVAL, &what));
        }
        let written =
            draft.file.write_all(&header).and_then(|()| draft.file.set_len(layout.start()));
        let synced = written.and_then(|()| draft.file.sync_all());
        synced.and_then(|()| as_owner(owner, || draft.name(&path))).map_err(failed)?;
        Ok(draft)
    }

    /// Gives the descriptor file its name, which is free or belongs to an empty file that nobody
    /// has open.
    fn publish(&mut self) -> Result<(), FileError> {
        let (path, new) = (self.path, self.unfinished());
        let failed = |error: io::Error| FileError::new("stripe", path, errno_of(&error));
        let head = self.head.as_mut().expect("a descriptor is made before it is published");
        if self.replaces {
            let hold = ReplaceGuard::against_all(path)?;
            if hold.stat().st_size != 0 {
                return Err(failed(Errno::EXIST.into()).with_detail("it is no empty file any more"));
            }
            head.name(&new).map_err(failed)?;
            if hold.give_name_to(&new, &head.file, path)? {
                // The file exists now. If this fails, only the empty file is left behind.
                let _ = fs::remove_file(&new);
            }
            return Ok(());
        }
        if head.named {
            match renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE) {
                // File systems without the flag (renameat2(2)): linkat(2) does not replace a name
                // either.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    fs::hard_link(&new, path)
                        .and_then(|()| fs::remove_file(&new))
                        .map_err(failed)?;
                }
                other => other.map_err(|errno| failed(errno.into()))?,
            }
        } else {
            head.name(path).map_err(failed)?;
        }
        self.names.sync(&head.file).map_err(|errno| failed(errno.into()))
    }

    /// Removes what was made, unless the file has its name: then only making that durable failed,
    /// and the file is complete.
    fn undo(&self) {
        // Without a descriptor there are no objects yet.
        let Some(NewFile { file: head, .. }) = &self.head else { return };
        let Ok(stat) = fstat(head) else { return };
        if leads_to(self.path, &stat) {
            return;
        }
        // The first error is returned. The name may have led there for a moment, and may do so
        // again after a crash.
        let _ = fs::remove_file(self.unfinished());
        if self.names.sync(head).is_ok() {
            let remove = |index| {
                as_owner(stat.st_uid, || fs::remove_file(self.descriptor.object_path(index)))
            };
            self.files().for_each(|index| drop(remove(index)));
            self.claims.iter().for_each(|claim| claim.undo(self.descriptor));
        }
    }
}

/// A file that is being made, and locked. It has no name before it is complete (`O_TMPFILE`,
/// `open(2)`), if the file system supports that.
struct NewFile {
    file: fs::File,
    named: bool,
}

impl NewFile {
    /// Creates a file that is to be called `path`, or is called so at once, with the owner and the
    /// permissions of `old`. Root creates it with the rights of the user `rights`.
    fn begin(path: &Path, old: Option<&fs::Metadata>, rights: u32) -> io::Result<NewFile> {
        let draft =
            as_owner(rights, || NewFile::create(path, if old.is_some() { 0o600 } else { 0o666 }))?;
        if let Some(old) = old {
            copy_owner_and_permissions(&draft.file, old)?;
        }
        Ok(draft)
    }

    fn create(path: &Path, mode: u32) -> io::Result<NewFile> {
        let mut options = fs::OpenOptions::new();
        options.write(true).mode(mode);
        let mut unnamed = options.clone();
        unnamed.custom_flags(libc::O_TMPFILE);
        match unnamed.open(directory_of(path)) {
            // Through /proc it gets its name later.
            Ok(file) if fd_path(&file).exists() => {
                // If the file system has no such locks, nobody else tries to take one.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                Ok(NewFile { file, named: false })
            }
            // Whatever the error was, a file with a name may still work; if not, that error tells
            // more.
            _ => {
                let file = options.create_new(true).open(path)?;
                lock_new_file(&file)?;
                Ok(NewFile { file, named: true })
            }
        }
    }

    /// Gives the file a free name, if it has none yet.
    fn name(&mut self, path: &Path) -> io::Result<()> {
        if !self.named {
            linkat(CWD, fd_path(&self.file), CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            self.named = true;
        }
        Ok(())
    }
}

/// Gives a new file the owner and the permissions of the old one.
fn copy_owner_and_permissions(file: &fs::File, old: &fs::Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    // An access control list inherited from the directory would give rights that the old file does
    // not.
    match rustix::fs::fremovexattr(file, ACL) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        other => other?,
    }
    file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))
}

/// How long the maker of a new file waits for its lock. Others lock it only for a moment, to look
/// at it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Locks a new file for its maker until it is closed, so that nobody takes it for what a crash has
/// left.
///
/// # Errors
/// EBUSY if somebody else keeps it locked; ESTALE if it was removed before it was locked.
pub fn lock_new_file(file: &fs::File) -> io::Result<()> {
    // If the file system has no such locks, others go by the age of the file.
    if let Err(Errno::WOULDBLOCK) =
        take_within(PATIENCE, || flock(file, FlockOperation::NonBlockingLockExclusive))
    {
        return Err(Errno::BUSY.into());
    }
    if file.metadata()?.nlink() == 0 { Err(Errno::STALE.into()) } else { Ok(()) }
}
