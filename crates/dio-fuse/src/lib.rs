//! The FUSE protocol between the Linux kernel and a file system in user space
//! (`include/uapi/linux/fuse.h`). It covers the needs of a file system that passes requests on to
//! another file system.
//!
//! Implement [`Filesystem`], mount by `mount(2)` or `fusermount3`, and pass the device to
//! [`Session::from_fd`]:
//!
//! - Several threads serve requests. Each request gets one reply, of the type that fits it.
//! - The bytes of a write begin on a page boundary in memory, so direct I/O can take them without a
//!   copy.
//! - The bytes of a read go to the kernel from where they are; with io_uring, they are copied once.
//! - The number by which the kernel names an inode is independent of the `st_ino` that programs
//!   see.
//! - If a handler panics, or drops its reply, the reply is `EIO`, and serving goes on.
//!
//! The crate speaks version 7.45 and every version from 7.31 (Linux 5.4) on. It has no locks in the
//! server, no unrestricted ioctls, no poll, no CUSE and no DAX.
//!
//! Other crates, above all `fuser`, whose shape this one keeps, have no requests for files without
//! a name, for the time of creation or for interrupts. They tie `st_ino` to the number by which the
//! kernel names an inode, and direct I/O must copy the bytes of a write out of their buffers.
//!
//! ```no_run
//! use dio_fuse::{Filesystem, Session, SessionConfig};
//!
//! /// An empty file system: every method of [`Filesystem`] has a default.
//! #[derive(Debug)]
//! struct Empty;
//! impl Filesystem for Empty {}
//!
//! # fn main() -> std::io::Result<()> {
//! let device = std::fs::File::options().read(true).write(true).open("/dev/fuse")?;
//! // Here the program mounts the device by mount(2), with the option `fd=`.
//! let config = SessionConfig { threads: 4, clone_device: true, user_limits: None };
//! let session = Session::from_fd(Empty, device.into(), config)?;
//! session.spawn()?.join() // Returns when the mount is gone.
//! # }
//! ```

mod abi;
mod channel;
mod config;
mod dispatch;
mod error_counts;
mod filesystem;
mod flags;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod interrupts;
mod notify;
mod operation;
mod passthrough;
mod reply;
mod reply_slot;
mod request;
mod ring;
mod serving;
mod session;
mod switch;
mod testing;
mod types;
mod user_shares;

pub use config::KernelConfig;
pub use error_counts::ErrorCounts;
pub use filesystem::Filesystem;
pub use flags::{
    AccessFlags, CopyFileRangeFlags, FopenFlags, InitFlags, RenameFlags, SetxattrFlags,
    StatxAttributes, StatxMask, WriteFlags,
};
pub use notify::Notifier;
pub use passthrough::BackingId;
pub use reply::{
    ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr,
};
pub use request::Request;
pub use ring::{leave_processor, ring_threads, rings_are_possible};
pub use rustix::io::Errno;
pub use session::{BackgroundSession, Session, SessionConfig};
pub use switch::{REQUEST_BYTES_MAX, SwitchesOn, switch_on};
pub use types::{
    Changes, Entry, FileAttr, FileHandle, FileType, Generation, INodeNo, Ioctl, LockOwner,
    OpenFlags, RequestId, Statx, TimeOrNow, Version, decode_device, encode_device,
};
pub use user_shares::UserLimits;
