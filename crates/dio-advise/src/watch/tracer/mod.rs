//! Watches the calls of a command and its descendants by stopping them at each one (`ptrace(2)`).
//!
//! It needs no privileges and works in most containers, but each call takes some ten microseconds
//! longer. It makes the same records as the programs that watch within the kernel. Page faults and
//! requests of io_uring and of asynchronous I/O are not seen, only the calls that begin them. What
//! a call brings into the page cache is the difference of what `cachestat(2)` finds in its range,
//! and as far as the kernel may read ahead, before and after it.
//!
//! All system calls stop, also those that are not recorded. A filter of system calls (`seccomp(2)`)
//! would let the others pass, but it cannot be taken away: where nobody traces any more, because
//! the command has ended or dio was killed, the filtered calls of all processes that are left would
//! fail with `ENOSYS`. Without a filter they go on as if nothing had been.

mod files;
mod memory;
mod pages;
mod places;
mod sleep;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use dio_sys::ptrace::{self, Stop, SystemCall};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use super::calls::{self, Watched};
use super::record::{self, Record};
use files::{Files, NotOpen, Open};
use pages::Before;
use sleep::{Account, Sample};

/// `ENOENT`, as calls return it.
const ABSENT: i64 = -2;

/// `prctl(2)`, and what it does if it renames the thread.
const PRCTL: u64 = 157;
const PR_SET_NAME: u64 = 15;

/// Descriptors are kept for so many threads and processes. For others they are opened each time.
const KEPT_MAX: usize = 200;

/// A traced thread.
#[derive(Debug)]
struct Thread {
    process: u32,
    name: Vec<u8>,
    entered: Option<Entered>,
    /// Its times after the last recorded call, and the calls since then, the current one among
    /// them.
    left: Option<Sample>,
    calls: u32,
    account: Option<Account>,
}

/// A call that a thread has entered.
#[derive(Debug)]
enum Entered {
    Watched(Box<Call>),
    /// It gives the thread another name.
    Rename,
}

#[derive(Debug)]
struct Call {
    what: Watched,
    bits: i32,
    arguments: [u64; 6],
    start: u64,
    has_slept: bool,
    /// Its files, of calls that move bytes, and the pages of their ranges that were in the page
    /// cache.
    files: [Option<Result<Open, NotOpen>>; 2],
    before: [Result<Option<Before>, ()>; 2],
}

/// What a stopped thread led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It goes on.
    On,
    /// A thread or process ended, with a status of `wait(2)`.
    Ended(u32, i32),
}

/// Traces what a child of the calling thread and its descendants do, until that thread ends. Then
/// all go on untraced.
#[derive(Debug)]
pub(crate) struct Tracer {
    threads: HashMap<u32, Thread>,
    processes: HashMap<u32, OwnedFd>,
    /// New threads that have stopped before it was known who made them.
    early: HashSet<u32>,
    files: Files,
    lost: u64,
    /// Time for which a call that is not recorded stops a thread, in nanoseconds.
    stopped: u64,
    without_rights: Option<PathBuf>,
}

pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Tracer {
    pub(crate) fn new() -> Tracer {
        Tracer {
            threads: HashMap::new(),
            processes: HashMap::new(),
            early: HashSet::new(),
            files: Files::default(),
            lost: 0,
            stopped: 0,
            without_rights: None,
        }
    }

    /// Sets what a call that is not recorded costs, in nanoseconds.
    pub(crate) fn set_stopped(&mut self, nanos: u64) {
        self.stopped = nanos;
    }

    /// Begins to trace a process of one thread. It is not stopped before it executes a program.
    pub(crate) fn seize(&mut self, process: u32) -> io::Result<()> {
        ptrace::seize(process)?;
        self.add(process, process);
        Ok(())
    }

    /// As [`Tracer::seize`], but it stops at its next call already.
    pub(crate) fn seize_at_once(&mut self, process: u32) -> io::Result<()> {
        self.seize(process)?;
        ptrace::interrupt(process)
    }

    /// Calls whose file could not be looked at, so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The first program that would have had another user's rights, which a traced process is not
    /// given.
    pub(crate) fn without_rights(&self) -> Option<&PathBuf> {
        self.without_rights.as_ref()
    }

    /// Waits until a thread stops, passes on what it did, and lets it go on.
    ///
    /// # Errors
    /// `ECHILD` if nothing is traced any more.
    pub(crate) fn step(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> io::Result<Step> {
        let (thread, stop) = ptrace::wait()?;
        let now = monotonic();
        // A thread that was killed meanwhile cannot be resumed; that it has ended comes next.
        let _ = match stop {
            Stop::Ended(status) => {
                self.forget(thread);
                return Ok(Step::Ended(thread, status));
            }
            Stop::Group => ptrace::listen(thread),
            Stop::Signal(signal) => ptrace::resume(thread, signal),
            Stop::SystemCall => {
                self.call(thread, now, take);
                ptrace::resume(thread, 0)
            }
            Stop::Paused if !self.threads.contains_key(&thread) => {
                self.early.insert(thread);
                Ok(())
            }
            Stop::Made(made) => {
                self.made(thread, made, now, take);
                ptrace::resume(thread, 0)
            }
            Stop::Executed(former) => {
                self.executed(thread, former);
                ptrace::resume(thread, 0)
            }
            Stop::Paused | Stop::Other => ptrace::resume(thread, 0),
        };
        Ok(Step::On)
    }

    fn add(&mut self, thread: u32, process: u32) {
        if !self.processes.contains_key(&process) && self.processes.len() < KEPT_MAX {
            self.processes.extend(descriptor_of(process).map(|fd| (process, fd)));
        }
        let account = (self.threads.len() < KEPT_MAX).then(|| Account::of(thread));
        let name = name_of(thread);
        let new = Thread { process, name, entered: None, left: None, calls: 0, account };
        self.threads.insert(thread, new);
    }

    fn forget(&mut self, thread: u32) {
        self.threads.remove(&thread);
        self.processes.remove(&thread);
        self.early.remove(&thread);
    }

    /// A thread has made a thread or a process.
    fn made(&mut self, thread: u32, made: u32, now: u64, take: &mut dyn FnMut(&Record<'_>)) {
        let process = self.threads.get(&thread).map_or(thread, |thread| thread.process);
        let is_thread = fs::exists(format!("/proc/{process}/task/{made}")).unwrap_or(false);
        let of = if is_thread { process } else { made };
        let mut record = Record::empty(Watched::Fork, (thread, process), now);
        record.result = of.into();
        take(&record);
        self.add(made, of);
        if self.early.remove(&made) {
            let _ = ptrace::resume(made, 0);
        }
    }

    /// A process executes another program: of its threads, one is left, under the number of the
    /// process.
    fn executed(&mut self, thread: u32, former: u32) {
        self.threads.remove(&former);
        self.threads.retain(|_, other| other.process != thread);
        self.processes.remove(&thread);
        self.add(thread, thread);
        if self.without_rights.is_none() {
            self.without_rights = program_without_rights(thread);
        }
    }

    fn call(&mut self, thread: u32, now: u64, take: &mut dyn FnMut(&Record<'_>)) {
        match ptrace::system_call(thread) {
            Ok(Some(SystemCall::Entry(number, arguments))) => self.enter(thread, number, arguments),
            Ok(Some(SystemCall::Exit(result))) => self.leave(thread, result, now, take),
            Ok(None) | Err(_) => {}
        }
    }

    fn enter(&mut self, id: u32, number: u64, arguments: [u64; 6]) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.calls = thread.calls.saturating_add(1);
        if number == PRCTL && arguments[0] == PR_SET_NAME {
            thread.entered = Some(Entered::Rename);
            return;
        }
        let known = u32::try_from(number).ok().and_then(calls::watched_call);
        let Some((what, bits)) = known else {
            thread.entered = None;
            return;
        };
        let is_recorded = matches!(what, Watched::Call(_)) && bits & calls::LOOKS == 0;
        let mut call = Call {
            what,
            bits,
            arguments,
            start: 0,
            has_slept: is_recorded && thread.has_slept(id, self.stopped),
            files: [None, None],
            before: [Ok(None), Ok(None)],
        };
        if let Watched::Call(moving) = what {
            let process = self.processes.get(&thread.process);
            for (file, place) in places::places(moving, &arguments, id).iter().enumerate() {
                let (Some(place), Some(fd)) = (place, call.descriptor(file, 0)) else { continue };
                let found = self.files.open(id, process, fd);
                if let Ok(open) = &found {
                    call.before[file] = self.files.before(open, place);
                }
                call.files[file] = Some(found);
            }
        }
        call.start = monotonic();
        thread.entered = Some(Entered::Watched(Box::new(call)));
    }

    fn leave(&mut self, id: u32, result: i64, now: u64, take: &mut dyn FnMut(&Record<'_>)) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let mut call = match thread.entered.take() {
            Some(Entered::Watched(call)) => call,
            Some(Entered::Rename) => {
                thread.name = name_of(id);
                return;
            }
            None => return,
        };
        if !call.is_recorded(result) {
            return;
        }
        let process = self.processes.get(&thread.process);
        for file in 0..2 {
            if let (None, Some(fd)) = (&call.files[file], call.descriptor(file, result)) {
                call.files[file] = Some(self.files.open(id, process, fd));
            }
        }
        if call.files.iter().flatten().any(|found| matches!(found, Err(NotOpen::Refused))) {
            self.lost += 1;
        }
        let path = call.path(id);
        let mut record = Record::empty(call.what, (id, thread.process), now);
        call.fill(&mut record, result, &mut self.files);
        (record.name, record.path) =
            (&thread.name, path.as_deref().filter(|path| !path.is_empty()));
        record.calls = std::mem::take(&mut thread.calls);
        take(&record);
        if matches!(call.what, Watched::Call(_)) {
            // The files are let go first: that takes its time, too.
            drop(call);
            thread.left = thread.sample(id);
        }
    }
}

impl Thread {
    fn sample(&self, id: u32) -> Option<Sample> {
        match &self.account {
            Some(account) => account.sample(monotonic()),
            None => Account::of(id).sample(monotonic()),
        }
    }

    /// Whether it slept since its last recorded call; `stopped` is the cost of a call in between.
    fn has_slept(&self, id: u32, stopped: u64) -> bool {
        let stops = u64::from(self.calls.saturating_sub(1));
        let both = self.left.zip(self.sample(id));
        both.is_some_and(|(left, now)| now.has_slept_since(&left, stops.saturating_mul(stopped)))
    }
}

impl Call {
    /// The descriptor of its first or second file, if it has one.
    fn descriptor(&self, file: usize, result: i64) -> Option<u64> {
        match self.bits >> (4 * file) & calls::FIRST_FILE {
            0 => None,
            // What opens a file, or looks at one, may fail.
            calls::RESULT => u64::try_from(result).ok(),
            argument => self.arguments.get(argument as usize - 1).copied(),
        }
    }

    /// Whether the call is recorded, as it turned out; see `programs/system_calls.rs`, which does
    /// the same.
    fn is_recorded(&self, result: i64) -> bool {
        let has = |bits| self.bits & bits != 0;
        if has(calls::COMMANDS) {
            return calls::DUPLICATES.contains(&(self.arguments[1] as i32));
        }
        if has(calls::LOOKS) {
            return result == ABSENT || result == 0;
        }
        !has(calls::OPENS) || result >= 0
    }

    /// The path that it was given, if it is recorded.
    fn path(&self, thread: u32) -> Option<Vec<u8>> {
        let bytes = match self.bits & (calls::OPENS | calls::LOOKS | calls::NAMES) {
            0 => return None,
            calls::LOOKS | calls::NAMES => record::LOOK_BYTES,
            _ => record::PATH_BYTES,
        };
        let at = self.arguments[calls::path_argument(self.bits)];
        Some(memory::read_text(thread, at, bytes as usize))
    }

    fn fill(&self, record: &mut Record<'_>, result: i64, files: &mut Files) {
        let [a, b, c, d, ..] = self.arguments;
        record.start = self.start;
        record.result = result;
        record.has_slept = self.has_slept;
        record.arguments = [a, b, c, d];
        record.asked_flags = record::asked_flags(self.bits, &record.arguments);
        record.base = calls::base_argument(self.bits);
        let seen = |file: usize| match &self.files[file] {
            Some(Ok(open)) => Some(open.seen()),
            _ => None,
        };
        (record.file, record.second) = (seen(0), seen(1));
        let both = [&mut record.file, &mut record.second].into_iter();
        for (file, argument) in both.zip(calls::offset_arguments(self.bits)) {
            let address = argument.map_or(0, |argument| self.arguments[argument]);
            let given = (address != 0).then(|| memory::read_number(record.tid, address)).flatten();
            if let (Some(file), Some(given)) = (file, given) {
                file.position = given;
            }
        }
        for (open, before) in self.files.iter().zip(&self.before) {
            match (open, before) {
                (Some(Ok(open)), Ok(Some(before))) if open.is_block_device() => {
                    record.new_of_devices += files.new_since(open, before);
                }
                (Some(Ok(open)), Ok(Some(before))) => record.new += files.new_since(open, before),
                (Some(Ok(_)), Err(())) => record.sees_cache = false,
                _ => {}
            }
        }
    }
}

/// The name of a thread's program.
fn name_of(thread: u32) -> Vec<u8> {
    let name = fs::read(format!("/proc/{thread}/comm")).unwrap_or_default();
    name.strip_suffix(b"\n").unwrap_or(&name).to_vec()
}

fn descriptor_of(process: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The program that a process has executed, if it would have given the process rights that a traced
/// one does not get (`execve(2)`).
fn program_without_rights(process: u32) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let exe = format!("/proc/{process}/exe");
    let program = fs::metadata(&exe).ok()?;
    let is_other = program.mode() & 0o4000 != 0 && program.uid() != user
        || program.mode() & 0o2010 == 0o2010 && program.gid() != group;
    (user != 0 && is_other).then(|| fs::read_link(exe).ok()).flatten()
}
