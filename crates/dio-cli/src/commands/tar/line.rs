//! Formats a member as `tar -tv` shows it: `-rw-r--r-- owner/group  size date name`.

use std::io::Write;

use jiff::tz::TimeZone;

use super::date::{shown as shown_time, zone};
use super::format::{ArchiveEntry, EntryKind};
use super::masks::Masks;
use super::options::{Quoting, TarOptions};
use super::quoting::{harmless, shown};

/// Minimum widths of the columns, in bytes. As in GNU tar, a column stays as wide as its widest
/// entry so far.
const OWNER_AND_SIZE: usize = 19;
const DATE: usize = 16;

/// Formats the lines of a listing.
#[derive(Debug)]
pub(super) struct ListingLines {
    quoting: Quoting,
    numeric_owner: bool,
    full_time: bool,
    acls: bool,
    xattrs: bool,
    /// Selects the extended attributes to show: those that extraction would set.
    masks: Masks,
    zone: TimeZone,
    owner_and_size: usize,
    date: usize,
}

impl ListingLines {
    /// Creates a formatter for these options.
    pub(super) fn new(options: &TarOptions) -> ListingLines {
        ListingLines {
            quoting: options.quoting,
            numeric_owner: options.numeric_owner,
            full_time: options.full_time,
            acls: options.acls,
            xattrs: options.xattrs,
            masks: Masks::new(options),
            zone: zone(options.utc),
            owner_and_size: OWNER_AND_SIZE,
            date: DATE,
        }
    }

    /// The line of a member, with `name` as its name.
    pub(super) fn line(&mut self, entry: &ArchiveEntry, name: &[u8]) -> Vec<u8> {
        let mut line = permissions(entry).to_vec();
        line.extend(self.mark(entry));
        line.push(b' ');
        let size = match entry.kind {
            EntryKind::Character | EntryKind::Block => {
                format!("{},{}", entry.device.0, entry.device.1)
            }
            EntryKind::Regular => entry.size.to_string(),
            _ => entry.stored.to_string(),
        };
        let start = line.len();
        self.owner(&mut line, &entry.uname, entry.uid);
        line.push(b'/');
        self.owner(&mut line, &entry.gname, entry.gid);
        let owner = line.len() - start;
        self.owner_and_size = self.owner_and_size.max(owner + 1 + size.len());
        let width = self.owner_and_size - owner;
        write!(line, "{size:>width$} ").expect("a vector takes everything");
        let date = shown_time(&self.zone, entry.mtime, self.full_time);
        self.date = self.date.max(date.len());
        write!(line, "{date:<0$} ", self.date).expect("a vector takes everything");
        line.extend(self.name(name));
        self.end(&mut line, entry);
        line
    }

    /// The line for a parent directory that extraction creates.
    pub(super) fn making(&self, mode: u32, name: &[u8]) -> Vec<u8> {
        let mut line = permissions(&ArchiveEntry {
            kind: EntryKind::Directory,
            mode,
            ..ArchiveEntry::default()
        })
        .to_vec();
        let width = self.owner_and_size + 1 + self.date;
        write!(line, " {:>width$} ", "Creating directory:").expect("a vector takes everything");
        line.extend(self.name(name));
        line
    }

    /// A name as it is shown alone.
    pub(super) fn name(&self, name: &[u8]) -> Vec<u8> {
        shown(name, self.quoting)
    }

    /// Appends the part of the line behind the name.
    fn end(&self, line: &mut Vec<u8>, entry: &ArchiveEntry) {
        match entry.kind {
            EntryKind::Symlink => {
                line.extend(b" -> ");
                line.extend(self.name(&entry.link));
            }
            EntryKind::HardLink => {
                line.extend(b" link to ");
                line.extend(self.name(&entry.link));
            }
            EntryKind::Label => line.extend(b"--Volume Header--"),
            EntryKind::Continuation => line.extend(b"--Continued from another volume--"),
            _ if is_unknown(entry) => {
                line.extend(b" unknown file type ");
                line.extend(crate::quote::marked([entry.typeflag]).bytes());
            }
            _ => {}
        }
    }

    /// The character behind the permissions when extended attributes or ACLs are shown; it says
    /// whether the member has any.
    fn mark(&self, entry: &ArchiveEntry) -> Option<u8> {
        let acl = entry.acl_access.as_ref().or(entry.acl_default.as_ref());
        match () {
            () if self.acls && acl.is_some_and(|acl| !acl.is_empty()) => Some(b'+'),
            () if self.xattrs && entry.xattrs.iter().any(|(name, _)| self.masks.sets(name)) => {
                Some(b'*')
            }
            () if self.acls || self.xattrs => Some(b' '),
            () => None,
        }
    }

    /// Lines for the ACLs and extended attributes of a member, one for each.
    pub(super) fn attributes(&self, entry: &ArchiveEntry) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let short = |acl: &Option<Vec<u8>>, prefix: &[u8]| {
            let entries = acl.iter().flat_map(|acl| acl.split(|byte| matches!(byte, b'\n' | b',')));
            let entries =
                entries.filter(|entry| !entry.is_empty()).map(|entry| [prefix, entry].concat());
            entries.collect::<Vec<_>>()
        };
        let mut entries = short(&entry.acl_access, b"");
        entries.extend(short(&entry.acl_default, b"default:"));
        if self.acls && !entries.is_empty() {
            lines.push([b"  a: ", &harmless(&entries.join(&b","[..]))[..]].concat());
        }
        for (name, value) in
            entry.xattrs.iter().filter(|(name, _)| self.xattrs && self.masks.sets(name))
        {
            lines.push(
                [format!("  x: {} ", value.len()).as_bytes(), &shown(name, self.quoting)].concat(),
            );
        }
        lines
    }

    fn owner(&self, line: &mut Vec<u8>, name: &[u8], id: u32) {
        if name.is_empty() || self.numeric_owner {
            line.extend(id.to_string().bytes());
        } else {
            line.extend(harmless(name));
        }
    }
}

fn is_unknown(entry: &ArchiveEntry) -> bool {
    entry.kind == EntryKind::Regular && !matches!(entry.typeflag, 0 | b'0' | b'7' | b'S')
}

/// The type and permissions of a member, in the form that `ls` uses.
fn permissions(entry: &ArchiveEntry) -> [u8; 10] {
    let kind = match entry.kind {
        EntryKind::Regular if is_unknown(entry) => b'?',
        EntryKind::Regular if entry.typeflag == b'7' => b'C',
        EntryKind::Regular => b'-',
        EntryKind::HardLink => b'h',
        EntryKind::Symlink => b'l',
        EntryKind::Character => b'c',
        EntryKind::Block => b'b',
        EntryKind::Directory => b'd',
        EntryKind::Fifo => b'p',
        EntryKind::Label => b'V',
        EntryKind::Continuation => b'M',
    };
    let mut shown = *b"?---------";
    shown[0] = kind;
    for (at, letter) in (0..9).zip(b"rwxrwxrwx") {
        if entry.mode & (0o400 >> at) != 0 {
            shown[at + 1] = *letter;
        }
    }
    for (at, bit, with, without) in
        [(3, 0o4000, b's', b'S'), (6, 0o2000, b's', b'S'), (9, 0o1000, b't', b'T')]
    {
        if entry.mode & bit != 0 {
            shown[at] = if shown[at] == b'x' { with } else { without };
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> ListingLines {
        ListingLines {
            quoting: Quoting::Escape,
            numeric_owner: false,
            full_time: false,
            acls: false,
            xattrs: false,
            masks: Masks::default(),
            zone: TimeZone::UTC,
            owner_and_size: OWNER_AND_SIZE,
            date: DATE,
        }
    }

    /// The right-hand sides are what GNU tar prints.
    #[test]
    fn columns_grow_and_stay() {
        let mut lines = lines();
        let entry = |size| ArchiveEntry {
            mode: 0o644,
            uname: b"root".into(),
            gname: b"root".into(),
            size,
            ..ArchiveEntry::default()
        };
        let mut shown = |entry: &ArchiveEntry| String::from_utf8(lines.line(entry, b"f")).unwrap();
        assert_eq!(shown(&entry(0)), "-rw-r--r-- root/root         0 1970-01-01 00:00 f");
        assert_eq!(
            shown(&entry(123_456_789_012)),
            "-rw-r--r-- root/root 123456789012 1970-01-01 00:00 f"
        );
        assert_eq!(shown(&entry(0)), "-rw-r--r-- root/root            0 1970-01-01 00:00 f");
        let device = ArchiveEntry { kind: EntryKind::Block, device: (8, 17), ..entry(0) };
        assert_eq!(shown(&device), "brw-r--r-- root/root         8,17 1970-01-01 00:00 f");
    }

    #[test]
    fn special_bits_are_shown_with_and_without_execution() {
        let shown = |mode| {
            String::from_utf8(
                permissions(&ArchiveEntry { mode, ..ArchiveEntry::default() }).to_vec(),
            )
            .unwrap()
        };
        assert_eq!(shown(0o7777), "-rwsrwsrwt");
        assert_eq!(shown(0o7666), "-rwSrwSrwT");
        assert_eq!(shown(0o421), "-r---w---x");
    }
}
