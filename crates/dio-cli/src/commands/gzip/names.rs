//! The names of compressed files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Suffixes that GNU gzip takes for those of compressed files.
const KNOWN: [&str; 7] = [".gz", ".z", ".taz", ".tgz", "-gz", "-z", "_z"];

/// The longest suffix.
pub(super) const LONGEST: usize = 30;

/// How many bytes of the end of `name` are the suffix of a compressed file: `own`, or one that is
/// known, in any case of letters.
pub(super) fn suffix(name: &[u8], own: &OsStr) -> Option<usize> {
    let own = own.as_bytes();
    // "z" is looked for after ".z".
    let part_of_known = KNOWN.iter().any(|known| known.len() > own.len() && known.as_bytes().ends_with(own));
    let known = KNOWN.iter().map(|known| known.as_bytes());
    let (first, last) = if part_of_known { (None, Some(own)) } else { (Some(own), None) };
    first.into_iter().chain(known).chain(last).map(|suffix| (suffix, suffix.len())).find_map(|(suffix, length)| {
        let stem = name.len().checked_sub(length).filter(|stem| *stem > 0)?;
        (name[stem - 1] != b'/' && name[stem..].eq_ignore_ascii_case(suffix)).then_some(length)
    })
}

/// The name without the suffix of `length` bytes; an archive's `.tgz` becomes `.tar`.
pub(super) fn decompressed(path: &Path, length: usize) -> PathBuf {
    let name = path.as_os_str().as_bytes();
    let (stem, suffix) = name.split_at(name.len() - length);
    let mut stem = stem.to_vec();
    if suffix.eq_ignore_ascii_case(b".tgz") || suffix.eq_ignore_ascii_case(b".taz") {
        stem.extend_from_slice(b".tar");
    }
    OsString::from_vec(stem).into()
}

/// The name with a suffix.
pub(super) fn with_suffix(path: &Path, suffix: &OsStr) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// `name`, from the header of a member, beside `path`: only what is behind its last slash counts,
/// so that no header leads out of the directory. `None` if that is no name.
pub(super) fn beside(path: &Path, name: &[u8]) -> Option<PathBuf> {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    (!name.is_empty() && name != b"." && name != b"..").then(|| {
        let above = path.as_os_str().as_bytes();
        let end = above.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        OsString::from_vec([&above[..end], name].concat()).into()
    })
}

/// Suffixes that are tried in turn for a name that does not exist.
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
        // A name whose stem is a dot.
        assert_eq!(beside(Path::new("d/."), b"b").unwrap(), Path::new("d/b"));
        for name in [&b""[..], b".", b"..", b"a/..", b"x/"] {
            assert_eq!(beside(path, name), None, "{name:?}");
        }
    }
}
