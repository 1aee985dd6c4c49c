//! A small file system in memory that records its requests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dio_fuse::*;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// The `st_ino` that programs see is larger by this than the number by which the kernel names the
/// inode.
pub(crate) const APART: u64 = 0x5000_0000;
/// How long the kernel may cache names and attributes.
pub(crate) const LONG: Duration = Duration::from_secs(3600);
/// The time of creation of all inodes.
pub(crate) const BORN: Duration = Duration::new(123_456_789, 987_654_321);

#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) attr: FileAttr,
    pub(crate) data: Vec<u8>,
    pub(crate) names: BTreeMap<OsString, u64>,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// Records of the requests.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) lookups: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) misaligned: AtomicU64,
    pub(crate) largest_write: AtomicU64,
    pub(crate) write_flags: AtomicI32,
    pub(crate) groups: Mutex<Vec<u32>>,
    pub(crate) waiting: AtomicBool,
    pub(crate) interrupted: AtomicBool,
    pub(crate) wide_copies: AtomicU64,
    pub(crate) destroyed: AtomicBool,
    /// Requests come through io_uring.
    pub(crate) by_rings: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Memory {
    inodes: Mutex<BTreeMap<u64, Inode>>,
    pub(crate) seen: Seen,
    /// The backing file of files with the name `backed`.
    backing: Option<File>,
    backed: Mutex<Vec<Arc<BackingId>>>,
    wake: Condvar,
    rings: bool,
}

/// A handle to the file system, which the kernel's session and the test share.
#[derive(Debug, Clone)]
pub(crate) struct Shared(pub(crate) Arc<Memory>);

fn new_inode(node: u64, kind: FileType, mode: u32, by: (u32, u32)) -> Inode {
    let now = SystemTime::now();
    let attr = FileAttr {
        ino: INodeNo(node + APART),
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: UNIX_EPOCH + BORN,
        kind,
        perm: (mode & 0o7777) as u16,
        nlink: 1,
        uid: by.0,
        gid: by.1,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    };
    Inode { attr, data: Vec::new(), names: BTreeMap::new(), xattrs: BTreeMap::new() }
}

impl Shared {
    /// Makes a file system with `backing` behind files named `backed`, which requests io_uring if
    /// `rings`.
    pub(crate) fn new(backing: Option<File>, rings: bool) -> Shared {
        let root = new_inode(1, FileType::Directory, 0o755, (0, 0));
        Shared(Arc::new(Memory {
            inodes: Mutex::new(BTreeMap::from([(1, root)])),
            seen: Seen::default(),
            backing,
            backed: Mutex::default(),
            wake: Condvar::new(),
            rings,
        }))
    }

    pub(crate) fn inodes(&self) -> MutexGuard<'_, BTreeMap<u64, Inode>> {
        self.0.inodes.lock()
    }

    /// The node of a name in the root.
    pub(crate) fn node(&self, name: &str) -> u64 {
        self.inodes()[&1].names[OsStr::new(name)]
    }

    fn entry(&self, node: u64) -> Entry {
        let attr = self.attr(node);
        Entry {
            inode: INodeNo(node),
            generation: Generation(1),
            entry_ttl: LONG,
            attr,
            attr_ttl: LONG,
        }
    }

    fn attr(&self, node: u64) -> FileAttr {
        let inodes = self.inodes();
        let inode = &inodes[&node];
        let size = inode.data.len() as u64;
        FileAttr { size, blocks: size.div_ceil(512), ..inode.attr }
    }

    fn make(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: Option<&OsStr>,
        kind: FileType,
        mode: u32,
    ) -> Entry {
        self.0.seen.groups.lock().extend(by.groups());
        let mut inodes = self.inodes();
        let node = inodes.keys().next_back().unwrap() + 1;
        let mut inode = new_inode(node, kind, mode, (by.uid(), by.gid()));
        match name {
            Some(name) => {
                inodes.get_mut(&parent.0).unwrap().names.insert(name.to_owned(), node);
            }
            None => inode.attr.nlink = 0,
        }
        inodes.insert(node, inode);
        drop(inodes);
        self.entry(node)
    }

    /// Waits for an interrupt, for ten seconds at most.
    fn wait(&self, request: &Request<'_>) {
        self.0.seen.waiting.store(true, Ordering::SeqCst);
        let mut inodes = self.inodes();
        let waits = |_: &mut _| !request.is_interrupted();
        let timeout = self.0.wake.wait_while_for(&mut inodes, waits, Duration::from_secs(10));
        self.0.seen.interrupted.store(!timeout.timed_out(), Ordering::SeqCst);
    }
}

impl Filesystem for Shared {
    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_CREATE_SUPP_GROUP,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        for flag in wanted {
            let _ = config.add_capabilities(flag);
        }
        if config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok() {
            config.set_max_stack_depth(1).expect("one is allowed");
        }
        config.set_max_write(1 << 20).expect("1 MiB is allowed");
        let by_rings =
            self.0.rings && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
        self.0.seen.by_rings.store(by_rings, Ordering::SeqCst);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.seen.destroyed.store(true, Ordering::SeqCst);
    }

    fn interrupt(&self, _: RequestId) {
        // A handler holds this lock from its check of the interrupt until it waits.
        drop(self.inodes());
        self.0.wake.notify_all();
    }

    fn lookup(&self, _: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.seen.lookups.fetch_add(1, Ordering::SeqCst);
        assert_ne!(name, "panic", "as asked for");
        let found = self.inodes()[&parent.0].names.get(name).copied();
        match found {
            Some(node) => reply.entry(&self.entry(node)),
            None => reply.error(Errno::NOENT),
        }
    }

    fn getattr(&self, _: &Request<'_>, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attr(inode.0));
    }

    fn statx(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        _: Option<FileHandle>,
        _: u32,
        mask: StatxMask,
        reply: ReplyStatx,
    ) {
        assert!(mask.contains(StatxMask::BTIME));
        let statx = Statx {
            attr: self.attr(inode.0),
            mask: StatxMask::BASIC_STATS | StatxMask::BTIME,
            attributes: StatxAttributes::empty(),
            attributes_mask: StatxAttributes::empty(),
        };
        reply.statx(&LONG, &statx);
    }

    fn setattr(&self, _: &Request<'_>, inode: INodeNo, changes: &Changes, reply: ReplyAttr) {
        let mut inodes = self.inodes();
        let found = inodes.get_mut(&inode.0).unwrap();
        let time = |time| match time {
            TimeOrNow::Now => SystemTime::now(),
            TimeOrNow::SpecificTime(time) => time,
        };
        let attr = &mut found.attr;
        attr.mtime = changes.mtime.map_or(attr.mtime, time);
        attr.atime = changes.atime.map_or(attr.atime, time);
        attr.perm = changes.mode.map_or(attr.perm, |mode| (mode & 0o7777) as u16);
        (attr.uid, attr.gid) = (changes.uid.unwrap_or(attr.uid), changes.gid.unwrap_or(attr.gid));
        if let Some(size) = changes.size {
            found.data.resize(size as usize, 0);
        }
        drop(inodes);
        reply.attr(&LONG, &self.attr(inode.0));
    }

    fn mkdir(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        reply.entry(&self.make(by, parent, Some(name), FileType::Directory, mode));
    }

    fn unlink(&self, _: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.inodes().get_mut(&parent.0).unwrap().names.remove(name);
        reply.ok();
    }

    fn link(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut inodes = self.inodes();
        inodes.get_mut(&new_parent.0).unwrap().names.insert(new_name.to_owned(), inode.0);
        inodes.get_mut(&inode.0).unwrap().attr.nlink += 1;
        drop(inodes);
        reply.entry(&self.entry(inode.0));
    }

    fn open(&self, _: &Request<'_>, inode: INodeNo, _: OpenFlags, _: bool, reply: ReplyOpen) {
        let is_backed = self.inodes()[&1].names.get(OsStr::new("backed")) == Some(&inode.0);
        let Some(file) = self.0.backing.as_ref().filter(|_| is_backed) else {
            return reply.opened(FileHandle(inode.0), FopenFlags::FOPEN_DIRECT_IO);
        };
        match reply.open_backing(file) {
            Ok(backing) => {
                let backing = Arc::new(backing);
                self.0.backed.lock().push(Arc::clone(&backing));
                reply.opened_passthrough(FileHandle(inode.0), FopenFlags::empty(), &backing);
            }
            Err(error) => reply.error(Errno::from_io_error(&error).unwrap()),
        }
    }

    fn create(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: OpenFlags,
        _: bool,
        reply: ReplyCreate,
    ) {
        let entry = self.make(by, parent, Some(name), FileType::RegularFile, mode);
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.created(&entry, FileHandle(entry.inode.0), flags);
    }

    fn tmpfile(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        mode: u32,
        _: u32,
        _: OpenFlags,
        reply: ReplyCreate,
    ) {
        let entry = self.make(by, parent, None, FileType::RegularFile, mode);
        reply.created(&entry, FileHandle(entry.inode.0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.0.seen.reads.fetch_add(1, Ordering::SeqCst);
        if self.inodes()[&1].names.get(OsStr::new("wait")) == Some(&inode.0) {
            self.wait(request);
            return reply.error(Errno::INTR);
        }
        let inodes = self.inodes();
        let data = &inodes[&fh.0].data;
        let from = data.len().min(offset as usize);
        reply.data(&data[from..data.len().min(from + size as usize)]);
    }

    fn write(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let misaligned = data.as_ptr().addr() % 4096 != 0;
        self.0.seen.misaligned.fetch_add(misaligned.into(), Ordering::SeqCst);
        self.0.seen.largest_write.fetch_max(data.len() as u64, Ordering::SeqCst);
        self.0.seen.write_flags.store(flags.0, Ordering::SeqCst);
        let mut inodes = self.inodes();
        let (file, from) = (&mut inodes.get_mut(&fh.0).unwrap().data, offset as usize);
        if file.len() < from + data.len() {
            file.resize(from + data.len(), 0);
        }
        file[from..from + data.len()].copy_from_slice(data);
        reply.written(data.len() as u32);
    }

    fn readdirplus(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let names = self.inodes()[&inode.0].names.clone();
        let own = [(".", inode), ("..", INodeNo::ROOT)];
        for (place, (name, number)) in own.into_iter().enumerate().skip(offset as usize) {
            if reply.add_name(
                INodeNo(number.0 + APART),
                place as u64 + 1,
                FileType::Directory,
                name,
            ) {
                return reply.ok();
            }
        }
        for (place, (name, node)) in
            names.iter().enumerate().skip((offset as usize).saturating_sub(2))
        {
            if reply.add(place as u64 + 3, name, &self.entry(*node)) {
                break;
            }
        }
        reply.ok();
    }

    fn setxattr(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        self.inodes().get_mut(&inode.0).unwrap().xattrs.insert(name.to_owned(), value.to_vec());
        reply.ok();
    }

    fn getxattr(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        match self.inodes()[&inode.0].xattrs.get(name) {
            None => reply.error(Errno::NODATA),
            Some(value) if size == 0 => reply.size(value.len() as u32),
            Some(value) if value.len() > size as usize => reply.error(Errno::RANGE),
            Some(value) => reply.data(value),
        }
    }

    fn listxattr(&self, _: &Request<'_>, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.inodes()[&inode.0]
            .xattrs
            .keys()
            .flat_map(|n| [n.as_bytes(), b"\0"].concat())
            .collect::<Vec<_>>();
        match size {
            0 => reply.size(names.len() as u32),
            _ => reply.data(&names),
        }
    }

    fn removexattr(&self, _: &Request<'_>, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.inodes().get_mut(&inode.0).unwrap().xattrs.remove(name);
        reply.ok();
    }

    fn copy_file_range(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyCopy,
    ) {
        assert_eq!((from_offset, to_offset), (0, 0));
        self.0
            .seen
            .wide_copies
            .fetch_add((reply.bytes_max() > u64::from(u32::MAX)).into(), Ordering::SeqCst);
        let mut inodes = self.inodes();
        let data = inodes[&from.0].data.clone();
        let copied = length.min(data.len() as u64).min(reply.bytes_max());
        inodes.get_mut(&to.0).unwrap().data = data[..copied as usize].to_vec();
        reply.copied(copied);
    }
}
