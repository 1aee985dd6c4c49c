//! Reads archives through the library, and runs scripts.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use dio_cli::commands::tar::format::{ArchiveEntry, Entries, FormatError, Notice};

/// An entry, its content with holes, and its data as stored in the archive.
pub struct Member {
    pub entry: ArchiveEntry,
    pub content: Vec<u8>,
    pub stored: Vec<u8>,
}

/// All members of an archive, up to the error that stopped the reader.
pub fn read(archive: &[u8]) -> (Vec<Member>, Vec<Notice>, Option<FormatError>) {
    let (mut whole, mut raw) =
        (Entries::new(Cursor::new(archive)), Entries::new(Cursor::new(archive)));
    let mut members = Vec::new();
    let mut error = None;
    loop {
        let entry = match whole.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(stopped) => {
                error = Some(stopped);
                break;
            }
        };
        assert_eq!(raw.next_entry().unwrap().as_ref(), Some(&entry));
        let (mut content, mut stored) = (Vec::new(), Vec::new());
        let mut buffer = [0; 700];
        if entry.has_content() {
            error = loop {
                match whole.read_content(&mut buffer) {
                    Ok(0) => break None,
                    Ok(read) => content.extend_from_slice(&buffer[..read]),
                    Err(error) => break Some(error),
                }
            };
        }
        if error.is_some() {
            break;
        }
        loop {
            let some = raw.fill_stored().unwrap();
            if some.is_empty() {
                break;
            }
            stored.extend_from_slice(some);
            let count = some.len();
            raw.consume_stored(count);
        }
        members.push(Member { entry, content, stored });
    }
    (members, whole.take_notices(), error)
}

pub fn shell(dir: &Path, script: &str) -> Vec<u8> {
    let output = Command::new("bash")
        .args(["-ec", script])
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}: {said}");
    output.stdout
}

pub fn read_headers(archive: &[u8]) -> Vec<ArchiveEntry> {
    let mut entries = Entries::new(Cursor::new(archive));
    std::iter::from_fn(|| entries.next_entry().unwrap()).collect()
}
