//! New inodes belong to their creator, and changes need the caller's rights.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Child, Command, Stdio};
use std::time::UNIX_EPOCH;

use rustix::fs::{RenameFlags, XattrFlags, setxattr};

use super::tree::xattr_of;
use super::*;

const USER: u32 = 54_321;
const GROUP: u32 = 54_322;
const OTHER_GROUP: u32 = 54_323;

/// A process of `USER` with one supplementary group, which waits to be killed.
struct Process(Child);

impl Process {
    fn start() -> Process {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &USER.to_string(), "--regid", &GROUP.to_string()]);
        command.args(["--groups", &OTHER_GROUP.to_string(), "sh", "-c", "echo ready; read line"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Process(child)
    }

    fn caller(&self) -> Caller {
        Caller { uid: USER, gid: GROUP, pid: self.0.id() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn as_root(test: impl Fn(&str, &Path, &Names, &Process)) {
    if !is_root() {
        return dio_test::skip!("only the superuser can create for others");
    }
    let process = Process::start();
    everywhere(|place, source, names| test(place, source, names, &process));
}

fn set(path: &Path, uid: u32, gid: u32, mode: u32) {
    chown(path, Some(uid), Some(gid)).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn owner(path: &Path) -> (u32, u32, u32) {
    let stat = path.symlink_metadata().unwrap();
    (stat.uid(), stat.gid(), stat.mode() & 0o7777)
}

#[test]
fn everything_created_has_the_owner_and_group_of_the_caller() {
    as_root(|place, source, names, process| {
        set(source, USER, 0, 0o755);
        let caller = process.caller();
        let (_, _file) =
            names.create(caller, ROOT, name("file"), 0o666, 0o027, OFlags::RDWR).unwrap();
        names.make_directory(caller, ROOT, name("directory"), 0o777, 0o022).unwrap();
        names.make_node(caller, ROOT, name("pipe"), 0o010_666, 0, 0).unwrap();
        names.symlink(caller, ROOT, name("link"), Path::new("x")).unwrap();
        let expected = [("file", 0o640), ("directory", 0o755), ("pipe", 0o666), ("link", 0o777)];
        for (text, mode) in expected {
            assert_eq!(owner(&source.join(text)), (USER, GROUP, mode), "{place}: {text}");
        }
        // The thread has its own identity again.
        new_file(names, ROOT, "mine");
        assert_eq!(owner(&source.join("mine")).0, 0, "{place}");
        let device = names.make_node(caller, ROOT, name("device"), 0o020_666, 0, 0x0103);
        assert_eq!(device.unwrap_err(), Errno::PERM, "{place}");
    });
}

#[test]
fn a_set_group_id_directory_gives_its_group() {
    as_root(|place, source, names, process| {
        set(source, USER, OTHER_GROUP, 0o2775);
        let caller = process.caller();
        let create = |caller, text: &str, mode| {
            drop(names.create(caller, ROOT, name(text), mode, 0, OFlags::RDWR).unwrap());
            owner(&source.join(text))
        };
        assert_eq!(create(caller, "plain", 0o664), (USER, OTHER_GROUP, 0o664), "{place}");
        // Only members of the group keep the bit; the membership is found in the process's groups.
        assert_eq!(create(caller, "member", 0o2775), (USER, OTHER_GROUP, 0o2775), "{place}");
        let stranger = Caller { pid: 0, ..caller };
        assert_eq!(create(stranger, "stranger", 0o2775), (USER, OTHER_GROUP, 0o775), "{place}");
        names.make_directory(stranger, ROOT, name("directory"), 0o755, 0).unwrap();
        assert_eq!(owner(&source.join("directory")), (USER, OTHER_GROUP, 0o2755), "{place}");
    });
}

#[test]
fn a_directory_of_a_group_is_open_to_its_members_and_to_nobody_else() {
    as_root(|place, source, names, process| {
        set(source, 0, OTHER_GROUP, 0o770);
        let caller = process.caller();
        let (_, _file) = names.create(caller, ROOT, name("file"), 0o600, 0, OFlags::RDWR).unwrap();
        assert_eq!(owner(&source.join("file")), (USER, GROUP, 0o600), "{place}");
        let refused = [Caller { pid: 0, ..caller }, Caller { uid: USER + 1, ..caller }];
        for stranger in refused {
            let made = names.make_directory(stranger, ROOT, name("directory"), 0o700, 0);
            assert_eq!(made.unwrap_err(), Errno::ACCESS, "{place}");
        }
        names.access(caller, ROOT, rustix::fs::Access::WRITE_OK).unwrap();
        let stranger = names.access(refused[1], ROOT, rustix::fs::Access::WRITE_OK);
        assert_eq!(stranger.unwrap_err(), Errno::ACCESS, "{place}");
    });
}

/// The kernel lets requests through that cached attributes allow; in this test the directory has
/// been closed since.
#[test]
fn names_change_by_the_rights_of_the_caller() {
    as_root(|place, source, names, process| {
        let caller = process.caller();
        set(source, 0, OTHER_GROUP, 0o775);
        let file = new_file(names, ROOT, "file");
        set(&source.join("file"), USER, GROUP, 0o644);
        names.make_directory(me(), ROOT, name("directory"), 0o755, 0).unwrap();
        let none = RenameFlags::empty();
        let strangers = [Caller { uid: USER + 1, ..caller }, Caller { pid: 0, ..caller }];
        for stranger in strangers {
            let refused = [
                names.unlink(stranger, ROOT, name("file")),
                names.remove_directory(stranger, ROOT, name("directory")),
                names.rename(stranger, ROOT, name("file"), ROOT, name("other"), none),
                names.link(stranger, file, ROOT, name("second")).map(drop),
            ];
            // Links to files of others are refused whatever the directory allows
            // (`protected_hardlinks`, proc(5)).
            let is_refused =
                |outcome: &Result<()>| matches!(outcome, Err(Errno::ACCESS | Errno::PERM));
            assert!(refused.iter().all(is_refused), "{place}: {refused:?}");
        }
        // The group may, and membership is found in the process's groups.
        names.link(caller, file, ROOT, name("second")).unwrap();
        names.rename(caller, ROOT, name("second"), ROOT, name("third"), none).unwrap();
        names.unlink(caller, ROOT, name("third")).unwrap();
        names.remove_directory(caller, ROOT, name("directory")).unwrap();
        // In a sticky directory like /tmp, users can remove only their own names.
        set(source, 0, 0, 0o1777);
        assert_eq!(
            names.unlink(strangers[0], ROOT, name("file")).unwrap_err(),
            Errno::PERM,
            "{place}"
        );
        names.unlink(caller, ROOT, name("file")).unwrap();
    });
}

#[test]
fn whose_file_it_was_changes_nothing_of_it() {
    as_root(|place, source, names, process| {
        let file = new_file(names, ROOT, "file");
        set(&source.join("file"), USER, GROUP, 0o755);
        let caller = process.caller();
        let mode = |mode| Changes { mode: Some(mode), ..Changes::default() };
        let group = |gid| Changes { gid: Some(gid), ..Changes::default() };
        let at = |time| Changes { modified: Some(Time::At(time)), ..Changes::default() };
        let now =
            Changes { accessed: Some(Time::Now), modified: Some(Time::Now), ..Changes::default() };
        names.change(caller, file, &mode(0o4711)).unwrap();
        assert_eq!(owner(&source.join("file")), (USER, GROUP, 0o4711), "{place}");
        names.change(caller, file, &group(OTHER_GROUP)).unwrap();
        assert_eq!(
            owner(&source.join("file")),
            (USER, OTHER_GROUP, 0o711),
            "{place}: as the kernel does"
        );
        names.change(caller, file, &mode(0o2775)).unwrap();
        assert_eq!(owner(&source.join("file")).2, 0o2775, "{place}");
        names.change(caller, file, &at(UNIX_EPOCH)).unwrap();
        let strange = names.change(caller, file, &group(GROUP + 100)).unwrap_err();
        assert_eq!(strange, Errno::PERM, "{place}");
        // A user who may write to a file may set its times to now, and nothing else.
        set(&source.join("file"), 0, 0, 0o666);
        names.change(caller, file, &now).unwrap();
        for changes in [mode(0o4777), group(GROUP), at(UNIX_EPOCH)] {
            assert_eq!(
                names.change(caller, file, &changes).unwrap_err(),
                Errno::PERM,
                "{place}: {changes:?}"
            );
        }
        let acl = an_acl();
        if setxattr(source.join("file"), "system.posix_acl_access", &acl, XattrFlags::empty())
            .is_ok()
        {
            let removed = names.remove_xattr(caller, file, name("system.posix_acl_access"), false);
            assert_eq!(removed.unwrap_err(), Errno::PERM, "{place}");
        }
        assert_eq!(owner(&source.join("file")).0, 0, "{place}");
    });
}

#[test]
fn an_acl_set_by_somebody_outside_the_group_takes_the_set_group_id_bit() {
    as_root(|place, source, names, process| {
        let acl = an_acl();
        for (group, kept) in [(GROUP, true), (OTHER_GROUP, true), (OTHER_GROUP + 1, false)] {
            let text = group.to_string() + if kept { "" } else { "-outside" };
            let file = new_file(names, ROOT, &text);
            set(&source.join(&text), USER, group, 0o2775);
            match names.set_xattr(
                process.caller(),
                file,
                name("system.posix_acl_access"),
                &acl,
                XattrFlags::empty(),
            ) {
                Err(Errno::OPNOTSUPP) => return dio_test::skip!("{place}: no ACLs"),
                done => done.unwrap(),
            }
            assert_eq!(owner(&source.join(&text)).2 & 0o2000 != 0, kept, "{place}: {text}");
            let stranger = Caller { uid: USER + 1, ..process.caller() };
            let refused = names.set_xattr(
                stranger,
                file,
                name("system.posix_acl_access"),
                &acl,
                XattrFlags::empty(),
            );
            assert_eq!(refused.unwrap_err(), Errno::PERM, "{place}");
        }
    });
}

/// `user::rwx, group::rwx, other::r-x, user:USER:rwx, mask::rwx` in the form of
/// `include/uapi/linux/posix_acl_xattr.h`.
fn an_acl() -> Vec<u8> {
    let mut acl = 2u32.to_le_bytes().to_vec();
    let entries = [
        (1u16, 7u16, u32::MAX),
        (2, 7, USER),
        (4, 7, u32::MAX),
        (0x10, 7, u32::MAX),
        (0x20, 5, u32::MAX),
    ];
    for (tag, bits, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(bits.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

#[test]
fn a_default_acl_takes_the_place_of_the_mask() {
    everywhere(|place, source, names| {
        let acl = an_acl();
        match names.set_xattr(
            me(),
            ROOT,
            name("system.posix_acl_default"),
            &acl,
            XattrFlags::empty(),
        ) {
            Err(Errno::OPNOTSUPP) => return dio_test::skip!("{place}: no ACLs"),
            done => done.unwrap(),
        }
        let (_, _file) =
            names.create(me(), ROOT, name("file"), 0o664, 0o077, OFlags::RDWR).unwrap();
        let mode = owner(&source.join("file")).2;
        assert_eq!(mode, 0o664, "{place}: the mask 077 is not applied");
        assert!(xattr_of(&source.join("file"), "system.posix_acl_access").is_some(), "{place}");
        names.make_directory(me(), ROOT, name("directory"), 0o770, 0o077).unwrap();
        assert_eq!(owner(&source.join("directory")).2, 0o770, "{place}");
        assert_eq!(
            xattr_of(&source.join("directory"), "system.posix_acl_default"),
            Some(acl),
            "{place}"
        );
    });
}
