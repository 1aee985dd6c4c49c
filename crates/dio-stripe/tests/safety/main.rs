//! The effects of other programs, other processes and crashes on striped files, and what must not
//! be lost: files that a process has open when they are to be striped, copies of descriptors, and
//! names that change meanwhile.

mod writers;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dio::names;
use dio::stripe::{
    RemoveOutcome, StripePlan, apply_default, create, inspect, remove, remove_forced,
};
use dio::{File, Mode, OpenOptions};
use dio_stripe::{adopt, set_default};
use dio_test::{file_systems, fill, first_difference_of_bytes, until};
use rustix::fs::{CWD, Mode as Permissions, OFlags};
use rustix::io::Errno;

/// A directory with targets `a` and `b`.
struct Place {
    _scratch: Box<dyn std::any::Any>,
    dir: PathBuf,
}

impl Place {
    fn on(fs: &dio_test::TestFs) -> Place {
        let scratch = fs.dir();
        let dir = scratch.path().to_owned();
        ["a", "b"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        Place { _scratch: Box::new(scratch), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn plan(&self) -> StripePlan {
        StripePlan {
            stripe: Some(4096),
            count: None,
            targets: vec![self.path("a"), self.path("b")],
            force: false,
        }
    }

    fn objects(&self) -> usize {
        ["a", "b"].map(|name| fs::read_dir(self.path(name)).unwrap().count()).iter().sum()
    }
}

fn first() -> Place {
    Place::on(&file_systems()[0])
}

fn bytes(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, tag, 0);
    bytes
}

fn writer(path: &Path) -> Result<File, dio::FileError> {
    OpenOptions::new().read(true).write(true).mode(Mode::Direct).open(path)
}

fn contents(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Another process that has a file open until it is told to write a line into it.
struct Other(Child);

impl Other {
    fn with(path: &Path, how: &str) -> Other {
        let script = format!(
            "exec 3{how}\"$0\"; echo open; read -r line; [ -z \"$line\" ] || echo \"$line\" >&3"
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        Other(child)
    }

    fn end(mut self, line: &str) {
        writeln!(self.0.stdin.take().unwrap(), "{line}").unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// Many threads make, fill and stripe files with the same name at the same time. A thread that gets
/// success finds the file striped, and data that any thread has written through an open of the name
/// is there as long as the name refers to that file.
#[test]
fn of_several_who_stripe_one_file_one_does() {
    let place = first();
    let plan = place.plan();
    for round in 0..30 {
        let path = place.path("file");
        let there = round % 2 == 0;
        if there {
            fs::write(&path, "").unwrap();
        }
        let made: usize = std::thread::scope(|scope| {
            let plan = &plan;
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(|| create(&path, plan))).collect();
            let outcomes = makers.into_iter().map(|maker| maker.join().unwrap());
            outcomes
                .map(|outcome| match outcome {
                    Ok(_) => 1,
                    Err(error) => {
                        assert!(matches!(error.errno(), Errno::EXIST | Errno::BUSY), "{error}");
                        0
                    }
                })
                .sum()
        });
        // If all threads disturb each other, none succeeds.
        assert!(made <= 1 && (there || made == 1), "{made} have made it");
        if made == 1 {
            assert!(inspect(&path).unwrap().unwrap().is_sound());
            assert_eq!(place.objects(), 2);
            remove(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(
            (place.objects(), fs::read_dir(&place.dir).unwrap().count()),
            (0, 2),
            "nothing is left behind"
        );
    }
}

/// An open that must create a new file never returns another file, although the name is opened
/// twice.
#[test]
fn a_file_that_is_to_be_new_is_new_and_striped() {
    let place = first();
    set_default(&place.dir, &place.plan()).unwrap();
    let path = place.path("file");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    assert!(file.layout().is_some());
    let mut again = OpenOptions::new();
    assert_eq!(again.write(true).create_new(true).open(&path).unwrap_err().errno(), Errno::EXIST);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    assert_eq!(
        names::openat(CWD, &path, flags, Permissions::from_raw_mode(0o644)).unwrap_err(),
        Errno::EXIST
    );
    drop(file);
    let other = place.path("other");
    let fd = names::openat(CWD, &other, flags, Permissions::from_raw_mode(0o644)).unwrap();
    assert!(names::is_striped(&fd).unwrap());
    // A file that its owner could not open again stays an ordinary file.
    let fd =
        names::openat(CWD, place.path("closed"), flags, Permissions::from_raw_mode(0o200)).unwrap();
    assert!(!names::is_striped(&fd).unwrap());
    // So does a file in a directory whose default another user has set.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(place.path(".dio-stripe"), Some(65_534), None).unwrap();
        let fd = names::openat(CWD, place.path("third"), flags, Permissions::from_raw_mode(0o644))
            .unwrap();
        assert!(!names::is_striped(&fd).unwrap());
    }
}

/// A copy of the descriptor gives read-only access to the bytes. Its removal removes only the copy,
/// and the file cannot be changed through it.
#[test]
fn a_copy_of_a_descriptor_is_known_for_one() {
    for fs in file_systems() {
        let place = Place::on(&fs);
        let [path, copy, link, moved] =
            ["file", "copy", "link", "moved"].map(|name| place.path(name));
        create(&path, &place.plan()).unwrap();
        writer(&path).unwrap().write_at(&bytes(1, 50_000), 0).unwrap();
        fs::copy(&path, &copy).unwrap();
        assert!(contents(&copy) == bytes(1, 50_000));
        let error = writer(&copy).unwrap_err();
        assert_eq!(error.errno(), Errno::PERM, "{error}");
        assert!(
            error.to_string().contains("copy of the descriptor") && error.cure().is_some(),
            "{error}"
        );
        assert!(inspect(&copy).unwrap().unwrap().copy && !inspect(&path).unwrap().unwrap().copy);
        let fd = fs::OpenOptions::new().read(true).write(true).open(&copy).unwrap();
        assert_eq!(names::ftruncate(&fd, 0), Err(Errno::PERM));
        // Its permissions are independent of the file's.
        let before = rustix::fs::fstat(&fd).unwrap();
        fd.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        names::pass_on_attributes(&fd, &before).unwrap();
        let object = inspect(&path).unwrap().unwrap().objects[1].path.clone();
        assert_ne!(fs::metadata(&object).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(remove(&copy).unwrap(), RemoveOutcome::Copy);
        assert!(!copy.exists() && contents(&path) == bytes(1, 50_000), "{}", fs.name);

        // Further names and renames are not copies.
        fs::hard_link(&path, &link).unwrap();
        fs::rename(&path, &moved).unwrap();
        assert_eq!(remove(&link).unwrap(), RemoveOutcome::Name);
        writer(&moved).unwrap().write_at(b"text", 0).unwrap();
        std::os::unix::fs::symlink(&moved, &link).unwrap();
        writer(&link).unwrap().write_at(b"more", 0).unwrap();
        fs::remove_file(&link).unwrap();

        // The original is gone, as after a restore: the copy can be made the file.
        fs::copy(&moved, &copy).unwrap();
        fs::remove_file(&moved).unwrap();
        writer(&copy).unwrap_err();
        let reader = writer(&copy).err().map(|_| File::open(&copy).unwrap());
        adopt(&copy).unwrap();
        drop(reader);
        writer(&copy).unwrap().write_at(b"anew", 0).unwrap();
        assert!(contents(&copy)[..4] == *b"anew" && contents(&copy)[4..] == bytes(1, 50_000)[4..]);
        assert_eq!(remove(&copy).unwrap(), RemoveOutcome::All);
        assert_eq!(place.objects(), 0);
    }
}

/// After an adoption that was interrupted between two objects, neither the file nor the copy can be
/// removed, nor is any byte lost, until one of them is made the file.
#[test]
fn a_file_that_is_half_adopted_is_not_removed() {
    for first in [0, 1] {
        for original_stays in [true, false] {
            let place = self::first();
            let [path, copy] = ["file", "copy"].map(|name| place.path(name));
            create(&path, &place.plan()).unwrap();
            writer(&path).unwrap().write_at(&bytes(1, 50_000), 0).unwrap();
            fs::copy(&path, &copy).unwrap();
            let left_over = inspect(&path).unwrap().unwrap().objects[1 - first].path.clone();
            let header = fs::read(&left_over).unwrap()[..4096].to_vec();
            adopt(&copy).unwrap();
            let object = fs::OpenOptions::new().write(true).open(&left_over).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&object, &header, 0).unwrap();
            for name in [&path, &copy] {
                let error = remove(name).unwrap_err();
                assert!(
                    error.errno() == Errno::STALE
                        && error.cure().unwrap().contains("dio stripe adopt"),
                    "{error}"
                );
                assert!(name.exists() && place.objects() == 2);
            }
            // Removing a name alone loses no bytes.
            let (kept, lost) = if original_stays { (&path, &copy) } else { (&copy, &path) };
            let name = std::ffi::CString::new(lost.as_os_str().as_encoded_bytes()).unwrap();
            assert_eq!(names::unlinkat(CWD, &name), Err(Errno::STALE));
            assert!(contents(kept) == bytes(1, 50_000));
            adopt(kept).unwrap();
            writer(kept).unwrap().write_at(b"anew", 0).unwrap();
            assert_eq!(remove(kept).unwrap(), RemoveOutcome::All);
            assert_eq!(place.objects(), 0);
        }
    }
}

/// Objects that do not belong to the file, or no longer, are left when the file is removed.
#[test]
fn only_objects_of_the_file_are_removed_with_it() {
    let place = first();
    let [one, two] = ["one", "two"].map(|name| place.path(name));
    create(&one, &place.plan()).unwrap();
    create(&two, &place.plan()).unwrap();
    let objects = inspect(&one).unwrap().unwrap().objects;
    fs::rename(&inspect(&two).unwrap().unwrap().objects[0].path, &objects[0].path).unwrap();
    let error = remove(&one).unwrap_err();
    assert!(error.to_string().contains("belongs to another file"), "{error}");
    assert!(
        one.exists() && objects[0].path.exists() && objects[1].path.exists(),
        "as a whole, or not at all"
    );
    let error = remove_forced(&one).unwrap_err();
    assert!(error.to_string().contains("belongs to another file"), "{error}");
    assert!(objects[0].path.exists() && !objects[1].path.exists());
    assert_eq!(adopt(place.path("a")).unwrap_err().errno(), Errno::INVAL);
}

/// Runs `work` in a thread for which the kernel refuses a system call.
fn without<T: Send>(call: libc::c_long, errno: Errno, work: impl FnOnce() -> T + Send) -> T {
    let refused = || {
        dio_sys::refuse_system_call(call, errno).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(refused).join().unwrap())
}

/// As long as the removal of a name is not durable, a crash may bring the name back. Its objects
/// must exist then.
#[test]
fn the_objects_of_a_name_that_may_come_back_stay() {
    let place = first();
    let paths = ["removed", "unlinked", "replaced"].map(|name| place.path(name));
    paths.iter().for_each(|path| drop(create(path, &place.plan()).unwrap()));
    let new = place.path("new");
    fs::write(&new, "text").unwrap();
    let [unlinked, replaced, new] = [&paths[1], &paths[2], &new]
        .map(|path| std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap());
    without(libc::SYS_fsync, Errno::IO, || {
        assert_eq!(remove(&paths[0]).unwrap_err().errno(), Errno::IO);
        assert_eq!(names::unlinkat(CWD, &unlinked), Err(Errno::IO));
        names::renameat(CWD, &new, &replaced).unwrap();
    });
    assert!(!paths[0].exists() && !paths[1].exists() && fs::read(&paths[2]).unwrap() == b"text");
    assert_eq!(place.objects(), 6);
    // The same for a directory that is reached from another one.
    fs::create_dir(place.path("below")).unwrap();
    create(place.path("below/file"), &place.plan()).unwrap();
    let dir = fs::File::open(&place.dir).unwrap();
    without(libc::SYS_fsync, Errno::IO, || {
        assert_eq!(names::unlinkat(&dir, c"below/file"), Err(Errno::IO));
    });
    assert_eq!(place.objects(), 8);
    create(place.path("below/file"), &place.plan()).unwrap();
    names::unlinkat(&dir, c"below/file").unwrap();
    assert_eq!(place.objects(), 8);
}

/// On targets that cannot allocate space, concurrent writers behind the end do not lose each
/// other's data: neither the writers that fill gaps, nor the writers whose bytes end the file at
/// that moment.
#[test]
fn gaps_are_filled_without_harm_where_space_cannot_be_allocated() {
    const PIECE: usize = 4096 + 100;
    let place = first();
    for mode in [Mode::Direct, Mode::Concurrent, Mode::Uncached, Mode::Cached] {
        for round in 0..20u64 {
            let path = place.path(&format!("{}-{round}", mode.name()));
            create(&path, &place.plan()).unwrap();
            let options = || {
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(mode).clone()
            };
            let file = options().open(&path).unwrap();
            let write = |writer: u64, file: &File| {
                for turn in (0..12u64).rev() {
                    let piece = (turn + writer) % 12 * 4 + writer;
                    file.write_at(&bytes(piece, PIECE), piece * PIECE as u64).unwrap();
                }
            };
            without(libc::SYS_fallocate, Errno::OPNOTSUPP, || {
                std::thread::scope(|scope| {
                    for writer in 0..4 {
                        let file = &file;
                        scope.spawn(move || write(writer, file));
                    }
                });
            });
            drop(file);
            let found = contents(&path);
            let expected: Vec<u8> = (0..48).flat_map(|piece| bytes(piece, PIECE)).collect();
            assert_eq!(found.len(), expected.len());
            assert_eq!(
                first_difference_of_bytes(&found, &expected),
                None,
                "{mode:?}, round {round}"
            );
            remove(&path).unwrap();
        }
    }
}

/// An empty file that has other names, or permissions that objects could not have, is not striped.
/// Objects get no permissions from the directory of their target.
#[test]
fn a_file_that_cannot_be_replaced_by_its_like_is_not_striped() {
    let place = first();
    let [path, link] = ["file", "link"].map(|name| place.path(name));
    set_default(&place.dir, &place.plan()).unwrap();
    fs::write(&path, "").unwrap();
    fs::hard_link(&path, &link).unwrap();
    assert_eq!(create(&path, &place.plan()).unwrap_err().errno(), Errno::EXIST);
    assert!(apply_default(&path).unwrap().is_none());
    fs::remove_file(&link).unwrap();
    // Owner, one user, group, mask and other users; the mode shows the mask as the group's
    // permissions (include/uapi/linux/posix_acl_xattr.h).
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, !0), (2, 6, 65_533), (4, 0, !0), (0x10, 6, !0), (0x20, 0, !0)];
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        acl.extend([&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let set =
        |path: &Path, name| rustix::fs::setxattr(path, name, &acl, rustix::fs::XattrFlags::empty());
    if set(&path, "system.posix_acl_access").is_err() {
        return println!("skipped: no access control lists here");
    }
    assert_eq!(create(&path, &place.plan()).unwrap_err().errno(), Errno::OPNOTSUPP);
    assert!(apply_default(&path).unwrap().is_none());
    assert_eq!(place.objects(), 0);
    rustix::fs::removexattr(&path, "system.posix_acl_access").unwrap();
    set(&place.path("a"), "system.posix_acl_default").unwrap();
    create(&path, &place.plan()).unwrap();
    assert!(
        inspect(&path)
            .unwrap()
            .unwrap()
            .objects
            .iter()
            .all(|object| !dio::stripe::has_acl(fs::File::open(&object.path).unwrap()))
    );
}

/// One target is full, read-only or gone: the error names its object, and the other objects are
/// unchanged.
#[test]
fn a_target_that_fails_is_named_and_the_rest_is_intact() {
    let place = first();
    let mount = |args: &[&str]| {
        Command::new("mount").args(args).arg(place.path("b")).status().is_ok_and(|it| it.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=1m", "none"]) {
        return println!("skipped: nothing can be mounted here");
    }
    let path = place.path("file");
    create(&path, &place.plan()).unwrap();
    let object = inspect(&path).unwrap().unwrap().objects[1].path.clone();
    let names_it = |error: &dio::FileError| {
        assert!(error.to_string().contains(object.to_str().unwrap()), "{error}")
    };
    let whole = bytes(1, 4 << 20);
    let file = writer(&path).unwrap();
    file.write_at(&whole[..500_000], 0).unwrap();
    let error = file.write_at(&whole[500_000..], 500_000).unwrap_err();
    assert_eq!(error.errno(), Errno::NOSPC, "{error}");
    names_it(&error);
    drop(file);
    let held = contents(&path);
    assert!(held.len() >= 500_000 && whole.starts_with(&held), "{} bytes", held.len());
    assert!(held.len() as u64 <= error.offset().unwrap());

    // A child process that another test is just starting may have a copy of a descriptor that is
    // open for writing here.
    until("it can be remounted", || mount(&["-o", "remount,ro"]));
    let error = writer(&path).unwrap_err();
    assert_eq!(error.errno(), Errno::ROFS, "{error}");
    names_it(&error);
    // Either an earlier writer has truncated the bytes behind the end, or this writer did not get
    // so far.
    assert!(contents(&path) == held);

    assert!(Command::new("umount").arg(place.path("b")).status().unwrap().success());
    for error in [writer(&path).unwrap_err(), File::open(&path).unwrap_err()] {
        assert!(
            error.errno() == Errno::NOENT && error.to_string().contains("is missing"),
            "{error}"
        );
        names_it(&error);
    }
    let error = remove(&path).unwrap_err();
    assert!(error.errno() == Errno::NOENT && path.exists() && place.objects() == 1, "{error}");
    names_it(&error);
    names_it(&remove_forced(&path).unwrap_err());
    let left = dio_stripe::objects_in(&place.path("a")).unwrap();
    assert!(!path.exists() && left.len() == 1 && left[0].size == 4096, "{left:?}");
}
