//! A single header block: its checksum, its numbers, its names.

use tar::Header;

use super::number::{self, Bad};
use super::{ArchiveEntry, BLOCK, EntryKind, Format, Notice, Time};

/// A header block with a valid checksum.
pub(super) struct Block {
    pub(super) header: Header,
}

/// The result of checking a block.
pub(super) enum Checked {
    /// The block is all NULs.
    Zero,
    /// The checksum is wrong.
    Bad,
    /// The checksum is valid.
    Good,
}

/// The dialect of a header, determined by its magic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V7,
    Ustar,
    /// Ustar with star's fields at the end of the prefix.
    Star,
    OldGnu,
}

/// Checks the checksum of a block.
pub(super) fn check(bytes: &[u8; BLOCK]) -> Checked {
    let stated = number::parse(&bytes[148..156]);
    if stated.is_err() && bytes.iter().all(|byte| *byte == 0) {
        return Checked::Zero;
    }
    let sums = sums(bytes);
    if stated.is_ok_and(|stated| stated == i64::from(sums.0) || stated == i64::from(sums.1)) {
        Checked::Good
    } else {
        Checked::Bad
    }
}

/// The sum of all bytes, with the bytes of the checksum counted as blanks: of unsigned bytes, as
/// POSIX demands, and of signed bytes, as some old programs computed it.
pub(super) fn sums(bytes: &[u8; BLOCK]) -> (u32, i32) {
    bytes.iter().enumerate().fold((0, 0), |(unsigned, signed), (at, byte)| {
        let byte = if (148..156).contains(&at) { b' ' } else { *byte };
        (unsigned + u32::from(byte), signed + i32::from(byte as i8))
    })
}

/// The bytes before the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    &field[..memchr::memchr(0, field).unwrap_or(field.len())]
}

impl Block {
    /// Wraps the header in a block that [`check`] found good.
    pub(super) fn new(bytes: &[u8; BLOCK]) -> Block {
        Block { header: Header::from_byte_slice(bytes).clone() }
    }

    pub(super) fn typeflag(&self) -> u8 {
        self.header.as_old().linkflag[0]
    }

    /// Size of the content after the header in bytes; `None` if the field is invalid.
    pub(super) fn size(&self) -> Option<u64> {
        let field = &self.header.as_old().size;
        match number::parse(field) {
            Ok(size) => u64::try_from(size).ok(),
            // GNU tar leaves the size out of volume labels.
            Err(Bad::Blank) if field.iter().all(|byte| *byte == 0) => Some(0),
            Err(_) => None,
        }
    }

    fn dialect(&self) -> Dialect {
        let bytes = self.header.as_bytes();
        match &bytes[257..265] {
            b"ustar  \0" => Dialect::OldGnu,
            [b'u', b's', b't', b'a', b'r', 0, ..] if bytes[508..] == *b"tar\0" => Dialect::Star,
            [b'u', b's', b't', b'a', b'r', 0, ..] => Dialect::Ustar,
            _ => Dialect::V7,
        }
    }

    /// The name, including its prefix.
    fn path(&self) -> Vec<u8> {
        let bytes = self.header.as_bytes();
        let prefix = match self.dialect() {
            Dialect::Ustar => text(&bytes[345..500]),
            Dialect::Star => text(&bytes[345..476]),
            Dialect::V7 | Dialect::OldGnu => b"",
        };
        let name = text(&bytes[..100]);
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }

    /// The entry as described by this header alone. `stored` is not set, because extended headers
    /// may change it.
    pub(super) fn entry(&self, offset: u64, notices: &mut Vec<Notice>) -> ArchiveEntry {
        let old = self.header.as_old();
        let typeflag = self.typeflag();
        let path = self.path();
        let mut number = |field: &[u8], name: &str| expected(field, name, offset, notices);
        let id =
            |value: Option<i64>| value.and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX);
        let dialect = self.dialect();
        let mut entry = ArchiveEntry {
            kind: kind(typeflag),
            format: match dialect {
                Dialect::OldGnu => Format::Gnu,
                Dialect::Ustar | Dialect::Star => Format::Ustar,
                Dialect::V7 => Format::V7,
            },
            path,
            link: text(&old.linkname).to_vec(),
            typeflag,
            mode: number(&old.mode, "mode_t").map_or(0, |mode| (mode & 0o7777) as u32),
            mtime: Time { seconds: number(&old.mtime, "time_t").unwrap_or(0), nanos: 0 },
            uid: id(number(&old.uid, "uid_t")),
            gid: id(number(&old.gid, "gid_t")),
            ..ArchiveEntry::default()
        };
        if dialect != Dialect::V7 {
            let bytes = self.header.as_bytes();
            entry.uname = text(&bytes[265..297]).to_vec();
            entry.gname = text(&bytes[297..329]).to_vec();
            if matches!(entry.kind, EntryKind::Character | EntryKind::Block) {
                let device =
                    |value: Option<i64>| value.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
                entry.device = (
                    device(number(&bytes[329..337], "major_t")),
                    device(number(&bytes[337..345], "minor_t")),
                );
            }
            let times = match dialect {
                Dialect::OldGnu => Some((345, 357)),
                Dialect::Star => Some((476, 488)),
                _ => None,
            };
            if let Some((atime, ctime)) = times {
                let time = |at: usize| {
                    number::parse(&bytes[at..at + 12])
                        .ok()
                        .map(|seconds| Time { seconds, nanos: 0 })
                };
                (entry.atime, entry.ctime) = (time(atime), time(ctime));
            }
        }
        entry
    }

    /// Whether the header contains the map of a sparse file in the old GNU form.
    pub(super) fn is_old_sparse(&self) -> bool {
        self.typeflag() == b'S' && self.dialect() == Dialect::OldGnu
    }
}

/// Parses the number in a field; if there is none, adds a notice.
fn expected(field: &[u8], name: &str, offset: u64, notices: &mut Vec<Notice>) -> Option<i64> {
    let text = match number::parse(field) {
        Ok(value) => return Some(value),
        Err(Bad::Blank) => {
            // Some programs leave unused fields empty, which is not reported.
            if field.iter().all(|byte| *byte == 0) {
                return Some(0);
            }
            format!("Blanks in header where numeric {name} value expected")
        }
        Err(Bad::Text) => {
            let shown = super::text::escaped(text(field));
            format!("Archive contains '{shown}' where numeric {name} value expected")
        }
        Err(Bad::Range) => format!("Archive value is out of {name} range"),
    };
    notices.push(Notice::error(offset, text));
    None
}

/// The kind of entry for a type byte.
fn kind(typeflag: u8) -> EntryKind {
    match typeflag {
        b'1' => EntryKind::HardLink,
        b'2' => EntryKind::Symlink,
        b'3' => EntryKind::Character,
        b'4' => EntryKind::Block,
        b'5' | b'D' => EntryKind::Directory,
        b'6' => EntryKind::Fifo,
        b'V' => EntryKind::Label,
        b'M' => EntryKind::Continuation,
        _ => EntryKind::Regular,
    }
}
