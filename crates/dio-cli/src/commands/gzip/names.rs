//! The names of compressed files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Suffixes that GNU gzip recognises as those of compressed files.
const KNOWN: [&str; 7] = [".gz", ".z", ".taz", ".tgz", "-gz", "-z", "_z"];

/// The longest allowed suffix.
pub(super) const LONGEST: usize = 30;

/// Returns the length of the suffix if `name` ends like a compressed file: with `own` or a known
/// suffix, ignoring case.
pub(super) fn suffix(name: &[u8], own: &OsStr) -> Option<usize> {
    let own = own.as_bytes();
    // A suffix that ends a known one is tried after it: "z" after ".z".
    let part_of_known =
        KNOWN.iter().any(|known| known.len() > own.len() && known.as_bytes().ends_with(own));
    let known = KNOWN.iter().map(|known| known.as_bytes());
    let (first, last) = if part_of_known { (None, Some(own)) } else { (Some(own), None) };
    first.into_iter().chain(known).chain(last).map(|suffix| (suffix, suffix.len())).find_map(
        |(suffix, length)| {
            let stem = name.len().checked_sub(length).filter(|stem| *stem > 0)?;
            (name[stem - 1] != b'/' && name[stem..].eq_ignore_ascii_case(suffix)).then_some(length)
        },
    )
}

/// Returns the name without its suffix of `length` bytes; the suffix `.tgz` of an archive becomes
/// `.tar`.
pub(super) fn decompressed(path: &Path, length: usize) -> PathBuf {
    let name = path.as_os_str().as_bytes();
    let (stem, suffix) = name.split_at(name.len() - length);
    let mut stem = stem.to_vec();
    if suffix.eq_ignore_ascii_case(b".tgz") || suffix.eq_ignore_ascii_case(b".taz") {
        stem.extend_from_slice(b".tar");
    }
    OsString::from_vec(stem).into()
}

/// Returns the name with a suffix added.
pub(super) fn with_suffix(path: &Path, suffix: &OsStr) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the path of `name`, from the header of a member, in the directory of `path`. Only the
/// part behind its last slash is used, so that no header can point out of the directory. Returns
/// `None` if that part is not a file name.
pub(super) fn beside(path: &Path, name: &[u8]) -> Option<PathBuf> {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    (!name.is_empty() && name != b"." && name != b"..").then(|| {
        let above = path.as_os_str().as_bytes();
        let end = above.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        OsString::from_vec([&above[..end], name].concat()).into()
    })
}

/// Returns the suffixes to try in turn for a name that does not exist.
pub(super) fn tried(own: &OsStr) -> [OsString; 5] {
    [own.to_owned(), ".gz".into(), ".z".into(), "-z".into(), ".Z".into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_gnus() {
        for (name, own, length) in [
            ("a.gz", ".gz", Some(3)),
            ("a.GZ", ".gz", Some(3)),
            ("a.Z", ".gz", Some(2)),
            ("a-gz", ".gz", Some(3)),
            ("a_z", ".gz", Some(2)),
            (".gz", ".gz", None),
            ("d/.gz", ".gz", None),
            ("a.tgz", ".gz", Some(4)),
            ("a.foo", ".foo", Some(4)),
            ("a.foo", ".gz", None),
            ("a.FOO", ".FOO", Some(4)),
            ("az", "z", Some(1)),
            ("a.z", "z", Some(2)),
        ] {
            assert_eq!(suffix(name.as_bytes(), own.as_ref()), length, "{name} {own}");
        }
        assert_eq!(decompressed("d/a.tgz".as_ref(), 4), Path::new("d/a.tar"));
        assert_eq!(decompressed("d/a.gz".as_ref(), 3), Path::new("d/a"));
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let path = Path::new("d/a.gz");
        assert_eq!(beside(path, b"b").unwrap(), Path::new("d/b"));
        assert_eq!(beside(path, b"/etc/passwd").unwrap(), Path::new("d/passwd"));
        assert_eq!(beside(path, b"../../x").unwrap(), Path::new("d/x"));
        // The stem of this path is a dot.
        assert_eq!(beside(Path::new("d/."), b"b").unwrap(), Path::new("d/b"));
        for name in [&b""[..], b".", b"..", b"a/..", b"x/"] {
            assert_eq!(beside(path, name), None, "{name:?}");
        }
    }
}
