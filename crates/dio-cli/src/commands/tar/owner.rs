//! `--owner` and `--group`: who is said to own what is archived.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::options::Refusal;
use super::quoting::escaped;

/// An owner: GNU's `NAME`, `NAME:ID` or `ID`, with a `+` before an ID that could be a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The name that is stored; none where there is none for the number.
    pub(super) name: Option<Vec<u8>>,
    /// The number that is stored; none leaves that of each file.
    pub(super) id: Option<u32>,
}

impl Owner {
    /// A user.
    ///
    /// # Errors
    /// There is no such user.
    pub(super) fn user(text: &OsStr) -> Result<Owner, Refusal> {
        let id_of = |name: &OsStr| uzers::get_user_by_name(name).map(|user| user.uid());
        let name_of = |id| uzers::get_user_by_uid(id).map(|user| user.name().as_bytes().to_vec());
        Owner::of(text.as_bytes(), "owner", id_of, name_of)
    }

    /// A group.
    ///
    /// # Errors
    /// There is no such group.
    pub(super) fn group(text: &OsStr) -> Result<Owner, Refusal> {
        let id_of = |name: &OsStr| uzers::get_group_by_name(name).map(|group| group.gid());
        let name_of = |id| uzers::get_group_by_gid(id).map(|group| group.name().as_bytes().to_vec());
        Owner::of(text.as_bytes(), "group", id_of, name_of)
    }

    fn of(
        text: &[u8],
        what: &str,
        id_of: impl Fn(&OsStr) -> Option<u32>,
        name_of: impl Fn(u32) -> Option<Vec<u8>>,
    ) -> Result<Owner, Refusal> {
        let invalid = |text: &[u8]| Refusal::Fatal(format!("{}: Invalid {what}", escaped(text)));
        if let Some(colon) = text.iter().position(|byte| *byte == b':') {
            let (name, id) = (&text[..colon], &text[colon + 1..]);
            let id = number(id).ok_or_else(|| Refusal::Fatal(format!("{}: Invalid owner or group ID", escaped(id))))?;
            return Ok(Owner { name: Some(name.to_vec()), id: Some(id) });
        }
        if let Some(id) = number(text) {
            let name = name_of(id);
            return Ok(Owner { name, id: Some(id) });
        }
        match id_of(OsStr::from_bytes(text)) {
            Some(id) => Ok(Owner { name: Some(text.to_vec()), id: Some(id) }),
            None => Err(invalid(text)),
        }
    }
}

/// A number, which may have a `+` before it.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| all)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_name_a_number_or_both() {
        let owner =
            |name: Option<&str>, id| Ok(Owner { name: name.map(|name| name.as_bytes().to_vec()), id: Some(id) });
        assert_eq!(Owner::user("root".as_ref()), owner(Some("root"), 0));
        assert_eq!(Owner::user("0".as_ref()), owner(Some("root"), 0));
        assert_eq!(Owner::user("+4000000".as_ref()), owner(None, 4_000_000));
        assert_eq!(Owner::group("some:7".as_ref()), owner(Some("some"), 7));
        assert!(Owner::user("no such user".as_ref()).is_err());
        assert!(Owner::user("a:b".as_ref()).is_err());
    }
}
