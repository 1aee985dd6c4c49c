//! What can be asked only before `main`: the standard library's own preparations put `/dev/null` in
//! the place of standard streams that were closed, and ignore SIGPIPE.
//!
//! A program that wants to know has [`note`] called before them:
//!
//! ```
//! #[used]
//! #[unsafe(link_section = ".init_array")]
//! static NOTE_START: extern "C" fn() = dio_sys::start::note;
//! # fn main() {}
//! ```
//!
//! In a program that does not, every stream counts as open and SIGPIPE as not ignored.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit `fd` is set for each standard stream that was closed, and [`PIPES_IGNORED`].
static AT_START: AtomicU8 = AtomicU8::new(0);

const PIPES_IGNORED: u8 = 1 << 3;

/// Notes which standard streams are closed, and whether SIGPIPE is ignored. To be called before
/// `main`.
pub extern "C" fn note() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD takes no argument and changes nothing; a number that is not open answers
        // EBADF.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            found |= 1 << fd;
        }
    }
    // SAFETY: all bytes of `sigaction` may be zero; the kernel's answer is written to a live value,
    // nothing is changed.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
        found |= PIPES_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed);
}

/// Whether standard stream `fd` (0, 1 or 2) was closed when the process started. The standard
/// library has since put `/dev/null` in its place, which reads as empty and takes every byte
/// without a word.
pub fn was_closed(fd: RawFd) -> bool {
    (0..3).contains(&fd) && AT_START.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// Whether whoever started the process wants writes into a pipe without readers to fail (`EPIPE`)
/// instead of ending it by SIGPIPE. The standard library has since ignored that signal in any case.
pub fn pipes_were_ignored() -> bool {
    AT_START.load(Ordering::Relaxed) & PIPES_IGNORED != 0
}
