//! `-d`: compares an archive with the files.
//!
//! Differences are listed on standard output in GNU tar's words, and make the exit status 1. Files
//! are read past the page cache while the archive is read.

use std::ffi::CString;
use std::io::BufRead;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dio::names::FileId;
use dio::names::statat;
use dio::stream::Input;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, makedev, openat, readlinkat};
use rustix::io::Errno;

use super::archive::Archive;
use super::extract::owners::Owners;
use super::extract::placed::{changed_link, placed, put_in_top, tell_member};
use super::format::{ArchiveEntry, Entries, EntryKind};
use super::line::ListingLines;
use super::list::{ended, tell};
use super::quoting::escaped;
use super::run::{EarlyEnd, TarRun, bare};
use super::select::Selection;
use crate::quote::words;
use crate::stop::Stop;
use crate::tool::{Source, errno_of};

/// Bytes of a hole that are compared together. GNU tar's message names the offset of such a
/// fragment.
const FRAGMENT: u64 = 512;

/// Compares the members that the command line selects.
///
/// # Errors
/// The archive cannot be read on; the list cannot be written; a signal arrived.
pub(super) fn run(run: &TarRun) -> Result<(), EarlyEnd> {
    let directories = run.options.names.open_directories()?;
    let archive = super::archive::open(run)?;
    let mut entries = Entries::new(archive).ignoring_zeros(run.options.ignore_zeros);
    let mut selection = Selection::new(&run.options);
    let mut comparison = Comparison {
        run,
        directories: &directories,
        owners: Owners::default(),
        lines: ListingLines::new(&run.options),
    };
    let outcome = comparison.members(&mut entries, &mut selection);
    let closed = entries.into_inner().close(run, outcome.is_ok() && !selection.complete());
    outcome?;
    selection.finish(run);
    closed
}

/// One pass over the archive.
struct Comparison<'r> {
    run: &'r TarRun,
    directories: &'r [OwnedFd],
    owners: Owners,
    lines: ListingLines,
}

/// A member and the name of the file it is compared with.
struct Pair<'e> {
    dir: &'e OwnedFd,
    /// The name in the file system and in messages.
    name: Vec<u8>,
    path: CString,
    entry: &'e ArchiveEntry,
}

/// The result of a comparison of contents.
enum ContentComparison {
    Same,
    Different,
    /// The file has data at this offset, where the archive has a hole.
    NoHole(u64),
}

impl Comparison<'_> {
    fn members(
        &mut self,
        entries: &mut Entries<Archive>,
        selection: &mut Selection<'_>,
    ) -> Result<(), EarlyEnd> {
        let stop = Stop::on_signals();
        loop {
            if stop.asked() {
                return Err(EarlyEnd::Signal);
            }
            let next = entries.next_entry();
            for notice in entries.take_notices() {
                tell(self.run, &notice, false);
            }
            let Some(mut entry) = next.map_err(|error| ended(self.run, error))? else {
                return Ok(());
            };
            if let Some(directory) = selection.choose(&entry.path) {
                // Compares with the target that extraction would give the link.
                entry.link = changed_link(self.run, &entry);
                self.member(entries, &entry, directory)?;
            }
            if selection.complete() {
                return Ok(());
            }
        }
    }

    fn member(
        &mut self,
        entries: &mut Entries<Archive>,
        entry: &ArchiveEntry,
        directory: usize,
    ) -> Result<(), EarlyEnd> {
        let run = self.run;
        if matches!(entry.kind, EntryKind::Label | EntryKind::Continuation) {
            return Ok(());
        }
        let name = placed(run, bare(&entry.path));
        tell_member(run, &mut self.lines, entry, &name)?;
        let Ok(path) = CString::new(name.as_slice()) else { return Ok(()) };
        let pair = Pair { dir: &self.directories[directory], name, path, entry };
        match entry.kind {
            EntryKind::Regular => self.file(&pair, entries),
            EntryKind::HardLink => self.hard_link(&pair),
            EntryKind::Symlink => self.symlink(&pair),
            _ => self.special(&pair),
        }
    }

    /// Lists a difference.
    fn differs(&self, pair: &Pair<'_>, what: &str) -> Result<(), EarlyEnd> {
        self.run.differs();
        self.run.list(format!("{}: {what}", escaped(&pair.name)).as_bytes())
    }

    /// Returns the status of the file. If there is none, this is reported and the result is `None`.
    fn stat(&self, pair: &Pair<'_>, name: &[u8], path: &CString) -> Option<Stat> {
        let follow =
            if self.run.options.dereference { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match statat(pair.dir, path, follow) {
            Ok(stat) => Some(stat),
            Err(errno) => {
                self.run.differs();
                match errno {
                    Errno::NOENT => {
                        self.run.note(format_args!(
                            "{}: Warning: Cannot stat: {}",
                            escaped(name),
                            words(errno)
                        ));
                    }
                    _ => self.run.cannot("stat", name, errno),
                }
                None
            }
        }
    }

    fn file(&mut self, pair: &Pair<'_>, entries: &mut Entries<Archive>) -> Result<(), EarlyEnd> {
        let Some(stat) = self.stat(pair, &pair.name, &pair.path) else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return self.differs(pair, "File type differs");
        }
        let entry = pair.entry;
        let (uid, gid) = match self.run.options.numeric_owner {
            true => (entry.uid, entry.gid),
            false => (
                self.owners.user(&entry.uname, entry.uid),
                self.owners.group(&entry.gname, entry.gid),
            ),
        };
        // Most formats store whole seconds only.
        let nanos = if entry.mtime.nanos == 0 { 0 } else { stat.st_mtime_nsec as u32 };
        let differences = [
            (stat.st_mode & 0o7777 != entry.mode, "Mode differs"),
            (stat.st_uid != uid, "Uid differs"),
            (stat.st_gid != gid, "Gid differs"),
            (
                (stat.st_mtime, nanos) != (entry.mtime.seconds, entry.mtime.nanos),
                "Mod time differs",
            ),
            (stat.st_size as u64 != entry.size, "Size differs"),
        ];
        for (_, what) in differences.iter().filter(|(differs, _)| *differs) {
            self.differs(pair, what)?;
        }
        if stat.st_size as u64 == entry.size {
            self.contents(pair, entries)?;
        }
        Ok(())
    }

    fn contents(&self, pair: &Pair<'_>, entries: &mut Entries<Archive>) -> Result<(), EarlyEnd> {
        let follow = if self.run.options.dereference { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | follow;
        let shown = Path::new(std::ffi::OsStr::from_bytes(&pair.name));
        let opened = openat(pair.dir.as_fd(), &pair.path, flags, Mode::empty())
            .map_err(std::io::Error::from);
        let input = opened.and_then(|fd| Input::adopt(fd, shown, self.run.tool.stream_options()));
        let mut source = match input {
            Ok(input) => self.run.tool.source(input),
            Err(error) => {
                self.run.cannot("open", &pair.name, errno_of(&error));
                self.run.differs();
                return Ok(());
            }
        };
        match self.compare(pair, entries, &mut source)? {
            ContentComparison::Same => Ok(()),
            ContentComparison::Different => self.differs(pair, "Contents differ"),
            ContentComparison::NoHole(at) => {
                self.differs(pair, &format!("File fragment at {at} is not a hole"))
            }
        }
    }

    fn compare(
        &self,
        pair: &Pair<'_>,
        entries: &mut Entries<Archive>,
        source: &mut Source,
    ) -> Result<ContentComparison, EarlyEnd> {
        let whole = [(0, pair.entry.size)];
        let mut at = 0;
        for &(offset, length) in pair.entry.sparse.as_deref().unwrap_or(&whole) {
            if let Some(place) = self.hole(pair, source, at, offset)? {
                return Ok(ContentComparison::NoHole(place));
            }
            if !self.data(pair, entries, source, length)? {
                return Ok(ContentComparison::Different);
            }
            at = offset + length;
        }
        let place = self.hole(pair, source, at, pair.entry.size)?;
        Ok(place.map_or(ContentComparison::Same, ContentComparison::NoHole))
    }

    /// Returns the next bytes of the file. If they cannot be read, this is reported and the result
    /// is `None`.
    fn read<'s>(&self, pair: &Pair<'_>, source: &'s mut Source) -> Option<&'s [u8]> {
        match source.fill_buf() {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.run.cannot("read", &pair.name, errno_of(&error));
                self.run.differs();
                None
            }
        }
    }

    /// Whether the next `length` bytes of the file equal those of the archive.
    fn data(
        &self,
        pair: &Pair<'_>,
        entries: &mut Entries<Archive>,
        source: &mut Source,
        length: u64,
    ) -> Result<bool, EarlyEnd> {
        let stop = Stop::on_signals();
        let mut left = length;
        while left > 0 {
            if stop.asked() {
                return Err(EarlyEnd::Signal);
            }
            let Some(ours) = self.read(pair, source) else { return Ok(true) };
            let theirs = entries.fill_stored().map_err(|error| ended(self.run, error))?;
            let count =
                ours.len().min(theirs.len()).min(usize::try_from(left).unwrap_or(usize::MAX));
            if count == 0 || ours[..count] != theirs[..count] {
                return Ok(false);
            }
            source.consume(count);
            entries.consume_stored(count);
            self.run.tool.progressed(count as u64);
            left -= count as u64;
        }
        Ok(true)
    }

    /// Looks for bytes other than 0 in the file where the archive has a hole. Returns the offset of
    /// the fragment with the first of them.
    fn hole(
        &self,
        pair: &Pair<'_>,
        source: &mut Source,
        from: u64,
        to: u64,
    ) -> Result<Option<u64>, EarlyEnd> {
        let mut at = from;
        while at < to {
            if Stop::on_signals().asked() {
                return Err(EarlyEnd::Signal);
            }
            let Some(bytes) = self.read(pair, source) else { return Ok(None) };
            let count = bytes.len().min(usize::try_from(to - at).unwrap_or(usize::MAX));
            if let Some(place) = bytes[..count].iter().position(|&byte| byte != 0) {
                let inside = at - from + place as u64;
                return Ok(Some(from + inside - inside % FRAGMENT));
            }
            if count == 0 {
                return Ok(None);
            }
            source.consume(count);
            at += count as u64;
        }
        Ok(None)
    }

    fn hard_link(&self, pair: &Pair<'_>) -> Result<(), EarlyEnd> {
        let link = put_in_top(self.run, pair.entry.link.clone());
        let Ok(path) = CString::new(link.as_slice()) else { return Ok(()) };
        let Some(one) = self.stat(pair, &pair.name, &pair.path) else { return Ok(()) };
        let Some(two) = self.stat(pair, &link, &path) else { return Ok(()) };
        match FileId::of(&one) == FileId::of(&two) {
            true => Ok(()),
            false => self.differs(pair, &format!("Not linked to {}", escaped(&link))),
        }
    }

    fn symlink(&self, pair: &Pair<'_>) -> Result<(), EarlyEnd> {
        match readlinkat(pair.dir, &pair.path, Vec::new()) {
            Ok(target) if target.to_bytes() == pair.entry.link => Ok(()),
            Ok(_) => self.differs(pair, "Symlink differs"),
            Err(errno) => {
                self.run.differs();
                match errno {
                    Errno::NOENT => {
                        let name = escaped(&pair.name);
                        self.run.note(format_args!(
                            "{name}: Warning: Cannot readlink: {}",
                            words(errno)
                        ));
                    }
                    _ => self.run.cannot("readlink", &pair.name, errno),
                }
                Ok(())
            }
        }
    }

    /// Compares a directory, a named pipe or a device.
    fn special(&self, pair: &Pair<'_>) -> Result<(), EarlyEnd> {
        let Some(stat) = self.stat(pair, &pair.name, &pair.path) else { return Ok(()) };
        let (kind, device) = match pair.entry.kind {
            EntryKind::Directory => (FileType::Directory, false),
            EntryKind::Fifo => (FileType::Fifo, false),
            EntryKind::Character => (FileType::CharacterDevice, true),
            _ => (FileType::BlockDevice, true),
        };
        if FileType::from_raw_mode(stat.st_mode) != kind {
            return self.differs(pair, "File type differs");
        }
        let (major, minor) = pair.entry.device;
        if device && stat.st_rdev != makedev(major, minor) {
            return self.differs(pair, "Device number differs");
        }
        match stat.st_mode & 0o7777 == pair.entry.mode {
            true => Ok(()),
            false => self.differs(pair, "Mode differs"),
        }
    }
}
