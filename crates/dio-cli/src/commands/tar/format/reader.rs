//! Reads the entries of an archive one after the other.

use std::io::Read;

use dio_sys::uninterrupted;

use super::header::{self, Block, Checked};
use super::pax::{self, Records};
use super::sparse::{self, MapForm};
use super::text::escaped;
use super::{
    Archive, ArchiveEntry, BLOCK, EntryKind, Format, FormatError, MAX_EXTENSIONS, MAX_GLOBALS,
    Notice, NoticeSubject,
};

/// The entries of an archive.
///
/// [`Entries::next_entry`] returns the next entry. Then its content can be read, wholly or in part.
/// The next call skips the content that was not read.
#[derive(Debug)]
pub struct Entries<A> {
    archive: A,
    /// Bytes of the archive read so far.
    offset: u64,
    /// Bytes of the content that remain in the archive, and the padding after them.
    left: u64,
    padding: u64,
    expand: Expand,
    globals: Records,
    ignore_zeros: bool,
    seen_header: bool,
    /// Whether the last blocks were no headers, which has been reported.
    skipping: bool,
    ended: bool,
    /// Offset of the end of the archive, once it was found, and whether a block of NULs marks it.
    end: Option<u64>,
    end_is_marked: bool,
    notices: Vec<Notice>,
}

/// Position in the content including holes, for [`Entries::read_content`].
#[derive(Debug, Default)]
struct Expand {
    extents: Option<std::vec::IntoIter<(u64, u64)>>,
    extent: Option<(u64, u64)>,
    at: u64,
    size: u64,
}

/// Extension headers that were read before the header they extend.
#[derive(Default)]
struct Pending {
    records: Records,
    is_pax: bool,
    /// The long name, and the number of blocks that hold it; likewise the long link target.
    long_name: Option<(Vec<u8>, u64)>,
    long_link: Option<(Vec<u8>, u64)>,
    position: Option<u64>,
    bytes: u64,
}

impl<A: Archive> Entries<A> {
    /// Starts reading at the current position of the archive.
    pub fn new(archive: A) -> Entries<A> {
        Entries {
            archive,
            offset: 0,
            left: 0,
            padding: 0,
            expand: Expand::default(),
            globals: Records::new(),
            ignore_zeros: false,
            seen_header: false,
            skipping: false,
            ended: false,
            end: None,
            end_is_marked: false,
            notices: Vec::new(),
        }
    }

    /// The data of one entry, whose headers were read before: `stored` bytes from `offset` on.
    pub fn within(archive: A, offset: u64, stored: u64) -> Entries<A> {
        Entries { offset, left: stored, ..Entries::new(archive) }
    }

    /// Sets whether blocks of NULs are skipped instead of ending the archive (`-i`).
    #[must_use]
    pub fn ignoring_zeros(mut self, ignore: bool) -> Entries<A> {
        self.ignore_zeros = ignore;
        self
    }

    /// Returns the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Bytes of the archive read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Offset of the end of the archive: that of its blocks of NULs, or the end of the file if
    /// there are none. `None` until [`Entries::next_entry`] has returned `None`.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Whether a block of NULs marks the end of the archive.
    pub fn end_is_marked(&self) -> bool {
        self.end_is_marked
    }

    /// Returns the archive, so that the bytes behind its end can be read.
    pub fn into_inner(self) -> A {
        self.archive
    }

    /// Returns the next entry, or `None` at the end of the archive.
    ///
    /// # Errors
    /// Reading failed, the archive ends within an entry, or it is invalid; nothing can be read
    /// afterwards. Blocks that are no headers are skipped; [`Entries::take_notices`] reports them.
    pub fn next_entry(&mut self) -> Result<Option<ArchiveEntry>, FormatError> {
        if self.ended {
            return Ok(None);
        }
        let entry = self.find_entry();
        self.ended = !matches!(entry, Ok(Some(_)));
        entry
    }

    fn find_entry(&mut self) -> Result<Option<ArchiveEntry>, FormatError> {
        self.pass(self.left.saturating_add(self.padding))?;
        (self.left, self.padding) = (0, 0);
        let mut pending = Pending::default();
        loop {
            let at = self.offset;
            let mut bytes = [0; BLOCK];
            match self.read_block(&mut bytes)? {
                BLOCK => {}
                0..BLOCK if at == 0 => {
                    self.end = Some(0);
                    self.tell(0, "This does not look like a tar archive");
                    return Ok(None);
                }
                // After blocks that are no headers, an incomplete block is no error.
                count if pending.position.is_none() && (count == 0 || self.skipping) => {
                    self.end = Some(at);
                    return Ok(None);
                }
                _ => return Err(self.truncated()),
            }
            let block = match header::check(&bytes) {
                Checked::Good => Block::new(&bytes),
                Checked::Zero if self.ignore_zeros => continue,
                Checked::Zero => {
                    (self.end, self.end_is_marked) = (Some(at), true);
                    self.look_for_second_zero()?;
                    return Ok(None);
                }
                Checked::Bad => {
                    self.tell_bad(at);
                    pending = Pending::default();
                    continue;
                }
            };
            let Some(size) = block.size() else {
                self.tell_bad(at);
                pending = Pending::default();
                continue;
            };
            (self.seen_header, self.skipping) = (true, false);
            pending.position.get_or_insert(at);
            if matches!(block.typeflag(), b'x' | b'X' | b'g' | b'L' | b'K') {
                if let Some(label) = self.extension(&block, at, size, &mut pending)? {
                    return Ok(Some(label));
                }
                continue;
            }
            return self.assemble(&block, at, size, pending).map(Some);
        }
    }

    /// Reports blocks that are no headers, once for each run of them.
    fn tell_bad(&mut self, offset: u64) {
        if !self.seen_header && !self.skipping {
            self.tell(offset, "This does not look like a tar archive");
        }
        if !std::mem::replace(&mut self.skipping, true) {
            self.tell(offset, "Skipping to next header");
        }
    }

    fn tell(&mut self, offset: u64, text: impl Into<String>) {
        self.notices.push(Notice::error(offset, text));
    }

    /// Checks for the second block of NULs, which every archive should have at its end.
    fn look_for_second_zero(&mut self) -> Result<(), FormatError> {
        let at = self.offset;
        let mut bytes = [0; BLOCK];
        let zero = self.read_block(&mut bytes)? == BLOCK && bytes.iter().all(|byte| *byte == 0);
        if !zero {
            let text = format!("A lone zero block at {}", at / BLOCK as u64);
            self.notices.push(Notice { offset: at, about: NoticeSubject::LoneZero, text });
        }
        Ok(())
    }

    /// Reads a header that extends the next one or all later ones. Returns the label of the volume
    /// if the header contains one.
    fn extension(
        &mut self,
        block: &Block,
        at: u64,
        size: u64,
        pending: &mut Pending,
    ) -> Result<Option<ArchiveEntry>, FormatError> {
        pending.bytes = pending.bytes.saturating_add(size).saturating_add(BLOCK as u64);
        if pending.bytes > MAX_EXTENSIONS {
            let what = format!("The headers of one entry have more than {MAX_EXTENSIONS} bytes");
            return Err(FormatError::Damaged { offset: at, what });
        }
        let content = self.read_all(size)?;
        let blocks = (self.offset - at) / BLOCK as u64;
        match block.typeflag() {
            b'L' => pending.long_name = Some((header::text(&content).to_vec(), blocks)),
            b'K' => pending.long_link = Some((header::text(&content).to_vec(), blocks)),
            b'g' => {
                let mut label = None;
                for record in pax::parse(&content, at, &mut self.notices) {
                    if record.0 == b"GNU.volume.label" {
                        label = Some(self.label(block, at, header::text(&record.1)));
                        continue;
                    }
                    self.take_global(record, at)?;
                }
                return Ok(label);
            }
            _ => {
                pending.records = pax::parse(&content, at, &mut self.notices);
                pending.is_pax = true;
            }
        }
        Ok(None)
    }

    /// Adds a record that applies to all later entries.
    fn take_global(&mut self, record: (Vec<u8>, Vec<u8>), at: u64) -> Result<(), FormatError> {
        self.globals.retain(|(keyword, _)| *keyword != record.0);
        self.globals.push(record);
        if self.globals.len() > MAX_GLOBALS.0 || self.global_bytes() > MAX_GLOBALS.1 {
            let (records, bytes) = MAX_GLOBALS;
            let what = format!(
                "The headers for all entries have more than {records} records or {bytes} bytes"
            );
            return Err(FormatError::Damaged { offset: at, what });
        }
        Ok(())
    }

    fn global_bytes(&self) -> usize {
        self.globals.iter().map(|(keyword, value)| keyword.len() + value.len()).sum()
    }

    /// The label of the volume, which PAX archives store in a global header.
    fn label(&mut self, block: &Block, at: u64, name: &[u8]) -> ArchiveEntry {
        let ArchiveEntry { mtime, .. } = block.entry(at, &mut self.notices);
        ArchiveEntry {
            path: name.to_vec(),
            kind: EntryKind::Label,
            format: Format::Pax,
            typeflag: b'V',
            mtime,
            position: at,
            header: at,
            ordinal: at / BLOCK as u64,
            ..ArchiveEntry::default()
        }
    }

    /// Builds an entry from its header and the extension headers before it.
    fn assemble(
        &mut self,
        block: &Block,
        at: u64,
        size: u64,
        pending: Pending,
    ) -> Result<ArchiveEntry, FormatError> {
        let mut plain = block.entry(at, &mut self.notices);
        plain.position = pending.position.unwrap_or(at);
        plain.header = at;
        plain.ordinal = at / BLOCK as u64;
        let long = [(pending.long_name, &mut plain.path), (pending.long_link, &mut plain.link)];
        for (name, field) in long {
            if let Some((name, blocks)) = name {
                *field = name;
                plain.ordinal = plain.ordinal.saturating_sub(blocks);
            }
        }
        if pending.is_pax {
            plain.format = Format::Pax;
        }
        let mut entry = plain.clone();
        let mut records = self.globals.clone();
        records.extend(pending.records);
        let mut extended = pax::apply(&records, &mut entry, &plain, &mut self.notices);
        let name = extended.sparse.name.as_ref().unwrap_or(&entry.path);
        if matches!(entry.typeflag, 0 | b'0' | b'7') && name.ends_with(b"/") {
            // Programs older than ustar stored directories in this form.
            entry.kind = EntryKind::Directory;
        }
        let size = match entry.kind {
            // These have no content, whatever their size field says: old programs stored the size
            // of the file, of the target's name or of the directory there.
            EntryKind::HardLink
            | EntryKind::Symlink
            | EntryKind::Character
            | EntryKind::Block
            | EntryKind::Fifo => 0,
            EntryKind::Directory if entry.typeflag != b'D' => 0,
            _ => extended.size.unwrap_or(size),
        };
        if i64::try_from(size).is_err()
            || self.offset.checked_add(size).is_none_or(|end| i64::try_from(end).is_err())
        {
            return Err(FormatError::Damaged {
                offset: at,
                what: format!("An entry of {size} bytes cannot be"),
            });
        }
        entry.stored = size;
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
        if entry.kind == EntryKind::Regular {
            entry.size = size;
            let damaged = |what| FormatError::Damaged { offset: at, what };
            if block.is_old_sparse() {
                self.old_sparse(block, &mut entry).map_err(|error| self.or_damaged(at, error))?;
            } else {
                let form = extended.sparse.form().map_err(damaged)?;
                self.pax_sparse(form, &extended.sparse, &mut entry)
                    .map_err(|error| self.or_damaged(at, error))?;
            }
        } else if let Some(name) = extended.sparse.name.take() {
            entry.path = name;
        }
        self.tell_odd(&entry);
        self.expand = Expand {
            extents: entry.sparse.clone().map(Vec::into_iter),
            extent: None,
            at: 0,
            size: entry.size,
        };
        Ok(entry)
    }

    /// Reports an entry whose type is unknown, so that it is treated as a regular file.
    fn tell_odd(&mut self, entry: &ArchiveEntry) {
        if entry.kind == EntryKind::Regular && !matches!(entry.typeflag, 0 | b'0' | b'7' | b'S') {
            let shown = escaped(&[entry.typeflag]);
            let text = format!(
                "{}: Unknown file type '{shown}', extracted as normal file",
                escaped(&entry.path)
            );
            self.notices.push(Notice { offset: entry.header, about: NoticeSubject::Type, text });
        }
    }

    fn or_damaged(&self, offset: u64, problem: Problem) -> FormatError {
        match problem {
            Problem::Refused(what) => FormatError::Damaged { offset, what },
            Problem::Format(error) => error,
        }
    }

    /// Reads the map in an old GNU header, and in the blocks that continue it.
    fn old_sparse(&mut self, block: &Block, entry: &mut ArchiveEntry) -> Result<(), Problem> {
        let bytes = block.header.as_bytes();
        let real =
            super::number::parse(&bytes[483..495]).ok().and_then(|size| u64::try_from(size).ok());
        entry.size = real.ok_or("The size of a sparse file makes no sense")?;
        let mut extents = Vec::new();
        let mut listed = sparse::old_extents(&bytes[386..482], &mut extents)?;
        let mut more = bytes[482] != 0;
        while more {
            let mut next = [0; BLOCK];
            if self.read_block(&mut next)? < BLOCK {
                return Err(Problem::Format(self.truncated()));
            }
            if listed {
                listed = sparse::old_extents(&next[..504], &mut extents)?;
            } else {
                // A valid map does not continue after its end.
                return Err("The map of a sparse file makes no sense".into());
            }
            more = next[504] != 0;
        }
        sparse::check(&extents, entry.size, entry.stored)?;
        entry.sparse = Some(extents);
        Ok(())
    }

    /// Reads the map that an extended header contains or announces.
    fn pax_sparse(
        &mut self,
        form: MapForm,
        map: &sparse::PaxSparse,
        entry: &mut ArchiveEntry,
    ) -> Result<(), Problem> {
        if let Some(name) = &map.name {
            entry.path.clone_from(name);
        }
        let extents = match form {
            MapForm::None => return Ok(()),
            MapForm::Here(extents) => extents,
            MapForm::InContent => self.map_in_content(entry)?,
        };
        entry.size = map.size.ok_or("A sparse file without its size")?;
        sparse::check(&extents, entry.size, entry.stored)?;
        entry.sparse = Some(extents);
        Ok(())
    }

    fn map_in_content(&mut self, entry: &mut ArchiveEntry) -> Result<Vec<(u64, u64)>, Problem> {
        let mut lines = sparse::MapLines::default();
        loop {
            let mut block = [0; BLOCK];
            self.left = self
                .left
                .checked_sub(BLOCK as u64)
                .ok_or("The map of a sparse file does not end")?;
            if self.read_block(&mut block)? < BLOCK {
                return Err(Problem::Format(self.truncated()));
            }
            if let Some(extents) = lines.take(&block)? {
                entry.stored = self.left;
                return Ok(extents);
            }
        }
    }

    /// Reads the content of the entry, with zeros for holes. Returns 0 at its end.
    ///
    /// # Errors
    /// Reading failed, or the archive ends within the content.
    pub fn read_content(&mut self, buffer: &mut [u8]) -> Result<usize, FormatError> {
        if self.expand.extents.is_none() {
            return self.read_stored(buffer);
        }
        loop {
            let expand = &mut self.expand;
            if expand.extent.is_none_or(|(offset, length)| expand.at >= offset + length) {
                expand.extent = expand.extents.as_mut().and_then(Iterator::next);
            }
            let (offset, length) = expand.extent.unwrap_or((expand.size, 0));
            let until = if expand.at < offset { offset } else { offset + length };
            let some = usize::try_from(until.saturating_sub(expand.at))
                .map_or(buffer.len(), |n| n.min(buffer.len()));
            if some == 0 {
                if buffer.is_empty() || expand.extent.is_none() {
                    return Ok(0);
                }
                // An extent may be empty.
                expand.extent = None;
                continue;
            }
            if expand.at < offset {
                buffer[..some].fill(0);
                expand.at += some as u64;
                return Ok(some);
            }
            let read = self.read_stored(&mut buffer[..some])?;
            self.expand.at += read as u64;
            return Ok(read);
        }
    }

    /// Reads the data of the entry as stored in the archive; for a sparse file, one extent after
    /// the other. Returns 0 at its end.
    ///
    /// # Errors
    /// Reading failed, or the archive ends within the data.
    pub fn read_stored(&mut self, buffer: &mut [u8]) -> Result<usize, FormatError> {
        let some = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if some == 0 {
            return Ok(0);
        }
        let read = uninterrupted(|| self.archive.read(&mut buffer[..some]))?;
        self.took(read)
    }

    /// Returns the next bytes of the data from the archive's buffer, or nothing at the end. The
    /// caller then calls [`Entries::consume_stored`].
    ///
    /// # Errors
    /// Reading failed, or the archive ends within the data.
    pub fn fill_stored(&mut self) -> Result<&[u8], FormatError> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let truncated = self.truncated();
        if uninterrupted(|| self.archive.fill_buf().map(<[u8]>::is_empty))? {
            return Err(truncated);
        }
        let there = self.archive.fill_buf()?;
        let some = usize::try_from(self.left).map_or(there.len(), |left| left.min(there.len()));
        Ok(&there[..some])
    }

    /// Skips `count` of the bytes that [`Entries::fill_stored`] returned.
    ///
    /// # Panics
    /// If it returned fewer.
    pub fn consume_stored(&mut self, count: usize) {
        assert!(count as u64 <= self.left, "more than there is of this entry");
        self.archive.consume(count);
        self.offset += count as u64;
        self.left -= count as u64;
    }

    /// Bytes of the entry's data that have not been read yet.
    pub fn stored_left(&self) -> u64 {
        self.left
    }

    fn took(&mut self, read: usize) -> Result<usize, FormatError> {
        if read == 0 {
            return Err(self.truncated());
        }
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(read)
    }

    fn truncated(&self) -> FormatError {
        FormatError::Truncated { offset: self.offset }
    }

    fn pass(&mut self, bytes: u64) -> Result<(), FormatError> {
        let passed = self.archive.pass(bytes)?;
        self.offset += passed;
        if passed < bytes { Err(self.truncated()) } else { Ok(()) }
    }

    /// Reads a block. Returns the number of bytes read, which is smaller only at the end of the
    /// archive.
    fn read_block(&mut self, block: &mut [u8; BLOCK]) -> Result<usize, FormatError> {
        let mut filled = 0;
        while filled < BLOCK {
            match uninterrupted(|| self.archive.read(&mut block[filled..]))? {
                0 => break,
                read => filled += read,
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Reads the content of an extension header, and skips its padding. Memory grows with the bytes
    /// that the archive has, not with the size it claims.
    fn read_all(&mut self, size: u64) -> Result<Vec<u8>, FormatError> {
        let mut content = Vec::new();
        (&mut self.archive).take(size).read_to_end(&mut content)?;
        self.offset += content.len() as u64;
        if (content.len() as u64) < size {
            return Err(self.truncated());
        }
        self.pass(size.next_multiple_of(BLOCK as u64) - size)?;
        Ok(content)
    }
}

/// The reason for which the map of a sparse file cannot be read.
enum Problem {
    Refused(String),
    Format(FormatError),
}

impl From<String> for Problem {
    fn from(what: String) -> Problem {
        Problem::Refused(what)
    }
}

impl From<&str> for Problem {
    fn from(what: &str) -> Problem {
        Problem::Refused(what.to_owned())
    }
}

impl From<FormatError> for Problem {
    fn from(error: FormatError) -> Problem {
        Problem::Format(error)
    }
}
