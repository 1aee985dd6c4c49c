//! The work of a worker on a job: it opens the file, reads its attributes, and its contents if they
//! are not large. It prints nothing and decides nothing about the archive: the writer does that, in
//! order.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use dio::names;
use dio::names::FileId;
use dio::stream::Chunk;
use dio_sys::fd_path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::super::options::TarOptions;
use super::super::quoting::escaped;
use super::super::run::TarRun;
use super::super::warnings::Warning;
use super::attributes::{Attributes, WantedAttributes};
use super::dir::Dir;
use super::note::Note;
use super::small::{HeldFile, SmallReader, from_start, is_plain, plainly};
use super::sparse::{self, Scan};
use super::target::Identities;
use super::walk::{File, WalkJob};
use crate::tool::errno_of;

/// Files up to this size, in bytes, are read by the workers.
const WHOLE: u64 = 1 << 20;

/// A result for the writer, in the order of the archive.
#[derive(Debug)]
pub(super) enum PreparedEntry {
    /// A member.
    Member(Box<Member>),
    /// All entries of a directory have been passed on.
    Leave(Arc<Dir>),
    /// A message to print.
    Tell(Note),
}

/// A member, ready to be written.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) path: Vec<u8>,
    pub(super) stat: Stat,
    /// The target of a symbolic link.
    pub(super) link: Vec<u8>,
    pub(super) attributes: Attributes,
    /// The extents that have data, for a file with holes.
    pub(super) sparse: Option<Vec<(u64, u64)>>,
    pub(super) contents: Contents,
    /// The directory that contains the file, if the file is to be removed at the end.
    pub(super) place: Option<Arc<Dir>>,
    /// Messages to print before the member is written.
    pub(super) notes: Vec<Note>,
}

/// The contents of a file.
#[derive(Debug)]
pub(super) enum Contents {
    /// No contents, or none that are archived.
    None,
    /// The bytes read from a small file, and its status afterwards.
    Held(HeldFile, Option<Stat>),
    /// The blocks read from a larger file, and its status afterwards.
    Chunks { chunks: Vec<Chunk>, failed: Option<Errno>, after: Option<Stat> },
    /// A large file, which the writer reads itself.
    Open(OwnedFd),
}

/// Decides by name and status whether a file is archived.
pub(in super::super) type Wanted<'a> = &'a (dyn Fn(&[u8], &Stat) -> bool + Sync);

/// The state that all workers share.
pub(super) struct Preparing<'a> {
    run: &'a TarRun,
    options: &'a TarOptions,
    asking: WantedAttributes,
    pub(super) small: SmallReader,
    /// Device and inode of the archive and of the file that it replaces.
    archive: Identities,
    newer: Wanted<'a>,
    /// Whether other processes read the contents.
    is_shared: bool,
}

impl<'a> Preparing<'a> {
    /// Creates the shared state. `archive` identifies the archive and the file that it replaces,
    /// which are not archived themselves. Only files that `newer` accepts are archived.
    pub(super) fn new(
        run: &'a TarRun,
        archive: Identities,
        newer: Wanted<'a>,
        is_shared: bool,
    ) -> Preparing<'a> {
        let cached = run.tool.stream_options().mode == dio::Mode::Cached;
        let asking = WantedAttributes::of(&run.options);
        Preparing {
            run,
            options: &run.options,
            asking,
            small: SmallReader::new(cached),
            archive,
            newer,
            is_shared,
        }
    }

    /// Processes a job.
    pub(super) fn prepare(&self, job: WalkJob) -> PreparedEntry {
        match job {
            WalkJob::Tell(note) => PreparedEntry::Tell(note),
            WalkJob::Leave(dir) => PreparedEntry::Leave(dir),
            WalkJob::Enter(dir) => self.directory(&dir),
            WalkJob::File(file) => {
                let operand = file.operand.then(|| file.path.clone());
                match (self.file(file), operand) {
                    (Ok(member), _) => PreparedEntry::Member(Box::new(member)),
                    (Err(note), Some(path)) => {
                        PreparedEntry::Tell(Note::Operand(path, Box::new(note)))
                    }
                    (Err(note), None) => PreparedEntry::Tell(note),
                }
            }
        }
    }

    fn directory(&self, dir: &Arc<Dir>) -> PreparedEntry {
        if !(self.newer)(&dir.path, &dir.stat) {
            return PreparedEntry::Tell(Note::Nothing);
        }
        let mut member = member(dir.path.clone(), dir.stat);
        if self.asking.any() {
            match dir.open() {
                Ok(fd) => self.attributes(&fd_path(&fd).join("."), &mut member),
                Err(errno) => member.notes.push(Note::unasked(&dir.path, errno)),
            }
        }
        PreparedEntry::Member(Box::new(member))
    }

    fn attributes(&self, path: &Path, member: &mut Member) {
        match self.asking.ask(path, &member.stat) {
            Ok(attributes) => member.attributes = attributes,
            Err(errno) => {
                let note = Note::unasked(&member.path, errno);
                member.notes.push(note);
            }
        }
    }

    /// Prepares a file that is no directory. The error says why it is not archived.
    fn file(&self, file: File) -> Result<Member, Note> {
        let dir = file.dir.open().map_err(|errno| self.lost("open", &file, errno))?;
        let opened = if file.regular { Some(self.open(&file, &dir)?) } else { None };
        let stat = match &opened {
            Some(fd) => names::fstat_striped(fd),
            None => {
                let follow = if self.options.dereference {
                    AtFlags::empty()
                } else {
                    AtFlags::SYMLINK_NOFOLLOW
                };
                statat(&dir, &file.name, follow).map(|stat| (stat, false))
            }
        };
        let (stat, striped) = stat.map_err(|errno| self.lost("stat", &file, errno))?;
        self.refuse(&file, &stat)?;
        let mut member = member(file.path.clone(), stat);
        let kind = FileType::from_raw_mode(stat.st_mode);
        if self.asking.any() && kind != FileType::Socket {
            let name = OsStr::from_bytes(file.name.to_bytes());
            let path = fd_path(&dir).join(name);
            self.attributes(&path, &mut member);
        }
        match kind {
            FileType::RegularFile => {
                let fd = match opened {
                    Some(fd) => fd,
                    None => self.open(&file, &dir)?,
                };
                self.contents(&file, fd, striped, &mut member)?;
            }
            FileType::Symlink => {
                let link = readlinkat(&dir, &file.name, Vec::new());
                member.link =
                    link.map_err(|errno| self.lost("readlink", &file, errno))?.into_bytes();
            }
            _ => {}
        }
        member.place = self.options.remove_files.then_some(file.dir);
        Ok(member)
    }

    fn open(&self, file: &File, dir: &OwnedFd) -> Result<OwnedFd, Note> {
        let follow = if self.options.dereference { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | follow;
        openat(dir, &file.name, flags, Mode::empty())
            .map_err(|errno| self.lost("open", file, errno))
    }

    fn lost(&self, doing: &str, file: &File, errno: Errno) -> Note {
        match file.operand {
            true => Note::unreadable(self.options, doing, &file.path, errno),
            false => Note::gone(self.options, doing, &file.path, errno),
        }
    }

    /// Rejects files that are found but not archived.
    fn refuse(&self, file: &File, stat: &Stat) -> Result<(), Note> {
        let shown = || escaped(&file.path);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => {
                return Err(Note::Warn(
                    Warning::FileIgnored,
                    format!("{}: socket ignored", shown()),
                ));
            }
            FileType::RegularFile if self.archive.contains(&FileId::of(stat)) => {
                let what = format!("{}: file is the archive; not dumped", shown());
                return Err(Note::Warn(Warning::IgnoreArchive, what));
            }
            FileType::Unknown => return Err(Note::unknown(self.options, &file.path)),
            _ => {}
        }
        if !(self.newer)(&file.path, stat) {
            return Err(Note::Nothing);
        }
        if self.is_old(stat) {
            let what = format!("{}: file is unchanged; not dumped", shown());
            // GNU tar reports this only with `-v`.
            return Err(match self.options.verbose {
                0 => Note::Nothing,
                _ => Note::Warn(Warning::FileUnchanged, what),
            });
        }
        Ok(())
    }

    fn is_old(&self, stat: &Stat) -> bool {
        let Some((limit, only_contents)) = self.options.newer else { return false };
        let before =
            |seconds, nanos| (seconds, nanos) < (limit.seconds, u64::from(limit.nanoseconds));
        before(stat.st_mtime, stat.st_mtime_nsec)
            && (only_contents || before(stat.st_ctime, stat.st_ctime_nsec))
    }

    /// Reads a regular file unless it is large.
    fn contents(
        &self,
        file: &File,
        fd: OwnedFd,
        striped: bool,
        member: &mut Member,
    ) -> Result<(), Note> {
        let size = member.stat.st_size as u64;
        if let Some(how) =
            self.options.sparse.filter(|_| size > 0 && sparse::has_holes(&member.stat))
        {
            // `SEEK_HOLE` on the descriptor does not show the holes of a striped file.
            let found =
                if striped { Ok(None) } else { sparse::extents(fd.as_fd(), &member.stat, how) };
            member.sparse = match found.map_err(|errno| self.lost("read", file, errno))? {
                Some(extents) => Some(extents),
                None => Some(self.scan(&fd, file, size)?),
            };
            member.contents = Contents::Open(fd);
            return Ok(());
        }
        let small = self.run.tool.stream_options().small;
        member.contents = match size {
            0 => Contents::None,
            _ if striped || self.is_shared => Contents::Open(fd),
            // Files of `proc(5)` report a size of 0 and are archived as empty. A file with a larger
            // size has blocks.
            _ if size <= small => {
                let held = self.small.read(fd.as_fd(), size as usize);
                Contents::Held(held, fstat(&fd).ok())
            }
            _ if size <= WHOLE => self.whole(fd, file, size),
            _ => Contents::Open(fd),
        };
        Ok(())
    }

    /// Reads a whole file as a stream.
    fn whole(&self, fd: OwnedFd, file: &File, size: u64) -> Contents {
        let (mut chunks, mut failed) = (Vec::new(), None);
        match from_start(&fd, &file.path, self.run.tool.stream_options()) {
            Ok(input) => {
                let mut source = self.run.tool.source(input);
                let mut done = 0;
                while done < size && failed.is_none() {
                    match source.next_chunk() {
                        Ok(Some(chunk)) => {
                            done += chunk.len() as u64;
                            chunks.push(chunk);
                        }
                        Ok(None) => break,
                        Err(error) => failed = Some(errno_of(&error)),
                    }
                }
                // A failure is ignored: pages that stay in the cache only cost memory.
                let _ = source.close();
            }
            // The writer reads the file later, with fewer descriptors.
            Err(error) if errno_of(&error) == Errno::MFILE => return Contents::Open(fd),
            Err(error) => failed = Some(errno_of(&error)),
        }
        Contents::Chunks { chunks, failed, after: fstat(&fd).ok() }
    }

    /// Finds the data by looking for blocks of zeros.
    fn scan(&self, fd: &OwnedFd, file: &File, size: u64) -> Result<Vec<(u64, u64)>, Note> {
        let failed = |error: std::io::Error| self.lost("read", file, errno_of(&error));
        let mut scan = Scan::default();
        let mut input = match from_start(fd, &file.path, self.run.tool.stream_options()) {
            Err(error) if is_plain(fd, &error) => {
                let read = plainly(fd.as_fd(), 0..size, |bytes| {
                    scan.feed(bytes);
                    Ok::<(), Infallible>(())
                });
                let Ok(read) = read;
                return read.map(|_| scan.finish()).map_err(|errno| self.lost("read", file, errno));
            }
            input => input.map_err(failed)?,
        };
        let mut left = size;
        while left > 0 {
            let Some(mut chunk) = input.next_chunk().map_err(failed)? else { break };
            chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= chunk.len() as u64;
            scan.feed(&chunk);
        }
        input.close().map_err(failed)?;
        Ok(scan.finish())
    }
}

fn member(path: Vec<u8>, stat: Stat) -> Member {
    Member {
        path,
        stat,
        link: Vec::new(),
        attributes: Attributes::default(),
        sparse: None,
        contents: Contents::None,
        place: None,
        notes: Vec::new(),
    }
}
