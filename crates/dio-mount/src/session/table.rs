//! This process's table of mounts (`/proc/self/mountinfo`, `proc_pid_mountinfo(5)`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, makedev};
use rustix::process::Pid;

/// The type of dio's mounts in the table.
pub const KIND: &str = "fuse.dio";

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRecord {
    id: u64,
    parent: u64,
    /// The device number that `stat(2)` shows for files below it.
    pub device: Dev,
    /// The mount point.
    pub at: PathBuf,
    /// The type of the file system, with its subtype.
    pub kind: String,
    /// The source, by the name that the mounting user gave it.
    pub source: OsString,
    /// The options of this mount, and the options of its file system, which may have several
    /// mounts.
    pub(super) options: [String; 2],
}

impl MountRecord {
    /// Whether changes through this mount are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.options.iter().any(|options| options.split(',').any(|option| option == "ro"))
    }
}

/// Returns all mounts in this process's table.
///
/// # Errors
/// `/proc` is not mounted.
pub fn mounts() -> io::Result<Vec<MountRecord>> {
    mounts_of(None)
}

/// Returns all mounts in the table of `process`, or of this process.
///
/// # Errors
/// The process does not exist, or `/proc` is not mounted.
pub fn mounts_of(process: Option<Pid>) -> io::Result<Vec<MountRecord>> {
    let table = fs::read(table_of(process))?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(entry).collect())
}

/// Returns the path of the table of mounts of `process`, or of this process.
pub(crate) fn table_of(process: Option<Pid>) -> String {
    process.map_or_else(
        || "/proc/self/mountinfo".to_owned(),
        |pid| format!("/proc/{}/mountinfo", pid.as_raw_nonzero()),
    )
}

/// Returns the mount that contains `path`, an absolute path without links.
pub(crate) fn holding(mounts: Vec<MountRecord>, path: &Path) -> Option<MountRecord> {
    let at = mounts.iter().map(|entry| &entry.at).filter(|at| path.starts_with(at));
    // All of these are prefixes of one path, so the longest is the deepest.
    let at = at.max_by_key(|at| at.components().count())?.clone();
    top(mounts, &at)
}

/// Returns the topmost mount on `path`, an absolute path without links.
///
/// # Errors
/// As [`mounts`].
pub fn mounted_on(path: &Path) -> io::Result<Option<MountRecord>> {
    Ok(top(mounts()?, path))
}

/// Returns the topmost mount on `path`: a mount that covers another has that mount as its parent.
fn top(mounts: Vec<MountRecord>, path: &Path) -> Option<MountRecord> {
    let here: Vec<MountRecord> = mounts.into_iter().filter(|entry| entry.at == path).collect();
    let covered = |entry: &MountRecord| {
        here.iter().any(|other| other.parent == entry.id && other.id != entry.id)
    };
    here.iter().rev().find(|entry| !covered(entry)).cloned()
}

/// Parses a line: `36 35 98:0 /root /at options tag:1 - type source options`.
pub(crate) fn entry(line: &[u8]) -> Option<MountRecord> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let device = std::str::from_utf8(fields.next()?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    let at = PathBuf::from(unescaped(fields.nth(1)?));
    let own = unescaped(fields.next()?).into_string().ok()?;
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = unescaped(fields.next()?).into_string().ok()?;
    let source = unescaped(fields.next()?);
    let of_all = unescaped(fields.next()?).into_string().ok()?;
    Some(MountRecord { id, parent, device, at, kind, source, options: [own, of_all] })
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Decodes escapes: space, tab, line feed, backslash and `#` are written as `\` and three octal
/// digits.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| byte == b'\\')
        {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &behind[3..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let line = br"91 29 0:47 / /mnt/a\040b\134 rw,nosuid shared:3 master:1 - fuse.dio /srv/x\011y rw,user_id=0";
        let found = entry(line).unwrap();
        assert_eq!((found.id, found.parent, found.device), (91, 29, makedev(0, 47)));
        assert_eq!(found.at, Path::new("/mnt/a b\\"));
        assert_eq!((found.kind.as_str(), found.source.to_str()), ("fuse.dio", Some("/srv/x\ty")));
        assert_eq!(found.options, ["rw,nosuid", "rw,user_id=0"]);
        assert!(entry(b"").is_none());
        assert!(entry(b"91 29 0:47 / /mnt rw").is_none());
    }

    #[test]
    fn of_several_mounts_the_one_on_top_counts() {
        let line = |id, parent, at, kind| {
            entry(format!("{id} {parent} 0:{id} / {at} rw - {kind} none rw").as_bytes()).unwrap()
        };
        let table = vec![
            line(30, 1, "/a", "x"),
            line(42, 41, "/a", "z"),
            line(41, 30, "/a", "y"),
            line(50, 42, "/a/b", "w"),
        ];
        assert_eq!(top(table.clone(), Path::new("/a")).unwrap().kind, "z");
        assert_eq!(top(table.clone(), Path::new("/a/b")).unwrap().kind, "w");
        assert_eq!(top(table.clone(), Path::new("/b")), None);
        assert_eq!(holding(table.clone(), Path::new("/a/b/c")).unwrap().kind, "w");
        assert_eq!(holding(table.clone(), Path::new("/a/bc")).unwrap().kind, "z");
        assert_eq!(holding(table, Path::new("/b")), None);
    }

    #[test]
    fn the_kernels_table_is_read() {
        let root = mounted_on(Path::new("/")).unwrap().expect("something is mounted on /");
        assert_eq!(root.device, rustix::fs::stat("/").unwrap().st_dev);
    }
}
