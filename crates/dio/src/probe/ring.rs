//! Finds out whether this process may use io_uring, and its limits.

use std::io;

use io_uring::IoUring;
use rustix::process::Resource;

use super::answer::Answer;
use crate::engine::Uring;
use crate::file::words_of as words;

/// The io_uring features that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Whether a ring could be set up, with a worker thread for requests that cannot be completed
    /// at once.
    pub available: Answer,
    /// `kernel.io_uring_disabled`: 0 for allowed, 1 for one group only, 2 for disabled; `None`
    /// before Linux 6.6.
    pub disabled: Option<u32>,
    /// Bytes of memory that the process may lock, which limits registered buffers; `None` if
    /// unlimited.
    pub memory_lock: Option<u64>,
    /// Whether the process is exempt from that limit (`CAP_IPC_LOCK`); `None` if `/proc` does not
    /// show it.
    pub exempt: Option<bool>,
}

impl Ring {
    /// Sets up a small ring, checks whether it gets a worker thread, and removes it.
    pub(super) fn probe() -> Self {
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        let available = match IoUring::new(4) {
            Ok(_) => Uring::check_workers()
                .map_or_else(|error| Answer::No(error.to_string()), |()| Answer::Yes),
            Err(error) => Answer::No(refusal(&error, disabled)),
        };
        Self {
            available,
            disabled,
            memory_lock: rustix::process::getrlimit(Resource::Memlock).current,
            exempt: std::fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|status| has_ipc_lock(&status)),
        }
    }
}

/// Explains a refusal, as far as the error and the system setting allow.
fn refusal(error: &io::Error, disabled: Option<u32>) -> String {
    let cause = match (error.raw_os_error(), disabled) {
        (Some(libc::ENOSYS), _) => "the kernel has no io_uring, or a system call filter hides it",
        (Some(libc::EPERM), Some(2)) => "kernel.io_uring_disabled is 2: nobody may use it",
        (Some(libc::EPERM), Some(1)) => "kernel.io_uring_disabled is 1: kernel.io_uring_group only",
        (Some(libc::EPERM), _) => {
            "a system call filter, as container runtimes install, or a security policy"
        }
        (Some(libc::ENOMEM), _) => "too little memory may be locked (RLIMIT_MEMLOCK)",
        _ => return words(error),
    };
    format!("{} ({cause})", words(error))
}

/// Whether `CAP_IPC_LOCK` (14, `include/uapi/linux/capability.h`) is in the effective set.
fn has_ipc_lock(status: &str) -> Option<bool> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let set = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(set >> 14 & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_its_cause() {
        let eperm = io::Error::from_raw_os_error(libc::EPERM);
        assert!(refusal(&eperm, Some(2)).contains("is 2"));
        assert!(refusal(&eperm, Some(1)).contains("io_uring_group"));
        assert!(refusal(&eperm, Some(0)).contains("filter"));
        assert!(refusal(&eperm, None).contains("filter"));
        let other = io::Error::from_raw_os_error(libc::EMFILE);
        assert_eq!(refusal(&other, Some(0)), "Too many open files");
    }

    #[test]
    fn the_capability_is_bit_14() {
        assert_eq!(has_ipc_lock("Name:\tx\nCapEff:\t0000000000004000\n"), Some(true));
        assert_eq!(has_ipc_lock("CapEff:\t000001ffffffbfff\n"), Some(false));
        assert_eq!(has_ipc_lock("Name:\tx\n"), None);
    }

    #[test]
    fn a_ring_is_available_or_its_refusal_explained() {
        match Ring::probe().available {
            Answer::Yes => {}
            Answer::No(reason) => assert!(!reason.is_empty()),
            Answer::Unknown(reason) => panic!("setting up a ring is never in doubt: {reason}"),
        }
    }
}
