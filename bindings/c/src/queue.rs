//! Many requests in flight.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;

use dio::Io;
use dio::block::Segment;
use dio::queue::{RangeCompletion, RangeQueue};
use rustix::io::Errno;

use crate::border::{check, number, object, shared, status, taken};
use crate::error::{Failure, dio_error};
use crate::file::dio_file;

/// Memory for requests that are not aligned, for each request in flight, in bytes.
const BOUNCE_BYTES: usize = 64 << 10;

/// Largest memory of a queue for requests that are not aligned, in bytes.
const BOUNCE_BYTES_MAX: usize = 64 << 20;

/// A queue of reads, writes and syncs, for many in flight at a time. It belongs to the thread that
/// made it: from any other thread its functions fail with EPERM. Given back by dio_queue_free().
///
/// Any range and any memory will do. Reads, and writes of whole blocks within the size of the file,
/// are in flight together. Writes that extend the file or begin or end within a block (see
/// dio_alignment_of()), and syncs, need the file to themselves: each runs alone within
/// dio_queue_wait(), after everything that was in flight. So allocate first (dio_allocate()).
///
/// Requests that overlap wait for each other, whichever queue or thread they belong to, unless the
/// file was opened with DIO_CONCURRENT: then their order is the caller's affair. While a queue has
/// requests in flight, its thread must call no other function that has to wait for one of them.
pub struct dio_queue {
    /// Invariant: the queue is touched by this thread only. The C library's number is used because
    /// it can be asked for at any time, also while a thread ends and frees what it kept.
    thread: libc::pthread_t,
    queue: UnsafeCell<RangeQueue>,
}

/// A finished request.
#[repr(C)]
pub struct dio_completion {
    /// The number that the caller gave the request.
    pub tag: u64,
    /// Bytes transferred, or a negative error number. A read transfers fewer bytes than asked for
    /// only at the end of the file; a write transfers all or fails.
    pub result: i64,
    /// The error, which the caller frees; NULL if there is none.
    pub error: *mut dio_error,
}

/// Makes a queue of at most `depth` requests (1 to 4096), for use in this thread. Its memory is
/// bounded: 64 KiB for each request, but at most 64 MiB. Free it with dio_queue_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_new(depth: u32, error: *mut *mut dio_error) -> *mut dio_queue {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        object(error, || {
            if !(1..=4096).contains(&depth) {
                let text = format!("a queue of {depth} requests: the depth is 1 to 4096");
                return Err(Failure::new(Errno::INVAL, text));
            }
            let io = Io::shared()
                .map_err(|error| Failure::new(Errno::NOMEM, format!("no I/O engine: {error}")))?;
            let bounce = (depth as usize * BOUNCE_BYTES).min(BOUNCE_BYTES_MAX);
            let queue = RangeQueue::new(&io, depth as usize, bounce)
                .map_err(|error| Failure::io("cannot map the memory of a queue", &error))?;
            Ok(dio_queue { thread: this_thread(), queue: UnsafeCell::new(queue) })
        })
    }
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: it always succeeds.
    unsafe { libc::pthread_self() }
}

/// The queue behind a pointer of its own thread's.
///
/// # Safety
/// As [`shared`].
unsafe fn own<'a>(queue: *mut dio_queue) -> Result<&'a mut RangeQueue, Failure> {
    // SAFETY: the caller's promise. Other threads may come here too, and share the reference.
    let queue = unsafe { shared(queue, "queue")? };
    if queue.thread != this_thread() {
        let text = "the queue belongs to another thread, which made it";
        return Err(Failure::new(Errno::PERM, text).with_cure("make a queue for each thread"));
    }
    // SAFETY: no other thread comes this far, and this one has no other reference: no function of
    // libdio calls back while it has one.
    Ok(unsafe { &mut *queue.queue.get() })
}

/// Memory of the caller's, which the header obliges to leave it alone until the request is
/// finished.
///
/// # Safety
/// As [`Segment::foreign`].
unsafe fn segment(memory: *mut c_void, len: usize, writable: bool) -> Result<Segment, Failure> {
    if len > 0 {
        check(memory, len)?;
    }
    let start = NonNull::new(memory.cast()).unwrap_or(NonNull::dangling());
    // SAFETY: the caller's promise.
    Ok(unsafe { Segment::foreign(start, len, writable) })
}

/// Queues a read of `count` bytes from `offset` into `buffer`. It starts in the next call of
/// dio_queue_submit() or dio_queue_wait() at the latest. `tag` comes back with its completion.
/// Nobody may touch the buffer until then.
///
/// Fails with EAGAIN if as many requests as the queue is deep are queued and not yet returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_read(
    queue: *mut dio_queue,
    file: *const dio_file,
    buffer: *mut c_void,
    count: usize,
    offset: u64,
    tag: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let (queue, file) = (own(queue)?, &shared(file, "file")?.file);
            Ok(queue.read(file, segment(buffer, count, true)?, offset, tag)?)
        })
    }
}

/// Queues a write of `count` bytes at `offset`. As dio_queue_read(), but the buffer may be read
/// meanwhile. It also fails with an earlier write error of the file: see dio_pwrite().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_write(
    queue: *mut dio_queue,
    file: *const dio_file,
    buffer: *const c_void,
    count: usize,
    offset: u64,
    tag: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules. Memory that is not writable is only
    // read.
    unsafe {
        status(error, || {
            let (queue, file) = (own(queue)?, &shared(file, "file")?.file);
            Ok(queue.write(file, segment(buffer.cast_mut(), count, false)?, offset, tag)?)
        })
    }
}

/// Queues a sync, which makes durable what was queued before it: see dio_sync().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_sync(
    queue: *mut dio_queue,
    file: *const dio_file,
    all: bool,
    tag: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let (queue, file) = (own(queue)?, &shared(file, "file")?.file);
            Ok(queue.sync(file, all, tag)?)
        })
    }
}

/// Starts what was queued, except what runs alone, and does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_submit(
    queue: *mut dio_queue,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || own(queue)?.submit().map_err(|error| engine(&error))) }
}

/// Starts what was queued, waits until at least `min` requests are finished, or all if they are
/// fewer, and stores at most `max` completions. Returns their number. The order is that in which
/// requests were finished.
///
/// If it fails, the engine is broken: the queue can only be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_wait(
    queue: *mut dio_queue,
    min: u32,
    completions: *mut dio_completion,
    max: u32,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    let stored = unsafe {
        number(error, || {
            let queue = own(queue)?;
            if max > 0 {
                shared(completions, "completions")?;
            }
            queue.wait(min.min(max) as usize).map_err(|error| engine(&error))?;
            let mut stored = 0;
            while stored < max {
                let Some(finished) = queue.take() else { break };
                completions.add(stored as usize).write(completion(finished));
                stored += 1;
            }
            Ok(i64::from(stored))
        })
    };
    stored as i32
}

fn engine(error: &std::io::Error) -> Failure {
    Failure::io("the I/O engine failed", error)
}

fn completion(finished: RangeCompletion) -> dio_completion {
    let mut error = std::ptr::null_mut();
    let outcome = finished.outcome.map(|count| count as i64).map_err(Failure::from);
    // SAFETY: the error is stored in a variable of ours.
    let result = unsafe { number(&raw mut error, || outcome) };
    dio_completion { tag: finished.tag, result, error }
}

/// Returns the number of requests that are queued and not yet returned by dio_queue_wait().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_in_flight(
    queue: *mut dio_queue,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { number(error, || Ok(own(queue)?.in_flight() as i64)) as i32 }
}

/// Runs what is queued to its end and frees the queue, in the thread that made it; from another
/// thread it fails and frees nothing. Outcomes that were not fetched are lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_queue_free(queue: *mut dio_queue, error: *mut *mut dio_error) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let outcome = own(queue)?.wait(usize::MAX).map_err(|error| engine(&error));
            drop(taken(queue, "queue")?);
            outcome
        })
    }
}
