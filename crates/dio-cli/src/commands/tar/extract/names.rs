//! What a member of the archive is called in the target directory.

use std::ffi::CString;

/// A name, cleaned: components with single slashes between them, none of them empty or `.`; `-P`
/// may leave a slash at the beginning and `..`. Empty for the directory itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clean(pub(crate) Vec<u8>);

impl Clean {
    /// Cleans a name.
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

    /// The directory it is in and its name there; `None` for the directory itself, the root and
    /// what ends in `..`, which are directories already.
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
        // The reader of the archive lets no NUL through.
        Some((dir, CString::new(name).ok()?))
    }

    /// Whether it is a name of something in `directory`.
    pub(super) fn is_within(&self, directory: &Clean) -> bool {
        match &directory.0[..] {
            b"" => !self.0.is_empty(),
            path => self.0.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/")),
        }
    }

    /// How deep it is.
    pub(super) fn depth(&self) -> usize {
        if self.0.is_empty() { 0 } else { 1 + self.0.iter().filter(|&&byte| byte == b'/').count() }
    }
}

/// Where the components of a path end, from the first one on.
pub(super) fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b'/', path).filter(|at| *at > 0).chain([path.len()])
}

/// Whether a name has a component `..`.
pub(crate) fn has_dot_dot(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|component| component == b"..")
}

/// What is left of a name without its first `count` components; empty where it has no more. With
/// `absolute`, slashes may begin what is left (`a//b`).
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
        for (path, dir, name) in [("a", "", "a"), ("./a//b/./c/", "a/b", "c"), ("/a", "/", "a"), ("/a/b", "/a", "b")] {
            let clean = Clean::of(path.as_bytes());
            let (parent, last) = clean.split().unwrap();
            assert_eq!((parent, last.to_bytes()), (dir.as_bytes(), name.as_bytes()), "{path}");
        }
        for path in ["", ".", "./", "/", "a/.."] {
            assert_eq!(Clean::of(path.as_bytes()).split(), None, "{path}");
        }
    }
}
