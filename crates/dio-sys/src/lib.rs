//! Safe wrappers of system calls that no other crate offers safely, so that the crates above need
//! no unsafe code.
//!
//! Nothing here decides anything: each function is one system call (or a bounded loop of one), with
//! its arguments checked and the kernel's error returned unchanged.
#![allow(unsafe_code)]

use std::io;

use rustix::io::{Errno, ReadWriteFlags};

pub mod bpf;
mod byte_lock;
mod device;
pub mod fuse;
pub mod fuse_ring;
mod inode;
mod lease;
mod namespace;
mod own_fd;
mod page_cache;
pub mod perf;
mod populate;
mod process;
mod process_id;
pub mod ptrace;
mod seccomp;
mod signals;
pub mod start;
#[cfg(feature = "signals")]
pub mod stop_signal;

pub use byte_lock::{try_lock_byte, unlock_byte};
pub use device::{block_device_size, file_system_uuid};
pub use inode::{
    EXTENDED_FLAGS_BYTES, FileHandle, LONGEST_HANDLE, access_of, extended_flags, handle_of,
    open_by_handle, set_extended_flags, take_own_umask,
};
pub use lease::{Lease, end_lease, has_lease, take_lease};
pub use namespace::is_of_own_user_namespace;
pub use own_fd::{fd_path, flush, reopen};
pub use page_cache::{
    CacheStat, cachestat, resident_map, start_write_back, sync_file_range, sync_file_range_with,
};
pub use populate::populate;
pub use process::{ask_for_slices, close_on_exec, cpu_time, execute, unshare_mounts};
pub use process_id::process_id;
pub use seccomp::refuse_system_call;
pub use signals::SignalsBlocked;

/// `RWF_ATOMIC` (Linux 6.11): the write is never torn; for direct I/O only (`io_uring_prep_rw(2)`,
/// `pwritev2(2)`).
pub const RWF_ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// `RWF_DONTCACHE` (Linux 6.14): the I/O is buffered, and pages that it adds to the cache are
/// dropped afterwards (`pwritev2(2)`).
pub const RWF_DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Repeats a call for as long as it fails with EINTR. The cause can be a signal, or io_uring, which
/// makes the kernel finish requests of the calling thread as it delivers signals (`TWA_SIGNAL` of
/// `kernel/task_work.c`).
///
/// # Errors
/// Those of the call, except EINTR.
pub fn uninterrupted<R, E: SystemError>(mut call: impl FnMut() -> Result<R, E>) -> Result<R, E> {
    loop {
        match call() {
            Err(error) if error.is_interruption() => {}
            answer => return answer,
        }
    }
}

/// An error type in which [`uninterrupted`] can recognise EINTR.
pub trait SystemError {
    /// Whether it is EINTR.
    fn is_interruption(&self) -> bool;
}

impl SystemError for Errno {
    fn is_interruption(&self) -> bool {
        *self == Errno::INTR
    }
}

impl SystemError for io::Error {
    fn is_interruption(&self) -> bool {
        self.kind() == io::ErrorKind::Interrupted
    }
}
