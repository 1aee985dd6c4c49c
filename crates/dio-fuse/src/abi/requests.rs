//! The structures that follow the header in requests.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::layout::layout;

/// One structure of a request.
macro_rules! request {
    ($(#[$doc:meta])* $name:ident = $size:literal { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }
        layout!($name, $size);
    };
}

request! {
    /// `struct fuse_init_in` up to 7.35. Later versions continue with [`InitInMore`].
    InitIn = 16 { major: u32, minor: u32, max_readahead: u32, flags: u32, }
}
request! {
    /// The fields of `struct fuse_init_in` behind [`InitIn`], since 7.36.
    InitInMore = 48 { flags2: u32, unused: [u32; 11], }
}
request! { ForgetIn = 8 { nlookup: u64, } }
request! { ForgetOne = 16 { nodeid: u64, nlookup: u64, } }
request! { BatchForgetIn = 8 { count: u32, dummy: u32, } }
request! { GetattrIn = 16 { getattr_flags: u32, dummy: u32, fh: u64, } }
request! { StatxIn = 24 {
    getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32,
} }
request! { MknodIn = 16 { mode: u32, rdev: u32, umask: u32, padding: u32, } }
request! { MkdirIn = 8 { mode: u32, umask: u32, } }
request! { RenameIn = 8 { newdir: u64, } }
request! { Rename2In = 16 { newdir: u64, flags: u32, padding: u32, } }
request! { LinkIn = 8 { oldnodeid: u64, } }
request! {
    SetattrIn = 88 {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }
}
layout!(
    SetattrIn, 88, size @ 16, lock_owner @ 24, atime @ 32, atimensec @ 56, mode @ 68, uid @ 76,
    gid @ 80
);
request! { OpenIn = 8 { flags: i32, open_flags: u32, } }
request! { CreateIn = 16 { flags: i32, mode: u32, umask: u32, open_flags: u32, } }
request! { ReleaseIn = 24 { fh: u64, flags: i32, release_flags: u32, lock_owner: u64, } }
request! { FlushIn = 24 { fh: u64, unused: u32, padding: u32, lock_owner: u64, } }
request! {
    ReadIn = 40 {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: i32,
        padding: u32,
    }
}
request! {
    WriteIn = 40 {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: i32,
        padding: u32,
    }
}
layout!(WriteIn, 40, offset @ 8, size @ 16, write_flags @ 20, lock_owner @ 24, flags @ 32);
request! { FsyncIn = 16 { fh: u64, fsync_flags: u32, padding: u32, } }
request! {
    /// `struct fuse_setxattr_in` without `FUSE_SETXATTR_EXT`; with it, [`SetxattrInMore`] follows.
    SetxattrIn = 8 { size: u32, flags: i32, }
}
request! { SetxattrInMore = 8 { setxattr_flags: u32, padding: u32, } }
request! { GetxattrIn = 8 { size: u32, padding: u32, } }
request! { AccessIn = 8 { mask: u32, padding: u32, } }
request! { InterruptIn = 8 { unique: u64, } }
request! { FallocateIn = 32 { fh: u64, offset: u64, length: u64, mode: i32, padding: u32, } }
request! { IoctlIn = 32 { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, } }
request! { LseekIn = 24 { fh: u64, offset: i64, whence: i32, padding: u32, } }
request! {
    CopyFileRangeIn = 56 {
        fh_in: u64,
        off_in: u64,
        nodeid_out: u64,
        fh_out: u64,
        off_out: u64,
        len: u64,
        flags: u64,
    }
}
request! { SyncfsIn = 8 { padding: u64, } }
request! {
    /// `struct fuse_ext_header`; `size` counts it too.
    ExtHeader = 8 { size: u32, kind: u32, }
}

/// `FUSE_EXT_GROUPS`: a `struct fuse_supp_groups`, a count and as many group numbers.
pub(crate) const EXT_GROUPS: u32 = 32;

/// Bits of `fuse_setattr_in.valid`.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const LOCKOWNER: u32 = 1 << 9;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// `FUSE_GETATTR_FH`.
pub(crate) const GETATTR_FH: u32 = 1 << 0;
/// `FUSE_READ_LOCKOWNER`.
pub(crate) const READ_LOCKOWNER: u32 = 1 << 1;
/// `FUSE_OPEN_KILL_SUIDGID`.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// `FUSE_RELEASE_FLUSH`.
pub(crate) const RELEASE_FLUSH: u32 = 1 << 0;
/// `FUSE_RELEASE_FLOCK_UNLOCK`.
pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// `FUSE_FSYNC_FDATASYNC`.
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;
