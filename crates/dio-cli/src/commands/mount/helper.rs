//! The command lines of `mount(8)`'s and `umount(8)`'s helpers:
//! `mount.fuse.dio SOURCE DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]` and
//! `umount.fuse.dio DIR [-flnrv] [-N NAMESPACE] [-t TYPE]` (mount(8) and umount(8), "External
//! helpers").
//!
//! `mount.fuse3` calls `dio SOURCE DIR -o OPTIONS` for `dio#SOURCE` in fstab, and for the type
//! `fuse.dio` if dio's own helper is not installed. That is the same command line without the
//! helper's name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{FAILED, MountFailure};
use crate::commands::words;

/// The name of the link that `mount(8)` searches for.
pub(crate) const MOUNT: &str = "mount.fuse.dio";

/// The name of the link that `umount(8)` searches for.
pub(crate) const UMOUNT: &str = "umount.fuse.dio";

/// Translates the command line of a helper into dio's own grammar; `None` if it is not one.
pub(crate) fn translated(args: &[OsString]) -> Option<Vec<OsString>> {
    let called = args.first().and_then(|name| Path::new(name).file_name())?;
    let rest = args.get(1..).unwrap_or_default();
    if called == MOUNT {
        return Some(mount(rest));
    }
    if called == UMOUNT {
        return Some(umount(rest));
    }
    // No command of dio begins with a slash, so `dio /A /B` is a helper's command line. A tool that
    // is called through its link may have such operands.
    let slash =
        |arg: Option<&OsString>| arg.is_some_and(|arg| arg.as_encoded_bytes().starts_with(b"/"));
    (called == "dio" && slash(rest.first()) && slash(rest.get(1))).then(|| mount(rest))
}

fn mount(rest: &[OsString]) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["dio", "mount", "--by-mount"].map(OsString::from).to_vec();
    let operands = walk(rest, |letter, value| match (letter, value) {
        (b's', _) => args.push("--sloppy".into()),
        (b'f', _) => args.push("--fake".into()),
        (b'v', _) => args.push("--verbose".into()),
        (b'N', Some(value)) => args.extend(["--namespace".into(), value.to_owned()]),
        (b'o', Some(value)) => args.extend(["-o".into(), value.to_owned()]),
        // `-n` has no effect, because dio does not write a mount table; `-t` has none, because
        // there is only one type.
        (b'n' | b't', _) => {}
        (unknown, _) => args.push(format!("-{}", char::from(unknown)).into()),
    });
    args.push("--".into());
    args.extend(operands);
    args
}

fn umount(rest: &[OsString]) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["dio", "umount", "--by-umount"].map(OsString::from).to_vec();
    let operands = walk(rest, |letter, value| match (letter, value) {
        (b'l', _) => args.push("--lazy".into()),
        (b'N', Some(value)) => args.extend(["--namespace".into(), value.to_owned()]),
        // `-f` is for servers that cannot be reached; dio's server ends with its mount. `-r` and
        // `-n` have no effect here.
        (b'f' | b'r' | b'n' | b'v' | b't', _) => {}
        (unknown, _) => args.push(format!("-{}", char::from(unknown)).into()),
    });
    args.push("--".into());
    args.extend(operands);
    args
}

/// Calls `option` for each short option, with its value if it takes one, and returns the operands.
/// Options may stand anywhere, as with `getopt(3)`.
fn walk(args: &[OsString], mut option: impl FnMut(u8, Option<&OsStr>)) -> Vec<OsString> {
    let mut operands = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            operands.extend(args.cloned());
            break;
        }
        if bytes.len() < 2 || bytes[0] != b'-' {
            operands.push(arg.clone());
            continue;
        }
        for (at, letter) in bytes.iter().enumerate().skip(1) {
            if !matches!(letter, b'o' | b't' | b'N') {
                option(*letter, None);
                continue;
            }
            match &bytes[at + 1..] {
                [] => option(*letter, args.next().map(OsString::as_os_str)),
                attached => option(*letter, Some(OsStr::from_bytes(attached))),
            }
            break;
        }
    }
    operands
}

/// Enters another mount namespace (`mount -N`).
///
/// # Errors
/// The file does not exist, or entering needs root.
pub(crate) fn enter(namespace: &Path) -> Result<(), MountFailure> {
    let failed = |error: std::io::Error| {
        MountFailure::new(
            FAILED,
            format!("{}: cannot enter the mount namespace: {}", namespace.display(), words(&error)),
        )
    };
    let file = File::open(namespace).map_err(failed)?;
    // The owner of the user namespace that a mount namespace belongs to decides what every path
    // means in it, including that of the program to execute.
    if !dio_sys::is_of_own_user_namespace(file.as_fd()).map_err(failed)? {
        return Err(MountFailure::new(
            FAILED,
            format!(
                "{}: belongs to another user namespace, whose owner could have anything run: mount \
                 from within it",
                namespace.display()
            ),
        ));
    }
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(|errno| failed(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(line: &str) -> Option<String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let joined = |args: Vec<OsString>| args.join(OsStr::new(" ")).into_string().unwrap();
        translated(&args).map(joined)
    }

    #[test]
    fn values_need_not_be_text() {
        let args = [&b"mount.fuse.dio"[..], b"-ofsname=\xff", b"/a", b"/b"]
            .map(|arg| OsStr::from_bytes(arg).to_owned());
        let found = translated(&args).unwrap();
        assert!(found.iter().any(|arg| arg.as_bytes() == b"fsname=\xff"), "{found:?}");
        assert_eq!(found[found.len() - 3..], ["--", "/a", "/b"]);
    }

    #[test]
    fn helpers_are_known_by_their_names() {
        for (line, expected) in [
            ("/sbin/mount.fuse.dio /a /b -o rw,cio", "dio mount --by-mount -o rw,cio -- /a /b"),
            (
                "mount.fuse.dio /a /b -sfnv -t fuse.dio -N /proc/1/ns/mnt -orw",
                "dio mount --by-mount --sloppy --fake --verbose --namespace /proc/1/ns/mnt -o rw \
                 -- /a /b",
            ),
            ("mount.fuse.dio -o ro -- /a -b", "dio mount --by-mount -o ro -- /a -b"),
            ("umount.fuse.dio /b -lnv", "dio umount --by-umount --lazy -- /b"),
            ("dio /a /b -o rw", "dio mount --by-mount -o rw -- /a /b"),
        ] {
            assert_eq!(translate(line).as_deref(), Some(expected), "{line}");
        }
        for line in
            ["dio mount /a /b", "dio cat /a", "dio", "mount.fuse /a /b", "dio /a", "/bin/cat /a /b"]
        {
            assert_eq!(translate(line), None, "{line}");
        }
    }
}
