//! The io_uring engine. One system call submits many operations, and buffers are registered where
//! the memory limit allows.
//!
//! In this crate, this file and the folder `block` alone may contain `unsafe` code.
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
use super::{Done, Engine, Op, OpKind};
use crate::block::Pool;

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UringError {
    /// The kernel or a policy refuses the system call.
    #[error("io_uring is refused: {reason}")]
    Refused {
        /// What is known about the cause.
        reason: String,
        /// What `io_uring_setup(2)` answered.
        source: io::Error,
    },
    /// The kernel is older than an operation that the engine needs.
    #[error("this kernel's io_uring lacks {0}")]
    MissingOpcode(&'static str),
    /// The kernel starts no worker thread for operations that must wait.
    #[error("io_uring gets no worker thread: {0}")]
    NoWorkers(String),
}

/// Runs operations on one ring.
pub struct Uring {
    ring: IoUring,
    /// Operations in flight. Invariant: an operation stays in its slot from `start` until its
    /// completion has been read, so its memory and file live as long as the kernel uses them.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Operations that the calling thread ran for lack of a worker thread, not yet given back.
    run_locally: Vec<Done>,
    /// The thread that started the latest operation.
    submitter: Option<ThreadId>,
    /// The engine has asked for a worker thread that has not come yet.
    worker_requested: bool,
    /// The pool whose region is registered as buffer 0. The engine holds it so that the memory
    /// outlives the registration.
    attached: Option<Pool>,
}

struct Slot {
    op: Op,
    /// The kernel reads this vector while the operation is in flight. For memory of one segment it
    /// stays empty and is never allocated.
    iovecs: Vec<libc::iovec>,
}

// SAFETY: the raw pointers in `iovecs` point into `op.mem`, which the slot owns and which is `Send`
// itself.
unsafe impl Send for Uring {}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uring({} of {} in flight)", self.in_flight(), self.slots.len())
    }
}

/// Most entries of a ring (`IORING_MAX_ENTRIES` in the kernel's `io_uring/io_uring.h`). The kernel
/// answers EINVAL to more.
const ENTRIES_MAX: usize = 32768;

/// Queued operations are submitted early as soon as there is one for every so many operations
/// running.
const RUNNING_PER_QUEUED: usize = 2;

/// How long a worker thread may take to start. The kernel itself gives up long before
/// ([`workers`]); an older one that does not is taken to have none.
const WORKER_START_MAX: Duration = Duration::from_secs(2);

/// The engine asks for a worker thread after so long without a completion.
const STALL_MAX: Duration = Duration::from_secs(1);

/// Marks the request for a worker thread. Operations carry the index of their slot instead.
const WORKER_REQUEST: u64 = u64::MAX;

/// Operations that the ring must support, with the names that messages use.
const OPCODES_NEEDED: [(u8, &str); 7] = [
    (opcode::Read::CODE, "IORING_OP_READ"),
    (opcode::Write::CODE, "IORING_OP_WRITE"),
    (opcode::Readv::CODE, "IORING_OP_READV"),
    (opcode::Writev::CODE, "IORING_OP_WRITEV"),
    (opcode::ReadFixed::CODE, "IORING_OP_READ_FIXED"),
    (opcode::WriteFixed::CODE, "IORING_OP_WRITE_FIXED"),
    (opcode::Fsync::CODE, "IORING_OP_FSYNC"),
];

/// The first of them that is not supported.
fn first_missing_opcode(supported: impl Fn(u8) -> bool) -> Option<&'static str> {
    OPCODES_NEEDED.iter().find(|(code, _)| !supported(*code)).map(|(_, name)| *name)
}

impl Uring {
    /// A ring for `depth` operations at a time, or for as many as a ring can hold.
    ///
    /// # Errors
    /// [`UringError`]: the sysctl `kernel.io_uring_disabled`, a seccomp filter or a memory limit
    /// refuses it, or the kernel is too old.
    pub fn new(depth: usize) -> Result<Uring, UringError> {
        Uring::over(build(entries(depth)), depth)
    }

    /// A ring that the calling thread alone may use, from now to its end. The kernel completes
    /// requests only when the thread looks for completions (`IORING_SETUP_SINGLE_ISSUER`,
    /// `IORING_SETUP_DEFER_TASKRUN`, Linux 6.1), which costs less. On an older kernel it is an
    /// ordinary ring.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub(crate) fn for_this_thread(depth: usize) -> Result<Uring, UringError> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let Ok(ring) = builder.build(entries(depth)) else { return Uring::new(depth) };
        // Saves a look-up of the ring at each system call. A refusal costs no more than that.
        let _ = ring.submitter().register_ring_fd();
        Uring::over(Ok(ring), depth)
    }

    fn over(ring: io::Result<IoUring>, depth: usize) -> Result<Uring, UringError> {
        let ring =
            ring.map_err(|source| UringError::Refused { reason: refusal_reason(&source), source })?;
        let mut probe = Probe::new();
        // IORING_REGISTER_PROBE came with kernel 5.6, as IORING_OP_READ did.
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(|_| UringError::MissingOpcode("IORING_REGISTER_PROBE"))?;
        if let Some(name) = first_missing_opcode(|code| probe.is_supported(code)) {
            return Err(UringError::MissingOpcode(name));
        }
        let depth = depth.min(ENTRIES_MAX);
        let slots = (0..depth).map(|_| None).collect();
        let free = (0..depth).rev().collect();
        Ok(Uring {
            ring,
            slots,
            free,
            run_locally: Vec::new(),
            submitter: None,
            worker_requested: false,
            attached: None,
        })
    }

    /// Checks that there are rings, and that the kernel starts worker threads for them. A request
    /// that does nothing asks for one.
    ///
    /// # Errors
    /// As [`Uring::new`]; [`UringError::NoWorkers`].
    pub(crate) fn check_workers() -> Result<(), UringError> {
        let mut uring = Uring::new(1)?;
        // Kernels before 5.11 cannot wait for a limited time. Their workers are not threads of the
        // user.
        if !uring.ring.params().is_feature_ext_arg() {
            return Ok(());
        }
        assert!(uring.request_worker(), "a new queue has room");
        let start = Instant::now();
        while start.elapsed() < WORKER_START_MAX {
            // The answer does not matter: whether time ran out or a signal came, the completion is
            // there or it is not.
            let _ = uring.enter(1, WORKER_START_MAX);
            if let Some(completion) = uring.ring.completion().next() {
                return raw_result(&completion)
                    .map(|_| ())
                    .map_err(|_| UringError::NoWorkers(workers::thread_limits()));
            }
        }
        Err(UringError::NoWorkers(workers::thread_limits()))
    }

    /// Operations handed to the ring whose completions have not been read.
    fn in_ring(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The submission entry of an operation. Its pointers stay valid because the slot owns their
    /// targets.
    fn entry(&self, slot: &mut Slot) -> io::Result<squeue::Entry> {
        let op = &mut slot.op;
        let fd = types::Fd(op.medium.descriptor(op.route)?.as_raw_fd());
        let flags = rw_flags(op.flags).bits().cast_signed();
        let Some(mem) = op.mem.as_ref() else {
            let sync = opcode::Fsync::new(fd);
            return match op.kind {
                OpKind::SyncData => Ok(sync.flags(types::FsyncFlags::DATASYNC).build()),
                OpKind::SyncAll => Ok(sync.build()),
                OpKind::Read | OpKind::Write => Err(Errno::INVAL.into()),
            };
        };
        assert!(
            op.kind == OpKind::Write || mem.writable(),
            "memory lent for writing out cannot be read into"
        );
        let position = op.offset + op.skip as u64;
        let mut segment_ranges = mem.segment_ranges(op.skip);
        if let (Some((start, len)), None) = (segment_ranges.next(), segment_ranges.next()) {
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let registered =
                mem.pool_id().is_some() && mem.pool_id() == self.attached.as_ref().map(Pool::id);
            return Ok(match (op.kind, registered) {
                (OpKind::Read, true) => opcode::ReadFixed::new(fd, start, len, 0)
                    .offset(position)
                    .rw_flags(flags)
                    .build(),
                (OpKind::Read, false) => {
                    opcode::Read::new(fd, start, len).offset(position).rw_flags(flags).build()
                }
                (_, true) => opcode::WriteFixed::new(fd, start, len, 0)
                    .offset(position)
                    .rw_flags(flags)
                    .build(),
                (_, false) => {
                    opcode::Write::new(fd, start, len).offset(position).rw_flags(flags).build()
                }
            });
        }
        let piece =
            |(start, len): (*mut u8, usize)| libc::iovec { iov_base: start.cast(), iov_len: len };
        slot.iovecs = mem.segment_ranges(op.skip).map(piece).collect();
        let (iovecs, count) =
            (slot.iovecs.as_ptr(), u32::try_from(slot.iovecs.len()).unwrap_or(u32::MAX));
        Ok(match op.kind {
            OpKind::Read => {
                opcode::Readv::new(fd, iovecs, count).offset(position).rw_flags(flags).build()
            }
            _ => opcode::Writev::new(fd, iovecs, count).offset(position).rw_flags(flags).build(),
        })
    }

    /// Submits queued operations before the device runs dry: as soon as there is one for every
    /// [`RUNNING_PER_QUEUED`] that are running. A caller that takes many completions at once and
    /// then queues as many operations would leave the device idle while it prepares them, and then
    /// send all of them together, again and again. Measured: 4 KiB random reads, 32 in flight, on
    /// virtio, 0.65–0.8 of fio's rate without this and 0.9–1.0 with it, on a busy machine.
    ///
    /// A single operation is never submitted here, so that one system call submits it and waits.
    fn keep_busy(&mut self) {
        let queued = self.ring.submission().len();
        let running = self.in_ring() - queued;
        if queued > 0 && queued * RUNNING_PER_QUEUED >= running {
            // What the kernel refuses now (EAGAIN, EBUSY, EINTR) stays queued until `finish`.
            let _ = self.ring.submit();
        }
    }

    /// Submits queued operations and waits for `missing` completions, for a limited time if the
    /// kernel can (5.11).
    fn enter(&self, missing: usize, time_max: Duration) -> io::Result<usize> {
        if missing == 0 || !self.ring.params().is_feature_ext_arg() {
            return self.ring.submit_and_wait(missing);
        }
        let time_max = types::Timespec::from(time_max);
        self.ring
            .submitter()
            .submit_with_args(missing, &types::SubmitArgs::new().timespec(&time_max))
    }

    /// Queues a request that does nothing and needs a worker thread. Returns false if there is no
    /// room.
    fn request_worker(&mut self) -> bool {
        let nothing =
            opcode::Nop::new().build().flags(squeue::Flags::ASYNC).user_data(WORKER_REQUEST);
        // SAFETY: a request that does nothing refers to no memory.
        unsafe { self.ring.submission().push(&nothing) }.is_ok()
    }

    /// Asks for a worker thread, because no completion has come for a while. Seen: an operation
    /// waits for a worker for ever, while the kernel has none for this thread and starts none. The
    /// worker asked for takes up the waiting operation. If the disk is merely slow, it does
    /// nothing.
    fn request_worker_once(&mut self) {
        self.worker_requested = self.worker_requested || self.request_worker();
    }

    fn take_completed(&mut self, done: &mut Vec<Done>) {
        for completion in self.ring.completion() {
            if completion.user_data() == WORKER_REQUEST {
                self.worker_requested = false;
                continue;
            }
            let index = completion.user_data() as usize;
            let slot =
                self.slots[index].take().expect("a completion answers an operation in flight");
            self.free.push(index);
            match raw_result(&completion) {
                Err(Errno::CANCELED) => {
                    if self.submitter == Some(std::thread::current().id()) {
                        SHORTAGE.record(slot.op.kind);
                    }
                    done.push(run_in_this_thread(slot.op));
                }
                result => done.push(Done { op: slot.op, result }),
            }
        }
    }
}

/// Runs one attempt in the calling thread.
///
/// The ring gave the operation up (ECANCELED) because it had to wait and no thread could do that.
/// Either the kernel may start no worker thread ([`workers`]), or the thread that submitted the
/// operation has ended and took with it what had not started (kernel, `io_uring/cancel.c`). In both
/// cases nothing of the operation has been done; the ring would have reported it.
fn run_in_this_thread(mut op: Op) -> Done {
    let medium = Arc::clone(&op.medium);
    let result = medium.transfer(&mut op);
    Done { op, result }
}

/// Least entries of a submission queue. The kernel allows a thread as many workers at a time as the
/// *first* ring of that thread has entries, and no more than four for each processor
/// (`io_uring/tctx.c`, `io_init_wq_offload`). If the first ring had one entry, all writes that
/// extend files would run one after the other, whatever rings come later. 64 entries fill a page.
const ENTRIES_MIN: usize = 64;

/// Entries of the submission queue for `depth` operations: a power of two (`io_uring_setup(2)`).
fn entries(depth: usize) -> u32 {
    assert!(depth > 0, "an engine takes at least one operation");
    depth.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two() as u32
}

/// Makes a ring with COOP_TASKRUN (5.19), which saves interrupting the caller for each completion.
/// Older kernels make one without.
fn build(entries: u32) -> io::Result<IoUring> {
    IoUring::builder().setup_coop_taskrun().build(entries).or_else(|error| {
        match error.raw_os_error() {
            Some(libc::EINVAL) => IoUring::builder().build(entries),
            _ => Err(error),
        }
    })
}

fn raw_result(completion: &cqueue::Entry) -> Result<usize, Errno> {
    let raw = completion.result();
    if raw >= 0 { Ok(raw as usize) } else { Err(Errno::from_raw_os_error(-raw)) }
}

/// What is known about a refused `io_uring_setup(2)`.
fn refusal_reason(error: &io::Error) -> String {
    let disabled =
        std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match (error.raw_os_error(), disabled.trim()) {
        (Some(libc::EPERM), value @ ("1" | "2")) => {
            format!("sysctl kernel.io_uring_disabled is {value}")
        }
        (Some(libc::EPERM | libc::EACCES), _) => {
            "a security policy (seccomp filter?) forbids it".into()
        }
        (Some(libc::ENOSYS), _) => {
            "the kernel has no io_uring, or a seccomp filter hides it".into()
        }
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
        self.in_ring() + self.run_locally.len()
    }

    fn start(&mut self, op: Op) -> Result<(), Op> {
        if self.in_flight() >= self.depth() {
            return Err(op);
        }
        self.keep_busy();
        if SHORTAGE.is_active(op.kind) {
            self.run_locally.push(run_in_this_thread(op));
            return Ok(());
        }
        let Some(index) = self.free.pop() else { return Err(op) };
        self.submitter = Some(std::thread::current().id());
        let mut slot = Slot { op, iovecs: Vec::new() };
        let entry = match self.entry(&mut slot) {
            Ok(entry) => entry.user_data(index as u64),
            // The file has no usable descriptor. The ring answers EBADF to this entry, as a system
            // call would.
            Err(_) => opcode::Fsync::new(types::Fd(-1)).build().user_data(index as u64),
        };
        self.slots[index] = Some(slot);
        // SAFETY: the slot owns the operation's memory, file and iovec array until the completion
        // has been read (`take_completed`), and `drop` waits for all of them.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the queue has an entry for every slot");
        Ok(())
    }

    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let wanted = done.len() + min.min(self.in_flight());
        done.append(&mut self.run_locally);
        let mut looked = false;
        loop {
            self.take_completed(done);
            let missing = wanted.saturating_sub(done.len());
            let submission = self.ring.submission();
            let (queued, work) = (!submission.is_empty(), submission.taskrun());
            drop(submission);
            // On a ring of one thread, completions wait until this thread looks for them. It looks
            // once: the flag that asks for it can stay set although there is nothing any more
            // (seen: all completions read, and the flag never cleared).
            let look = work && !looked && self.in_ring() > 0;
            if missing == 0 && !queued && !look {
                return Ok(());
            }
            looked = true;
            match self.enter(missing, STALL_MAX) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                    self.request_worker_once()
                }
                // EINTR: a signal came. EAGAIN and EBUSY: completions must be read before more can
                // be submitted (io_uring_enter(2)).
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
                    ) => {}
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
        // SAFETY: the region stays mapped for as long as `attached` holds the pool, and the ring is
        // dropped before it (fields drop in order of declaration).
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
        assert_eq!(first_missing_opcode(|_| true), None);
        for (missing, name) in OPCODES_NEEDED {
            assert_eq!(first_missing_opcode(|code| code != missing), Some(name));
            assert!(UringError::MissingOpcode(name).to_string().contains(name));
        }
    }

    #[test]
    fn a_ring_is_as_deep_as_rings_can_be() {
        match Uring::new(ENTRIES_MAX + 1) {
            Ok(ring) => assert_eq!(ring.depth(), ENTRIES_MAX),
            Err(error) => assert!(Uring::new(1).is_err(), "{error}"),
        }
    }

    /// A request that takes longer than the ring waits, like one whose worker never comes.
    #[test]
    fn what_takes_long_is_nudged_and_waited_for() {
        use crate::block::Pool;
        use crate::engine::{OpFlags, OsMedium, Route};
        let Ok(mut ring) = Uring::new(1) else { return };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let medium: Arc<dyn crate::engine::Medium> =
            Arc::new(OsMedium::both(rustix::io::dup(&reader).unwrap(), reader));
        let mem = Pool::new(4096, 1).unwrap().try_take().unwrap().into_mem(0..4);
        let op = Op {
            kind: OpKind::Read,
            route: Route::Buffered,
            flags: OpFlags::default(),
            medium,
            offset: 0,
            skip: 0,
            mem: Some(mem),
            ticket: 7,
        };
        ring.start(op).unwrap();
        let late = std::thread::spawn(move || {
            std::thread::sleep(2 * STALL_MAX + STALL_MAX / 2);
            rustix::io::write(&writer, b"late").unwrap();
        });
        let (begin, mut done) = (Instant::now(), Vec::new());
        ring.finish(1, &mut done).unwrap();
        late.join().unwrap();
        assert!(begin.elapsed() > 2 * STALL_MAX, "it was there at once");
        assert_eq!((done.len(), done[0].op.ticket, done[0].result), (1, 7, Ok(4)));
        assert!(!ring.worker_requested && ring.in_flight() == 0);
    }

    #[test]
    fn a_refusal_says_what_is_known_about_its_cause() {
        let said = |errno: i32| refusal_reason(&io::Error::from_raw_os_error(errno));
        assert!(said(libc::EPERM).contains("sysctl") || said(libc::EPERM).contains("seccomp"));
        assert!(said(libc::ENOMEM).contains("RLIMIT_MEMLOCK"));
        assert!(said(libc::EMFILE).contains("open files"));
    }
}
