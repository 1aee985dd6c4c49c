//! Tracing of other processes (`ptrace(2)`), by the thread that calls these functions.
//!
//! Crates that offer this know only the signals that have names, so a real-time signal of a traced
//! process would be lost by them.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::uninterrupted;

/// What a traced thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has ended, with this status of `wait(2)`. The first thread of a process ends last.
    Ended(i32),
    /// It is at the entry or the exit of a system call.
    SystemCall,
    /// It gets a signal, if it is resumed with that.
    Signal(i32),
    /// It is stopped, as all threads of its process, by a signal of job control.
    Group,
    /// It was stopped by the tracer, or is new, or goes on after [`Stop::Group`].
    Paused,
    /// It has made a thread or a process, of this number.
    Made(u32),
    /// It has executed another program. Its number was this one before, and is that of its process
    /// now.
    Executed(u32),
    /// Another event.
    Other,
}

/// A system call, at its entry or its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// Its number and arguments.
    Entry(u64, [u64; 6]),
    /// What it returns.
    Exit(i64),
}

fn request(request: i64, thread: u32, address: u64, data: u64) -> io::Result<()> {
    let thread = libc::pid_t::try_from(thread).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: with the requests of this file, the kernel takes `data` as a number, or writes as
    // much as the callers have room for there; it never changes this process otherwise. The
    // function of the C library would return what is read in place of writing it.
    let result =
        unsafe { libc::syscall(libc::SYS_ptrace, request, i64::from(thread), address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Begins to trace a thread and all threads and processes that it makes, without stopping it
/// (`PTRACE_SEIZE`). All are let go when the calling thread ends, and go on.
///
/// # Errors
/// `EPERM` where the system does not allow it, `ESRCH` if there is no such thread.
pub fn seize(thread: u32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE.into(), thread, 0, options as u64)
}

/// Stops a thread (`PTRACE_INTERRUPT`).
///
/// # Errors
/// `ESRCH` if it is not traced by this one.
pub fn interrupt(thread: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT.into(), thread, 0, 0)
}

/// Lets a stopped thread go on to its next system call, with a signal that it gets, or 0.
///
/// # Errors
/// `ESRCH` if it is not stopped, or was killed.
pub fn resume(thread: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL.into(), thread, 0, signal as u64)
}

/// Leaves a thread in [`Stop::Group`] stopped until it is continued by a signal (`PTRACE_LISTEN`).
///
/// # Errors
/// As [`resume`].
pub fn listen(thread: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN.into(), thread, 0, 0)
}

fn message(thread: u32) -> io::Result<u64> {
    let mut message = 0_u64;
    request(libc::PTRACE_GETEVENTMSG.into(), thread, 0, (&raw mut message) as u64)?;
    Ok(message)
}

/// Eight bytes of a stopped thread's memory (`PTRACE_PEEKDATA`).
///
/// # Errors
/// `EIO` or `EFAULT` if there is no such memory.
pub fn peek(thread: u32, address: u64) -> io::Result<[u8; 8]> {
    let mut word = [0; 8];
    request(libc::PTRACE_PEEKDATA.into(), thread, address, word.as_mut_ptr() as u64)?;
    Ok(word)
}

/// Whether a thread in [`Stop::SystemCall`] enters or leaves a call, and which
/// (`PTRACE_GET_SYSCALL_INFO`); `None` for calls of 32-bit programs.
///
/// # Errors
/// `EIO` before Linux 5.3; `ESRCH` if the thread was killed.
pub fn system_call(thread: u32) -> io::Result<Option<SystemCall>> {
    /// `PTRACE_GET_SYSCALL_INFO`, `AUDIT_ARCH_X86_64` and `PTRACE_SYSCALL_INFO_ENTRY`, `_EXIT`
    /// (`include/uapi/linux`: `ptrace.h`, `audit.h`).
    const GET: i64 = 0x420e;
    const X86_64: u64 = 0xc000_003e;
    const ENTRY: u8 = 1;
    const EXIT: u8 = 2;
    // `struct ptrace_syscall_info`: the operation in the first byte, the architecture in the bytes
    // 4 to 7, two addresses, and then the number and the arguments, or the result.
    let mut info = [0_u64; 11];
    request(GET, thread, size_of_val(&info) as u64, info.as_mut_ptr() as u64)?;
    if info[0] >> 32 != X86_64 {
        return Ok(None);
    }
    Ok(match info[0] as u8 {
        ENTRY => Some(SystemCall::Entry(info[3], info[4..10].try_into().expect("six"))),
        EXIT => Some(SystemCall::Exit(info[3] as i64)),
        _ => None,
    })
}

/// Waits until a thread that the calling one traces, or a child of it, does something; returns the
/// thread's number.
///
/// # Errors
/// `ECHILD` if there is none.
pub fn wait() -> io::Result<(u32, Stop)> {
    let mut status = 0;
    let flags = libc::__WALL | libc::__WNOTHREAD;
    let thread = uninterrupted(|| {
        // SAFETY: the kernel writes to `status`, which lives during the call.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, flags) };
        if thread == -1 { Err(io::Error::last_os_error()) } else { Ok(thread) }
    })?;
    let thread = thread.unsigned_abs();
    Ok((thread, stop_of(thread, status)))
}

fn stop_of(thread: u32, status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended(status);
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Paused,
        libc::PTRACE_EVENT_STOP => Stop::Group,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            message(thread).map_or(Stop::Other, |made| Stop::Made(made as u32))
        }
        libc::PTRACE_EVENT_EXEC => {
            message(thread).map_or(Stop::Other, |former| Stop::Executed(former as u32))
        }
        _ => Stop::Other,
    }
}

/// The other end of a child that waits to be traced.
#[derive(Debug)]
pub struct Held {
    numbers: io::PipeReader,
    number: io::PipeWriter,
    go: io::PipeWriter,
}

/// Has the child of a command wait, before it executes its program, for [`Held::let_go`]. The
/// command is then started by another thread, because that waits for the execution.
///
/// # Errors
/// Those of making pipes.
pub fn hold(command: &mut Command) -> io::Result<Held> {
    let (numbers, number) = io::pipe()?;
    let (may_go, go) = io::pipe()?;
    let (mut told, mut may_go) = (number.try_clone()?, may_go);
    // SAFETY: the function only makes system calls on memory of its own, which a child of a process
    // with several threads may do.
    unsafe {
        command.pre_exec(move || {
            told.write_all(&std::process::id().to_ne_bytes())?;
            let mut answer = [0; 4];
            may_go.read_exact(&mut answer)?;
            match i32::from_ne_bytes(answer) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        })
    };
    Ok(Held { numbers, number, go })
}

impl Held {
    /// The number of the child, when it waits; `None` when [`Held::no_child`] was called.
    ///
    /// # Errors
    /// Those of reading a pipe.
    pub fn child(&mut self) -> io::Result<Option<u32>> {
        let mut number = [0; 4];
        self.numbers.read_exact(&mut number)?;
        Ok(Some(u32::from_ne_bytes(number)).filter(|number| *number != 0))
    }

    /// For the thread that starts the command: ends the waiting if there is no child.
    ///
    /// # Errors
    /// Those of making a descriptor.
    pub fn no_child(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut number = self.number.try_clone()?;
        // Without a reader, nobody waits.
        Ok(move || number.write_all(&[0; 4]).unwrap_or(()))
    }

    /// Lets the child go on, or fail with an error.
    ///
    /// # Errors
    /// Those of writing to a pipe.
    pub fn let_go(&mut self, outcome: &io::Result<()>) -> io::Result<()> {
        let error = outcome.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(1));
        self.go.write_all(&error.to_ne_bytes())
    }
}

/// A child of this process that makes system calls, to measure what tracing it costs.
#[derive(Debug)]
pub struct Caller {
    number: u32,
    go: Option<io::PipeWriter>,
    answer: io::PipeReader,
}

impl Caller {
    /// Makes the child, which waits to be let go, and then makes `rounds` times `calls` reads of
    /// one byte from a file, and as often a call that does nothing.
    ///
    /// # Errors
    /// Those of `fork(2)` and of making pipes.
    pub fn new(file: BorrowedFd<'_>, rounds: u32, calls: u32) -> io::Result<Caller> {
        let (may_go, go) = io::pipe()?;
        let (answer, answered) = io::pipe()?;
        // SAFETY: the child only makes system calls on memory of its own and ends, which a child of
        // a process with several threads may do.
        let number = unsafe { libc::fork() };
        match number {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // Without the other ends, it ends when the parent does.
                drop((go, answer));
                call(file.as_raw_fd(), (rounds, calls), may_go, answered);
                // SAFETY: nothing of this process is used any more.
                unsafe { libc::_exit(0) }
            }
            number => Ok(Caller { number: number.unsigned_abs(), go: Some(go), answer }),
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Lets it make its calls. It has to be traced and waited for; then it has ended.
    pub fn let_go(&mut self) {
        if let Some(mut go) = self.go.take() {
            // A child that was killed has nothing to wait for.
            let _ = go.write_all(&[0]);
        }
    }

    /// How long a read took, and a call that does nothing, in the fastest round of each.
    ///
    /// # Errors
    /// That it ended before.
    pub fn fastest(mut self) -> io::Result<[Duration; 2]> {
        let mut answer = [0; 16];
        self.answer.read_exact(&mut answer)?;
        let (read, other) = answer.split_at(8);
        let nanos = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok([read, other].map(|bytes| Duration::from_nanos(nanos(bytes))))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Without this, it ends by itself.
        self.go = None;
    }
}

/// What the child does.
fn call(file: RawFd, (rounds, calls): (u32, u32), mut may_go: impl Read, mut answered: impl Write) {
    if may_go.read_exact(&mut [0]).is_err() {
        return;
    }
    let mut byte = 0_u8;
    // SAFETY: the kernel writes one byte, which lives during the call.
    let read = || unsafe {
        libc::pread(file, (&raw mut byte).cast(), 1, 0);
    };
    // SAFETY: the call has no arguments and changes nothing.
    let nothing = || unsafe {
        libc::syscall(libc::SYS_getppid);
    };
    let times = [fastest(rounds, calls, read), fastest(rounds, calls, nothing)];
    for time in times {
        let _ = answered.write_all(&(time.as_nanos() as u64 / u64::from(calls)).to_ne_bytes());
    }
}

fn fastest(rounds: u32, calls: u32, mut one: impl FnMut()) -> Duration {
    let round = |_| {
        let began = std::time::Instant::now();
        (0..calls).for_each(|_| one());
        began.elapsed()
    };
    (0..rounds).map(round).min().unwrap_or_default()
}
