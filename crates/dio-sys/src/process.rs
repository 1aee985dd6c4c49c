//! Changes of this process: its mount namespace, its scheduling, and the program that it runs.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use crate::start::{pipes_were_ignored, was_closed};

/// Gives this process a mount namespace of its own (`CLONE_NEWNS`, `mount_namespaces(7)`) and, with
/// `user`, a user namespace that owns it (`CLONE_NEWUSER`, `user_namespaces(7)`). In a process of
/// several threads, only the calling thread moves.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, and where the system refuses user namespaces; `ENOSPC` and
/// `EUSERS` at the limits of `/proc/sys/user`; `EINVAL` with `user` in a process of several
/// threads.
pub fn unshare_mounts(user: bool) -> io::Result<()> {
    use rustix::thread::UnshareFlags;
    let flags =
        if user { UnshareFlags::NEWNS | UnshareFlags::NEWUSER } else { UnshareFlags::NEWNS };
    // SAFETY: the table of descriptors stays shared, because `CLONE_FILES` is not among the flags.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// The processor time that all threads of a process have used so far (`clock_getcpuclockid(3)`).
///
/// # Errors
/// `ESRCH` if there is no such process.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: the clock's number is written to `clock`, which lives during the call.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to `time`, which lives during the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        // The process has ended meanwhile.
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// `struct sched_attr` in its first version (`sched_setattr(2)`).
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks the scheduler for slices of `nanoseconds`, for the calling thread and for threads that it
/// starts later. A thread with short slices gets no more time, but runs sooner when it has work.
/// That suits a server whose clients wait for it (EEVDF with `sched_attr::sched_runtime`, Linux
/// 6.12, `kernel/sched/fair.c`). A thread with another policy than the default keeps it.
///
/// # Errors
/// Those of `sched_setattr(2)`. Kernels without support ignore the request.
pub fn ask_for_slices(nanoseconds: u64) -> io::Result<()> {
    let mut attributes = attributes()?;
    if attributes.policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.size = size_of::<SchedulingAttributes>() as u32;
    attributes.runtime = nanoseconds;
    let own: libc::pid_t = 0;
    let address = &raw const attributes;
    // SAFETY: the kernel reads as many bytes of the structure as its first field states, which is
    // its size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, own, address, 0 as libc::c_uint) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the scheduling attributes of the calling thread.
fn attributes() -> io::Result<SchedulingAttributes> {
    let size = size_of::<SchedulingAttributes>() as u32;
    let mut attributes = SchedulingAttributes::default();
    let own: libc::pid_t = 0;
    let address = &raw mut attributes;
    // SAFETY: the kernel writes at most `size` bytes to the structure, which is that large and has
    // no invalid values.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, own, address, size, 0 as libc::c_uint) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Marks every descriptor above the standard streams to be closed when another program is executed
/// (`close_range(2)`).
///
/// # Errors
/// `EINVAL` before Linux 5.11.
pub fn close_on_exec() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_uint;
    // SAFETY: no memory is passed, and nothing is closed as long as this program runs.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, flags)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Replaces this process's program, as `execvp(3)` does; returns the error if that fails.
///
/// The new program starts in the state in which this one was started: standard streams that were
/// closed are closed again, and SIGPIPE is ignored only if it was. The signal mask does not change.
pub fn execute(program: &CStr, arguments: &[&CStr]) -> io::Error {
    for fd in (0..3).filter(|&fd| was_closed(fd)) {
        // SAFETY: no memory is passed; the `/dev/null` that the standard library opened there is
        // closed only by the execution.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let mut pointers: Vec<*const libc::c_char> =
        arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    if !pipes_were_ignored() {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    // SAFETY: all strings end with a zero byte and are alive during the call, and the array ends
    // with a null pointer. On success nothing of this program remains that could be harmed; on
    // failure nothing has changed.
    unsafe { libc::execvp(program.as_ptr(), pointers.as_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: ignoring the signal again, as the standard library does, needs no handler either.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_those_of_the_thread_and_of_what_it_starts() {
        // In a thread of its own, so that other tests keep their slices.
        let asked = std::thread::spawn(|| {
            let refused = ask_for_slices(1).map_err(|error| error.raw_os_error());
            let outcome = ask_for_slices(100_000);
            (refused, outcome, std::thread::spawn(slice).join().expect("it does not panic"))
        });
        let (refused, outcome, of_child) = asked.join().expect("it does not panic");
        match outcome {
            Ok(()) => {
                // 0 on a kernel without support.
                assert!([0, 100_000].contains(&of_child), "{of_child}");
                assert_ne!(slice(), 100_000);
            }
            // The error of a kernel without support.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
        }
        assert!(matches!(refused, Ok(()) | Err(Some(libc::EINVAL))), "{refused:?}");
    }

    fn slice() -> u64 {
        attributes().expect("every thread has some").runtime
    }
}
