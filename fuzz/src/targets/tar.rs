//! Archives as every version of tar writes them.

use dio_cli::commands::tar::format::{
    ArchiveEntry, BLOCK, Entries, EntryKind, Format, FormatError, acl_from_text, acl_to_text,
    encode,
};

/// Largest number of bytes of an entry's contents that are read, because a hole of any size takes
/// no space in an archive.
const CONTENT_MAX: u64 = 1 << 20;

/// Entries: names have no NULs, maps of sparse files add up to the size of the entry, and an entry
/// is the same when it is read from its own headers. A second run corrects the checksums of header
/// blocks first, because random changes never make them right.
pub(super) fn archive(input: &[u8]) {
    read(input);
    let mut healed = input.to_vec();
    healed
        .chunks_exact_mut(BLOCK)
        .filter(|block| block[257..].starts_with(b"ustar"))
        .for_each(heal);
    if healed != input {
        read(&healed);
    }
}

/// Corrects the checksum of a header block.
fn heal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn read(archive: &[u8]) {
    let mut entries = Entries::new(archive);
    while let Ok(Some(entry)) = entries.next_entry() {
        assert!(
            !entry.path.contains(&0) && !entry.link.contains(&0),
            "a name ends before its first NUL"
        );
        assert!(entry.mode <= 0o7777 && entry.header >= entry.position);
        assert!(entry.stored <= entry.size || !entry.has_content(), "{entry:?}");
        comes_back(&entry);
        if content(&mut entries, &entry).is_err() {
            break;
        }
        entries.take_notices();
    }
    assert!(entries.offset() <= archive.len() as u64, "more was read than there is");
    entries.take_notices();
}

/// Reads the contents of an entry, holes included.
fn content(entries: &mut Entries<&[u8]>, entry: &ArchiveEntry) -> Result<(), FormatError> {
    let (mut buffer, mut total) = ([0; 4096], 0);
    while entry.has_content() && total < CONTENT_MAX {
        match entries.read_content(&mut buffer)? {
            0 => {
                assert_eq!(total, entry.size, "the contents of {entry:?}");
                break;
            }
            read => total += read as u64,
        }
    }
    Ok(())
}

/// Checks that the entry is the same when it is read from headers that were made of it.
fn comes_back(entry: &ArchiveEntry) {
    for format in [Format::Pax, Format::Gnu] {
        let Ok(headers) = encode(entry, format) else { continue };
        assert_eq!(headers.len() % BLOCK, 0);
        // Fields that the format cannot express are left out, and positions belong to another
        // archive.
        if format == Format::Gnu || !is_plain(entry) {
            continue;
        }
        let again = Entries::new(&headers[..]).next_entry();
        let again = again.expect("headers that were made here").expect("an entry");
        assert_eq!(compared(&again), compared(entry));
    }
}

/// Whether PAX can express the entry.
fn is_plain(entry: &ArchiveEntry) -> bool {
    match entry.kind {
        EntryKind::Label | EntryKind::Continuation => false,
        EntryKind::Regular => !entry.path.ends_with(b"/") && entry.sparse.is_none(),
        _ => true,
    }
}

/// The fields of an entry that must be the same.
fn compared(entry: &ArchiveEntry) -> ArchiveEntry {
    let mut path = entry.path.clone();
    while entry.kind == EntryKind::Directory && path.ends_with(b"/") {
        path.pop();
    }
    let is_link = matches!(entry.kind, EntryKind::HardLink | EntryKind::Symlink);
    ArchiveEntry {
        path,
        link: if is_link { entry.link.clone() } else { Vec::new() },
        format: Format::Pax,
        typeflag: 0,
        stored: 0,
        position: 0,
        header: 0,
        ordinal: 0,
        ..entry.clone()
    }
}

/// Access control lists as text: an accepted text is converted to a text of its own with the same
/// meaning.
pub(super) fn acl(input: &[u8]) {
    let _ = acl_to_text(input);
    for numeric in [false, true] {
        if let Some(value) = acl_from_text(input, numeric) {
            let text = acl_to_text(&value).expect("what was made here can be read");
            assert!(acl_from_text(&text, numeric).is_some_and(|again| again == value), "{text:?}");
        }
    }
}
