//! Archives made by hand, header by header, so that they can contain fields that no program would
//! write.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Modification time of the members: long ago, so that a restored time is recognisable
/// (2001-09-09).
pub const THEN: u64 = 1_000_000_000;

/// An archive that is built member by member.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub bytes: Vec<u8>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds a header with the given size, whether or not that size is right.
    pub fn header(mut self, kind: u8, name: &[u8], link: &[u8], mode: u32, size: u64) -> Builder {
        let mut header = [0; 512];
        put(&mut header, 0, name);
        put(&mut header, 157, link);
        put(&mut header, 100, format!("{mode:07o}\0").as_bytes());
        put(&mut header, 108, b"0000000\0");
        put(&mut header, 116, b"0000000\0");
        match size < 1 << 33 {
            true => put(&mut header, 124, format!("{size:011o}\0").as_bytes()),
            false => {
                header[124] = 0x80;
                header[128..136].copy_from_slice(&size.to_be_bytes());
            }
        }
        put(&mut header, 136, format!("{THEN:011o}\0").as_bytes());
        header[156] = kind;
        put(&mut header, 257, b"ustar\x0000");
        sign(&mut header);
        self.bytes.extend(header);
        self
    }

    /// Adds bytes, and pads them with zeros to whole blocks.
    pub fn content(mut self, content: &[u8]) -> Builder {
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    pub fn file(self, name: &str, content: &str) -> Builder {
        self.named(b'0', name, "", 0o644, content)
    }

    pub fn dir(self, name: &str, mode: u32) -> Builder {
        self.named(b'5', name, "", mode, "")
    }

    pub fn symlink(self, name: &str, target: &str) -> Builder {
        self.named(b'2', name, target, 0o777, "")
    }

    pub fn hard_link(self, name: &str, target: &str) -> Builder {
        self.named(b'1', name, target, 0o644, "")
    }

    /// Adds a member. A name or link that is too long for the header goes into a header before it,
    /// as GNU tar does.
    pub fn named(mut self, kind: u8, name: &str, link: &str, mode: u32, content: &str) -> Builder {
        for (long, kind) in [(name, b'L'), (link, b'K')] {
            if long.len() > 100 {
                let size = long.len() as u64 + 1;
                self = self
                    .header(kind, b"././@LongLink", b"", 0o644, size)
                    .content(format!("{long}\0").as_bytes());
            }
        }
        let cut = |text: &str| text.as_bytes()[..text.len().min(100)].to_vec();
        self.header(kind, &cut(name), &cut(link), mode, content.len() as u64)
            .content(content.as_bytes())
    }

    /// Adds an extended header with these records.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Builder {
        let mut text = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length += 1;
            }
            text.extend(format!("{length} {key}=").as_bytes());
            text.extend(*value);
            text.push(b'\n');
        }
        self.header(b'x', b"PaxHeaders/x", b"", 0o644, text.len() as u64).content(&text)
    }

    /// Returns the archive with its end marker.
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }
}

fn put(header: &mut [u8; 512], at: usize, text: &[u8]) {
    header[at..at + text.len()].copy_from_slice(text);
}

/// Computes the checksum of a header.
pub fn sign(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// All observable metadata of everything at and below `root`, the change time included: any change
/// to a file changes that time.
pub fn strict(root: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = path.symlink_metadata().unwrap();
        let kind = meta.file_type();
        let mut what = format!(
            "{:o} {}:{} ino {} links {} size {} mtime {}.{} ctime {}.{}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.ino(),
            meta.nlink(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec()
        );
        if kind.is_file() {
            what.push_str(&format!(
                " {:?}",
                String::from_utf8_lossy(&std::fs::read(&path).unwrap())
            ));
        }
        if kind.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.insert(path.to_string_lossy().into_owned(), what);
    }
    seen
}
