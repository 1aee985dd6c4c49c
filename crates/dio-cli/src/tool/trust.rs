//! Whether other users could replace a program that this one, or root, is about to run.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use dio::credentials::is_trusted;

/// The most links on the way to one file; the kernel has the same limit (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// Returns a component of the path to a program, including each link on the way, that other users
/// may write to: they could decide what runs. For a program that does not exist yet, the
/// directories are checked, and the last one must not be shared, sticky or not, because the first
/// user to create the name owns it.
pub(crate) fn open_to_others(program: &Path) -> io::Result<Option<PathBuf>> {
    let program = std::path::absolute(program)?;
    let mut rest: Vec<PathBuf> = components(&program);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    loop {
        let found = match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                at.pop();
                let shared = is_shared(&at, &fs::symlink_metadata(&at)?);
                return Ok(shared.then_some(at));
            }
            found => found?,
        };
        if found.is_symlink() {
            if !is_trusted(found.uid()) {
                return Ok(Some(at));
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(rustix::io::Errno::LOOP.into());
            }
            rest.extend(components(&fs::read_link(&at)?));
            at.pop();
        } else if may_be_written_by_others(&at, &found) {
            return Ok(Some(at));
        }
        match rest.pop() {
            None => return Ok(None),
            Some(next) if next.as_os_str() == ".." => drop(at.pop()),
            // An absolute path replaces everything before it.
            Some(next) => at.push(next),
        }
    }
}

/// Returns the components of a path, the last one first.
fn components(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| PathBuf::from(part.as_os_str())).rev().collect()
}

/// Returns whether a user other than root and this one may replace a file, or the entries of a
/// directory. In a sticky directory such as /tmp, users only replace their own entries, and each
/// entry is checked by itself.
fn may_be_written_by_others(path: &Path, found: &fs::Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    let sticky = found.is_dir() && found.mode() & STICKY != 0;
    !is_trusted(found.uid()) || is_shared(path, found) && !sticky
}

/// Returns whether other users may write to the file by its mode. If it has an access control list,
/// the group bits are the most that the list grants anyone (acl(5)).
fn is_shared(path: &Path, found: &fs::Metadata) -> bool {
    const GROUP: u32 = 0o020;
    const OTHERS: u32 = 0o002;
    let mode = found.mode();
    mode & OTHERS != 0 || mode & GROUP != 0 && (found.gid() != 0 || dio::names::path_has_acl(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn whatever_others_may_write_to_on_the_way_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(scratch.path()).unwrap();
        let set = |name: &str, mode| {
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap()
        };
        for name in ["a", "b", "b/c"] {
            fs::create_dir(dir.join(name)).unwrap();
            set(name, 0o755);
        }
        fs::write(dir.join("b/c/dio"), "").unwrap();
        set("b/c/dio", 0o755);
        symlink("../b/./c/dio", dir.join("a/dio")).unwrap();
        symlink(dir.join("a"), dir.join("way")).unwrap();
        let open = |name: &str| {
            open_to_others(&dir.join(name))
                .unwrap()
                .map(|place| place.strip_prefix(&dir).unwrap().to_owned())
        };
        for name in ["b/c/dio", "a/dio", "way/dio", "b/c/not", "b/c/not/yet"] {
            assert_eq!(open(name), None, "{name}");
        }
        for (place, mode) in [("b/c/dio", 0o757), ("b/c", 0o777), ("b", 0o777), ("a", 0o777)] {
            set(place, mode);
            assert_eq!(open("way/dio"), Some(PathBuf::from(place)));
            set(place, 0o755);
        }
        set("b", 0o1777);
        assert_eq!(open("way/dio"), None);
        // The first user to create the name owns it.
        assert_eq!(open("b/not"), Some(PathBuf::from("b")));
        set("b", 0o755);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(dir.join("way"), Some(65534), None).unwrap();
            assert_eq!(open("way/dio"), Some(PathBuf::from("way")));
            std::os::unix::fs::lchown(dir.join("way"), Some(0), None).unwrap();
        }
        // An access control list (version 2, `struct posix_acl_xattr_header`) that lets user 65534
        // write.
        let entries = [
            (1u16, 7u16, u32::MAX),
            (2, 7, 65534),
            (4, 5, u32::MAX),
            (16, 7, u32::MAX),
            (32, 5, u32::MAX),
        ];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, rights, user) in entries {
            list.extend(
                [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &user.to_le_bytes()].concat(),
            );
        }
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::setxattr(dir.join("b"), "system.posix_acl_access", &list, flags) {
            Ok(()) => assert_eq!(open("way/dio"), Some(PathBuf::from("b"))),
            Err(errno) => {
                println!("skipped: no access control lists in {}: {errno}", dir.display())
            }
        }
        symlink("loop", dir.join("loop")).unwrap();
        assert!(open_to_others(&dir.join("loop/dio")).is_err());
    }
}
