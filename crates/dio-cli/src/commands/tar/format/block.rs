//! The header block of an entry, and helpers for both kinds of header extensions.

use thiserror::Error;

use super::number::{max_octal, put_base_256, put_octal};
use super::{ArchiveEntry, BLOCK, EntryKind, Format};

/// Size of the field for a name or a link target, in bytes.
pub(super) const NAME: usize = 100;
/// Size of the field for the directories before a name, in bytes.
pub(super) const PREFIX: usize = 155;
/// Size of the fields for the names of user and group, in bytes.
pub(super) const OWNER: usize = 32;

/// The reason for which an entry cannot be written in a format.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormatLimit {
    /// The name is longer than the format permits.
    #[error("file name is too long (max {max}); not dumped")]
    LongName {
        /// The largest length permitted, in bytes.
        max: usize,
    },
    /// The name has no slash at which it could be split to fit.
    #[error("file name is too long (cannot be split); not dumped")]
    Unsplittable,
    /// The link target is longer than the format permits.
    #[error("link name is too long; not dumped")]
    LongLink,
    /// A number does not fit into its field.
    #[error("value {value} out of {what} range 0..{max}")]
    Range {
        /// The number.
        value: i128,
        /// Its type in C.
        what: &'static str,
        /// The largest number that fits.
        max: u64,
    },
    /// The format cannot represent this kind of entry.
    #[error("Unknown file type; file ignored")]
    Kind,
}

impl FormatLimit {
    /// The name that GNU tar puts before the message, with a colon; `None` before a message about a
    /// number.
    #[must_use]
    pub fn about<'a>(&self, entry: &'a ArchiveEntry) -> Option<&'a [u8]> {
        match self {
            FormatLimit::Range { .. } => None,
            FormatLimit::LongLink => Some(&entry.link),
            FormatLimit::LongName { .. } | FormatLimit::Unsplittable | FormatLimit::Kind => {
                Some(&entry.path)
            }
        }
    }
}

/// Encodes header blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    /// The format to write.
    pub format: Format,
    /// Whether to leave out the names of users and groups (`--numeric-owner`), also in the headers
    /// that hold long names.
    pub numeric_owner: bool,
}

/// Number of NULs that fill the last block of a content of `size` bytes.
#[must_use]
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

/// The values for a header block.
pub(super) struct Fields<'a> {
    pub(super) name: &'a [u8],
    pub(super) prefix: &'a [u8],
    pub(super) link: &'a [u8],
    pub(super) typeflag: u8,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) uname: &'a [u8],
    pub(super) gname: &'a [u8],
    pub(super) device: Option<(u32, u32)>,
}

impl Encoder {
    /// Collects the fields for the header of an entry.
    pub(super) fn fields<'a>(
        &self,
        entry: &'a ArchiveEntry,
        path: &'a [u8],
        size: u64,
    ) -> Result<Fields<'a>, FormatLimit> {
        let owners = !self.numeric_owner && self.format != Format::V7;
        Ok(Fields {
            name: path,
            prefix: b"",
            link: link_of(entry),
            typeflag: typeflag(entry.kind, self.format)?,
            mode: entry.mode & 0o7777,
            uid: entry.uid,
            gid: entry.gid,
            size,
            mtime: entry.mtime.seconds,
            uname: if owners { &entry.uname } else { b"" },
            gname: if owners { &entry.gname } else { b"" },
            device: matches!(entry.kind, EntryKind::Character | EntryKind::Block)
                .then_some(entry.device),
        })
    }

    /// Builds a header block, without its checksum.
    pub(super) fn block(&self, fields: &Fields<'_>) -> Result<[u8; BLOCK], FormatLimit> {
        let mut block = [0; BLOCK];
        put(&mut block[..100], fields.name);
        self.number(&mut block[100..108], i128::from(fields.mode), "mode_t")?;
        self.number(&mut block[108..116], i128::from(fields.uid), "uid_t")?;
        self.number(&mut block[116..124], i128::from(fields.gid), "gid_t")?;
        self.number(&mut block[124..136], i128::from(fields.size), "off_t")?;
        self.number(&mut block[136..148], i128::from(fields.mtime), "time_t")?;
        block[156] = fields.typeflag;
        put(&mut block[157..257], fields.link);
        put(
            &mut block[257..265],
            match self.format {
                Format::Gnu => b"ustar  \0",
                Format::Pax | Format::Ustar => b"ustar\x0000",
                Format::V7 => b"",
            },
        );
        put(&mut block[265..297], fields.uname);
        put(&mut block[297..329], fields.gname);
        // The GNU format stores device numbers for devices only, the other formats for all entries.
        if let Some((major, minor)) =
            fields.device.or((self.format != Format::Gnu).then_some((0, 0)))
        {
            self.number(&mut block[329..337], i128::from(major), "major_t")?;
            self.number(&mut block[337..345], i128::from(minor), "minor_t")?;
        }
        put(&mut block[345..500], fields.prefix);
        Ok(block)
    }

    /// Writes a number into a field; in base 256 if the format permits that and octal digits do not
    /// suffice.
    fn number(&self, field: &mut [u8], value: i128, what: &'static str) -> Result<(), FormatLimit> {
        let range = FormatLimit::Range { value, what, max: max_octal(field.len()) };
        if u64::try_from(value).is_ok_and(|value| put_octal(field, value)) {
            return Ok(());
        }
        let fits = self.format == Format::Gnu
            && i64::try_from(value).is_ok_and(|value| put_base_256(field, value));
        if fits { Ok(()) } else { Err(range) }
    }
}

/// Copies a text into a field, cut to the size of the field.
fn put(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

/// Writes the checksum (six octal digits, a NUL and a blank) and appends the block.
pub(super) fn seal(block: &mut [u8; BLOCK], out: &mut Vec<u8>) {
    let (sum, _) = super::header::sums(block);
    let fits = put_octal(&mut block[148..155], u64::from(sum));
    debug_assert!(fits, "512 bytes add up to less than 2^18");
    block[155] = b' ';
    out.extend_from_slice(block);
}

/// The target of a link; empty for other entries.
pub(super) fn link_of(entry: &ArchiveEntry) -> &[u8] {
    if matches!(entry.kind, EntryKind::HardLink | EntryKind::Symlink) { &entry.link } else { b"" }
}

/// Bytes of content that the archive stores for an entry that is not sparse.
pub(super) fn content_of(entry: &ArchiveEntry) -> u64 {
    if entry.kind == EntryKind::Regular { entry.size } else { 0 }
}

fn typeflag(kind: EntryKind, format: Format) -> Result<u8, FormatLimit> {
    Ok(match kind {
        EntryKind::Regular => b'0',
        EntryKind::HardLink => b'1',
        EntryKind::Symlink => b'2',
        EntryKind::Character | EntryKind::Block | EntryKind::Fifo if format == Format::V7 => {
            return Err(FormatLimit::Kind);
        }
        EntryKind::Character => b'3',
        EntryKind::Block => b'4',
        EntryKind::Directory => b'5',
        EntryKind::Fifo => b'6',
        EntryKind::Label if format == Format::Gnu => b'V',
        EntryKind::Label | EntryKind::Continuation => return Err(FormatLimit::Kind),
    })
}

/// Adds an empty extent at the end of the file to the map, as GNU tar does.
pub(super) fn whole_map(map: &[(u64, u64)], size: u64) -> Vec<(u64, u64)> {
    let mut map = map.to_vec();
    if map.last() != Some(&(size, 0)) {
        map.push((size, 0));
    }
    map
}

/// Bytes of data in all extents.
pub(super) fn data(map: &[(u64, u64)]) -> u64 {
    map.iter().map(|(_, length)| length).sum()
}
