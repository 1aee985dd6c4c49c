//! The protocol between the Linux kernel and a file system in user space (FUSE, `include/uapi/linux/fuse.h`), as far as a file
//! system needs it that hands everything through to another.
//!
//! Implement [`Filesystem`], mount by `mount(2)` or `fusermount3`, and give the device to [`Session::from_fd`]:
//!
//! - requests come on several threads; each is answered through a reply, of the type that fits it, once;
//! - bytes to be written lie on a page boundary in memory, so that they can go on by direct I/O without a copy;
//! - bytes that were read go to the kernel from where they are;
//! - the number by which the kernel names an inode is apart from what programs see as `st_ino`;
//! - a handler that panics, and one that forgets to answer, answers `EIO`, and serving goes on.
//!
//! Version 7.45 is spoken, and every one from 7.31 (Linux 5.4) on. Not here: locks in the server, ioctls, poll, CUSE, DAX.

mod abi;
mod channel;
mod config;
mod dispatch;
mod filesystem;
mod flags;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod interrupts;
mod notify;
mod operation;
mod outbox;
mod passthrough;
mod reply;
mod request;
mod ring;
mod serving;
mod session;
mod testing;
mod types;

pub use channel::Faults;
pub use config::KernelConfig;
pub use filesystem::Filesystem;
pub use flags::{
    AccessFlags, CopyFileRangeFlags, FopenFlags, InitFlags, RenameFlags, SetxattrFlags, StatxAttributes, StatxMask,
    WriteFlags,
};
pub use notify::Notifier;
pub use passthrough::BackingId;
pub use reply::{
    ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr,
};
pub use request::Request;
pub use ring::{leave_processor, rings_are_possible};
pub use rustix::io::Errno;
pub use session::{BackgroundSession, Config, Session};
pub use types::{
    Changes, Entry, FileAttr, FileHandle, FileType, Generation, INodeNo, Ioctl, LockOwner, OpenFlags, RequestId, Statx,
    TimeOrNow, Version, decode_device, encode_device,
};
