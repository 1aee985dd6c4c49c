//! Converts access control lists between the values of the extended attributes
//! `system.posix_acl_access` and `system.posix_acl_default` (`linux/posix_acl_xattr.h`, version 2)
//! and the text stored in archives (`acl(5)`).

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// Version of the binary form.
const VERSION: u32 = 2;
/// Limit for the entries of a list; more than any file system accepts.
const MAX_ENTRIES: usize = 1 << 13;
/// The ID in an entry that applies to no named user or group.
const NOBODY_BY_NAME: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Converts a binary ACL to text in the long form: one line for each entry, with the names of this
/// system, or numbers for IDs without a name. `None` if the value is invalid.
#[must_use]
pub fn acl_to_text(value: &[u8]) -> Option<Vec<u8>> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = Vec::with_capacity(entries.len() * 2);
    for entry in entries.chunks_exact(8) {
        let (tag, permissions) = (u16::from_le_bytes([entry[0], entry[1]]), entry[2]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let (word, name) = match tag {
            USER_OBJ => ("user", None),
            USER => ("user", Some(user_name(id))),
            GROUP_OBJ => ("group", None),
            GROUP => ("group", Some(group_name(id))),
            MASK => ("mask", None),
            OTHER => ("other", None),
            _ => return None,
        };
        text.extend_from_slice(word.as_bytes());
        text.push(b':');
        text.extend(name.unwrap_or_default());
        text.push(b':');
        text.extend(
            [(4, b'r'), (2, b'w'), (1, b'x')]
                .map(|(bit, c)| if permissions & bit != 0 { c } else { b'-' }),
        );
        text.push(b'\n');
    }
    Some(text)
}

/// The ACL equivalent to the permissions in `mode`, as text.
#[must_use]
pub fn acl_of_mode(mode: u32) -> Vec<u8> {
    let mut text = String::new();
    for (word, shift) in [("user", 6), ("group", 3), ("other", 0)] {
        let shown = [(4, 'r'), (2, 'w'), (1, 'x')]
            .map(|(bit, c)| if mode >> shift & bit != 0 { c } else { '-' });
        writeln!(text, "{word}::{}", String::from_iter(shown)).expect("a string takes everything");
    }
    text.into_bytes()
}

/// Converts an ACL from text to the binary form. The text may be in the long or short form, with
/// numbers behind the names as star writes them, and with `default:` before an entry. Names are
/// looked up on this system; with `numeric`, the number behind a name takes precedence. `None` if
/// the text is invalid, or names a user or group that this system does not have and gives no
/// number.
#[must_use]
pub fn acl_from_text(text: &[u8], numeric: bool) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for entry in text.split(|byte| matches!(byte, b'\n' | b',')) {
        let entry = entry.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if entry.is_empty() {
            continue;
        }
        if entries.len() >= MAX_ENTRIES {
            return None;
        }
        entries.push(entry_of(entry.strip_prefix(b"default:").unwrap_or(entry), numeric)?);
    }
    entries.sort_unstable_by_key(|&(tag, _, id)| (tag, id));
    let count = |wanted| entries.iter().filter(|&&(tag, _, _)| tag == wanted).count();
    let repeated = entries.windows(2).any(|pair| (pair[0].0, pair[0].2) == (pair[1].0, pair[1].2));
    if repeated || [USER_OBJ, GROUP_OBJ, OTHER].iter().any(|tag| count(*tag) != 1) {
        return None;
    }
    if count(MASK) == 0 && count(USER) + count(GROUP) > 0 {
        let group_class =
            entries.iter().filter(|(tag, _, _)| matches!(*tag, USER | GROUP_OBJ | GROUP));
        let mask = group_class.fold(0, |mask, (_, permissions, _)| mask | permissions);
        let at = entries.partition_point(|(tag, _, _)| *tag < MASK);
        entries.insert(at, (MASK, mask, NOBODY_BY_NAME));
    }
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    Some(value)
}

/// Parses one entry into its tag, permissions and ID.
fn entry_of(text: &[u8], numeric: bool) -> Option<(u16, u16, u32)> {
    let mut fields = text.split(|byte| *byte == b':').map(<[u8]>::trim_ascii);
    let word = fields.next()?;
    let mut next = fields.next()?;
    // In `mask` and `other` entries, the empty name field may be missing.
    let mut name: &[u8] = b"";
    if let Some(after) = fields.next() {
        (name, next) = (next, after);
    }
    let permissions = permissions(next)?;
    let number = fields.next();
    if fields.next().is_some() {
        return None;
    }
    let who = |lookup: fn(&[u8]) -> Option<u32>| {
        let number = || number.and_then(id);
        if numeric { number().or_else(|| lookup(name)) } else { lookup(name).or_else(number) }
    };
    let (tag, id) = match (word, name.is_empty()) {
        (b"user" | b"u", true) => (USER_OBJ, NOBODY_BY_NAME),
        (b"user" | b"u", false) => (USER, who(user_id)?),
        (b"group" | b"g", true) => (GROUP_OBJ, NOBODY_BY_NAME),
        (b"group" | b"g", false) => (GROUP, who(group_id)?),
        (b"mask" | b"m", true) => (MASK, NOBODY_BY_NAME),
        (b"other" | b"o", true) => (OTHER, NOBODY_BY_NAME),
        _ => return None,
    };
    Some((tag, permissions, id))
}

fn permissions(text: &[u8]) -> Option<u16> {
    if text.is_empty() || text.len() > 3 {
        return None;
    }
    text.iter().try_fold(0, |permissions, byte| {
        Some(
            permissions
                | match byte {
                    b'r' => 4,
                    b'w' => 2,
                    b'x' => 1,
                    b'-' => 0,
                    _ => return None,
                },
        )
    })
}

fn id(text: &[u8]) -> Option<u32> {
    super::number::decimal(text)
        .and_then(|id| u32::try_from(id).ok())
        .filter(|id| *id != NOBODY_BY_NAME)
}

fn user_id(name: &[u8]) -> Option<u32> {
    uzers::get_user_by_name(OsStr::from_bytes(name)).map(|user| user.uid()).or_else(|| id(name))
}

fn group_id(name: &[u8]) -> Option<u32> {
    uzers::get_group_by_name(OsStr::from_bytes(name)).map(|group| group.gid()).or_else(|| id(name))
}

fn user_name(id: u32) -> Vec<u8> {
    uzers::get_user_by_uid(id)
        .map_or_else(|| id.to_string().into_bytes(), |user| user.name().as_bytes().to_vec())
}

fn group_name(id: u32) -> Vec<u8> {
    uzers::get_group_by_gid(id)
        .map_or_else(|| id.to_string().into_bytes(), |group| group.name().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    const ALL: u32 = NOBODY_BY_NAME;

    #[test]
    fn a_list_is_text_and_back() {
        let value = binary(&[
            (1, 6, ALL),
            (2, 5, 0),
            (2, 1, 54_321),
            (4, 4, ALL),
            (8, 6, 54_321),
            (16, 7, ALL),
            (32, 4, ALL),
        ]);
        let text = b"user::rw-\nuser:root:r-x\nuser:54321:--x\ngroup::r--\ngroup:54321:rw-\nmask::rwx\nother::r--\n";
        assert_eq!(acl_to_text(&value).as_deref(), Some(&text[..]));
        assert_eq!(acl_from_text(text, false), Some(value));
    }

    #[test]
    fn every_form_of_text_is_read() {
        let value = binary(&[(1, 7, ALL), (4, 5, ALL), (8, 6, 54_321), (16, 6, ALL), (32, 0, ALL)]);
        for text in [
            "u::rwx,g::r-x,g:54321:rw-,m::rw-,o::---",
            "other:---, mask:rw- ,user::rwx\n\n group::rx # comment\ngroup:54321:rw-\n",
            "default:user::rwx\ndefault:group::r-x\ndefault:group:nobody-here:rw-:54321\ndefault:mask::rw-\ndefault:other::-",
        ] {
            assert_eq!(acl_from_text(text.as_bytes(), false), Some(value.clone()), "{text}");
        }
        let root = acl_from_text(b"u::rwx,u:root:r--:54321,g::---,m::r--,o::---", true);
        assert_eq!(
            root,
            Some(binary(&[(1, 7, ALL), (2, 4, 54_321), (4, 0, ALL), (16, 4, ALL), (32, 0, ALL)]))
        );
    }

    #[test]
    fn a_mask_is_made_where_one_is_needed() {
        let value = acl_from_text(b"u::rwx,u:54321:r-x,g::-w-,o::---", false);
        assert_eq!(
            value,
            Some(binary(&[(1, 7, ALL), (2, 5, 54_321), (4, 2, ALL), (16, 7, ALL), (32, 0, ALL)]))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "u::rwx",
            "u::rwx,g::rwx,o::rwxs",
            "u::rwx,g::rwx,o::rwx,o::rwx",
            "u::rwx,g::rwx,m:5:rwx,o::rwx",
            "u::rwx,g::rwx,x::rwx,o::rwx",
            "u::rwx,g::rwx,o::",
            "u::rwx,u:nobody-here:rwx,g::rwx,o::rwx",
            "u::rwx:1:2,g::rwx,o::rwx",
            "u::rwx,g::rwx,o::rwx,u:4294967295:r",
        ] {
            assert_eq!(acl_from_text(text.as_bytes(), false), None, "{text}");
        }
        for value in [&b""[..], b"\x01\0\0\0", b"\x02\0\0\0\x01", &binary(&[(3, 0, 0)])] {
            assert_eq!(acl_to_text(value), None, "{value:?}");
        }
    }

    #[test]
    fn permissions_alone_make_a_list() {
        assert_eq!(acl_of_mode(0o4751), b"user::rwx\ngroup::r-x\nother::--x\n");
    }
}
