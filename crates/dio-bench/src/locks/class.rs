//! Classifies the kernel's locks by the functions that wanted them.

use serde::{Deserialize, Serialize};

/// The objects that the kernel's locks guard, as far as they matter for I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The contents of a file: `i_rwsem` of its inode, which reads, writes and size changes take.
    Inode,
    /// The names in a directory: `i_rwsem` of the directory, and the lock of renames.
    Directory,
    /// The mapping of a file's contents to the device, and the protection of its pages against
    /// removal: `i_data_sem`, `ILOCK`, `invalidate_lock`.
    Extents,
    /// The journal or the log of a file system.
    Journal,
    /// The memory map of a process: `mmap_lock`, and the locks of its areas.
    Mmap,
    /// A pipe.
    Pipe,
    /// Every other lock; the report names the functions.
    Other,
}

impl Class {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Inode => "inode",
            Class::Directory => "directory",
            Class::Extents => "extents",
            Class::Journal => "journal",
            Class::Mmap => "mmap",
            Class::Pipe => "pipe",
            Class::Other => "other",
        }
    }
}

/// The kind of lock and the mode in which a thread waits for it (`include/trace/events/lock.h`,
/// `LCB_F_…`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// A read-write semaphore, wanted exclusively.
    Write,
    /// A read-write semaphore, wanted shared.
    Read,
    /// A mutex, or another lock with a single holder.
    Mutex,
    /// A per-processor read-write semaphore.
    Percpu,
    /// Unknown, since only the function in which a thread sleeps was recorded.
    #[default]
    Any,
}

const SPIN: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 4;
const PERCPU: u32 = 16;

impl WaitMode {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            WaitMode::Write => "write",
            WaitMode::Read => "read",
            WaitMode::Mutex => "mutex",
            WaitMode::Percpu => "percpu",
            WaitMode::Any => "any",
        }
    }

    /// The side according to the flags of `lock:contention_begin`; `None` for a lock that spins,
    /// since that does not block.
    pub(super) fn of(flags: u32) -> Option<WaitMode> {
        match flags {
            flags if flags & SPIN != 0 => None,
            flags if flags & PERCPU != 0 => Some(WaitMode::Percpu),
            flags if flags & WRITE != 0 => Some(WaitMode::Write),
            flags if flags & READ != 0 => Some(WaitMode::Read),
            _ => Some(WaitMode::Mutex),
        }
    }
}

/// Beginnings of the names of functions of the locks themselves, and of tracing.
const MACHINERY: [&str; 22] = [
    "rwsem_",
    "__rwsem_",
    "down_write",
    "down_read",
    "__down_",
    "down_",
    "mutex_",
    "__mutex_",
    "ww_mutex_",
    "__ww_mutex_",
    "rt_mutex",
    "__rt_mutex",
    "percpu_",
    "__percpu_",
    "perf_",
    "__perf_",
    "trace_",
    "__traceiter_",
    "__bpf_",
    "queued_",
    "__preempt_",
    "ftrace_",
];

/// Functions that take a lock for their caller, so that their names do not say what the lock is
/// for.
const HELPERS: [&str; 8] = [
    "xfs_ilock",
    "xfs_ilock_iocb",
    "xfs_ilock_nowait",
    "inode_lock",
    "inode_lock_shared",
    "filemap_invalidate_lock",
    "lock_two_nondirectories",
    "btrfs_inode_lock",
];

/// Beginnings of function names, with the class of the lock that such a function takes. The first
/// match counts, so the most specific ones come first.
const FUNCTIONS: [(&str, Class); 64] = [
    ("jbd2_", Class::Journal),
    ("start_this_handle", Class::Journal),
    ("xlog_", Class::Journal),
    ("xfs_log_", Class::Journal),
    ("btrfs_sync_log", Class::Journal),
    ("btrfs_log_", Class::Journal),
    ("start_transaction", Class::Journal),
    ("ext4_map_blocks", Class::Extents),
    ("ext4_da_map_blocks", Class::Extents),
    ("ext4_da_get_block", Class::Extents),
    ("ext4_ext_", Class::Extents),
    ("ext4_convert_", Class::Extents),
    ("ext4_truncate", Class::Extents),
    ("ext4_es_", Class::Extents),
    ("ext4_update_i_disksize", Class::Extents),
    ("ext4_mb_", Class::Other),
    ("xfs_ilock_for_iomap", Class::Extents),
    ("xfs_ilock_data_map_shared", Class::Extents),
    ("xfs_trans_", Class::Extents),
    ("xfs_iomap_", Class::Extents),
    ("xfs_bmap", Class::Extents),
    ("xfs_direct_write_iomap_begin", Class::Extents),
    ("xfs_buffered_write_iomap_begin", Class::Extents),
    ("xfs_map_blocks", Class::Extents),
    ("xfs_writeback_", Class::Extents),
    ("xfs_setfilesize", Class::Extents),
    ("xfs_iunlock", Class::Extents),
    ("xfs_vn_update_time", Class::Extents),
    ("filemap_fault", Class::Extents),
    ("page_cache_ra_", Class::Extents),
    ("truncate_", Class::Extents),
    ("lookup_slow", Class::Directory),
    ("walk_component", Class::Directory),
    ("open_last_lookups", Class::Directory),
    ("path_openat", Class::Directory),
    ("filename_create", Class::Directory),
    ("do_unlinkat", Class::Directory),
    ("do_rmdir", Class::Directory),
    ("do_renameat", Class::Directory),
    ("lock_rename", Class::Directory),
    ("lookup_one", Class::Directory),
    ("start_dirop", Class::Directory),
    ("start_creating", Class::Directory),
    ("start_removing", Class::Directory),
    ("iterate_dir", Class::Directory),
    ("fuse_readdir", Class::Directory),
    ("do_truncate", Class::Inode),
    ("notify_change", Class::Inode),
    ("vfs_fallocate", Class::Inode),
    ("fuse_lock_inode", Class::Directory),
    ("pipe_", Class::Pipe),
    ("mmap_", Class::Mmap),
    ("vm_mmap", Class::Mmap),
    ("__vm_munmap", Class::Mmap),
    ("do_user_addr_fault", Class::Mmap),
    ("lock_mm_", Class::Mmap),
    ("do_mprotect", Class::Mmap),
    ("do_madvise", Class::Mmap),
    ("madvise_", Class::Mmap),
    ("__do_sys_brk", Class::Mmap),
    ("exit_mm", Class::Mmap),
    ("dup_mm", Class::Mmap),
    ("vma_", Class::Mmap),
    ("__get_user_pages", Class::Mmap),
];

/// Parts of the names of functions that read, write or change a whole file, in any file system.
const WHOLE_FILE: [&str; 13] = [
    "write_iter",
    "read_iter",
    "file_write",
    "file_read",
    "direct_write",
    "direct_read",
    "buffered_write",
    "dio_read",
    "fallocate",
    "setattr",
    "sync_file",
    "dio_write",
    "llseek",
];

/// Whether a function belongs to the implementation of locks.
fn is_machinery(name: &str) -> bool {
    MACHINERY.iter().any(|begin| name.starts_with(begin))
}

/// The class of the lock that a function wants; `None` if its name does not say.
pub(super) fn of_function(name: &str) -> Option<Class> {
    let known =
        FUNCTIONS.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, class)| *class);
    known.or_else(|| WHOLE_FILE.iter().any(|part| name.contains(part)).then_some(Class::Inode))
}

/// The class of a lock and the function that wanted it, from a stack whose first element is the
/// innermost function.
///
/// The innermost function outside the implementation of locks decides. If it is a helper that locks
/// for its caller, the caller decides.
pub(super) fn of_stack<'a>(functions: &[&'a str]) -> (Class, &'a str) {
    let mut outside = functions.iter().skip_while(|name| is_machinery(name));
    let Some(first) = outside.next() else {
        return (Class::Other, functions.last().copied().unwrap_or("?"));
    };
    if !HELPERS.contains(first) {
        return (of_function(first).unwrap_or(Class::Other), first);
    }
    let wanting = outside.find(|name| !HELPERS.contains(name)).unwrap_or(first);
    (of_function(wanting).unwrap_or(Class::Other), wanting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_wants_the_lock_decides() {
        let cases: [(&[&str], (Class, &str)); 11] = [
            (
                &["down_write", "xfs_ilock", "xfs_file_buffered_write"],
                (Class::Inode, "xfs_file_buffered_write"),
            ),
            (
                &["down_write", "xfs_ilock", "xfs_buffered_write_iomap_begin"],
                (Class::Extents, "xfs_buffered_write_iomap_begin"),
            ),
            (
                &["down_read", "btrfs_inode_lock", "btrfs_direct_write"],
                (Class::Inode, "btrfs_direct_write"),
            ),
            (&["down_write", "fuse_direct_write_iter"], (Class::Inode, "fuse_direct_write_iter")),
            (
                &[
                    "trace_contention_begin",
                    "rwsem_down_write_slowpath",
                    "down_write",
                    "ext4_buffered_write_iter",
                    "vfs_write",
                ],
                (Class::Inode, "ext4_buffered_write_iter"),
            ),
            (
                &["down_write", "xfs_ilock", "xfs_ilock_iocb", "xfs_file_dio_write_aligned"],
                (Class::Inode, "xfs_file_dio_write_aligned"),
            ),
            (
                &["down_read", "ext4_map_blocks", "ext4_iomap_begin", "ext4_dio_write_iter"],
                (Class::Extents, "ext4_map_blocks"),
            ),
            (&["mutex_lock", "jbd2_log_do_checkpoint"], (Class::Journal, "jbd2_log_do_checkpoint")),
            (
                &["down_read", "do_user_addr_fault", "exc_page_fault"],
                (Class::Mmap, "do_user_addr_fault"),
            ),
            (
                &["__mutex_lock", "some_driver", "ext4_file_write_iter"],
                (Class::Other, "some_driver"),
            ),
            (&["down_write"], (Class::Other, "down_write")),
        ];
        for (stack, expected) in cases {
            assert_eq!(of_stack(stack), expected, "{stack:?}");
        }
        assert_eq!(of_stack(&[]), (Class::Other, "?"));
    }

    #[test]
    fn who_spins_does_not_block() {
        assert_eq!(
            [1, 32 | 1, 32, 4, 2, 16 | 2, 8, 0].map(WaitMode::of),
            [
                None,
                None,
                Some(WaitMode::Mutex),
                Some(WaitMode::Write),
                Some(WaitMode::Read),
                Some(WaitMode::Percpu),
                Some(WaitMode::Mutex),
                Some(WaitMode::Mutex)
            ]
        );
    }
}
