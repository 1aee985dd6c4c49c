//! Encodes the header blocks of entries as GNU tar does.

use super::block::{
    Encoder, Fields, FormatLimit, NAME, PREFIX, content_of, data, link_of, padding, seal, whole_map,
};
use super::number::{put_base_256, put_octal};
use super::pax_write;
use super::{ArchiveEntry, BLOCK, EntryKind, Format};

/// Encodes the header blocks of an entry, including the names of its user and group; see
/// [`Encoder::encode`].
///
/// # Errors
/// As [`Encoder::encode`].
pub fn encode(entry: &ArchiveEntry, format: Format) -> Result<Vec<u8>, FormatLimit> {
    Encoder { format, numeric_owner: false }.encode(entry)
}

/// Number of NULs that end an archive of `written` bytes: two blocks, plus what completes the last
/// record of `blocking` blocks.
#[must_use]
pub fn end_of_archive(written: u64, blocking: usize) -> u64 {
    let record = (blocking.max(1) * BLOCK) as u64;
    (written + 2 * BLOCK as u64).next_multiple_of(record) - written
}

/// Widens the extents of a sparse file to whole blocks of the archive, and joins extents that
/// touch. GNU tar and other programs then read them alike: only the last extent of a file may end
/// within a block.
#[must_use]
pub fn block_extents(extents: &[(u64, u64)], size: u64) -> Vec<(u64, u64)> {
    let block = BLOCK as u64;
    let mut wide: Vec<(u64, u64)> = Vec::with_capacity(extents.len());
    for &(offset, length) in extents.iter().filter(|(offset, length)| *length > 0 && *offset < size)
    {
        let start = offset - offset % block;
        let end = offset
            .saturating_add(length)
            .checked_next_multiple_of(block)
            .map_or(size, |end| end.min(size));
        match wide.last_mut() {
            Some((last, length)) if *last + *length >= start => {
                *length = (*length).max(end - *last)
            }
            _ => wide.push((start, end - start)),
        }
    }
    wide
}

impl Encoder {
    /// Encodes the header blocks of an entry: the headers that extend its own one, its own header,
    /// and the map of a sparse file.
    ///
    /// In the archive they are followed by the data (for a sparse file, the extents one after the
    /// other) and [`padding`] for its length. A slash is appended to the name of a directory.
    /// [`ArchiveEntry::stored`], [`ArchiveEntry::typeflag`] and the positions are ignored. PAX
    /// headers store the access and change times if the entry has them, and the modification time
    /// if it does not fit its field or has a fraction of a second. Extents should come from
    /// [`block_extents`].
    ///
    /// # Errors
    /// The format cannot store the entry.
    pub fn encode(&self, entry: &ArchiveEntry) -> Result<Vec<u8>, FormatLimit> {
        let mut path = entry.path.clone();
        if entry.kind == EntryKind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        match self.format {
            Format::Gnu => self.encode_gnu(entry, &path),
            Format::Pax => pax_write::encode(self, entry, &path),
            Format::Ustar => self.encode_ustar(entry, &path),
            Format::V7 => self.encode_v7(entry, &path),
        }
    }

    fn encode_gnu(&self, entry: &ArchiveEntry, path: &[u8]) -> Result<Vec<u8>, FormatLimit> {
        let mut out = Vec::with_capacity(BLOCK);
        let link = link_of(entry);
        if link.len() > NAME {
            self.long(b'K', link, &mut out)?;
        }
        if path.len() > NAME {
            self.long(b'L', path, &mut out)?;
        }
        let extents = entry
            .sparse
            .as_ref()
            .filter(|_| entry.kind == EntryKind::Regular)
            .map(|map| whole_map(map, entry.size));
        let size = extents.as_ref().map_or_else(|| content_of(entry), |map| data(map));
        let mut fields = self.fields(entry, path, size)?;
        if extents.is_some() {
            fields.typeflag = b'S';
        }
        let mut block = self.block(&fields)?;
        match extents {
            None => seal(&mut block, &mut out),
            Some(map) => old_map(&map, entry.size, block, &mut out),
        }
        Ok(out)
    }

    fn encode_ustar(&self, entry: &ArchiveEntry, path: &[u8]) -> Result<Vec<u8>, FormatLimit> {
        if entry.sparse.is_some() {
            return Err(FormatLimit::Kind);
        }
        let mut fields = self.fields(entry, path, content_of(entry))?;
        if path.len() > NAME {
            (fields.prefix, fields.name) = split(path)?;
        }
        if fields.link.len() > NAME {
            return Err(FormatLimit::LongLink);
        }
        let mut out = Vec::with_capacity(BLOCK);
        seal(&mut self.block(&fields)?, &mut out);
        Ok(out)
    }

    fn encode_v7(&self, entry: &ArchiveEntry, path: &[u8]) -> Result<Vec<u8>, FormatLimit> {
        if entry.sparse.is_some() {
            return Err(FormatLimit::Kind);
        }
        let mut fields = self.fields(entry, path, content_of(entry))?;
        if path.len() > NAME {
            // GNU tar reports a limit one byte lower than the real one.
            return Err(FormatLimit::LongName { max: NAME - 1 });
        }
        if fields.link.len() > NAME {
            return Err(FormatLimit::LongLink);
        }
        if fields.typeflag == b'0' {
            fields.typeflag = 0;
        }
        let mut out = Vec::with_capacity(BLOCK);
        seal(&mut self.block(&fields)?, &mut out);
        Ok(out)
    }

    /// Writes an entry that holds a name too long for its field.
    fn long(&self, typeflag: u8, name: &[u8], out: &mut Vec<u8>) -> Result<(), FormatLimit> {
        let root: &[u8] = if self.numeric_owner { b"" } else { b"root" };
        let size = name.len() as u64 + 1;
        let mut block = self.block(&Fields {
            name: b"././@LongLink",
            prefix: b"",
            link: b"",
            typeflag,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size,
            mtime: 0,
            uname: root,
            gname: root,
            device: None,
        })?;
        seal(&mut block, out);
        out.extend_from_slice(name);
        out.push(0);
        out.resize(out.len() + padding(size), 0);
        Ok(())
    }
}

/// Splits a name at a slash into its directories and the rest. Like GNU tar, splits it as far back
/// as the field for the directories permits.
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), FormatLimit> {
    if path.len() > PREFIX + NAME + 1 {
        return Err(FormatLimit::LongName { max: PREFIX + NAME + 1 });
    }
    let reach = if path.len() > PREFIX + 1 {
        PREFIX + 1
    } else {
        path.len() - usize::from(path.ends_with(b"/"))
    };
    let slash = memchr::memrchr(b'/', &path[..reach])
        .filter(|at| *at > 0)
        .ok_or(FormatLimit::Unsplittable)?;
    let name = &path[slash + 1..];
    if name.is_empty() || name.len() > NAME {
        Err(FormatLimit::Unsplittable)
    } else {
        Ok((&path[..slash], name))
    }
}

/// Writes the map of a sparse file: four extents into its header, the others into blocks of
/// twenty-one behind it.
fn old_map(map: &[(u64, u64)], size: u64, mut block: [u8; BLOCK], out: &mut Vec<u8>) {
    let (first, rest) = map.split_at(map.len().min(4));
    put_extents(first, &mut block[386..482]);
    block[482] = u8::from(!rest.is_empty());
    put_offset(&mut block[483..495], size);
    seal(&mut block, out);
    let mut groups = rest.chunks(21).peekable();
    while let Some(group) = groups.next() {
        let mut block = [0; BLOCK];
        put_extents(group, &mut block[..504]);
        block[504] = u8::from(groups.peek().is_some());
        out.extend_from_slice(&block);
    }
}

fn put_extents(extents: &[(u64, u64)], fields: &mut [u8]) {
    for ((offset, length), field) in extents.iter().zip(fields.chunks_exact_mut(24)) {
        let (first, second) = field.split_at_mut(12);
        put_offset(first, *offset);
        put_offset(second, *length);
    }
}

fn put_offset(field: &mut [u8], value: u64) {
    if !put_octal(field, value) {
        put_base_256(field, i64::try_from(value).unwrap_or(i64::MAX));
    }
}
