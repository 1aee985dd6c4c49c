//! Filters of system calls.

use std::io;

/// Makes the system call `number` fail with `errno`, in this thread and in threads that it starts,
/// permanently: by a filter like those that container runtimes install (`seccomp(2)`). Tests use
/// this to show how a program behaves where a call is refused.
///
/// # Errors
/// `EINVAL` from a kernel without seccomp filters.
pub fn refuse_system_call(number: libc::c_long, errno: rustix::io::Errno) -> io::Result<()> {
    let invalid = |_| io::Error::from(rustix::io::Errno::INVAL);
    let (number, errno) =
        (u32::try_from(number).map_err(invalid)?, errno.raw_os_error().unsigned_abs());
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    // A program of classic BPF. Offset 0 of `struct seccomp_data` is the number of the call.
    let instructions = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { code: equal, jt: 0, jf: 1, k: number },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: instructions.len() as u16,
        filter: instructions.as_ptr().cast_mut(),
    };
    // SAFETY: no memory is passed.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its instructions are alive during the call; the kernel copies them
    // and writes nothing.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) }
        != 0
    {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
