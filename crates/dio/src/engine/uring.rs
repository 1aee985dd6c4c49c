//! The io_uring engine: registered buffers where the memory limit allows, one system call for many operations.
//!
//! Of this crate, this file and the folder `block` may contain `unsafe` code.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use super::os::rw_flags;
use super::workers::{self, SHORTAGE};
use super::{Done, Engine, Kind, Op};
use crate::block::Pool;

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum UringError {
    /// The kernel or a policy refuses the system call.
    #[error("io_uring is refused: {reason}")]
    Refused {
        /// What is known about the cause.
        reason: String,
        /// What `io_uring_setup(2)` answered.
        source: io::Error,
    },
    /// The kernel is older than an operation we need.
    #[error("this kernel's io_uring lacks {0}")]
    Lacks(&'static str),
    /// The kernel can start no thread for what it cannot do at once.
    #[error("io_uring gets no worker thread: {0}")]
    NoWorkers(String),
}

/// Runs operations on one ring.
pub struct Uring {
    ring: IoUring,
    /// Invariant: an operation is in its slot from `start` until its completion has been read, so the kernel never
    /// sees memory or a file that has gone.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Run in the calling thread for lack of a worker thread, and not yet given back.
    here: Vec<Done>,
    /// The thread that started the latest operation.
    submitter: Option<ThreadId>,
    /// A worker thread was asked for, and has not come yet.
    nudged: bool,
    /// The pool whose region is registered as buffer 0. Held, so the memory outlives the registration.
    attached: Option<Pool>,
}

struct Slot {
    op: Op,
    /// Read by the kernel while the operation is in flight; empty, and never allocated, for memory in one piece.
    vector: Vec<libc::iovec>,
}

// SAFETY: the raw pointers in `vector` point into `op.mem`, which the slot owns and which is `Send` itself.
unsafe impl Send for Uring {}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uring({} of {} in flight)", self.in_flight(), self.slots.len())
    }
}

/// Most entries of a ring (`IORING_MAX_ENTRIES` of the kernel's `io_uring/io_uring.h`); more is EINVAL.
const MOST_ENTRIES: usize = 32768;

/// Operations are submitted early when they are one in so many of those running, or more.
const LARGEST_SHARE: usize = 2;

/// How long a worker thread may take to do nothing. The kernel gives up long before ([`workers`]); one that does not is given
/// up.
const PATIENCE: Duration = Duration::from_secs(2);

/// After how long without a completion a worker thread is asked for.
const STALL: Duration = Duration::from_secs(1);

/// What tells the completion of that request from those of operations, which are numbered.
const NUDGE: u64 = u64::MAX;

/// Operations that the ring must know, with the names that messages use.
const NEEDED: [(u8, &str); 7] = [
    (opcode::Read::CODE, "IORING_OP_READ"),
    (opcode::Write::CODE, "IORING_OP_WRITE"),
    (opcode::Readv::CODE, "IORING_OP_READV"),
    (opcode::Writev::CODE, "IORING_OP_WRITEV"),
    (opcode::ReadFixed::CODE, "IORING_OP_READ_FIXED"),
    (opcode::WriteFixed::CODE, "IORING_OP_WRITE_FIXED"),
    (opcode::Fsync::CODE, "IORING_OP_FSYNC"),
];

/// The first operation that is needed and not supported.
fn lacking(supported: impl Fn(u8) -> bool) -> Option<&'static str> {
    NEEDED.iter().find(|(code, _)| !supported(*code)).map(|(_, name)| *name)
}

impl Uring {
    /// A ring for `depth` operations at a time, or for as many as a ring can hold.
    ///
    /// # Errors
    /// [`UringError`]: refused by the sysctl `kernel.io_uring_disabled`, by a seccomp filter, by memory limits, or too
    /// old.
    pub fn new(depth: usize) -> Result<Uring, UringError> {
        Uring::over(build(entries(depth)), depth)
    }

    /// A ring that only the calling thread may use, to its end: the kernel then completes requests when the thread looks
    /// for them and not in between (`IORING_SETUP_SINGLE_ISSUER`, `IORING_SETUP_DEFER_TASKRUN`, Linux 6.1), which costs
    /// less. Where the kernel is older it is an ordinary ring.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub(crate) fn for_this_thread(depth: usize) -> Result<Uring, UringError> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let Ok(ring) = builder.build(entries(depth)) else { return Uring::new(depth) };
        // Saves looking the ring up at each system call; a refusal costs just that.
        let _ = ring.submitter().register_ring_fd();
        Uring::over(Ok(ring), depth)
    }

    fn over(ring: io::Result<IoUring>, depth: usize) -> Result<Uring, UringError> {
        let ring = ring.map_err(|source| UringError::Refused { reason: refusal(&source), source })?;
        let mut probe = Probe::new();
        // IORING_REGISTER_PROBE came with kernel 5.6, as IORING_OP_READ did.
        ring.submitter().register_probe(&mut probe).map_err(|_| UringError::Lacks("IORING_REGISTER_PROBE"))?;
        if let Some(name) = lacking(|code| probe.is_supported(code)) {
            return Err(UringError::Lacks(name));
        }
        let depth = depth.min(MOST_ENTRIES);
        let slots = (0..depth).map(|_| None).collect();
        let free = (0..depth).rev().collect();
        Ok(Uring { ring, slots, free, here: Vec::new(), submitter: None, nudged: false, attached: None })
    }

    /// Whether there are rings, and the kernel starts worker threads for them: one is made to do nothing.
    ///
    /// # Errors
    /// As [`Uring::new`]; [`UringError::NoWorkers`].
    pub(crate) fn check_workers() -> Result<(), UringError> {
        let mut uring = Uring::new(1)?;
        // Kernels that cannot wait for a limited time (before 5.11) have workers that are no threads of the user.
        if !uring.ring.params().is_feature_ext_arg() {
            return Ok(());
        }
        assert!(uring.ask_for_worker(), "a new queue has room");
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            // Whatever it answers, a time that is over and a signal among it, the completion is there or is not.
            let _ = uring.enter(1, PATIENCE);
            if let Some(completion) = uring.ring.completion().next() {
                return raw_result(&completion).map(|_| ()).map_err(|_| UringError::NoWorkers(workers::limits()));
            }
        }
        Err(UringError::NoWorkers(workers::limits()))
    }

    /// Operations started and not yet completed by the ring.
    fn in_ring(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The submission entry of an operation. Its pointers stay valid because the slot owns what they point to.
    fn entry(&self, slot: &mut Slot) -> io::Result<squeue::Entry> {
        let op = &mut slot.op;
        let fd = types::Fd(op.medium.descriptor(op.route)?.as_raw_fd());
        let flags = rw_flags(op.flags).bits().cast_signed();
        let Some(mem) = op.mem.as_ref() else {
            let sync = opcode::Fsync::new(fd);
            return match op.kind {
                Kind::SyncData => Ok(sync.flags(types::FsyncFlags::DATASYNC).build()),
                Kind::SyncAll => Ok(sync.build()),
                Kind::Read | Kind::Write => Err(Errno::INVAL.into()),
            };
        };
        assert!(op.kind == Kind::Write || mem.writable(), "memory lent for writing out cannot be read into");
        let position = op.offset + op.skip as u64;
        let mut pieces = mem.pieces(op.skip);
        if let (Some((start, len)), None) = (pieces.next(), pieces.next()) {
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let registered = mem.pool_id().is_some() && mem.pool_id() == self.attached.as_ref().map(Pool::id);
            return Ok(match (op.kind, registered) {
                (Kind::Read, true) => {
                    opcode::ReadFixed::new(fd, start, len, 0).offset(position).rw_flags(flags).build()
                }
                (Kind::Read, false) => opcode::Read::new(fd, start, len).offset(position).rw_flags(flags).build(),
                (_, true) => opcode::WriteFixed::new(fd, start, len, 0).offset(position).rw_flags(flags).build(),
                (_, false) => opcode::Write::new(fd, start, len).offset(position).rw_flags(flags).build(),
            });
        }
        let piece = |(start, len): (*mut u8, usize)| libc::iovec { iov_base: start.cast(), iov_len: len };
        slot.vector = mem.pieces(op.skip).map(piece).collect();
        let (vector, count) = (slot.vector.as_ptr(), u32::try_from(slot.vector.len()).unwrap_or(u32::MAX));
        Ok(match op.kind {
            Kind::Read => opcode::Readv::new(fd, vector, count).offset(position).rw_flags(flags).build(),
            _ => opcode::Writev::new(fd, vector, count).offset(position).rw_flags(flags).build(),
        })
    }

    /// Submits what is queued before the device runs dry: as soon as it is one in [`LARGEST_SHARE`] of what is running. Who
    /// takes many completions at once and queues as many operations would else leave the device idle while they are
    /// prepared, then busy them all at the same time, again and again. Measured: 4 KiB random reads, 32 in flight, on
    /// virtio, 0.65–0.8 of fio's rate without this and 0.9–1.0 with it, on a busy machine.
    ///
    /// A single operation is never submitted here, so that it costs one system call together with the wait.
    fn keep_busy(&mut self) {
        let queued = self.ring.submission().len();
        let running = self.in_ring() - queued;
        if queued > 0 && queued * LARGEST_SHARE >= running {
            // What is refused now (EAGAIN, EBUSY, EINTR) stays queued until `finish`.
            let _ = self.ring.submit();
        }
    }

    /// Submits, and waits for so many completions, for a limited time where the kernel can (5.11).
    fn enter(&self, missing: usize, patience: Duration) -> io::Result<usize> {
        if missing == 0 || !self.ring.params().is_feature_ext_arg() {
            return self.ring.submit_and_wait(missing);
        }
        let patience = types::Timespec::from(patience);
        self.ring.submitter().submit_with_args(missing, &types::SubmitArgs::new().timespec(&patience))
    }

    /// Queues a request that does nothing and must have a worker thread; false where there is no room.
    fn ask_for_worker(&mut self) -> bool {
        let nothing = opcode::Nop::new().build().flags(squeue::Flags::ASYNC).user_data(NUDGE);
        // SAFETY: a request that does nothing refers to no memory.
        unsafe { self.ring.submission().push(&nothing) }.is_ok()
    }

    /// Nothing has come for a while. Seen: an operation that waits for a worker thread for ever, while the kernel has none for this
    /// thread and starts none. One that is asked for goes on with what it finds; where the disk is just slow, it does nothing.
    fn nudge(&mut self) {
        self.nudged = self.nudged || self.ask_for_worker();
    }

    fn take_completed(&mut self, done: &mut Vec<Done>) {
        for completion in self.ring.completion() {
            if completion.user_data() == NUDGE {
                self.nudged = false;
                continue;
            }
            let index = completion.user_data() as usize;
            let slot = self.slots[index].take().expect("a completion answers an operation in flight");
            self.free.push(index);
            match raw_result(&completion) {
                Err(Errno::CANCELED) => {
                    if self.submitter == Some(std::thread::current().id()) {
                        SHORTAGE.note(slot.op.kind);
                    }
                    done.push(run(slot.op));
                }
                result => done.push(Done { op: slot.op, result }),
            }
        }
    }
}

/// One attempt in the calling thread.
///
/// For what the ring gave up (ECANCELED): it had to wait, and there was no thread that could. Either the kernel may start no
/// worker thread ([`workers`]), or the thread that submitted it has ended and took with it what had not started (kernel,
/// `io_uring/cancel.c`). Of the operation nothing has been done then: the ring reports what was.
fn run(mut op: Op) -> Done {
    let medium = Arc::clone(&op.medium);
    let result = medium.transfer(&mut op);
    Done { op, result }
}

/// Least entries of a submission queue. The kernel lets a thread have as many workers at a time as the *first* ring that it
/// made has entries, and no more than four for each processor (`io_uring/tctx.c`, `io_init_wq_offload`): with a first ring of
/// one entry, all writes that extend files run one after the other, whatever rings come later. So many fill a page.
const LEAST_ENTRIES: usize = 64;

/// Entries of the submission queue for `depth` operations: a power of two (`io_uring_setup(2)`).
fn entries(depth: usize) -> u32 {
    assert!(depth > 0, "an engine takes at least one operation");
    depth.clamp(LEAST_ENTRIES, MOST_ENTRIES).next_power_of_two() as u32
}

/// COOP_TASKRUN (5.19) saves interrupting the caller for each completion; kernels without it do without.
fn build(entries: u32) -> io::Result<IoUring> {
    IoUring::builder().setup_coop_taskrun().build(entries).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => IoUring::builder().build(entries),
        _ => Err(error),
    })
}

fn raw_result(completion: &cqueue::Entry) -> Result<usize, Errno> {
    let raw = completion.result();
    if raw >= 0 { Ok(raw as usize) } else { Err(Errno::from_raw_os_error(-raw)) }
}

/// What is known about a refused `io_uring_setup(2)`.
fn refusal(error: &io::Error) -> String {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match (error.raw_os_error(), disabled.trim()) {
        (Some(libc::EPERM), value @ ("1" | "2")) => format!("sysctl kernel.io_uring_disabled is {value}"),
        (Some(libc::EPERM | libc::EACCES), _) => "a security policy (seccomp filter?) forbids it".into(),
        (Some(libc::ENOSYS), _) => "the kernel has no io_uring, or a seccomp filter hides it".into(),
        (Some(libc::ENOMEM), _) => "RLIMIT_MEMLOCK leaves no memory for a ring".into(),
        _ => error.to_string(),
    }
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn depth(&self) -> usize {
        self.slots.len()
    }

    fn in_flight(&self) -> usize {
        self.in_ring() + self.here.len()
    }

    fn start(&mut self, op: Op) -> Result<(), Op> {
        if self.in_flight() >= self.depth() {
            return Err(op);
        }
        self.keep_busy();
        if SHORTAGE.holds(op.kind) {
            self.here.push(run(op));
            return Ok(());
        }
        let Some(index) = self.free.pop() else { return Err(op) };
        self.submitter = Some(std::thread::current().id());
        let mut slot = Slot { op, vector: Vec::new() };
        let entry = match self.entry(&mut slot) {
            Ok(entry) => entry.user_data(index as u64),
            // A file without a usable descriptor: the ring itself answers EBADF, as a system call would.
            Err(_) => opcode::Fsync::new(types::Fd(-1)).build().user_data(index as u64),
        };
        self.slots[index] = Some(slot);
        // SAFETY: the slot owns the operation's memory, file and iovec array until the completion has been read
        // (`take_completed`), and `drop` waits for all of them.
        unsafe { self.ring.submission().push(&entry) }.expect("the queue has an entry for every slot");
        Ok(())
    }

    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let wanted = done.len() + min.min(self.in_flight());
        done.append(&mut self.here);
        let mut looked = false;
        loop {
            self.take_completed(done);
            let missing = wanted.saturating_sub(done.len());
            let submission = self.ring.submission();
            let (queued, work) = (!submission.is_empty(), submission.taskrun());
            drop(submission);
            // On a ring of one thread, completions wait for this thread to look. Once: the flag that says so can be left
            // set when there is nothing any more (seen: all completions taken, and the flag never cleared).
            let look = work && !looked && self.in_ring() > 0;
            if missing == 0 && !queued && !look {
                return Ok(());
            }
            looked = true;
            match self.enter(missing, STALL) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => self.nudge(),
                // EINTR: a signal; EAGAIN and EBUSY: completions must be taken before more can be submitted
                // (io_uring_enter(2)).
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn attach(&mut self, pool: &Pool) -> io::Result<()> {
        if self.attached.as_ref().is_some_and(|attached| attached.id() == pool.id()) {
            return Ok(());
        }
        if self.attached.is_some() {
            return Err(io::Error::other("another pool is registered already"));
        }
        let (start, len) = pool.region();
        let buffer = libc::iovec { iov_base: start.cast(), iov_len: len };
        // SAFETY: the region stays mapped for as long as `attached` holds the pool, and the ring is dropped before it
        // (fields drop in order of declaration).
        unsafe { self.ring.submitter().register_buffers(&[buffer]) }?;
        self.attached = Some(pool.clone());
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            if self.finish(1, &mut done).is_err() {
                // The kernel may still write into memory that would be freed now.
                std::process::abort();
            }
            done.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_operation_is_named() {
        assert_eq!(lacking(|_| true), None);
        for (missing, name) in NEEDED {
            assert_eq!(lacking(|code| code != missing), Some(name));
            assert!(UringError::Lacks(name).to_string().contains(name));
        }
    }

    #[test]
    fn a_ring_is_as_deep_as_rings_can_be() {
        match Uring::new(MOST_ENTRIES + 1) {
            Ok(ring) => assert_eq!(ring.depth(), MOST_ENTRIES),
            Err(error) => assert!(Uring::new(1).is_err(), "{error}"),
        }
    }

    /// A request that takes longer than the ring's patience, as one that waits for a worker which never comes would.
    #[test]
    fn what_takes_long_is_nudged_and_waited_for() {
        use crate::block::Pool;
        use crate::engine::{Flags, OsMedium, Route};
        let Ok(mut ring) = Uring::new(1) else { return };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let medium: Arc<dyn crate::engine::Medium> =
            Arc::new(OsMedium::both(rustix::io::dup(&reader).unwrap(), reader));
        let mem = Pool::new(4096, 1).unwrap().try_take().unwrap().into_mem(0..4);
        let op = Op {
            kind: Kind::Read,
            route: Route::Buffered,
            flags: Flags::default(),
            medium,
            offset: 0,
            skip: 0,
            mem: Some(mem),
            ticket: 7,
        };
        ring.start(op).unwrap();
        let late = std::thread::spawn(move || {
            std::thread::sleep(2 * STALL + STALL / 2);
            rustix::io::write(&writer, b"late").unwrap();
        });
        let (begin, mut done) = (Instant::now(), Vec::new());
        ring.finish(1, &mut done).unwrap();
        late.join().unwrap();
        assert!(begin.elapsed() > 2 * STALL, "it was there at once");
        assert_eq!((done.len(), done[0].op.ticket, done[0].result), (1, 7, Ok(4)));
        assert!(!ring.nudged && ring.in_flight() == 0);
    }

    #[test]
    fn a_refusal_says_what_is_known_about_its_cause() {
        let said = |errno: i32| refusal(&io::Error::from_raw_os_error(errno));
        assert!(said(libc::EPERM).contains("sysctl") || said(libc::EPERM).contains("seccomp"));
        assert!(said(libc::ENOMEM).contains("RLIMIT_MEMLOCK"));
        assert!(said(libc::EMFILE).contains("open files"));
    }
}
