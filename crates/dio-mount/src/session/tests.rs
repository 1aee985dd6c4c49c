//! Real mounts, with a file system of one file. Tests that need root or the device are skipped with
//! a message if these are missing.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, UNIX_EPOCH};

use dio::lock::LockPolicy;
use dio_fuse::{
    Entry, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use dio_test::skip;
use tempfile::TempDir;

use super::*;
use crate::options::{IdlePolling, Mode, Rings, Rules, Settings};

/// Default options of a mount.
pub(super) fn options() -> MountOptions {
    let rules = Rules { rules: Vec::new(), default: Mode::Direct };
    let settings = Settings {
        rules,
        read_ahead: (0, 0),
        write_behind: 0,
        direct_from: 0,
        limit: 1 << 20,
        gather: false,
        native: false,
        throttle: Default::default(),
    };
    MountOptions {
        settings,
        lock: LockPolicy::Range,
        read_only: false,
        allow_other: false,
        default_permissions: false,
        threads: 2,
        rings: Rings::default(),
        idle_polling: IdlePolling::Never,
        remember: Duration::ZERO,
        flags: Vec::new(),
        suid_and_dev: false,
        source_name: "/some,where".to_owned(),
    }
}

const TEXT: &[u8] = b"served\n";

/// A file system with one file, `file`, in the root; it sends a message to `ends` when it ends.
struct OneFile {
    ends: mpsc::Sender<()>,
    refuses: bool,
}

fn attributes(inode: INodeNo) -> FileAttr {
    let root = inode == INodeNo::ROOT;
    FileAttr {
        ino: inode,
        size: TEXT.len() as u64,
        blocks: 1,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if root { FileType::Directory } else { FileType::RegularFile },
        perm: if root { 0o755 } else { 0o644 },
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}

fn entry(inode: INodeNo) -> Entry {
    let (entry_ttl, attr_ttl) = (Duration::ZERO, Duration::ZERO);
    Entry { inode, generation: Generation(0), entry_ttl, attr: attributes(inode), attr_ttl }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, _: &mut KernelConfig) -> io::Result<()> {
        if self.refuses { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn destroy(&mut self) {
        let _ = self.ends.send(());
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("file") => reply.entry(&entry(INodeNo(2))),
            _ => reply.error(Errno::NOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, _: bool, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let from = TEXT.len().min(offset as usize);
        reply.data(&TEXT[from..TEXT.len().min(from + size as usize)]);
    }
}

/// Makes a source and a mount point; `None`, with a message, where this process cannot mount.
fn directories() -> Option<(TempDir, TempDir)> {
    if !rustix::process::geteuid().is_root() || !kernel::can_clone() {
        skip!("mounting needs root and /dev/fuse");
        return None;
    }
    let dir = || dio_test::file_systems()[0].dir();
    Some((dir(), dir()))
}

fn start(target: &MountTarget) -> (MountSession, mpsc::Receiver<()>) {
    let (ends, ended) = mpsc::channel();
    (
        MountSession::start(target, &options(), OneFile { ends, refuses: false }, drop).unwrap(),
        ended,
    )
}

#[test]
fn a_mount_is_served_until_it_is_unmounted() {
    let Some((source, at)) = directories() else { return };
    let target = MountTarget::open(source.path(), at.path()).unwrap();
    let (session, ended) = start(&target);
    assert_eq!(fs::read(at.path().join("file")).unwrap(), TEXT);
    let entry = find(at.path()).unwrap();
    assert_eq!((entry.kind.as_str(), entry.source.to_str()), (table::KIND, Some("/some,where")));
    assert_eq!(entry.device, session.device());
    assert!(ended.try_recv().is_err(), "it ended too early");
    unmount(at.path(), Unmount::Idle).unwrap();
    session.wait().unwrap();
    ended.try_recv().expect("the file system was told of its end");
    assert!(matches!(find(at.path()), Err(MountError::NotMounted { .. })));
    assert!(!at.path().join("file").exists());
}

/// An unmount between the mount and the first request to it is no error; a mount over it is an
/// error.
#[test]
fn unmounted_at_once_it_has_stood_all_the_same() {
    let Some((source, at)) = directories() else { return };
    let target = MountTarget::open(source.path(), at.path()).unwrap();
    let (session, _ended) = start(&target);
    let device = session.device();
    answers(at.path(), device).unwrap();
    rustix::mount::mount("none", at.path(), "tmpfs", rustix::mount::MountFlags::empty(), None)
        .unwrap();
    let covered = answers(at.path(), device);
    assert!(matches!(covered, Err(MountError::Answer { errno: Errno::BUSY, .. })), "{covered:?}");
    rustix::mount::unmount(at.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    session.unmounter().unmount(Unmount::Idle).unwrap();
    answers(at.path(), device).unwrap();
    session.wait().unwrap();
}

#[test]
fn a_busy_mount_stays_until_it_is_detached() {
    let Some((source, at)) = directories() else { return };
    let target = MountTarget::open(source.path(), at.path()).unwrap();
    let (session, ended) = start(&target);
    let unmounter = session.unmounter();
    let mut file = File::open(at.path().join("file")).unwrap();
    assert!(matches!(unmounter.unmount(Unmount::Idle), Err(MountError::Busy { .. })));
    assert_eq!(fs::read(at.path().join("file")).unwrap(), TEXT);
    unmounter.unmount(Unmount::Lazy).unwrap();
    unmounter.unmount(Unmount::Idle).expect("what is gone is no error");
    let mut text = Vec::new();
    file.read_to_end(&mut text).unwrap();
    assert_eq!(text, TEXT);
    assert!(ended.try_recv().is_err(), "somebody still has a file open");
    drop(file);
    session.wait().unwrap();
    ended.try_recv().expect("the file system was told of its end");
}

#[test]
fn over_itself_the_source_stays_reachable() {
    let Some((source, _)) = directories() else { return };
    fs::write(source.path().join("below"), "the source's own").unwrap();
    let target = MountTarget::open(source.path(), source.path()).unwrap();
    let (session, _ended) = start(&target);
    assert!(source.path().join("file").exists() && !source.path().join("below").exists());
    let found = rustix::fs::openat(
        &target.source,
        "below",
        rustix::fs::OFlags::RDONLY,
        rustix::fs::Mode::empty(),
    );
    assert_eq!(io::read_to_string(File::from(found.unwrap())).unwrap(), "the source's own");
    session.unmounter().unmount(Unmount::Idle).unwrap();
    session.wait().unwrap();
    assert!(source.path().join("below").exists());
}

#[test]
fn what_lies_over_the_mount_is_not_unmounted() {
    let Some((source, at)) = directories() else { return };
    let target = MountTarget::open(source.path(), at.path()).unwrap();
    let (session, _ended) = start(&target);
    rustix::mount::mount("none", at.path(), "tmpfs", rustix::mount::MountFlags::empty(), None)
        .unwrap();
    for result in [session.unmounter().unmount(Unmount::Lazy), unmount(at.path(), Unmount::Lazy)] {
        assert!(
            matches!(&result, Err(MountError::NotOurs { kind, .. }) if kind == "tmpfs"),
            "{result:?}"
        );
    }
    rustix::mount::unmount(at.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    session.unmounter().unmount(Unmount::Idle).unwrap();
    session.wait().unwrap();
}

#[test]
fn a_file_system_that_refuses_leaves_nothing_mounted() {
    let Some((source, at)) = directories() else { return };
    let target = MountTarget::open(source.path(), at.path()).unwrap();
    let (ends, _ended) = mpsc::channel();
    let result = MountSession::start(&target, &options(), OneFile { ends, refuses: true }, drop);
    assert!(matches!(result, Err(MountError::Handshake { .. })), "{result:?}");
    assert!(matches!(find(at.path()), Err(MountError::NotMounted { .. })));
}

#[test]
fn unsuitable_places_are_refused() {
    let dir = dio_test::file_systems()[0].dir();
    let (source, below, file) =
        (dir.path().join("source"), dir.path().join("source/a/b"), dir.path().join("file"));
    fs::create_dir_all(&below).unwrap();
    fs::write(&file, "").unwrap();
    let open = |source: &Path, at: &Path| MountTarget::open(source, at).map(drop);
    assert!(matches!(open(&source, &below), Err(MountError::Below { .. })));
    assert!(matches!(open(Path::new("/"), &below), Err(MountError::Below { .. })));
    open(&below, &source).expect("the source may lie below the mount point");
    open(&source, &source).expect("a directory may be mounted over itself");
    assert!(matches!(open(&file, &source), Err(MountError::Source { errno: Errno::NOTDIR, .. })));
    assert!(matches!(
        open(&source, &file),
        Err(MountError::MountPoint { errno: Errno::NOTDIR, .. })
    ));
    let none = dir.path().join("none");
    assert!(matches!(open(&none, &source), Err(MountError::Source { errno: Errno::NOENT, .. })));
    assert!(matches!(
        open(&source, &none),
        Err(MountError::MountPoint { errno: Errno::NOENT, .. })
    ));
    for path in [&source, &none] {
        assert!(
            matches!(unmount(path, Unmount::Idle), Err(MountError::NotMounted { .. })),
            "{}",
            path.display()
        );
    }
    assert!(matches!(unmount(Path::new("/proc"), Unmount::Idle), Err(MountError::NotOurs { .. })));
}
