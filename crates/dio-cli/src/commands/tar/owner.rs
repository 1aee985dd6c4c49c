//! `--owner` and `--group`: the owner that is stored for added files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::quoting::escaped;
use super::terms::fatal;
use crate::grammar::Refusal;

/// An owner: GNU's `NAME`, `NAME:ID` or `ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The name to store; `None` means the name that belongs to the number.
    pub(super) name: Option<Vec<u8>>,
    /// The number to store; `None` keeps the number of each file.
    pub(super) id: Option<u32>,
}

impl Owner {
    /// Parses a user. A name that does not exist on the system keeps the number of each file.
    ///
    /// # Errors
    /// The number is invalid.
    pub(super) fn user(text: &OsStr) -> Result<Owner, Refusal> {
        Owner::of(text.as_bytes(), |name| uzers::get_user_by_name(name).map(|user| user.uid()))
    }

    /// Parses a group, in the same manner.
    ///
    /// # Errors
    /// The number is invalid.
    pub(super) fn group(text: &OsStr) -> Result<Owner, Refusal> {
        Owner::of(text.as_bytes(), |name| uzers::get_group_by_name(name).map(|group| group.gid()))
    }

    fn of(text: &[u8], id_of: impl Fn(&OsStr) -> Option<u32>) -> Result<Owner, Refusal> {
        let number = |digits: &[u8]| {
            let id = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
            id.ok_or_else(|| fatal(format!("{}: Invalid owner or group ID", escaped(digits))))
        };
        if let Some(colon) = text.iter().position(|byte| *byte == b':') {
            let (name, id) = (&text[..colon], &text[colon + 1..]);
            return Ok(Owner {
                name: Some(name.to_vec()).filter(|name| !name.is_empty()),
                id: Some(number(id)?),
            });
        }
        if text.first().is_some_and(u8::is_ascii_digit) {
            return Ok(Owner { name: None, id: Some(number(text)?) });
        }
        Ok(Owner { name: Some(text.to_vec()), id: id_of(OsStr::from_bytes(text)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_name_a_number_or_both() {
        let owner = |name: Option<&str>, id| {
            Ok(Owner { name: name.map(|name| name.as_bytes().to_vec()), id })
        };
        assert_eq!(Owner::user("root".as_ref()), owner(Some("root"), Some(0)));
        assert_eq!(Owner::user("0".as_ref()), owner(None, Some(0)));
        assert_eq!(Owner::user("no such user".as_ref()), owner(Some("no such user"), None));
        assert_eq!(Owner::group("some:7".as_ref()), owner(Some("some"), Some(7)));
        assert_eq!(Owner::group(":7".as_ref()), owner(None, Some(7)));
        assert!(
            Owner::user("a:b".as_ref()).is_err() && Owner::user("4294967296".as_ref()).is_err()
        );
    }
}
