//! A real mount, which tests the kernel's side of the protocol. Tests that need root or the device
//! are skipped with a message if there is none.
#![allow(missing_docs)]

mod memory;

use std::ffi::{CString, OsStr};
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant, UNIX_EPOCH};

use dio_fuse::{BackgroundSession, INodeNo, Notifier, Session, SessionConfig};
use dio_test::skip;
use memory::{APART, BORN, Shared};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, XattrFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// A mount of the file system in memory. Dropping it unmounts.
struct Mounted {
    fs: Shared,
    notifier: Notifier,
    serving: Option<BackgroundSession>,
    directory: TempDir,
}

impl Mounted {
    /// A mount whose requests come through the device, then one with io_uring. A mount that is not
    /// possible is skipped with a message.
    fn both() -> impl Iterator<Item = Mounted> {
        Mounted::backed_by(None)
    }

    fn backed_by(backing: Option<File>) -> impl Iterator<Item = Mounted> {
        [false, true].into_iter().filter_map(move |rings| {
            let backing = backing.as_ref().map(|file| file.try_clone().unwrap());
            // On until this mount is made.
            let switch = dio_fuse::switch_on(rings);
            let may_have_rings = switch.as_ref().is_some_and(dio_fuse::SwitchesOn::has_rings);
            if rings && !(may_have_rings && dio_fuse::rings_are_possible(3)) {
                skip!("no FUSE over io_uring here");
                return None;
            }
            Mounted::new(backing, rings)
        })
    }

    fn new(backing: Option<File>, rings: bool) -> Option<Mounted> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let Some(device) = device.ok().filter(|_| rustix::process::geteuid().is_root()) else {
            skip!("mounting needs root and /dev/fuse");
            return None;
        };
        let directory = dio_test::file_systems()[0].dir();
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).unwrap();
        match mount(
            "dio-fuse-test",
            directory.path(),
            "fuse.dio",
            MountFlags::NOSUID,
            options.as_c_str(),
        ) {
            Err(rustix::io::Errno::PERM) => {
                skip!("mounting is not permitted here");
                return None;
            }
            other => other.unwrap(),
        }
        let fs = Shared::new(backing, rings);
        let session = Session::from_fd(
            fs.clone(),
            device.into(),
            SessionConfig { threads: 3, clone_device: true, user_limits: None },
        )
        .unwrap();
        let notifier = session.notifier();
        assert_eq!(fs.0.seen.by_rings.load(SeqCst), rings);
        Some(Mounted { fs, notifier, serving: Some(session.spawn().unwrap()), directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The contents of a file in the file system.
    fn data(&self, name: &str) -> Vec<u8> {
        let node = self.fs.node(name);
        self.fs.inodes()[&node].data.clone()
    }

    /// Creates a file with these contents, and returns its node.
    fn file(&self, name: &str, bytes: &[u8]) -> INodeNo {
        fs::write(self.path(name), bytes).unwrap();
        INodeNo(self.fs.node(name))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(self.directory.path(), UnmountFlags::DETACH).unwrap();
        let serving = self.serving.take().expect("it is taken once");
        let errors = serving.errors();
        serving.join().unwrap();
        if !std::thread::panicking() {
            assert!(self.fs.0.seen.destroyed.load(SeqCst));
            assert_eq!(
                (errors.refused(), errors.malformed()),
                (0, 0),
                "the kernel and we understood each other"
            );
        }
    }
}

fn open(path: &Path, flags: OFlags) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .unwrap()
}

#[test]
fn what_is_written_arrives_on_a_page_boundary_and_is_read_again() {
    for mounted in Mounted::both() {
        let bytes = dio_test::Seed::fixed(1).rng().bytes(3 * (1 << 20) + 4097);
        mounted.file("file", &bytes);
        assert!(fs::read(mounted.path("file")).unwrap() == bytes);
        // Unaligned in the file, and in the caller's memory.
        let file = open(&mounted.path("file"), OFlags::SYNC);
        file.write_all_at(&bytes[1..70_000], 12_345).unwrap();
        assert!(mounted.data("file")[12_345..12_345 + 69_999] == bytes[1..70_000]);
        let seen = &mounted.fs.0.seen;
        assert_eq!(seen.misaligned.load(SeqCst), 0);
        assert!(seen.largest_write.load(SeqCst) >= 128 << 10, "writes are not cut into pages");
        let flags = OFlags::from_bits_retain(seen.write_flags.load(SeqCst).cast_unsigned());
        assert!(
            flags.contains(OFlags::SYNC | OFlags::RDWR),
            "the write tells how the file is open: {flags:?}"
        );
    }
}

#[test]
fn the_number_that_programs_see_is_not_the_kernels() {
    for mounted in Mounted::both() {
        let node = mounted.file("file", b"x");
        assert_eq!(fs::metadata(mounted.path("file")).unwrap().ino(), node.0 + APART);
        let listed = fs::read_dir(mounted.directory.path()).unwrap().next().unwrap().unwrap();
        assert_eq!(std::os::unix::fs::DirEntryExt::ino(&listed), node.0 + APART);
    }
}

#[test]
fn a_file_without_a_name_gets_one() {
    for mounted in Mounted::both() {
        let root = mounted.directory.path();
        let fd = rustix::fs::open(root, OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600))
            .unwrap();
        let mut file = File::from(fd);
        file.write_all(b"no name").unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
        let at = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, at, CWD, mounted.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
        assert_eq!(fs::read(mounted.path("named")).unwrap(), b"no name");
    }
}

#[test]
fn statx_tells_the_birth_and_times_before_1970_survive() {
    for mounted in Mounted::both() {
        let node = mounted.file("file", b"x");
        let path = mounted.path("file");
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = rustix::fs::statx(CWD, &path, AtFlags::STATX_FORCE_SYNC, wanted).unwrap();
        assert!(stat.stx_mask & StatxFlags::BTIME.bits() != 0);
        assert_eq!(
            (stat.stx_btime.tv_sec as u64, stat.stx_btime.tv_nsec),
            (BORN.as_secs(), BORN.subsec_nanos())
        );
        let old = UNIX_EPOCH - Duration::new(1, 250_000_000);
        open(&path, OFlags::empty()).set_times(FileTimes::new().set_modified(old)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), old);
        assert_eq!(mounted.fs.inodes()[&node.0].attr.mtime, old);
    }
}

#[test]
fn extended_attributes_come_and_go() {
    for mounted in Mounted::both() {
        mounted.file("file", b"x");
        let path = mounted.path("file");
        let value = dio_test::Seed::fixed(2).rng().bytes(60_000);
        rustix::fs::setxattr(&path, "user.long", &value, XattrFlags::empty()).unwrap();
        rustix::fs::setxattr(&path, "user.none", b"", XattrFlags::CREATE).unwrap();
        let mut buffer = vec![0; 64 << 10];
        let length = rustix::fs::getxattr(&path, "user.long", &mut buffer[..]).unwrap();
        assert!(buffer[..length] == value);
        assert_eq!(rustix::fs::getxattr(&path, "user.none", &mut buffer[..]).unwrap(), 0);
        assert_eq!(
            rustix::fs::getxattr(&path, "user.long", &mut buffer[..9]),
            Err(rustix::io::Errno::RANGE)
        );
        let length = rustix::fs::listxattr(&path, &mut buffer[..]).unwrap();
        assert_eq!(&buffer[..length], b"user.long\0user.none\0");
        rustix::fs::removexattr(&path, "user.long").unwrap();
        assert_eq!(
            rustix::fs::getxattr(&path, "user.long", &mut buffer[..]),
            Err(rustix::io::Errno::NODATA)
        );
    }
}

#[test]
fn a_directory_is_read_with_what_is_in_it() {
    for mounted in Mounted::both() {
        fs::create_dir(mounted.path("directory")).unwrap();
        let names: Vec<String> =
            (0..1000).map(|n| format!("directory/a file with the number {n:04}")).collect();
        for name in &names {
            File::create(mounted.path(name)).unwrap();
        }
        // Creating files filled the kernel's cache. After this, only reading the directory fills
        // it.
        let node = INodeNo(mounted.fs.node("directory"));
        for name in &names {
            mounted
                .notifier
                .inval_entry(node, OsStr::new(name.strip_prefix("directory/").unwrap()))
                .unwrap();
        }
        let mut listed: Vec<_> =
            fs::read_dir(mounted.path("directory")).unwrap().map(|e| e.unwrap().path()).collect();
        listed.sort();
        assert_eq!(listed, names.iter().map(|name| mounted.path(name)).collect::<Vec<_>>());
        let before = mounted.fs.0.seen.lookups.load(SeqCst);
        assert!(listed.iter().all(|path| fs::metadata(path).unwrap().is_file()));
        assert_eq!(mounted.fs.0.seen.lookups.load(SeqCst), before, "they were known");
    }
}

#[test]
fn a_handler_that_panics_answers_eio_and_serving_goes_on() {
    for mounted in Mounted::both() {
        for _ in 0..5 {
            assert_eq!(fs::metadata(mounted.path("panic")).unwrap_err().raw_os_error(), Some(5));
        }
        mounted.file("file", b"alive");
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"alive");
        let errors = mounted.serving.as_ref().expect("it is served").errors();
        drop(mounted);
        assert_eq!(errors.panics(), 5);
    }
}

#[test]
fn notifications_make_the_kernel_forget() {
    for mounted in Mounted::both() {
        let path = mounted.path("file");
        let node = mounted.file("file", b"x");
        let length = || fs::metadata(&path).map(|file| file.len()).ok();
        let _ = length();
        mounted.fs.inodes().get_mut(&node.0).unwrap().data = b"longer".to_vec();
        assert_eq!(length(), Some(1), "the kernel believes what it was told");
        mounted.notifier.inval_inode(node, 0, 0).unwrap();
        assert_eq!(length(), Some(6));
        let other = mounted.file("other", b"another");
        mounted.fs.inodes().get_mut(&1).unwrap().names.insert("file".into(), other.0);
        assert_eq!(length(), Some(6));
        mounted.notifier.inval_entry(INodeNo::ROOT, OsStr::new("file")).unwrap();
        assert_eq!(length(), Some(7));
        mounted.fs.inodes().get_mut(&1).unwrap().names.remove(OsStr::new("file"));
        assert_eq!(length(), Some(7));
        mounted.notifier.delete(INodeNo::ROOT, other, OsStr::new("file")).unwrap();
        assert_eq!(length(), None);
        mounted
            .notifier
            .inval_inode(INodeNo(987_654), 0, 0)
            .expect("what the kernel does not know is no error");
    }
}

#[test]
fn the_kernel_reads_a_backing_file_by_itself() {
    let mut backing = tempfile::tempfile_in(&dio_test::file_systems()[0].path).unwrap();
    backing.write_all(b"straight from the source").unwrap();
    for mounted in Mounted::backed_by(Some(backing.try_clone().unwrap())) {
        backing.write_all_at(b"straight from the source", 0).unwrap();
        mounted.file("backed", b"");
        let file = OpenOptions::new().read(true).write(true).open(mounted.path("backed"));
        if file.as_ref().is_err_and(|error| matches!(error.raw_os_error(), Some(1 | 25 | 40))) {
            skip!("the kernel takes no backing files here: {file:?}");
            return;
        }
        let mut file = file.unwrap();
        // The file system determines the size. This one says 0, but the kernel uses the backing
        // file.
        let mut text = vec![0; 24];
        file.read_exact(&mut text).unwrap();
        assert_eq!(text, b"straight from the source");
        file.write_all_at(b"STRAIGHT", 0).unwrap();
        let mut text = [0; 8];
        backing.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"STRAIGHT");
        let seen = &mounted.fs.0.seen;
        assert_eq!(
            (seen.reads.load(SeqCst), seen.largest_write.load(SeqCst)),
            (0, 0),
            "nobody asked the server"
        );
    }
}

#[test]
fn who_waits_is_told_of_the_signal() {
    for mounted in Mounted::both() {
        mounted.file("wait", b"x");
        let mut reader = Command::new("cat").arg(mounted.path("wait")).spawn().unwrap();
        let (seen, since) = (&mounted.fs.0.seen, Instant::now());
        while !seen.waiting.load(SeqCst) {
            assert!(since.elapsed() < Duration::from_secs(10), "nobody reads");
            std::thread::yield_now();
        }
        reader.kill().unwrap();
        assert!(!reader.wait().unwrap().success());
        // The reader may be gone before the handler continues.
        while !seen.interrupted.load(SeqCst) {
            assert!(since.elapsed() < Duration::from_secs(12), "the handler did not hear of it");
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_group_that_decides_comes_with_what_is_created() {
    for mounted in Mounted::both() {
        let directory = mounted.path("directory");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        std::os::unix::fs::chown(&directory, Some(0), Some(54_321)).unwrap();
        let path = directory.join("new");
        let made = Command::new("setpriv")
            .args([
                "--reuid",
                "12345",
                "--regid",
                "12345",
                "--groups",
                "50000,54321",
                "--",
                "mkdir",
            ])
            .arg(&path)
            .status();
        let Ok(made) = made else {
            skip!("setpriv is not installed");
            return;
        };
        assert!(made.success());
        let groups = mounted.fs.0.seen.groups.lock().clone();
        assert_eq!(groups, [54_321]);
        assert_eq!(fs::metadata(&path).unwrap().uid(), 12_345);
    }
}

#[test]
fn a_copy_stays_in_the_server() {
    for mounted in Mounted::both() {
        mounted.file("from", b"these bytes");
        mounted.file("to", b"");
        let (from, to) = (
            open(&mounted.path("from"), OFlags::empty()),
            open(&mounted.path("to"), OFlags::empty()),
        );
        let copied =
            rustix::fs::copy_file_range(from.as_fd(), None, to.as_fd(), None, 1 << 20).unwrap();
        assert_eq!(copied, 11);
        assert_eq!(mounted.data("to"), b"these bytes");
    }
}
