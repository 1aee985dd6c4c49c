//! State of the process that can be determined only before `main`: the standard library opens
//! `/dev/null` for standard streams that were closed, and ignores SIGPIPE.
//!
//! A program that needs this state must arrange that [`note`] is called before the standard library
//! does so:
//!
//! ```
//! #[used]
//! #[unsafe(link_section = ".init_array")]
//! static NOTE_START: extern "C" fn() = dio_sys::start::note;
//! # fn main() {}
//! ```
//!
//! In a program that does not do so, every stream counts as open and SIGPIPE as not ignored.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit `fd` is set for each standard stream that was closed, and [`PIPES_IGNORED`].
static AT_START: AtomicU8 = AtomicU8::new(0);

const PIPES_IGNORED: u8 = 1 << 3;

/// Records which standard streams are closed, and whether SIGPIPE is ignored. Must be called before
/// `main`.
pub extern "C" fn note() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD takes no argument and changes nothing; for a number that is not open it
        // fails with EBADF.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            found |= 1 << fd;
        }
    }
    // SAFETY: all bytes of `sigaction` may be zero; the kernel writes to a live value and changes
    // nothing.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
        found |= PIPES_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed);
}

/// Whether standard stream `fd` (0, 1 or 2) was closed when the process started. The standard
/// library has opened `/dev/null` there since, which reads as empty and accepts every byte
/// silently.
pub fn was_closed(fd: RawFd) -> bool {
    (0..3).contains(&fd) && AT_START.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// Whether SIGPIPE was ignored when the process started, so that writes to a pipe without readers
/// fail (`EPIPE`) instead of ending the process. The standard library has ignored the signal in any
/// case since.
pub fn pipes_were_ignored() -> bool {
    AT_START.load(Ordering::Relaxed) & PIPES_IGNORED != 0
}
