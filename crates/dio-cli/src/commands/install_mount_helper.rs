//! `dio install-mount-helper`: the links by which `mount(8)` and `umount(8)` find dio.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use dio::credentials::is_trusted;

use super::mount::{FAILED, MountFailure, helper};
use super::words;
use crate::grammar::{Grammar, Program, by_default, help, switch, value, version};
use crate::quote::named;

/// The parsed command line.
#[derive(Debug)]
struct InstallArgs {
    dir: PathBuf,
    program: Option<PathBuf>,
    force: bool,
}

fn grammar() -> Grammar<InstallArgs> {
    let details = "Links mount.fuse.dio and umount.fuse.dio to this program, where mount(8) and \
                   umount(8) look for helpers.";
    let about = "Make mount -t fuse.dio and lines in fstab work";
    Grammar::<InstallArgs>::new("install-mount-helper", about, details).literal().flags([
        by_default(
            "/sbin",
            value("--dir=DIR", "Where mount(8) looks for helpers", |install, dir| {
                install.dir = dir.into()
            }),
        ),
        value(
            "--program=FILE",
            "Program to link to, as it will be found when it is needed [default: this one]",
            |install, program| install.program = Some(program.into()),
        ),
        switch(
            "--force",
            "Link also to a program that other users could replace, although mount(8) runs it as \
             root",
            |install| install.force = true,
        ),
        help("-h, --help"),
        version("-V, --version"),
    ])
}

pub(crate) const PROGRAM: Program =
    Program { name: "install-mount-helper", describe: |_| grammar().describe(), run };

/// Creates the links; existing links are replaced, files are not.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = InstallArgs { dir: "/sbin".into(), program: None, force: false };
    let args = match grammar().resolve_from(args, line, Ok) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match install(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.told_by("dio install-mount-helper"),
    }
}

fn install(args: &InstallArgs) -> Result<(), MountFailure> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => env::current_exe().map_err(|error| {
            MountFailure::new(FAILED, format!("cannot find this program: {}", words(&error)))
        })?,
    };
    if !args.force
        && let Some(place) = open_to_others(&program).map_err(|error| {
            MountFailure::new(FAILED, format!("{}: {}", named(&program), words(&error)))
        })?
    {
        let (program, place) = (named(&program), named(&place));
        return Err(MountFailure::new(
            FAILED,
            format!(
                "{program}: mount(8) would run it as root, and others may write to {place}; \
                 install it elsewhere, or use --force"
            ),
        ));
    }
    for name in [helper::MOUNT, helper::UMOUNT] {
        let link = args.dir.join(name);
        place(&program, &link).map_err(|error| {
            MountFailure::new(FAILED, format!("{}: {}", named(&link), words(&error)))
        })?;
        println!("{} -> {}", named(&link), named(&program));
    }
    Ok(())
}

/// Creates the link in one step, so that a concurrent `mount` finds either the old one or the new
/// one.
fn place(program: &Path, link: &Path) -> io::Result<()> {
    match fs::symlink_metadata(link) {
        Ok(there) if !there.is_symlink() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let new = link.with_extension(format!("new{}", std::process::id()));
    symlink(program, &new)?;
    fs::rename(&new, link).inspect_err(|_| {
        // A temporary link is of no further use.
        let _ = fs::remove_file(&new);
    })
}

/// The most links on the way to one file; the kernel has the same limit (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// Returns a component of the path to a program, including each link on the way, that other users
/// may write to: they could decide what runs. For a program that does not exist yet, the
/// directories are checked, and the last one must not be shared, sticky or not, because the first
/// user to create the name owns it.
fn open_to_others(program: &Path) -> io::Result<Option<PathBuf>> {
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
    use std::os::unix::fs::PermissionsExt;

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
