//! The number of this process without a system call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// Returns the number of this process (`getpid(2)`), which is remembered in a page that the kernel
/// fills with zeros in the child of a fork (`MADV_WIPEONFORK`, Linux 4.14). So the child asks once,
/// however it was forked. The first call must be made before a thread can fork.
pub fn process_id() -> u32 {
    static REMEMBERED: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(remembered) = REMEMBERED.get_or_init(wiped_on_fork) else {
        return std::process::id();
    };
    match remembered.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            remembered.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// A number that is 0 here and in each child of a fork; `None` where the kernel has no such memory.
fn wiped_on_fork() -> Option<&'static AtomicU32> {
    let (len, access) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice aliases
    // nothing.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the range is the mapping made above, and its bytes are zeros already.
    unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: the page is aligned, zeroed and never unmapped, and nothing else refers to it.
    Some(unsafe { AtomicU32::from_ptr(page.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_a_number_of_its_own() {
        assert_eq!(process_id(), std::process::id());
        // SAFETY: the child only compares numbers and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = process_id() == std::process::id() && process_id() == process_id();
            // SAFETY: ends the process without running anything else in it.
            unsafe { libc::_exit(i32::from(!is_own)) };
        }
        let mut status = 0;
        // SAFETY: the status is written to `status`, which lives during the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child has its parent's number");
        assert_eq!(process_id(), std::process::id());
    }
}
