//! `-r`, `-u`, `-A`: adding to an archive.
//!
//! New members are written behind the block of NULs that ends the archive. That block stays until
//! everything behind it is on the storage; then the first new block overwrites it. So a run that a
//! failure or a crash of the machine ends early leaves an archive with all the members it had.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dio::names;
use dio::names::FileId;
use dio_sys::fd_path;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::archive::{self, Archive};
use super::create::{self, ArchiveOutput};
use super::format::{BLOCK, Entries, Format, Time};
use super::list::{ended, tell};
use super::options::{ArchiveFormat, Operation};
use super::quoting::escaped;
use super::run::{EarlyEnd, TarRun, bare, unsafe_prefix};
use super::totals;
use crate::stop::Stop;
use crate::tool::errno_of;

/// The state of the archive that members are added to.
#[derive(Debug, Default)]
struct ExistingArchive {
    /// Offset of the end of its members, in bytes.
    end: u64,
    /// The format of its last member.
    format: Option<Format>,
    /// For `-u`, the newest modification time among the members of each name.
    newest: HashMap<Vec<u8>, Time>,
}

/// Adds the files or archives of the command line.
///
/// # Errors
/// Anything that ends the run early; the archive is then unchanged.
pub(super) fn run(run: &mut TarRun) -> Result<(), EarlyEnd> {
    let started = Instant::now();
    if run.options.operation == Operation::Update {
        create::tell_unused(run);
    }
    let path = PathBuf::from(&run.options.archive);
    let (fd, stat) = open_to_add(&path)?;
    let known = match stat.st_size {
        0 => ExistingArchive::default(),
        _ => scan_headers(run, &path)?,
    };
    if run.options.format.is_none() {
        run.options.format = known.format.map(|format| match format {
            Format::Gnu => ArchiveFormat::Gnu,
            Format::Pax => ArchiveFormat::Pax,
            Format::Ustar => ArchiveFormat::Ustar,
            Format::V7 => ArchiveFormat::V7,
        });
    }
    let added = add(run, &path, &fd, &known);
    if !matches!(added, Ok(Some(_))) {
        restore(&fd, known.end, stat.st_size as u64)
            .map_err(|errno| EarlyEnd::on(path_bytes(&path), "truncate", errno))?;
    }
    let Some((first, removals, written)) = added? else { return Ok(()) };
    put_first(run, &path, &fd, known.end, &first)?;
    run.tool.set_durable();
    create::remove_all(run, removals);
    if run.options.totals {
        run.note_bare(totals::line("written", written, started.elapsed()));
    }
    Ok(())
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Opens the archive, or creates an empty one.
fn open_to_add(path: &Path) -> Result<(OwnedFd, Stat), EarlyEnd> {
    let failed = |errno: Errno| EarlyEnd::on(path_bytes(path), "open", errno);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = names::openat(CWD, path, flags, Mode::from_raw_mode(0o666)).map_err(failed)?;
    let stat = names::fstat(&fd).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let name = escaped(path_bytes(path));
        return Err(EarlyEnd::Fatal(format!(
            "{name}: Only archives that are regular files can be added to"
        )));
    }
    Ok((fd, stat))
}

/// Reads all headers of the archive.
fn scan_headers(run: &TarRun, path: &Path) -> Result<ExistingArchive, EarlyEnd> {
    let archive = archive::open_named(run, path, None)?;
    if archive.is_compressed() {
        // The decompressor is stopped early, so its status means nothing.
        let _ = archive.close(run, false);
        return Err(EarlyEnd::Fatal("Cannot update compressed archives".into()));
    }
    let mut entries = Entries::new(archive).ignoring_zeros(run.options.ignore_zeros);
    let mut known = ExistingArchive::default();
    let (mut members, mut wrong) = (0u64, false);
    loop {
        let next = entries.next_entry();
        for notice in entries.take_notices() {
            wrong |= notice.is_error();
            tell(run, &notice, false);
        }
        let Some(entry) = next.map_err(|error| ended(run, error))? else { break };
        members += 1;
        known.format = Some(entry.format);
        if run.options.operation == Operation::Update {
            let newest = known.newest.entry(bare(&entry.path).to_vec()).or_insert(entry.mtime);
            *newest = entry.mtime.max(*newest);
        }
    }
    if members == 0 && wrong {
        // The file is no archive: nothing is appended to it.
        return Err(EarlyEnd::Told);
    }
    known.end = entries.end().unwrap_or(entries.offset());
    entries.into_inner().close(run, true)?;
    Ok(known)
}

/// The first new block, the files to remove afterwards, and the number of bytes written.
type AppendedArchive = (Vec<u8>, Vec<create::Removal>, u64);

/// Writes the new members except their first block, and makes them durable. Returns `None` if
/// nothing was added.
fn add(
    run: &TarRun,
    path: &Path,
    fd: &OwnedFd,
    known: &ExistingArchive,
) -> Result<Option<AppendedArchive>, EarlyEnd> {
    let failed = |error: io::Error| EarlyEnd::on(path_bytes(path), "open", errno_of(&error));
    let mut sink = run.tool.output(fd.try_clone().map_err(failed)?, path).map_err(failed)?;
    sink.seek(known.end + BLOCK as u64).map_err(failed)?;
    let mut target = ArchiveOutput::over(run, sink, path_bytes(path).to_vec(), known.end)?;
    target.hold_first_block();
    let removals = match run.options.operation {
        Operation::Catenate => {
            catenate(run, fd, &mut target)?;
            Vec::new()
        }
        _ => create::store(run, &mut target, &|name, stat| is_newer(run, known, name, stat))?,
    };
    if Stop::on_signals().asked() {
        return Err(EarlyEnd::Signal);
    }
    if target.written() == 0 {
        target.close(false)?;
        return Ok(None);
    }
    target.end(run.options.record)?;
    let written = target.written();
    let first = target.take_held().unwrap_or_else(|| vec![0; BLOCK]);
    target.close(true)?;
    Ok(Some((first, removals, written)))
}

/// Whether a file is newer than all its copies in the archive, or has none. A directory counts as
/// newer only if it has none.
fn is_newer(run: &TarRun, known: &ExistingArchive, name: &[u8], stat: &Stat) -> bool {
    let name = if run.options.absolute_names { name } else { &name[unsafe_prefix(name)..] };
    let Some(there) = known.newest.get(bare(name)) else { return true };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return false;
    }
    // Only PAX headers store fractions of a second.
    let nanos = if there.nanos == 0 { 0 } else { stat.st_mtime_nsec as u32 };
    Time { seconds: stat.st_mtime, nanos } > *there
}

/// Adds the members of other archives, with their headers as they are.
fn catenate(run: &TarRun, own: &OwnedFd, target: &mut ArchiveOutput) -> Result<(), EarlyEnd> {
    let directories = run.options.names.open_directories()?;
    let stop = Stop::on_signals();
    for name in &run.options.names.list {
        let given = Path::new(std::ffi::OsStr::from_bytes(&name.bytes));
        let path = match directories.get(name.directory) {
            Some(fd) if name.directory > 0 => fd_path(fd).join(given),
            _ => given.to_owned(),
        };
        if is_same(own, &path) {
            run.error(format_args!("{}: file is the archive; not dumped", escaped(&name.bytes)));
            continue;
        }
        match catenate_one(run, &path, target, stop) {
            // A problem with one archive does not stop the others from being added.
            Err(CatenateError::BeforeWriting(EarlyEnd::Fatal(message))) => run.error(message),
            Err(CatenateError::BeforeWriting(other) | CatenateError::AfterWriting(other)) => {
                return Err(other);
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

fn is_same(own: &OwnedFd, path: &Path) -> bool {
    let identity = |stat: Stat| FileId::of(&stat);
    let own = fstat(own).map(identity);
    own.is_ok() && rustix::fs::stat(path).map(identity) == own
}

/// Whether adding an archive failed before anything of it was written (`BeforeWriting`) or
/// afterwards (`AfterWriting`).
enum CatenateError {
    BeforeWriting(EarlyEnd),
    AfterWriting(EarlyEnd),
}

fn catenate_one(
    run: &TarRun,
    path: &Path,
    target: &mut ArchiveOutput,
    stop: &Stop,
) -> Result<(), CatenateError> {
    let size = members_end(run, path).map_err(CatenateError::BeforeWriting)?;
    let mut archive = archive::open_named(run, path, None).map_err(CatenateError::BeforeWriting)?;
    let mut left = size;
    let mut buffer = vec![0; 1 << 18];
    while left > 0 {
        if stop.asked() {
            return Err(CatenateError::AfterWriting(EarlyEnd::Signal));
        }
        let some = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = match archive.read(&mut buffer[..some]) {
            Ok(0) => {
                return Err(CatenateError::AfterWriting(EarlyEnd::Fatal(
                    "Unexpected EOF in archive".into(),
                )));
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(CatenateError::AfterWriting(EarlyEnd::on(
                    path_bytes(path),
                    "read",
                    errno_of(&error),
                )));
            }
        };
        target.write(&buffer[..read]).map_err(CatenateError::AfterWriting)?;
        left -= read as u64;
    }
    archive.close(run, false).map_err(CatenateError::AfterWriting)
}

/// Reads an archive to check that all its members are complete, and returns the offset of its end.
fn members_end(run: &TarRun, path: &Path) -> Result<u64, EarlyEnd> {
    let mut entries: Entries<Archive> = Entries::new(archive::open_named(run, path, None)?);
    loop {
        let next = entries.next_entry();
        let notices = entries.take_notices();
        if let Some(wrong) = notices.iter().find(|notice| notice.is_error()) {
            return Err(EarlyEnd::Fatal(format!("{}: {wrong}", escaped(path_bytes(path)))));
        }
        let what = |error| EarlyEnd::Fatal(format!("{}: {error}", escaped(path_bytes(path))));
        if next.map_err(what)?.is_none() {
            break;
        }
    }
    let end = entries.end().unwrap_or(entries.offset());
    entries.into_inner().close(run, true)?;
    Ok(end)
}

/// Writes the first new block over the end marker, once the blocks behind it are on the storage.
fn put_first(
    run: &TarRun,
    path: &Path,
    fd: &OwnedFd,
    end: u64,
    first: &[u8],
) -> Result<(), EarlyEnd> {
    let put = || -> io::Result<()> {
        let mut sink = run.tool.output(fd.try_clone()?, path)?;
        sink.seek(end)?;
        io::Write::write_all(&mut *sink, first)?;
        sink.sync(true)?;
        sink.close()
    };
    put().map_err(|error| EarlyEnd::on(path_bytes(path), "write", errno_of(&error)))
}

/// Removes what was written behind the end of the members and restores the old size: the rest of
/// the archive becomes NULs again, which it was before.
fn restore(fd: &OwnedFd, end: u64, size: u64) -> Result<(), Errno> {
    names::ftruncate(fd, size.min(end + BLOCK as u64))?;
    names::ftruncate(fd, size)
}
