//! Extended headers of PAX: `LENGTH KEYWORD=VALUE\n` records, and their effects on an entry.

use std::collections::{BTreeMap, HashMap};

use super::number::decimal;
use super::sparse::PaxSparse;
use super::text::escaped;
use super::{ArchiveEntry, MAX_RECORDS, Notice, NoticeSubject, Time};

/// The records of an extended header, in order. Order matters: the first form of the map of a
/// sparse file repeats keywords.
pub(super) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Parses the records of an extended header. Everything from an invalid record on is ignored, with
/// a notice.
pub(super) fn parse(mut bytes: &[u8], offset: u64, notices: &mut Vec<Notice>) -> Records {
    let mut records = Vec::new();
    // A NUL at the start of a record is padding that some programs count as content.
    while !bytes.is_empty() && bytes[0] != 0 {
        if records.len() >= MAX_RECORDS {
            notices.push(Notice::error(
                offset,
                format!("An extended header has more than {MAX_RECORDS} records"),
            ));
            break;
        }
        match record(bytes) {
            Ok((length, keyword, value)) => {
                records.push((keyword.to_vec(), value.to_vec()));
                bytes = &bytes[length..];
            }
            Err(text) => {
                notices.push(Notice::error(offset, text));
                break;
            }
        }
    }
    records
}

/// Parses the first record: its length, keyword and value.
fn record(bytes: &[u8]) -> Result<(usize, &[u8], &[u8]), &'static str> {
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let digits = bytes[blanks..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err("Malformed extended header: missing length");
    }
    let after = blanks + digits;
    let length = decimal(&bytes[blanks..after])
        .and_then(|length| usize::try_from(length).ok())
        .filter(|length| *length <= bytes.len())
        .ok_or("Extended header length is out of allowed range")?;
    let gap = bytes[after..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    if gap == 0 {
        return Err("Malformed extended header: missing blank after length");
    }
    let body =
        bytes.get(after + gap..length).ok_or("Extended header length is out of allowed range")?;
    let equals =
        memchr::memchr(b'=', body).ok_or("Malformed extended header: missing equal sign")?;
    let (keyword, value) = (&body[..equals], &body[equals + 1..]);
    let value = value.strip_suffix(b"\n").ok_or("Malformed extended header: missing newline")?;
    Ok((length, keyword, value))
}

/// Parses a time: seconds, possibly negative, with a fraction. Digits beyond nanoseconds are cut
/// off, which rounds towards the past.
pub(super) fn time(text: &[u8]) -> Option<Time> {
    let (negative, digits) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let whole = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, at| {
        nanos * 10 + fraction.get(at).map_or(0, |digit| u32::from(digit - b'0'))
    });
    let beyond = fraction.get(9..).is_some_and(|rest| rest.iter().any(|digit| *digit != b'0'));
    if !negative {
        return Some(Time { seconds: whole, nanos });
    }
    let nanos = nanos + u32::from(beyond);
    Some(match nanos {
        0 => Time { seconds: -whole, nanos: 0 },
        1_000_000_000 => Time { seconds: -whole - 1, nanos: 0 },
        nanos => Time { seconds: -whole - 1, nanos: 1_000_000_000 - nanos },
    })
}

/// Values from extended headers that are not stored in the [`ArchiveEntry`] directly.
#[derive(Default)]
pub(super) struct Extended {
    /// Bytes of content in the archive.
    pub(super) size: Option<u64>,
    pub(super) sparse: PaxSparse,
}

/// Applies the records to an entry; later records override earlier ones. An empty value cancels an
/// earlier one.
pub(super) fn apply(
    records: &Records,
    entry: &mut ArchiveEntry,
    header: &ArchiveEntry,
    notices: &mut Vec<Notice>,
) -> Extended {
    let mut extended = Extended::default();
    let mut aside = PendingAttributes::default();
    for (keyword, value) in records {
        let understood = if value.is_empty() {
            undo(keyword, entry, header, &mut extended, &mut aside);
            true
        } else {
            standard(keyword, value, entry, &mut extended)
                .or_else(|| vendor(keyword, value, entry, &mut aside))
                .unwrap_or_else(|| extended.sparse.take(keyword, value))
        };
        if !understood {
            notices.push(strange(keyword, value, header.position));
        }
    }
    let there = aside.places;
    entry.xattrs.extend(aside.libarchive.into_iter().filter(|(name, _)| !there.contains_key(name)));
    extended
}

/// State for extended attributes that is needed until all records have been read.
#[derive(Default)]
struct PendingAttributes {
    /// Index of each extended attribute in the entry. A map, because there may be very many.
    places: HashMap<Vec<u8>, usize>,
    /// Extended attributes in libarchive's form. Most archives contain each also as `SCHILY.xattr`.
    libarchive: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl PendingAttributes {
    /// Sets an attribute of the entry, and replaces an earlier one of the same name.
    fn set(&mut self, entry: &mut ArchiveEntry, name: Vec<u8>, value: Vec<u8>) {
        match self.places.get(&name) {
            Some(at) => entry.xattrs[*at].1 = value,
            None => {
                self.places.insert(name.clone(), entry.xattrs.len());
                entry.xattrs.push((name, value));
            }
        }
    }
}

/// Builds the notice about a record that is unknown or invalid.
fn strange(keyword: &[u8], value: &[u8], offset: u64) -> Notice {
    let known = [&b"size"[..], b"uid", b"gid", b"mtime", b"atime", b"ctime"];
    if known.contains(&keyword) || keyword.starts_with(b"GNU.sparse.") {
        let shown = &value[..value.len().min(80)];
        let text =
            format!("Malformed extended header: invalid {}={}", escaped(keyword), escaped(shown));
        return Notice::error(offset, text);
    }
    let text = format!("Ignoring unknown extended header keyword '{}'", escaped(keyword));
    Notice { offset, about: NoticeSubject::Keyword, text }
}

/// Applies a keyword defined by POSIX. `None` for other keywords, `Some(false)` for an invalid
/// value.
fn standard(
    keyword: &[u8],
    value: &[u8],
    entry: &mut ArchiveEntry,
    extended: &mut Extended,
) -> Option<bool> {
    let text = || super::header::text(value).to_vec();
    let id = || decimal(value).and_then(|id| u32::try_from(id).ok());
    match keyword {
        b"path" => entry.path = text(),
        b"linkpath" => entry.link = text(),
        b"uname" => entry.uname = text(),
        b"gname" => entry.gname = text(),
        b"comment" | b"charset" | b"hdrcharset" => {}
        b"uid" => match id() {
            Some(uid) => entry.uid = uid,
            None => return Some(false),
        },
        b"gid" => match id() {
            Some(gid) => entry.gid = gid,
            None => return Some(false),
        },
        b"size" => match decimal(value).filter(|size| i64::try_from(*size).is_ok()) {
            Some(size) => extended.size = Some(size),
            None => return Some(false),
        },
        b"mtime" | b"atime" | b"ctime" => {
            let Some(time) = time(value) else { return Some(false) };
            match keyword[0] {
                b'm' => entry.mtime = time,
                b'a' => entry.atime = Some(time),
                _ => entry.ctime = Some(time),
            }
        }
        _ => return None,
    }
    Some(true)
}

/// Applies the keywords for attributes, ACLs and SELinux contexts.
fn vendor(
    keyword: &[u8],
    value: &[u8],
    entry: &mut ArchiveEntry,
    aside: &mut PendingAttributes,
) -> Option<bool> {
    match keyword {
        b"SCHILY.acl.access" => entry.acl_access = Some(value.to_vec()),
        b"SCHILY.acl.default" => entry.acl_default = Some(value.to_vec()),
        b"RHT.security.selinux" => entry.selinux = Some(super::header::text(value).to_vec()),
        // Data from star and libarchive that extraction cannot use.
        b"SCHILY.dev"
        | b"SCHILY.ino"
        | b"SCHILY.nlink"
        | b"SCHILY.fflags"
        | b"LIBARCHIVE.creationtime" => {}
        _ => {
            if let Some(name) = keyword.strip_prefix(b"SCHILY.xattr.").filter(|name| is_name(name))
            {
                aside.set(entry, plain_name(name), value.to_vec());
            } else if let Some(name) = keyword.strip_prefix(b"LIBARCHIVE.xattr.") {
                let name = from_percent(name).filter(|name| is_name(name));
                match (name, from_base64(value)) {
                    (Some(name), Some(value)) => {
                        aside.libarchive.insert(name, value);
                    }
                    _ => return Some(false),
                }
            } else {
                return None;
            }
        }
    }
    Some(true)
}

/// Whether this can be the name of an extended attribute.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&0)
}

/// Handles an empty value: the value of the header itself applies again.
fn undo(
    keyword: &[u8],
    entry: &mut ArchiveEntry,
    header: &ArchiveEntry,
    extended: &mut Extended,
    aside: &mut PendingAttributes,
) {
    match keyword {
        b"path" => entry.path.clone_from(&header.path),
        b"linkpath" => entry.link.clone_from(&header.link),
        b"uname" => entry.uname.clone_from(&header.uname),
        b"gname" => entry.gname.clone_from(&header.gname),
        b"uid" => entry.uid = header.uid,
        b"gid" => entry.gid = header.gid,
        b"size" => extended.size = None,
        b"mtime" => entry.mtime = header.mtime,
        b"atime" => entry.atime = header.atime,
        b"ctime" => entry.ctime = header.ctime,
        b"SCHILY.acl.access" => entry.acl_access = None,
        b"SCHILY.acl.default" => entry.acl_default = None,
        _ => {
            // For an extended attribute, an empty value is a valid value.
            if let Some(name) = keyword.strip_prefix(b"SCHILY.xattr.").filter(|name| is_name(name))
            {
                aside.set(entry, plain_name(name), Vec::new());
            }
        }
    }
}

/// Decodes the name of an attribute in a keyword; GNU tar writes `%3D` for an equals sign and `%25`
/// for a per cent sign.
fn plain_name(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let (byte, behind) = match rest {
            [b'%', b'3', b'D', behind @ ..] => (b'=', behind),
            [b'%', b'2', b'5', behind @ ..] => (b'%', behind),
            _ => (*first, after),
        };
        out.push(byte);
        rest = behind;
    }
    out
}

/// Decodes text in which `%XX` stands for a byte.
fn from_percent(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            out.push(*first);
            rest = after;
        }
    }
    Some(out)
}

/// Decodes base 64 (RFC 4648), with or without padding.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut out = Vec::with_capacity(end / 4 * 3 + 2);
    for group in text[..end].chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut bits = 0u32;
        for byte in group {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(digit);
        }
        bits <<= 6 * (4 - group.len() as u32);
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> (Records, Vec<String>) {
        let mut notices = Vec::new();
        let records = parse(bytes, 0, &mut notices);
        (records, notices.into_iter().map(|notice| notice.text).collect())
    }

    #[test]
    fn records_are_read_by_their_length() {
        let (records, notices) = parsed(b"8 a=b=c\n8 k=\n\n=\n5 x=\n");
        assert_eq!(notices, [""; 0]);
        assert_eq!(
            records,
            [
                (b"a".to_vec(), b"b=c".to_vec()),
                (b"k".to_vec(), b"\n\n=".to_vec()),
                (b"x".to_vec(), b"".to_vec())
            ]
        );
    }

    #[test]
    fn records_that_make_no_sense_end_the_header() {
        for (bytes, text) in [
            (&b"x=1\n"[..], "Malformed extended header: missing length"),
            (b"99 x=1\n", "Extended header length is out of allowed range"),
            (b"99999999999999999999999 x=1\n", "Extended header length is out of allowed range"),
            (b"1 x=1\n", "Extended header length is out of allowed range"),
            (b"6x=11\n", "Malformed extended header: missing blank after length"),
            (b"6 x11\n", "Malformed extended header: missing equal sign"),
            (b"6 x=111\n", "Malformed extended header: missing newline"),
        ] {
            let (records, notices) = parsed(&[b"6 a=1\n", bytes].concat());
            assert_eq!((records.len(), notices), (1, vec![text.to_owned()]), "{bytes:?}");
        }
    }

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let at = |seconds, nanos| Some(Time { seconds, nanos });
        assert_eq!(time(b"1795315885.859447504"), at(1_795_315_885, 859_447_504));
        assert_eq!(time(b"1.5"), at(1, 500_000_000));
        assert_eq!(time(b"1."), at(1, 0));
        assert_eq!(time(b"-1.5"), at(-2, 500_000_000));
        assert_eq!(time(b"-1"), at(-1, 0));
        assert_eq!(time(b"-0.0000000001"), at(-1, 999_999_999));
        assert_eq!(time(b"1.9999999999"), at(1, 999_999_999));
        assert_eq!(time(b"-0.9999999999"), at(-1, 0));
        for bad in [
            &b""[..],
            b"-",
            b"x",
            b"1.x",
            b"+1",
            b"99999999999999999999999",
            b"9223372036854775808",
        ] {
            assert_eq!(time(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn libarchive_attributes_are_decoded() {
        assert_eq!(from_base64(b"aGVsbG8"), Some(b"hello".to_vec()));
        assert_eq!(from_base64(b"aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(from_base64(b"AA"), Some(vec![0]));
        assert_eq!(from_base64(b""), Some(vec![]));
        assert_eq!(from_base64(b"A"), None);
        assert_eq!(from_base64(b"a b="), None);
        assert_eq!(from_percent(b"user.%E2%82%ac"), Some("user.€".as_bytes().to_vec()));
        assert_eq!(from_percent(b"user.%E"), None);
    }
}
