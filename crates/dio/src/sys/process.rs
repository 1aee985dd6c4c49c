//! What becomes of this process: other mounts, another program.

use std::ffi::CStr;
use std::io;

use super::{pipes_were_ignored, was_closed};

/// Gives this process mounts of its own (`CLONE_NEWNS`, `mount_namespaces(7)`) and, with `user`, a user namespace that owns
/// them (`CLONE_NEWUSER`, `user_namespaces(7)`). Of several threads only the calling one is moved.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, and where the system refuses user namespaces; `ENOSPC` and `EUSERS` at the limits of
/// `/proc/sys/user`; `EINVAL` with `user` in a process of several threads.
pub fn unshare_mounts(user: bool) -> io::Result<()> {
    use rustix::thread::UnshareFlags;
    let flags = if user { UnshareFlags::NEWNS | UnshareFlags::NEWUSER } else { UnshareFlags::NEWNS };
    // SAFETY: the table of descriptors stays shared, as `CLONE_FILES` is not among the flags.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Has every descriptor above the standard streams closed when another program is executed (`close_range(2)`).
///
/// # Errors
/// `EINVAL` before Linux 5.11.
pub fn close_on_exec() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_uint;
    // SAFETY: no memory is passed, and nothing is closed as long as this program runs.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes this process another program, found and run as by `execvp(3)`; returns why that was impossible.
///
/// The program starts with what this one was started with: standard streams that were closed are closed again, and SIGPIPE
/// is ignored only if it was. The mask of signals stays as it is.
pub fn execute(program: &CStr, arguments: &[&CStr]) -> io::Error {
    for fd in (0..3).filter(|&fd| was_closed(fd)) {
        // SAFETY: no memory is passed; the stand-in that the standard library has put there is closed by the execution only.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let mut pointers: Vec<*const libc::c_char> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    if !pipes_were_ignored() {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    // SAFETY: all strings end with a zero byte and live during the call, and the array ends with a null pointer. On success
    // nothing of this program is left that could be harmed; on failure nothing has changed.
    unsafe { libc::execvp(program.as_ptr(), pointers.as_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: no handler is needed either to ignore it again, as the standard library does.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}
