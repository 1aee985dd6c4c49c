//! The writer, on the machine whose plug is pulled: writes numbered blocks, syncs them, and reports
//! the numbers to the witness.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dio::block::{Block, Pool};
use dio_sys::uninterrupted;
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::block::{HEADER, fill, header};
use super::identity::WitnessIdentity;
use super::link::{Contact, Link};
use super::place::{directory_of, file_system_of};
use super::protocol::{WitnessRequest, WitnessSession};
use crate::synctest::case::{Method, Pattern};
use crate::synctest::error::SyncError;
use crate::synctest::file::write_all;
use crate::synctest::parent;
use crate::synctest::work::StopCheck;

/// The parameters of a writer.
#[derive(Clone, Debug)]
pub struct WriterPlan {
    /// The witness to report to.
    pub witness: Contact,
    /// A new file, or a directory in which one is created.
    pub path: PathBuf,
    /// Whether an existing file may be overwritten.
    pub force: bool,
    /// The method of making blocks durable.
    pub method: Method,
    /// Whether blocks bypass the page cache.
    pub direct: bool,
    /// The pattern of the first lap; once the file is full, blocks overwrite old ones.
    pub pattern: Pattern,
    /// Bytes of a block, a power of two.
    pub size: u64,
    /// Bytes of the file.
    pub file_size: u64,
    /// Duration of writing; unlimited if `None`.
    pub time: Option<Duration>,
}

/// The result of a writer that was ended.
#[derive(Clone, Debug)]
pub struct Written {
    /// The session.
    pub session: WitnessSession,
    /// Number of blocks that the disk has acknowledged as durable.
    pub durable: u64,
    /// Number of these blocks that the witness has kept.
    pub confirmed: u64,
    /// Duration of writing.
    pub time: Duration,
}

/// Writes until the time is over, until `asked` returns true, or until the power fails. Calls
/// `progress` with the session at its beginning, and from time to time with the number of blocks.
///
/// # Errors
/// [`SyncError`]: the file, the disk or the witness failed. The file is kept if blocks were
/// written.
pub fn write(
    plan: &WriterPlan,
    progress: &dyn Fn(&WitnessSession, u64),
    asked: StopCheck<'_>,
) -> Result<Written, SyncError> {
    if !plan.method.is_durable() {
        let method = plan.method.name();
        return Err(SyncError::Asked(format!(
            "{method} makes nothing durable, so no disk can be held to it"
        )));
    }
    let identity =
        WitnessIdentity::random().map_err(SyncError::system("read", Path::new("/dev/urandom")))?;
    let (path, fresh) = place(plan, identity)?;
    let start = first_block(plan.size);
    let slots = plan.file_size.saturating_sub(start) / plan.size;
    if slots < 4 {
        return Err(SyncError::Asked(format!(
            "a file of {} bytes has no room for four blocks",
            plan.file_size
        )));
    }
    let held = create(&path, fresh)?;
    // From here on the file is ours. Until it contains blocks it is of no use, so it is removed on
    // errors.
    let mut unused = Unused(fresh.then(|| path.clone()));
    let absolute = std::fs::canonicalize(&path).map_err(SyncError::system("find", &path))?;
    let session = WitnessSession {
        identity,
        size: plan.size,
        slots,
        boot: boot_id(),
        host: host(),
        path: absolute.to_string_lossy().into_owned(),
        file_system: file_system_of(&held),
        directory: directory_of(&absolute)?,
        method: plan.method.name().to_owned(),
    };
    let mut link = Link::begin(&plan.witness, &session, asked)?;
    prepare(&held, &path, plan, &session)?;
    let mut writer = Writer::open(plan, &path, &session)?;
    progress(&session, 0);
    unused.0 = None;
    run(plan, &mut writer, &mut link, progress, asked)
}

fn run(
    plan: &WriterPlan,
    writer: &mut Writer<'_>,
    link: &mut Link<'_>,
    progress: &dyn Fn(&WitnessSession, u64),
    asked: StopCheck<'_>,
) -> Result<Written, SyncError> {
    let session = writer.session;
    let begun = Instant::now();
    let mut told = begun;
    let mut number = 0;
    while !asked() && plan.time.is_none_or(|time| begun.elapsed() < time) {
        // The writer is never more than half a ring ahead of the last confirmed number (see the
        // documentation of the module `witness`).
        if number >= link.confirmed() + session.slots / 2 {
            link.wait(number + 1 - session.slots / 2, &WitnessRequest::Done(number))?;
        }
        writer.write(number + 1)?;
        number += 1;
        link.tell(&WitnessRequest::Done(number))?;
        if told.elapsed() > Duration::from_millis(200) {
            told = Instant::now();
            progress(session, number);
        }
    }
    let time = begun.elapsed();
    if number > 0 {
        link.tell(&WitnessRequest::End(number))?;
        link.wait(number, &WitnessRequest::End(number))?;
    }
    Ok(Written { session: session.clone(), durable: number, confirmed: link.confirmed(), time })
}

/// The file's name, and whether it has to be created.
fn place(plan: &WriterPlan, identity: WitnessIdentity) -> Result<(PathBuf, bool), SyncError> {
    let path = &plan.path;
    match rustix::fs::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => Ok((path.join(format!("dio-synctest-{identity}.data")), true)),
        Ok(FileType::RegularFile) if plan.force => Ok((path.clone(), false)),
        Ok(_) => Err(SyncError::Asked(format!(
            "'{}' exists: the blocks for a witness go to a new file, or with --force over a \
             regular file",
            path.display()
        ))),
        Err(Errno::NOENT) => Ok((path.clone(), true)),
        Err(errno) => Err(SyncError::system("look at", path)(errno)),
    }
}

fn create(path: &Path, fresh: bool) -> Result<OwnedFd, SyncError> {
    let flags = OFlags::RDWR
        | OFlags::CLOEXEC
        | if fresh { OFlags::CREATE | OFlags::EXCL } else { OFlags::TRUNC };
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(SyncError::system("make", path))
}

/// A file that is removed when this is dropped.
struct Unused(Option<PathBuf>);

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes the header, prepares the space, and makes both durable, as well as the file's name.
fn prepare(
    held: &OwnedFd,
    path: &Path,
    plan: &WriterPlan,
    session: &WitnessSession,
) -> Result<(), SyncError> {
    let start = first_block(plan.size);
    let end = start + session.slots * session.size;
    let mut head = header(session);
    head.resize(start as usize, 0);
    write_all(held, &head, 0).map_err(SyncError::at("write", path, 0))?;
    match plan.pattern {
        Pattern::Append => {}
        Pattern::Preallocated => rustix::fs::fallocate(held, FallocateFlags::empty(), 0, end)
            .map_err(SyncError::system("reserve space for", path))?,
        Pattern::Zeroed | Pattern::Overwrite => {
            let zeros = vec![0; 1 << 20];
            let mut at = start;
            while at < end {
                let part = &zeros[..zeros.len().min((end - at) as usize)];
                write_all(held, part, at).map_err(SyncError::at("write", path, at))?;
                at += part.len() as u64;
            }
        }
    }
    rustix::fs::fsync(held).map_err(SyncError::system("sync", path))?;
    if plan.direct {
        let _ = dio::residency::evict(held, 0..end);
    }
    let directory = parent(path);
    let open = rustix::fs::open(directory, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let open = open.map_err(SyncError::system("open", directory))?;
    rustix::fs::fsync(open).map_err(SyncError::system("sync", directory))
}

/// Offset of the first slot.
pub(crate) fn first_block(size: u64) -> u64 {
    HEADER.max(size)
}

struct Writer<'a> {
    fd: OwnedFd,
    block: Block,
    method: Method,
    path: &'a Path,
    session: &'a WitnessSession,
}

impl<'a> Writer<'a> {
    fn open(
        plan: &WriterPlan,
        path: &'a Path,
        session: &'a WitnessSession,
    ) -> Result<Writer<'a>, SyncError> {
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC | plan.method.open_flags();
        flags.set(OFlags::DIRECT, plan.direct);
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(SyncError::system("open", path))?;
        let pool =
            Pool::new(plan.size as usize, 1).map_err(SyncError::system("map memory for", path))?;
        let block = pool.try_take().expect("nobody else takes from this pool");
        Ok(Writer { fd, block, method: plan.method, path, session })
    }

    /// Writes the block of this number and makes it durable.
    fn write(&mut self, number: u64) -> Result<(), SyncError> {
        let size = self.session.size;
        let at = first_block(size) + (number - 1) % self.session.slots * size;
        let bytes = &mut self.block.bytes_mut()[..size as usize];
        fill(bytes, self.session.identity, number);
        let mut done = 0;
        while done < bytes.len() {
            let place = at + done as u64;
            let rest = [IoSlice::new(&bytes[done..])];
            match uninterrupted(|| {
                rustix::io::pwritev2(&self.fd, &rest, place, self.method.write_flags())
            }) {
                Ok(0) => return Err(SyncError::at("write to", self.path, place)(Errno::IO)),
                Ok(count) => done += count,
                Err(errno) => return Err(SyncError::at("write to", self.path, place)(errno)),
            }
        }
        // A failed sync is never retried: the data that it should have made durable may be lost.
        match self.method {
            Method::Fsync => {
                rustix::fs::fsync(&self.fd).map_err(SyncError::system("fsync", self.path))
            }
            Method::Fdatasync => {
                rustix::fs::fdatasync(&self.fd).map_err(SyncError::system("fdatasync", self.path))
            }
            _ => Ok(()),
        }
    }
}

/// Identifies a boot of the machine; empty if the kernel does not report it.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
