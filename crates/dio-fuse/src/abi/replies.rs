//! The structures that follow the header in replies and notifications.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::layout::layout;

/// One structure of a reply.
macro_rules! reply {
    ($(#[$doc:meta])* $name:ident = $size:literal { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }
        layout!($name, $size);
    };
}

reply! {
    /// `struct fuse_init_out`.
    InitOut = 64 {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        max_stack_depth: u32,
        request_timeout: u16,
        unused: [u16; 11],
    }
}
layout!(
    InitOut, 64, flags @ 12, max_background @ 16, max_write @ 20, time_gran @ 24, max_pages @ 28,
    flags2 @ 32, max_stack_depth @ 36, request_timeout @ 40
);
reply! {
    /// `struct fuse_attr`. Its seconds are unsigned in C, and the kernel takes them as signed.
    Attr = 88 {
        ino: u64,
        size: u64,
        blocks: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }
}
layout!(
    Attr, 88, atime @ 24, atimensec @ 48, mode @ 60, nlink @ 64, uid @ 68, gid @ 72, rdev @ 76,
    blksize @ 80, flags @ 84
);
reply! {
    EntryOut = 128 {
        nodeid: u64,
        generation: u64,
        entry_valid: u64,
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: Attr,
    }
}
layout!(
    EntryOut, 128, entry_valid @ 16, attr_valid @ 24, entry_valid_nsec @ 32, attr_valid_nsec @ 36,
    attr @ 40
);
reply! { AttrOut = 104 { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, } }
layout!(AttrOut, 104, attr @ 16);
reply! {
    /// `struct fuse_sx_time`.
    SxTime = 16 { tv_sec: i64, tv_nsec: u32, reserved: i32, }
}
reply! {
    Statx = 256 {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare0: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: SxTime,
        btime: SxTime,
        ctime: SxTime,
        mtime: SxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        spare2: [u64; 14],
    }
}
layout!(
    Statx, 256, attributes @ 8, mode @ 28, ino @ 32, attributes_mask @ 56, atime @ 64, btime @ 80,
    ctime @ 96, mtime @ 112, rdev_major @ 128, dev_major @ 136
);
reply! { StatxOut = 288 {
    attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx,
} }
layout!(StatxOut, 288, stat @ 32);
reply! {
    /// `struct fuse_open_out`; `backing_id` since 7.40, unused before.
    OpenOut = 16 { fh: u64, open_flags: u32, backing_id: i32, }
}
reply! { WriteOut = 8 { size: u32, padding: u32, } }
reply! { CopyFileRangeOut = 8 { bytes_copied: u64, } }
reply! {
    /// `struct fuse_kstatfs`, which is all of `struct fuse_statfs_out`.
    StatfsOut = 80 {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }
}
reply! { GetxattrOut = 8 { size: u32, padding: u32, } }
reply! { IoctlOut = 16 { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, } }
reply! { LseekOut = 8 { offset: i64, } }
reply! {
    /// `struct fuse_dirent` without the name, which follows it and is padded to 8 bytes.
    Dirent = 24 { ino: u64, off: u64, namelen: u32, kind: u32, }
}
reply! { NotifyInvalInodeOut = 24 { ino: u64, off: i64, len: i64, } }
reply! { NotifyInvalEntryOut = 16 { parent: u64, namelen: u32, flags: u32, } }
reply! { NotifyDeleteOut = 24 { parent: u64, child: u64, namelen: u32, padding: u32, } }
