//! Writes extended headers as GNU tar does with `--format=pax`.

use std::io::Write;

use super::block::{
    Encoder, Fields, FormatLimit, NAME, OWNER, content_of, data, link_of, padding, seal, whole_map,
};
use super::number::max_octal;
use super::{ArchiveEntry, BLOCK, EntryKind, Time};

/// Sizes of the fields for user and group IDs, and for sizes and times, in bytes.
const ID: usize = 8;
const LONG: usize = 12;

/// Encodes the blocks of an entry: an extended header if one is needed, the header, and the map of
/// a sparse file (version 1.0).
pub(super) fn encode(
    encoder: &Encoder,
    entry: &ArchiveEntry,
    path: &[u8],
) -> Result<Vec<u8>, FormatLimit> {
    let extents = entry
        .sparse
        .as_ref()
        .filter(|_| entry.kind == EntryKind::Regular)
        .map(|map| whole_map(map, entry.size));
    let map = extents.as_ref().map(|extents| map_of(extents)).unwrap_or_default();
    let size = extents
        .as_ref()
        .map_or_else(|| content_of(entry), |extents| data(extents) + map.len() as u64);
    let mut records = Vec::new();
    let mut stand_in = None;
    if extents.is_some() {
        record(&mut records, b"GNU.sparse.major", b"1");
        record(&mut records, b"GNU.sparse.minor", b"0");
        record(&mut records, b"GNU.sparse.name", path);
        record(&mut records, b"GNU.sparse.realsize", entry.size.to_string().as_bytes());
        stand_in = Some(beside(path, b"GNUSparseFile.0"));
    }
    let name = stand_in.as_deref().unwrap_or(path);
    let mut fields = encoder.fields(entry, name, size)?;
    extend(encoder, entry, &mut fields, &mut records);
    let mut out = Vec::with_capacity(4 * BLOCK);
    if !records.is_empty() {
        extended_header(encoder, entry, path, &records, &mut out)?;
    }
    seal(&mut encoder.block(&fields)?, &mut out);
    out.extend_from_slice(&map);
    Ok(out)
}

/// Moves values that do not fit into their fields into records, and adds values that have no field.
fn extend(encoder: &Encoder, entry: &ArchiveEntry, fields: &mut Fields<'_>, records: &mut Vec<u8>) {
    let link = link_of(entry);
    if link.len() > NAME {
        record(records, b"linkpath", link);
    }
    if fields.name.len() > NAME || !fields.name.is_ascii() {
        record(records, b"path", fields.name);
    }
    let mut id = |keyword: &[u8], field: &mut u32| {
        if u64::from(*field) > max_octal(ID) {
            record(records, keyword, field.to_string().as_bytes());
            *field = 0;
        }
    };
    id(b"uid", &mut fields.uid);
    id(b"gid", &mut fields.gid);
    if fields.size > max_octal(LONG) {
        record(records, b"size", fields.size.to_string().as_bytes());
        fields.size = 0;
    }
    let out_of_field = u64::try_from(fields.mtime).map_or(true, |mtime| mtime > max_octal(LONG));
    if out_of_field || entry.mtime.nanos != 0 {
        record(records, b"mtime", &time(entry.mtime));
    }
    if out_of_field {
        fields.mtime = 0;
    }
    for (keyword, value) in [(b"atime", entry.atime), (b"ctime", entry.ctime)] {
        if let Some(value) = value {
            record(records, keyword, &time(value));
        }
    }
    if !encoder.numeric_owner {
        for (keyword, name) in [(b"uname", &entry.uname), (b"gname", &entry.gname)] {
            if name.len() > OWNER || !name.is_ascii() {
                record(records, keyword, name);
            }
        }
    }
    attributes(entry, records);
}

fn attributes(entry: &ArchiveEntry, records: &mut Vec<u8>) {
    let texts = [
        (&b"SCHILY.acl.access"[..], &entry.acl_access),
        (b"SCHILY.acl.default", &entry.acl_default),
        (b"RHT.security.selinux", &entry.selinux),
    ];
    for (keyword, text) in texts {
        if let Some(text) = text {
            record(records, keyword, text);
        }
    }
    for (name, value) in &entry.xattrs {
        let mut keyword = b"SCHILY.xattr.".to_vec();
        for byte in name {
            // An equals sign would end the keyword.
            match byte {
                b'%' => keyword.extend_from_slice(b"%25"),
                b'=' => keyword.extend_from_slice(b"%3D"),
                byte => keyword.push(*byte),
            }
        }
        record(records, &keyword, value);
    }
}

/// Appends `LENGTH KEYWORD=VALUE\n`; the length is that of the whole record.
fn record(records: &mut Vec<u8>, keyword: &[u8], value: &[u8]) {
    let rest = keyword.len() + value.len() + 3;
    let mut length = rest + 1;
    loop {
        let digits = length.checked_ilog10().unwrap_or(0) as usize + 1;
        if rest + digits == length {
            break;
        }
        length = rest + digits;
    }
    write!(records, "{length} ").expect("a vector takes everything");
    records.extend_from_slice(keyword);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Formats a time as decimal text, without trailing zeros in the fraction.
fn time(time: Time) -> Vec<u8> {
    // In text the fraction counts away from zero.
    let (sign, seconds, nanos) = if time.seconds < 0 && time.nanos > 0 {
        ("-", (time.seconds + 1).unsigned_abs(), 1_000_000_000 - time.nanos)
    } else {
        (if time.seconds < 0 { "-" } else { "" }, time.seconds.unsigned_abs(), time.nanos)
    };
    let mut text = format!("{sign}{seconds}");
    if nanos > 0 {
        text.push_str(format!(".{nanos:09}").trim_end_matches('0'));
    }
    text.into_bytes()
}

/// The name of a substitute entry: `DIRECTORY/BETWEEN/NAME`.
fn beside(path: &[u8], between: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let whole = &path[..end];
    let (directory, name) = match memchr::memrchr(b'/', whole) {
        Some(slash) => (&whole[..slash], &whole[slash + 1..]),
        None => (&b"."[..], whole),
    };
    [directory, b"/", between, b"/", name].concat()
}

fn extended_header(
    encoder: &Encoder,
    entry: &ArchiveEntry,
    path: &[u8],
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), FormatLimit> {
    let name = beside(path, b"PaxHeaders");
    let size = records.len() as u64;
    let mut block = encoder.block(&Fields {
        name: &name,
        prefix: b"",
        link: b"",
        typeflag: b'x',
        mode: 0o644,
        uid: 0,
        gid: 0,
        size,
        mtime: entry.mtime.seconds.clamp(0, max_octal(LONG) as i64),
        uname: b"",
        gname: b"",
        device: None,
    })?;
    // GNU tar leaves the device numbers empty in the header of an extended header.
    block[329..345].fill(0);
    seal(&mut block, out);
    out.extend_from_slice(records);
    out.resize(out.len() + padding(size), 0);
    Ok(())
}

/// The map of a sparse file in version 1.0: blocks at the start of the content.
fn map_of(extents: &[(u64, u64)]) -> Vec<u8> {
    let mut text = format!("{}\n", extents.len()).into_bytes();
    for (offset, length) in extents {
        write!(text, "{offset}\n{length}\n").expect("a vector takes everything");
    }
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_counts_itself() {
        for length in 0..2000 {
            let mut records = Vec::new();
            record(&mut records, b"k", &vec![b'v'; length]);
            let stated: usize =
                std::str::from_utf8(&records).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(stated, records.len());
        }
    }

    #[test]
    fn times_have_the_digits_they_need() {
        for (seconds, nanos, text) in [
            (1, 0, "1"),
            (1, 500_000_000, "1.5"),
            (1, 1, "1.000000001"),
            (-2, 500_000_000, "-1.5"),
            (-1, 999_999_999, "-0.000000001"),
            (-1, 0, "-1"),
            (0, 0, "0"),
        ] {
            assert_eq!(String::from_utf8(time(Time { seconds, nanos })).unwrap(), text);
            assert_eq!(super::super::pax::time(text.as_bytes()), Some(Time { seconds, nanos }));
        }
    }

    #[test]
    fn stand_ins_lie_beside_what_they_stand_for() {
        for (path, name) in
            [("a", "./P/a"), ("d/a", "d/P/a"), ("d/e/", "d/P/e"), ("/a", "/P/a"), ("./a", "./P/a")]
        {
            assert_eq!(beside(path.as_bytes(), b"P"), name.as_bytes(), "{path}");
        }
    }
}
