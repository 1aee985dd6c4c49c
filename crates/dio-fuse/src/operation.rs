//! Decodes the body of a request to an operation.

use std::ffi::OsStr;
use std::path::Path;

use crate::abi::{self, fattr, opcode};
use crate::flags::{
    AccessFlags, CopyFileRangeFlags, RenameFlags, SetxattrFlags, StatxMask, WriteFlags,
};
use crate::request::{Body, TooShort};
use crate::types::{
    Changes, FileHandle, INodeNo, Ioctl, LockOwner, OpenFlags, TimeOrNow, system_time,
};

/// The owner of a request, or `None` if a flag of the request says that there is none.
fn owner(valid: bool, owner: u64) -> Option<LockOwner> {
    valid.then_some(LockOwner(owner))
}

/// A read of a file or of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) fh: FileHandle,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) flags: OpenFlags,
    pub(crate) lock_owner: Option<LockOwner>,
}

/// The closing of a file or of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) fh: FileHandle,
    pub(crate) flags: OpenFlags,
    pub(crate) lock_owner: Option<LockOwner>,
    pub(crate) flush: bool,
}

/// The creation of a file, with a name or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Create<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) mode: u32,
    pub(crate) umask: u32,
    pub(crate) flags: OpenFlags,
    pub(crate) kill_suidgid: bool,
}

/// A copy between files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyRange {
    pub(crate) from: FileHandle,
    pub(crate) from_offset: u64,
    pub(crate) to_inode: INodeNo,
    pub(crate) to: FileHandle,
    pub(crate) to_offset: u64,
    pub(crate) length: u64,
    pub(crate) flags: CopyFileRangeFlags,
    /// The reply has 64 bits.
    pub(crate) wide: bool,
}

/// The operation that a request asks for. Its inode is in the header.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a OsStr,
    },
    Forget {
        count: u64,
    },
    BatchForget {
        nodes: Nodes<'a>,
    },
    Getattr {
        fh: Option<FileHandle>,
    },
    Statx {
        fh: Option<FileHandle>,
        flags: u32,
        mask: StatxMask,
    },
    Setattr(Changes),
    Readlink,
    Symlink {
        name: &'a OsStr,
        target: &'a Path,
    },
    Mknod {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a OsStr,
    },
    Rmdir {
        name: &'a OsStr,
    },
    Rename {
        name: &'a OsStr,
        new_parent: INodeNo,
        new_name: &'a OsStr,
        flags: RenameFlags,
    },
    Link {
        inode: INodeNo,
        new_name: &'a OsStr,
    },
    Open {
        flags: OpenFlags,
        kill_suidgid: bool,
    },
    Read(Read),
    Write {
        fh: FileHandle,
        offset: u64,
        data: &'a [u8],
        how: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
    },
    Statfs,
    Release(Release),
    Fsync {
        fh: FileHandle,
        data_only: bool,
    },
    Setxattr {
        name: &'a OsStr,
        value: &'a [u8],
        flags: i32,
        extra: SetxattrFlags,
    },
    Getxattr {
        name: &'a OsStr,
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a OsStr,
    },
    Flush {
        fh: FileHandle,
        lock_owner: LockOwner,
    },
    Opendir {
        flags: OpenFlags,
    },
    Readdir(Read),
    Readdirplus(Read),
    Releasedir(Release),
    Fsyncdir {
        fh: FileHandle,
        data_only: bool,
    },
    Access {
        mask: AccessFlags,
    },
    Create(Create<'a>),
    Tmpfile(Create<'a>),
    Interrupt {
        unique: u64,
    },
    Destroy,
    NotifyReply,
    Fallocate {
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
    },
    Lseek {
        fh: FileHandle,
        offset: i64,
        whence: i32,
    },
    Ioctl(Ioctl<'a>),
    CopyFileRange(CopyRange),
    Syncfs,
    Unknown,
}

impl<'a> Operation<'a> {
    /// Whether the request may be refused. That is so if a program waits for the reply, and the
    /// request does not give up what the program has already.
    pub(crate) fn may_be_refused(&self) -> bool {
        !matches!(
            self,
            Operation::Forget { .. }
                | Operation::BatchForget { .. }
                | Operation::Interrupt { .. }
                | Operation::NotifyReply
                | Operation::Release(_)
                | Operation::Releasedir(_)
                | Operation::Destroy
        )
    }

    /// Decodes a body. `setxattr_ext`: whether `FUSE_SETXATTR_EXT` was negotiated.
    pub(crate) fn parse(
        code: u32,
        mut body: Body<'a>,
        setxattr_ext: bool,
    ) -> Result<Operation<'a>, TooShort> {
        let body = &mut body;
        Ok(match code {
            opcode::LOOKUP => Operation::Lookup { name: body.name()? },
            opcode::FORGET => Operation::Forget { count: body.take::<abi::ForgetIn>()?.nlookup },
            opcode::BATCH_FORGET => Operation::BatchForget { nodes: Nodes::parse(body)? },
            opcode::GETATTR => getattr(body)?,
            opcode::STATX => statx(body)?,
            opcode::SETATTR => Operation::Setattr(changes(&body.take()?)?),
            opcode::READLINK => Operation::Readlink,
            opcode::SYMLINK => {
                Operation::Symlink { name: body.name()?, target: Path::new(body.name()?) }
            }
            opcode::MKNOD => mknod(body)?,
            opcode::MKDIR => mkdir(body)?,
            opcode::UNLINK => Operation::Unlink { name: body.name()? },
            opcode::RMDIR => Operation::Rmdir { name: body.name()? },
            opcode::RENAME | opcode::RENAME2 => rename(code, body)?,
            opcode::LINK => link(body)?,
            opcode::OPEN | opcode::OPENDIR => open(code, body)?,
            opcode::READ => Operation::Read(read(body)?),
            opcode::READDIR => Operation::Readdir(read(body)?),
            opcode::READDIRPLUS => Operation::Readdirplus(read(body)?),
            opcode::WRITE => write(body)?,
            opcode::STATFS => Operation::Statfs,
            opcode::RELEASE => Operation::Release(release(body)?),
            opcode::RELEASEDIR => Operation::Releasedir(release(body)?),
            opcode::FSYNC | opcode::FSYNCDIR => fsync(code, body)?,
            opcode::SETXATTR => setxattr(body, setxattr_ext)?,
            opcode::GETXATTR => getxattr(body)?,
            opcode::LISTXATTR => {
                Operation::Listxattr { size: body.take::<abi::GetxattrIn>()?.size }
            }
            opcode::REMOVEXATTR => Operation::Removexattr { name: body.name()? },
            opcode::FLUSH => flush(body)?,
            opcode::ACCESS => access(body)?,
            opcode::CREATE => Operation::Create(create(body)?),
            opcode::TMPFILE => Operation::Tmpfile(create(body)?),
            opcode::INTERRUPT => {
                Operation::Interrupt { unique: body.take::<abi::InterruptIn>()?.unique }
            }
            opcode::DESTROY => Operation::Destroy,
            opcode::NOTIFY_REPLY => Operation::NotifyReply,
            opcode::FALLOCATE => fallocate(body)?,
            opcode::LSEEK => lseek(body)?,
            opcode::IOCTL => Operation::Ioctl(ioctl(body)?),
            opcode::COPY_FILE_RANGE => Operation::CopyFileRange(copy_range(body, false)?),
            opcode::COPY_FILE_RANGE_64 => Operation::CopyFileRange(copy_range(body, true)?),
            opcode::SYNCFS => syncfs(body)?,
            _ => Operation::Unknown,
        })
    }
}

/// Inodes to forget, and how many lookups of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes<'a> {
    count: u32,
    body: Body<'a>,
}

impl<'a> Nodes<'a> {
    fn parse(body: &mut Body<'a>) -> Result<Nodes<'a>, TooShort> {
        let count = body.take::<abi::BatchForgetIn>()?.count;
        // If some are missing, the others are forgotten all the same: no reply could say so.
        Ok(Nodes { count, body: *body })
    }
}

impl Iterator for Nodes<'_> {
    type Item = (INodeNo, u64);

    fn next(&mut self) -> Option<(INodeNo, u64)> {
        self.count = self.count.checked_sub(1)?;
        let one: abi::ForgetOne = self.body.take().ok()?;
        Some((INodeNo(one.nodeid), one.nlookup))
    }
}

fn getattr<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::GetattrIn = body.take()?;
    Ok(Operation::Getattr { fh: handle(head.getattr_flags, head.fh) })
}

fn handle(getattr_flags: u32, fh: u64) -> Option<FileHandle> {
    (getattr_flags & abi::GETATTR_FH != 0).then_some(FileHandle(fh))
}

fn statx<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::StatxIn = body.take()?;
    let mask = StatxMask::from_bits_retain(head.sx_mask);
    Ok(Operation::Statx { fh: handle(head.getattr_flags, head.fh), flags: head.sx_flags, mask })
}

/// Decodes changes of attributes. An invalid time makes the request malformed.
fn changes(head: &abi::SetattrIn) -> Result<Changes, TooShort> {
    let has = |bit| head.valid & bit != 0;
    let time = |bit, seconds, nanoseconds| {
        has(bit).then(|| system_time(seconds, nanoseconds).ok_or(TooShort)).transpose()
    };
    let or_now = |now, time: Option<_>| {
        if has(now) { Some(TimeOrNow::Now) } else { time.map(TimeOrNow::SpecificTime) }
    };
    Ok(Changes {
        mode: has(fattr::MODE).then_some(head.mode),
        uid: has(fattr::UID).then_some(head.uid),
        gid: has(fattr::GID).then_some(head.gid),
        size: has(fattr::SIZE).then_some(head.size),
        atime: or_now(fattr::ATIME_NOW, time(fattr::ATIME, head.atime, head.atimensec)?),
        mtime: or_now(fattr::MTIME_NOW, time(fattr::MTIME, head.mtime, head.mtimensec)?),
        ctime: time(fattr::CTIME, head.ctime, head.ctimensec)?,
        fh: has(fattr::FH).then_some(FileHandle(head.fh)),
        lock_owner: owner(has(fattr::LOCKOWNER), head.lock_owner),
        kill_suidgid: has(fattr::KILL_SUIDGID),
    })
}

fn mknod<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::MknodIn = body.take()?;
    Ok(Operation::Mknod { name: body.name()?, mode: head.mode, umask: head.umask, rdev: head.rdev })
}

fn mkdir<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::MkdirIn = body.take()?;
    Ok(Operation::Mkdir { name: body.name()?, mode: head.mode, umask: head.umask })
}

fn rename<'a>(code: u32, body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let (new_parent, flags) = if code == opcode::RENAME2 {
        let head: abi::Rename2In = body.take()?;
        (head.newdir, head.flags)
    } else {
        (body.take::<abi::RenameIn>()?.newdir, 0)
    };
    let (name, new_name) = (body.name()?, body.name()?);
    let flags = RenameFlags::from_bits_retain(flags);
    Ok(Operation::Rename { name, new_parent: INodeNo(new_parent), new_name, flags })
}

fn link<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::LinkIn = body.take()?;
    Ok(Operation::Link { inode: INodeNo(head.oldnodeid), new_name: body.name()? })
}

fn open<'a>(code: u32, body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::OpenIn = body.take()?;
    let flags = OpenFlags(head.flags);
    Ok(match code {
        opcode::OPENDIR => Operation::Opendir { flags },
        _ => Operation::Open { flags, kill_suidgid: head.open_flags & abi::OPEN_KILL_SUIDGID != 0 },
    })
}

fn read(body: &mut Body<'_>) -> Result<Read, TooShort> {
    let head: abi::ReadIn = body.take()?;
    Ok(Read {
        fh: FileHandle(head.fh),
        offset: head.offset,
        size: head.size,
        flags: OpenFlags(head.flags),
        lock_owner: owner(head.read_flags & abi::READ_LOCKOWNER != 0, head.lock_owner),
    })
}

fn write<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::WriteIn = body.take()?;
    let how = WriteFlags::from_bits_retain(head.write_flags);
    Ok(Operation::Write {
        fh: FileHandle(head.fh),
        offset: head.offset,
        data: body.bytes(head.size)?,
        how,
        flags: OpenFlags(head.flags),
        owner: owner(how.contains(WriteFlags::FUSE_WRITE_LOCKOWNER), head.lock_owner),
    })
}

fn release(body: &mut Body<'_>) -> Result<Release, TooShort> {
    let head: abi::ReleaseIn = body.take()?;
    Ok(Release {
        fh: FileHandle(head.fh),
        flags: OpenFlags(head.flags),
        lock_owner: owner(head.release_flags & abi::RELEASE_FLOCK_UNLOCK != 0, head.lock_owner),
        flush: head.release_flags & abi::RELEASE_FLUSH != 0,
    })
}

fn fsync<'a>(code: u32, body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::FsyncIn = body.take()?;
    let (fh, data_only) = (FileHandle(head.fh), head.fsync_flags & abi::FSYNC_FDATASYNC != 0);
    Ok(match code {
        opcode::FSYNCDIR => Operation::Fsyncdir { fh, data_only },
        _ => Operation::Fsync { fh, data_only },
    })
}

fn setxattr<'a>(body: &mut Body<'a>, extended: bool) -> Result<Operation<'a>, TooShort> {
    let head: abi::SetxattrIn = body.take()?;
    let extra = if extended { body.take::<abi::SetxattrInMore>()?.setxattr_flags } else { 0 };
    let extra = SetxattrFlags::from_bits_retain(extra);
    Ok(Operation::Setxattr {
        name: body.name()?,
        value: body.bytes(head.size)?,
        flags: head.flags,
        extra,
    })
}

fn getxattr<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::GetxattrIn = body.take()?;
    Ok(Operation::Getxattr { name: body.name()?, size: head.size })
}

fn flush<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::FlushIn = body.take()?;
    Ok(Operation::Flush { fh: FileHandle(head.fh), lock_owner: LockOwner(head.lock_owner) })
}

fn access<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::AccessIn = body.take()?;
    Ok(Operation::Access { mask: AccessFlags::from_bits_retain(head.mask) })
}

fn create<'a>(body: &mut Body<'a>) -> Result<Create<'a>, TooShort> {
    let head: abi::CreateIn = body.take()?;
    Ok(Create {
        name: body.name()?,
        mode: head.mode,
        umask: head.umask,
        flags: OpenFlags(head.flags),
        kill_suidgid: head.open_flags & abi::OPEN_KILL_SUIDGID != 0,
    })
}

fn fallocate<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::FallocateIn = body.take()?;
    Ok(Operation::Fallocate {
        fh: FileHandle(head.fh),
        offset: head.offset,
        length: head.length,
        mode: head.mode,
    })
}

fn lseek<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    let head: abi::LseekIn = body.take()?;
    Ok(Operation::Lseek { fh: FileHandle(head.fh), offset: head.offset, whence: head.whence })
}

fn ioctl<'a>(body: &mut Body<'a>) -> Result<Ioctl<'a>, TooShort> {
    let head: abi::IoctlIn = body.take()?;
    Ok(Ioctl {
        fh: FileHandle(head.fh),
        command: head.cmd,
        address: head.arg,
        data: body.bytes(head.in_size)?,
        answer_bytes: head.out_size as usize,
    })
}

fn copy_range(body: &mut Body<'_>, wide: bool) -> Result<CopyRange, TooShort> {
    let head: abi::CopyFileRangeIn = body.take()?;
    Ok(CopyRange {
        from: FileHandle(head.fh_in),
        from_offset: head.off_in,
        to_inode: INodeNo(head.nodeid_out),
        to: FileHandle(head.fh_out),
        to_offset: head.off_out,
        length: head.len,
        flags: CopyFileRangeFlags::from_bits_retain(head.flags),
        wide,
    })
}

fn syncfs<'a>(body: &mut Body<'a>) -> Result<Operation<'a>, TooShort> {
    body.take::<abi::SyncfsIn>()?;
    Ok(Operation::Syncfs)
}
