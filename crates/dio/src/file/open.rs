//! Opening files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::append_state::AppendState;
use super::backing::SingleFile;
use super::counters::{Meter, Reason};
use super::error::{FileError, errno_of};
use super::handle::{Backing, CURE_BUFFERED, File, StripedObjects};
use super::latch::Latch;
use super::locking::FileLocks;
use super::mode::{Access, Mode, Need, SyncMethod};
use super::residue::Residue;
use super::syncs::Syncs;
use crate::engine::{Medium, OsMedium, Route};
use crate::geometry::{Directness, Geometry, GeometryError};
use crate::io::{Io, IoError};
use crate::lock::{LockPolicy, LockTable};
use dio_sys::{fd_path, reopen, uninterrupted};

/// How to open a file: like [`std::fs::OpenOptions`], with a mode, a need and a sync method.
///
/// ```no_run
/// use dio::{Mode, Need, OpenOptions, SyncMethod};
///
/// let log = OpenOptions::new()
///     .write(true)
///     .create(true)
///     .mode(Mode::Direct)
///     .need(Need::Required)
///     .sync_method(SyncMethod::Dsync)
///     .open("log")?;
/// # Ok::<(), dio::FileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub(super) read: bool,
    pub(super) write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    no_follow: bool,
    permissions: u32,
    pub(super) mode: Mode,
    pub(super) need: Need,
    pub(super) sync: SyncMethod,
    pub(super) lock_policy: LockPolicy,
    pub(super) direct_from: u64,
    pub(super) append_only: bool,
    io: Option<Io>,
    /// The file is an object of a striped file, so its locks are separate.
    own_locks: bool,
    /// A striped file is opened even if its objects do not fit together.
    allow_damaged: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

/// A threshold for [`OpenOptions::direct_from`], in bytes. From here on, writing through the page
/// cache gains nothing.
pub const DIRECT_FROM: u64 = 256 << 10;

const CURE_NO_BLOCKS: &str = "not a regular file or a block device";
const CURE_PREFERRED: &str = "use another file system, or allow uncached I/O";

impl OpenOptions {
    /// The defaults: mode direct, preferred, explicit sync, no access.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            no_follow: false,
            permissions: 0o666,
            mode: Mode::default(),
            need: Need::default(),
            sync: SyncMethod::default(),
            lock_policy: LockPolicy::default(),
            direct_from: 0,
            append_only: false,
            io: None,
            own_locks: false,
            allow_damaged: false,
        }
    }

    /// Opens the file for reading.
    pub fn read(&mut self, yes: bool) -> &mut Self {
        self.read = yes;
        self
    }

    /// Opens the file for writing.
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.write = yes;
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(&mut self, yes: bool) -> &mut Self {
        self.create = yes;
        self
    }

    /// Creates the file. An existing one is an error (EEXIST).
    pub fn create_new(&mut self, yes: bool) -> &mut Self {
        self.create_new = yes;
        self
    }

    /// Cuts an existing file to nothing, after everything else about the opening has succeeded.
    pub fn truncate(&mut self, yes: bool) -> &mut Self {
        self.truncate = yes;
        self
    }

    /// Makes a symbolic link as the last part of the name an error (ELOOP).
    pub fn no_follow(&mut self, yes: bool) -> &mut Self {
        self.no_follow = yes;
        self
    }

    /// Sets the permissions of a file that is created, before the umask.
    pub fn permissions(&mut self, bits: u32) -> &mut Self {
        self.permissions = bits;
        self
    }

    /// Sets how bytes travel.
    pub fn mode(&mut self, mode: Mode) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Sets whether the mode is preferred or required.
    pub fn need(&mut self, need: Need) -> &mut Self {
        self.need = need;
        self
    }

    /// Sets when written data is durable.
    pub fn sync_method(&mut self, sync: SyncMethod) -> &mut Self {
        self.sync = sync;
        self
    }

    /// Sets how much the range locks of this open cover. Opens of one file under different policies
    /// exclude each other.
    pub fn lock_policy(&mut self, policy: LockPolicy) -> &mut Self {
        self.lock_policy = policy;
        self
    }

    /// Sends reads and writes of [`File`] of fewer bytes through the page cache, where their pages
    /// stay, although the mode is direct. 0, the default, sends none there. The page cache serves
    /// small repeated requests sooner than any disk, and gathers small writes. Larger requests only
    /// lose by the copying. Measured (ext4, scattered writes with one sync at the end, cached ÷
    /// direct): 4.9 at 4 KiB, 1.6 at 64 KiB, 1.0 at 256 KiB, 0.7 at 1 MiB; reads that find nothing
    /// cached 0.9, 0.75, 0.65 and 0.6. So [`DIRECT_FROM`] suits programs that write much or read
    /// again, and 0 programs that read once. Such requests count as
    /// [`Class::Cached`](super::Class::Cached), with [`Reason::Small`]. Their writes are durable
    /// after a sync, as always.
    ///
    /// It has an effect in direct mode only: a write through the page cache needs its pages to
    /// itself, and in concurrent mode nobody waits. Queues, streams and copies keep requests of
    /// their own sizes in flight and ignore it.
    pub fn direct_from(&mut self, bytes: u64) -> &mut Self {
        self.direct_from = bytes;
        self
    }

    /// Opens the file for appending only, by [`File::append`]. The system demands this of files
    /// with that attribute (`chattr +a`).
    pub fn append_only(&mut self, yes: bool) -> &mut Self {
        self.append_only = yes;
        self
    }

    /// Sets the shared I/O to use instead of the process's.
    pub fn io(&mut self, io: &Io) -> &mut Self {
        self.io = Some(io.clone());
        self
    }

    /// Opens `path` as a file of the system, whatever it holds.
    pub(crate) fn open_medium_at(&self, path: &Path) -> Result<OsMedium, FileError> {
        self.descriptors(path).map_err(|errno| match errno {
            // A socket, or a FIFO that nobody reads.
            Errno::NXIO if self.is_without_blocks(path) => {
                FileError::new("open", path, Errno::INVAL).with_cure(CURE_NO_BLOCKS)
            }
            errno => FileError::new("open", path, errno),
        })
    }

    /// Takes over a file descriptor that was opened without `O_DIRECT`.
    pub(crate) fn take_over(&self, fd: OwnedFd, name: &Path) -> Result<OsMedium, FileError> {
        let fd = self.with_sync(fd).map_err(|errno| FileError::new("open", name, errno))?;
        let medium = if self.mode.wants_direct() {
            self.with_direct_descriptor(fd)
        } else {
            Ok(OsMedium::buffered(fd))
        };
        medium.map_err(|errno| FileError::new("open", name, errno))
    }

    /// Opens the same file with the sync method asked for, which `fcntl(2)` cannot give to an open
    /// descriptor.
    fn with_sync(&self, fd: OwnedFd) -> Result<OwnedFd, Errno> {
        if !self.write
            || self.sync == SyncMethod::Explicit
            || rustix::fs::fcntl_getfl(&fd)?.contains(self.sync_flags())
        {
            return Ok(fd);
        }
        reopen(fd, self.access())
    }

    fn sync_flags(&self) -> OFlags {
        match self.sync {
            SyncMethod::Explicit => OFlags::empty(),
            SyncMethod::Dsync => OFlags::DSYNC,
            SyncMethod::Sync => OFlags::SYNC,
        }
    }

    /// Asks what the opened file demands. Where it has no direct I/O, falls back or refuses. The
    /// caller has made sure that the file is not the descriptor of a striped file.
    pub(crate) fn finish(&self, medium: OsMedium, path: &Path) -> Result<File, FileError> {
        let failed = |errno| FileError::new("open", path, errno);
        let geometry = Geometry::of(medium.any()).map_err(|error| match error {
            GeometryError::NoBlocks => failed(Errno::INVAL).with_cure(CURE_NO_BLOCKS),
            other => failed(geometry_errno(&other)),
        })?;
        let stat = rustix::fs::fstat(medium.any()).map_err(failed)?;
        let refused = self.mode.wants_direct()
            && (medium.descriptor(Route::Direct).is_err()
                || geometry.directness() == Directness::Refused);
        if refused && self.need == Need::Required {
            return Err(FileError::new("open for direct I/O", path, Errno::OPNOTSUPP)
                .with_cure(CURE_PREFERRED));
        }
        let medium = match refused {
            true => medium.without_direct().map_err(|error| failed(errno_of(&error)))?,
            false => medium,
        };
        let proven = !super::residue::needs_trial(&geometry);
        let buffers = self.write
            && self.mode.wants_direct()
            && !refused
            && !proven
            && super::held::buffers_writes(medium.any(), geometry.offset_align()) == Some(true);
        if buffers && self.need == Need::Required {
            let failed = FileError::new("open for direct writes", path, Errno::OPNOTSUPP);
            return Err(failed.with_cure(CURE_BUFFERED));
        }
        let io = self.shared_io(path)?;
        self.check_limits(path, &io, &geometry)?;
        let table = if self.own_locks { LockTable::new() } else { LockTable::of_file(&stat) };
        if self.mode != Mode::Cached {
            medium.no_read_ahead();
        }
        let (os, refusal) = (Arc::new(medium), refused.then_some(Reason::NoDirectIo));
        let residue =
            if buffers { Residue::of_buffered_writes(proven) } else { Residue::new(proven) };
        let backing =
            Backing::Single(SingleFile { medium: os.clone(), os: Some(os), refusal, residue });
        let file = self.assemble(path, io, geometry, backing, table);
        if self.truncate && stat.st_size > 0 {
            file.set_size(0)?;
        }
        Ok(file)
    }

    /// Makes a file of the objects of a striped one, which were opened with these options.
    pub(crate) fn over_objects(
        &self,
        path: &Path,
        striped: Arc<dyn StripedObjects>,
        geometry: Geometry,
        table: Arc<LockTable>,
    ) -> File {
        let io = striped.objects()[0].io().clone();
        self.assemble(path, io, geometry, Backing::Striped(striped), table)
    }

    fn assemble(
        &self,
        path: &Path,
        io: Io,
        geometry: Geometry,
        backing: Backing,
        table: Arc<LockTable>,
    ) -> File {
        let access = Access {
            mode: self.mode,
            need: self.need,
            direct_from: if self.mode == Mode::Direct { self.direct_from } else { 0 },
            writable: self.write,
            only_appends: self.append_only,
            durable: self.sync != SyncMethod::Explicit,
        };
        File {
            path: path.to_owned(),
            io,
            geometry,
            access,
            traits: backing.traits(),
            backing,
            locks: FileLocks::new(table, self.lock_policy, self.mode),
            meter: Meter::default(),
            syncs: Syncs::default(),
            appending: AppendState::default(),
            latch: Latch::default(),
        }
    }

    /// Makes a file of the caller's own medium, such as the simulator's, with alignments in bytes.
    ///
    /// # Errors
    /// [`FileError`] when there is no [`Io`]; EINVAL when a block of the file exceeds the bounce
    /// blocks.
    pub fn open_medium(
        &self,
        name: impl AsRef<Path>,
        medium: Arc<dyn Medium>,
        geometry: Geometry,
    ) -> Result<File, FileError> {
        let io = self.shared_io(name.as_ref())?;
        self.check_limits(name.as_ref(), &io, &geometry)?;
        let residue = Residue::new(!super::residue::needs_trial(&geometry));
        let backing = Backing::Single(SingleFile { medium, os: None, refusal: None, residue });
        Ok(self.assemble(name.as_ref(), io, geometry, backing, LockTable::new()))
    }

    /// The I/O that the file is to use.
    pub(crate) fn shared_io(&self, path: &Path) -> Result<Io, FileError> {
        match &self.io {
            Some(io) => Ok(io.clone()),
            None => Io::shared().map_err(|error| no_io(path, &error)),
        }
    }

    /// The options for the objects of a striped file that is opened with these. Objects are always
    /// readable, since their headers are read.
    pub(crate) fn for_object(&self, io: &Io) -> OpenOptions {
        let mut options = self.clone();
        options.read(true).create(false).create_new(false).truncate(false).no_follow(false).io(io);
        options.own_locks = true;
        options
    }

    /// Opens an object of a striped file that was found at `path`, whatever is there by now.
    pub(crate) fn open_found(&self, found: &OwnedFd, path: &Path) -> Result<File, FileError> {
        let medium = self
            .descriptors(&fd_path(found))
            .map_err(|errno| FileError::new("open", path, errno))?;
        self.finish(medium, path)
    }

    /// Opens a striped file even if its objects are damaged, as far as that is possible. The bytes
    /// that they hold become the file.
    pub fn allow_damaged(&mut self) -> &mut Self {
        self.allow_damaged = true;
        self
    }

    pub(crate) fn allows_damaged(&self) -> bool {
        self.allow_damaged
    }

    pub(crate) fn reads(&self) -> bool {
        self.read
    }

    pub(crate) fn writes(&self) -> bool {
        self.write
    }

    pub(crate) fn is_cached(&self) -> bool {
        self.mode == Mode::Cached
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.sync != SyncMethod::Explicit
    }

    /// Whether a missing file is created, and whether an existing one is an error.
    pub(crate) fn creates(&self) -> (bool, bool) {
        (self.create || self.create_new, self.create_new)
    }

    pub(crate) fn truncates(&self) -> bool {
        self.truncate
    }

    /// Misaligned requests go through bounce blocks, so each bounce block must hold a block of the
    /// file.
    fn check_limits(&self, path: &Path, io: &Io, geometry: &Geometry) -> Result<(), FileError> {
        let block = geometry.offset_align().max(geometry.read_offset_align());
        if self.mode.wants_direct() && block > io.bounce().block_len() as u64 {
            let cure = "use larger bounce blocks: Limits::bounce_block is smaller than a block of \
                        the file";
            return Err(FileError::new("open", path, Errno::INVAL).with_cure(cure));
        }
        Ok(())
    }

    /// Adds a direct descriptor to an open file, if the file system allows it.
    fn with_direct_descriptor(&self, fd: OwnedFd) -> Result<OsMedium, Errno> {
        let direct = match add_direct(fd.as_fd(), self.access()) {
            Err(Errno::ACCESS) => add_direct_as_owner(fd.as_fd(), self.access()),
            other => other,
        };
        match direct {
            Ok(direct) => Ok(OsMedium::both(direct, fd)),
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(errno),
            // There is no `O_DIRECT` here (EINVAL), or no /proc.
            Err(_) => Ok(OsMedium::buffered(fd)),
        }
    }

    /// Access mode, sync flags and `O_APPEND`: the flags for a second descriptor of the same file.
    fn access(&self) -> OFlags {
        let access = match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let append = if self.append_only && self.write { OFlags::APPEND } else { OFlags::empty() };
        access | append | self.sync_flags() | OFlags::CLOEXEC
    }

    /// Whether the name is one of something without blocks. Any error is for open(2) to report.
    fn is_without_blocks(&self, path: &Path) -> bool {
        let found = if self.no_follow { rustix::fs::lstat(path) } else { rustix::fs::stat(path) };
        found.is_ok_and(|stat| {
            matches!(
                FileType::from_raw_mode(stat.st_mode),
                FileType::Fifo | FileType::Socket | FileType::CharacterDevice
            )
        })
    }

    /// Opens a name, of whatever it is, without waiting for the other side of a FIFO or the carrier
    /// of a terminal; only for the end of a lease (`fcntl(2)`), which any regular file may have.
    fn open_at_once(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let permissions = Permissions::from_raw_mode(self.permissions);
        let open = |flags| uninterrupted(|| rustix::fs::open(path, flags, permissions));
        if self.create_new {
            return open(flags);
        }
        match open(flags | OFlags::NONBLOCK) {
            Ok(fd) => {
                // io_uring would not wait for the disk (`io_rw_init_file`, `io_uring/rw.c`).
                rustix::fs::fcntl_setfl(&fd, flags)?;
                Ok(fd)
            }
            Err(Errno::AGAIN) => {
                let not_again = OFlags::CREATE | OFlags::NOFOLLOW;
                let found = open(OFlags::PATH | OFlags::CLOEXEC | (flags & OFlags::NOFOLLOW))?;
                let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
                // The file itself is opened again, whatever has taken its name by now.
                if kind == FileType::RegularFile {
                    reopen(&found, flags - not_again)
                } else {
                    Err(Errno::AGAIN)
                }
            }
            Err(errno) => Err(errno),
        }
    }

    /// Opens the descriptors. A refusal of `O_DIRECT` is no error here: the medium then lacks that
    /// descriptor.
    fn descriptors(&self, path: &Path) -> Result<OsMedium, Errno> {
        let mut flags = self.access() | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, self.no_follow);
        flags.set(OFlags::CREATE, self.create || self.create_new);
        flags.set(OFlags::EXCL, self.create_new);
        let open = |more: OFlags| self.open_at_once(path, flags | more);
        if !self.mode.wants_direct() {
            return Ok(OsMedium::buffered(open(OFlags::empty())?));
        }
        if flags.contains(OFlags::CREATE) {
            // A file system without O_DIRECT creates the file before it refuses the flag, so
            // creation comes first.
            let fd = open(OFlags::empty())?;
            return self.with_direct_descriptor(fd);
        }
        match open(OFlags::DIRECT) {
            Ok(fd) => {
                let medium = OsMedium::direct(fd, self.access());
                match self.write.then(|| medium.descriptor(Route::Buffered).map(|_| ())) {
                    // The ends of writes need the other descriptor, and the permission for it may
                    // be gone later.
                    None | Some(Ok(())) => Ok(medium),
                    // Without /proc whole blocks can still be written.
                    Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(medium),
                    Some(Err(error)) => Err(errno_of(&error)),
                }
            }
            // open(2): EINVAL, "The filesystem does not support the O_DIRECT flag".
            Err(Errno::INVAL) => Ok(OsMedium::buffered(open(OFlags::empty())?)),
            Err(errno) => Err(errno),
        }
    }
}

/// Opens a file once more although its permissions forbid it, which its owner may do: this process
/// may have created the file read-only and hold it open for writing. The permissions are restored
/// before it returns.
fn add_direct_as_owner(fd: BorrowedFd<'_>, access: OFlags) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(fd)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS);
    }
    let before = Permissions::from_raw_mode(stat.st_mode & 0o7777);
    rustix::fs::fchmod(fd, before | Permissions::RUSR | Permissions::WUSR)?;
    let direct = add_direct(fd, access);
    rustix::fs::fchmod(fd, before)?;
    direct
}

/// Opens a second descriptor of an open file, with `O_DIRECT`.
fn add_direct(fd: BorrowedFd<'_>, access: OFlags) -> Result<OwnedFd, Errno> {
    reopen(fd, access | OFlags::DIRECT)
}

fn no_io(path: &Path, error: &IoError) -> FileError {
    match error {
        IoError::Engine(_) => FileError::new("open", path, Errno::INVAL)
            .with_cure("DIO_ENGINE asks for what cannot be had"),
        IoError::Memory { .. } => FileError::new("open", path, Errno::NOMEM),
    }
}

fn geometry_errno(error: &GeometryError) -> Errno {
    match error {
        GeometryError::System { source, .. } => {
            Errno::from_io_error(source).unwrap_or(Errno::INVAL)
        }
        _ => Errno::INVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_engine_is_not_taken_for_a_lack_of_memory() {
        let error = crate::engine::SelectionError::Unknown("bogus".into());
        let error = no_io(Path::new("file"), &IoError::Engine(error));
        assert!(error.to_string().contains("DIO_ENGINE"), "{error}");
    }

    #[test]
    fn an_adopted_file_has_the_sync_method_on_both_descriptors() {
        for (mode, sync, flags) in [
            (Mode::Direct, SyncMethod::Dsync, OFlags::DSYNC),
            (Mode::Uncached, SyncMethod::Sync, OFlags::SYNC),
        ] {
            let plain = tempfile::tempfile_in("/var/tmp").unwrap();
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .mode(mode)
                .sync_method(sync)
                .adopt(plain.into(), "plain")
                .unwrap();
            for route in [file.default_routing().route, Route::Buffered] {
                let os = file.os_medium().unwrap();
                let fd = os.descriptor(route).unwrap();
                assert!(rustix::fs::fcntl_getfl(fd).unwrap().contains(flags), "{mode:?} {route:?}");
            }
        }
    }
}
