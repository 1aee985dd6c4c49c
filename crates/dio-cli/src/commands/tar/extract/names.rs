//! Normalises and splits the names of members.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

/// A normalised name: its components are separated by single slashes, and none is empty or `.`.
/// With `-P` it may begin with a slash and contain `..`. The name of the target directory itself is
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Clean(pub(crate) Vec<u8>);

impl Clean {
    /// Normalises a name.
    pub(crate) fn of(path: &[u8]) -> Clean {
        let mut clean = Vec::with_capacity(path.len());
        if path.first() == Some(&b'/') {
            clean.push(b'/');
        }
        for component in path.split(|&byte| byte == b'/').filter(|c| !c.is_empty() && *c != b".") {
            if !clean.is_empty() && clean != b"/" {
                clean.push(b'/');
            }
            clean.extend_from_slice(component);
        }
        Clean(clean)
    }

    /// Splits the name into its directory and its last component. `None` for the target directory
    /// itself, the root directory and names that end in `..`, which all are existing directories.
    pub(crate) fn split(&self) -> Option<(&[u8], CString)> {
        let start = self.0.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let name = &self.0[start..];
        if name.is_empty() || name == b".." {
            return None;
        }
        let dir = match start {
            0 => &[][..],
            1 => &self.0[..1],
            _ => &self.0[..start - 1],
        };
        // The archive reader rejects names with a NUL.
        Some((dir, CString::new(name).ok()?))
    }

    /// Whether the name lies beneath `directory`.
    pub(super) fn is_within(&self, directory: &Clean) -> bool {
        match &directory.0[..] {
            b"" => !self.0.is_empty(),
            path => self.0.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/")),
        }
    }

    /// The number of components.
    pub(super) fn depth(&self) -> usize {
        if self.0.is_empty() { 0 } else { 1 + self.0.iter().filter(|&&byte| byte == b'/').count() }
    }
}

/// The offsets at which the components of a path end, in order.
pub(super) fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b'/', path).filter(|at| *at > 0).chain([path.len()])
}

/// Whether one of the components of a name is `..`.
pub(crate) fn has_dot_dot(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|component| component == b"..")
}

/// Removes the first `count` components of a name; the result is empty if it has no more. With
/// `absolute`, the result may begin with slashes (`a//b`).
pub(crate) fn without_components(path: &[u8], count: usize, absolute: bool) -> &[u8] {
    let mut rest = path;
    for _ in 0..count {
        let Some(begin) = rest.iter().position(|&byte| byte != b'/') else { return b"" };
        let Some(slash) = rest[begin..].iter().position(|&byte| byte == b'/') else { return b"" };
        rest = &rest[begin + slash + 1..];
    }
    if absolute { rest } else { &rest[rest.iter().take_while(|&&byte| byte == b'/').count()..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_left_out() {
        for (strip, path, name) in [
            (1, "a/b", "b"),
            (1, "a", ""),
            (0, "a/b", "a/b"),
            (2, "a/b/c", "c"),
            (1, "./a", "a"),
            (1, "a//b", "b"),
            (1, "/a/b", "b"),
        ] {
            let left = without_components(path.as_bytes(), strip, false);
            assert_eq!(left, name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn clean_names_are_split() {
        for (path, dir, name) in
            [("a", "", "a"), ("./a//b/./c/", "a/b", "c"), ("/a", "/", "a"), ("/a/b", "/a", "b")]
        {
            let clean = Clean::of(path.as_bytes());
            let (parent, last) = clean.split().unwrap();
            assert_eq!((parent, last.to_bytes()), (dir.as_bytes(), name.as_bytes()), "{path}");
        }
        for path in ["", ".", "./", "/", "a/.."] {
            assert_eq!(Clean::of(path.as_bytes()).split(), None, "{path}");
        }
    }
}
