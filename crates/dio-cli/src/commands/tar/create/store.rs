//! The writer: puts members into the archive, in order.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use dio::file::{Class, Counters, Reason};
use dio::names::FileId;
use dio_sys::fd_path;
use rustix::fs::{FileType, Stat, fstat, readlink};
use rustix::io::Errno;

use super::super::format::{ArchiveEntry, Encoder, EntryKind, Format, FormatLimit, padding};
use super::super::line::ListingLines;
use super::super::options::{ArchiveFormat, TarOptions};
use super::super::quoting::{escaped, shown};
use super::super::run::{EarlyEnd, TarRun, bare};
use super::super::transform::NameRole;
use super::attributes::{Owners, kind_of, own_mtime};
use super::dir::Dir;
use super::jobs::SourceFile;
use super::note::Note;
use super::prepare::{Contents, Member, PreparedEntry};
use super::removal::Removal;
use super::small::{HeldFile, SmallReader, from_start, is_plain, plainly};
use super::target::ArchiveOutput;
use crate::receipt::{FileLine, Role};
use crate::stop::Stop;
use crate::tool::errno_of;

/// A file of which at least one name was archived.
#[derive(Debug)]
struct Linked {
    /// The name that later names become hard links to.
    name: Vec<u8>,
    /// Number of its names that were not archived yet.
    missing: u64,
}

/// Writes members.
pub(super) struct Store<'a, 'c> {
    run: &'a TarRun,
    options: &'a TarOptions,
    target: &'a mut ArchiveOutput<'c>,
    small: &'a SmallReader,
    encoder: Encoder,
    lines: ListingLines,
    owners: Owners,
    links: HashMap<FileId, Linked>,
    /// Only files with more names than this can occur again.
    trivial: u64,
    /// A directory that the format cannot store. Its contents are skipped too, until the walk
    /// leaves it.
    refused: Option<Vec<u8>>,
    /// Files to remove when the archive is durable, in an order in which they can be removed.
    pub(super) remove: Vec<Removal>,
}

/// The result of writing the contents of a member.
enum Read {
    /// All contents were written. Holds the status of the file afterwards, if it could be read.
    All(Option<Stat>),
    /// Bytes were missing, which was reported.
    Short,
}

/// An encoder for the format of the command line.
pub(in super::super) fn encoder(options: &TarOptions) -> Encoder {
    let format = match options.format {
        None | Some(ArchiveFormat::Gnu | ArchiveFormat::OldGnu) => Format::Gnu,
        Some(ArchiveFormat::Pax) => Format::Pax,
        Some(ArchiveFormat::Ustar) => Format::Ustar,
        Some(ArchiveFormat::V7) => Format::V7,
    };
    Encoder { format, numeric_owner: options.numeric_owner }
}

impl<'a, 'c> Store<'a, 'c> {
    pub(super) fn new(
        run: &'a TarRun,
        target: &'a mut ArchiveOutput<'c>,
        small: &'a SmallReader,
    ) -> Store<'a, 'c> {
        let options = &run.options;
        // With a single name on the command line, the same file is found twice only through links.
        let trivial = u64::from(!options.names.many && !options.dereference);
        let (owners, links, encoder) = (Owners::default(), HashMap::new(), encoder(options));
        let (lines, refused, remove) = (ListingLines::new(options), None, Vec::new());
        Store {
            run,
            options,
            target,
            small,
            encoder,
            lines,
            owners,
            links,
            trivial,
            refused,
            remove,
        }
    }

    /// Processes the next result of the workers.
    pub(super) fn take(&mut self, ready: PreparedEntry) -> Result<(), EarlyEnd> {
        if let Some(refused) = &self.refused {
            if matches!(&ready, PreparedEntry::Leave(dir) if dir.path == *refused) {
                self.refused = None;
            }
            return Ok(());
        }
        match ready {
            PreparedEntry::Tell(note) => note.tell(self.run),
            PreparedEntry::Leave(dir) => self.leave(&dir),
            PreparedEntry::Member(member) => self.member(*member)?,
        }
        Ok(())
    }

    /// Reports the files of which some names were not archived (`-l`).
    pub(super) fn finish(&mut self) -> Result<(), EarlyEnd> {
        if self.options.check_links {
            let mut missing: Vec<&Linked> =
                self.links.values().filter(|linked| linked.missing > 0).collect();
            missing.sort_by(|one, other| one.name.cmp(&other.name));
            for linked in missing {
                self.run
                    .note(format_args!("Missing links to {}.", crate::quote::marked(&linked.name)));
            }
        }
        Ok(())
    }

    /// Reports a directory that changed after it was listed.
    fn leave(&mut self, dir: &Arc<Dir>) {
        if self.options.remove_files {
            self.remove.push(Removal::directory(dir));
        }
        match dir.open().and_then(fstat) {
            Ok(now) if changed(&dir.stat, &now) && !self.options.remove_files => {
                Note::changed(&dir.path).tell(self.run);
            }
            _ => {}
        }
    }

    fn member(&mut self, mut member: Member) -> Result<(), EarlyEnd> {
        std::mem::take(&mut member.notes).into_iter().for_each(|note| note.tell(self.run));
        let Some(kind) = kind_of(&member.stat) else { return Ok(()) };
        let mut entry = self.owners.entry(self.options, &member.stat, kind);
        entry.path =
            self.transformed(self.run.safe_name(bare(&member.path), false), NameRole::Member);
        if member.path.ends_with(b"/") && !entry.path.ends_with(b"/") {
            entry.path.push(b'/');
        }
        std::mem::take(&mut member.attributes).put(&mut entry);
        let removal =
            member.place.take().map(|dir| Removal::file(&dir, member.path.clone(), &member.stat));
        let whole = match self.known(&member) {
            Some(name) => self.hard_link(entry, name, member)?,
            None => self.fresh(entry, member)?,
        };
        self.remove.extend(removal.filter(|_| whole));
        Ok(())
    }

    /// Applies `--transform` to a name.
    fn transformed(&self, name: &[u8], of: NameRole) -> Vec<u8> {
        self.options.transform.apply(name, of)
    }

    /// The name under which the same file was archived before.
    fn known(&mut self, member: &Member) -> Option<Vec<u8>> {
        let stat = &member.stat;
        let may_be = !self.options.hard_dereference
            && (self.trivial < stat.st_nlink || self.options.remove_files);
        if !may_be || is_directory(stat) {
            return None;
        }
        let linked = self.links.get_mut(&FileId::of(stat))?;
        linked.missing = linked.missing.saturating_sub(1);
        Some(linked.name.clone())
    }

    /// Writes another name of an archived file as a hard link. Returns false if it was not
    /// archived.
    fn hard_link(
        &mut self,
        mut entry: ArchiveEntry,
        name: Vec<u8>,
        member: Member,
    ) -> Result<bool, EarlyEnd> {
        entry.kind = EntryKind::HardLink;
        entry.link = name;
        let written = self.header(&entry, &member.path, &member.stat)?;
        if let Contents::Held(held, _) = member.contents {
            self.small.give_back(held.bytes);
        }
        Ok(written)
    }

    /// Writes a file that was not archived before. Returns false if the archive does not contain
    /// the whole file in its current state.
    fn fresh(&mut self, mut entry: ArchiveEntry, member: Member) -> Result<bool, EarlyEnd> {
        let Member { path, stat, link, mut sparse, contents, .. } = member;
        entry.link = self.transformed(&link, NameRole::Symlink);
        if entry.kind == EntryKind::Regular {
            entry.size = stat.st_size as u64;
        }
        if matches!(self.encoder.format, Format::Ustar | Format::V7) {
            // These formats cannot store holes, so the holes are archived as zeros.
            sparse = None;
        }
        entry.sparse = sparse;
        if !self.header(&entry, &path, &stat)? {
            return Ok(false);
        }
        let read = self.contents(&path, &entry, &stat, contents)?;
        self.count(&path, &stat);
        Ok(match read {
            Read::All(Some(now)) if entry.kind == EntryKind::Regular && changed(&stat, &now) => {
                Note::changed(&path).tell(self.run);
                false
            }
            Read::All(_) => true,
            Read::Short => false,
        })
    }

    /// Records a file of which other names may follow.
    fn count(&mut self, path: &[u8], stat: &Stat) {
        if self.options.hard_dereference || self.trivial >= stat.st_nlink || is_directory(stat) {
            return;
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if stat.st_nlink == 1 && !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            // If such a file is named twice, it is archived twice, as by GNU tar.
            return;
        }
        let name = self.transformed(self.run.safe_name(path, true), NameRole::HardLink);
        let missing = stat.st_nlink.saturating_sub(1);
        self.links.insert(FileId::of(stat), Linked { name, missing });
    }

    /// Writes the headers of an entry and lists it. If the format cannot store the entry, this is
    /// reported and the result is false.
    fn header(&mut self, entry: &ArchiveEntry, path: &[u8], stat: &Stat) -> Result<bool, EarlyEnd> {
        let blocks = match self.encoder.encode(entry) {
            Ok(blocks) => blocks,
            Err(unfit) => {
                match unfit.about(entry) {
                    Some(name) if unfit == FormatLimit::Kind => {
                        Note::unknown(self.options, name).tell(self.run)
                    }
                    Some(name) => self.run.error(format_args!("{}: {unfit}", escaped(name))),
                    None => self.run.error(unfit),
                }
                self.refused = (entry.kind == EntryKind::Directory).then(|| path.to_vec());
                return Ok(false);
            }
        };
        self.target.write(&blocks)?;
        if self.options.verbose > 0 {
            // The list shows the time of the file, even if `--mtime` changes it in the archive, as
            // in GNU tar.
            match self.options.mtime {
                Some(_) => {
                    self.list(&ArchiveEntry { mtime: own_mtime(stat), ..entry.clone() }, path)?
                }
                None => self.list(entry, path)?,
            }
        }
        Ok(true)
    }

    fn list(&mut self, entry: &ArchiveEntry, path: &[u8]) -> Result<(), EarlyEnd> {
        let path = if self.options.show_transformed { &entry.path } else { path };
        let slash: &[u8] =
            if entry.kind == EntryKind::Directory && !path.ends_with(b"/") { b"/" } else { b"" };
        let name = [path, slash].concat();
        match self.options.verbose {
            1 => self.run.list(&shown(&name, self.options.quoting)),
            2 => self.run.list(&self.lines.line(entry, &name)),
            _ => {
                self.run.list(&self.lines.line(entry, &name))?;
                self.lines.attributes(entry).iter().try_for_each(|line| self.run.list(line))
            }
        }
    }

    /// Writes as many bytes of contents as the header says, and fills the last block.
    fn contents(
        &mut self,
        path: &[u8],
        entry: &ArchiveEntry,
        stat: &Stat,
        contents: Contents,
    ) -> Result<Read, EarlyEnd> {
        if entry.kind != EntryKind::Regular {
            return Ok(Read::All(None));
        }
        let read = match contents {
            Contents::None => Read::All(None),
            Contents::Held(held, after) => self.held(path, entry.size, held, after)?,
            Contents::Chunks { chunks, failed, after } => {
                let mut left = entry.size;
                for mut chunk in chunks {
                    chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    self.target.write(&chunk)?;
                    left -= chunk.len() as u64;
                }
                self.short(path, entry.size, left, failed)?.unwrap_or(Read::All(after))
            }
            Contents::Open(fd) if self.target.as_shared().is_some() => {
                self.share(path, entry, stat, &fd)?
            }
            Contents::Open(fd) => self.stream(path, entry, &fd)?,
        };
        if entry.sparse.is_none() {
            self.target.zeros(padding(entry.size) as u64)?;
        }
        Ok(read)
    }

    fn held(
        &mut self,
        path: &[u8],
        size: u64,
        held: HeldFile,
        after: Option<Stat>,
    ) -> Result<Read, EarlyEnd> {
        self.target.write(&held.bytes)?;
        let count = held.bytes.len() as u64;
        self.run.tool.progressed(count);
        let class = if self.small.is_cached() { Class::Cached } else { Class::Uncached };
        let mut counters = Counters { read_requests: held.requests, ..Counters::default() };
        counters.read.add(class, count);
        counters.reasons[Reason::Small as usize] = if self.small.is_cached() { 0 } else { count };
        self.run.tool.ledger().count(&counters);
        self.run.tool.ledger().list(|| FileLine {
            path: PathBuf::from(OsStr::from_bytes(path)),
            role: Role::Source,
            mode: class.name(),
            reason: (class != Class::Cached).then(|| Reason::Small.text()),
            pages_before: None,
            pages_after: None,
        });
        self.small.give_back(held.bytes);
        Ok(self.short(path, size, size - count, held.failed)?.unwrap_or(Read::All(after)))
    }

    /// If bytes of a file are missing, writes zeros instead and reports this.
    fn short(
        &mut self,
        path: &[u8],
        size: u64,
        left: u64,
        failed: Option<Errno>,
    ) -> Result<Option<Read>, EarlyEnd> {
        if left == 0 {
            return Ok(None);
        }
        match failed {
            Some(errno) => Note::read_error(self.options, path, size - left, left, errno),
            None => Note::shrank(self.options, path, left),
        }
        .tell(self.run);
        self.target.zeros(left)?;
        Ok(Some(Read::Short))
    }

    /// Leaves the contents to the processes that write the archive, which open the file by its path
    /// and report what is wrong with it.
    fn share(
        &mut self,
        path: &[u8],
        entry: &ArchiveEntry,
        stat: &Stat,
        fd: &OwnedFd,
    ) -> Result<Read, EarlyEnd> {
        let found = readlink(fd_path(fd), Vec::new())
            .map_err(|errno| EarlyEnd::on(path, "readlink", errno))?;
        let source = SourceFile::new(OsStr::from_bytes(found.to_bytes()).to_owned(), path, stat);
        let name = Arc::new(path.to_vec());
        let whole = [(0, entry.size)];
        let extents = entry.sparse.as_deref().unwrap_or(&whole);
        for (index, &extent) in extents.iter().enumerate() {
            self.target.file((&name, index), &source, extent)?;
            if entry.sparse.is_some() {
                self.target.zeros(padding(extent.1) as u64)?;
            }
        }
        Ok(Read::All(None))
    }

    /// Reads a file as a stream and writes it: the whole file, or its extents, each padded to whole
    /// blocks.
    fn stream(
        &mut self,
        path: &[u8],
        entry: &ArchiveEntry,
        fd: &OwnedFd,
    ) -> Result<Read, EarlyEnd> {
        let whole = [(0, entry.size)];
        let extents = entry.sparse.as_deref().unwrap_or(&whole);
        let mut source = match from_start(fd, path, self.run.tool.stream_options()) {
            Ok(input) => Ok(self.run.tool.source(input)),
            Err(error) if is_plain(fd, &error) => return self.stream_plainly(path, entry, fd),
            Err(error) => Err(errno_of(&error)),
        };
        let mut at = 0;
        for (index, &(offset, length)) in extents.iter().enumerate() {
            let mut left = length;
            let failed = match &mut source {
                Err(errno) => Some(*errno),
                Ok(source) => {
                    let copied = source.skip(offset - at).map(|_| self.copy(source, &mut left));
                    match copied {
                        Ok(Ok(())) => None,
                        Ok(Err(NotStored::ToWrite(ended))) => return Err(ended),
                        Ok(Err(NotStored::ToRead(error))) | Err(error) => Some(errno_of(&error)),
                    }
                }
            };
            at = offset + length;
            if left > 0 {
                return self.missing(path, entry, index, left, failed);
            }
            if entry.sparse.is_some() {
                self.target.zeros(padding(length) as u64)?;
            }
        }
        if let Ok(source) = source {
            // A failure is ignored: pages that stay in the cache only cost memory.
            let _ = source.close();
        }
        Ok(Read::All(dio::names::fstat(fd).ok()))
    }

    /// Like [`Store::stream`], but without a stream, for which there are too few descriptors.
    fn stream_plainly(
        &mut self,
        path: &[u8],
        entry: &ArchiveEntry,
        fd: &OwnedFd,
    ) -> Result<Read, EarlyEnd> {
        let whole = [(0, entry.size)];
        let extents = entry.sparse.as_deref().unwrap_or(&whole);
        for (index, &(offset, length)) in extents.iter().enumerate() {
            let mut done = 0;
            let read = plainly(fd.as_fd(), offset..offset + length, |bytes| {
                if Stop::on_signals().asked() {
                    return Err(EarlyEnd::Signal);
                }
                done += bytes.len() as u64;
                self.run.tool.progressed(bytes.len() as u64);
                self.target.write(bytes)
            })?;
            if done < length {
                return self.missing(path, entry, index, length - done, read.err());
            }
            if entry.sparse.is_some() {
                self.target.zeros(padding(length) as u64)?;
            }
        }
        Ok(Read::All(dio::names::fstat(fd).ok()))
    }

    /// Writes zeros for the missing end of an extent and for all extents after it.
    fn missing(
        &mut self,
        path: &[u8],
        entry: &ArchiveEntry,
        index: usize,
        left: u64,
        failed: Option<Errno>,
    ) -> Result<Read, EarlyEnd> {
        let Some(extents) = entry.sparse.as_deref() else {
            return Ok(self.short(path, entry.size, left, failed)?.unwrap_or(Read::Short));
        };
        let (offset, length) = extents[index];
        let behind: u64 =
            extents[index + 1..].iter().map(|(_, length)| length.next_multiple_of(512)).sum();
        let missing = self.short(path, offset + length, left, failed)?;
        self.target.zeros(padding(length) as u64 + behind)?;
        Ok(missing.unwrap_or(Read::Short))
    }

    /// Copies `left` bytes, or fewer if the file ends. Bytes after them stay in `source`, because
    /// the next extent may begin there.
    fn copy(&mut self, source: &mut crate::tool::Source, left: &mut u64) -> Result<(), NotStored> {
        while *left > 0 {
            if Stop::on_signals().asked() {
                return Err(NotStored::ToWrite(EarlyEnd::Signal));
            }
            let bytes = source.fill_buf().map_err(NotStored::ToRead)?;
            let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            if count == 0 {
                break;
            }
            self.target.write(&bytes[..count]).map_err(NotStored::ToWrite)?;
            source.consume(count);
            self.run.tool.progressed(count as u64);
            *left -= count as u64;
        }
        Ok(())
    }
}

/// The reason for which contents were not copied.
enum NotStored {
    ToRead(io::Error),
    /// Writing failed, or a signal requests the end.
    ToWrite(EarlyEnd),
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Whether a file changed, by GNU tar's criteria.
fn changed(then: &Stat, now: &Stat) -> bool {
    (then.st_ctime, then.st_ctime_nsec) != (now.st_ctime, now.st_ctime_nsec)
        || now.st_size > then.st_size
}
