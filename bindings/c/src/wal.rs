//! The log, for writing.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::time::Duration;

use ::dio_wal::{Log, Lsn, Method, Options, Preallocate, Recovery, TornWrites, WalError};
use libc::iovec;
use rustix::io::Errno;

use crate::border::{bytes, object, path, put, read_sized, shared, status, taken, write_sized};
use crate::error::{Failure, dio_error};
use crate::file::parts;

/// fdatasync(2) follows the writes of a commit: the default.
pub const DIO_WAL_FDATASYNC: u32 = 0;
/// fsync(2) follows the writes of a commit.
pub const DIO_WAL_FSYNC: u32 = 1;
/// The segments are opened with O_DSYNC.
pub const DIO_WAL_OPEN_DSYNC: u32 = 2;
/// The segments are opened with O_SYNC.
pub const DIO_WAL_OPEN_SYNC: u32 = 3;
/// A commit of one write makes that write durable by itself (RWF_DSYNC).
pub const DIO_WAL_RWF_DSYNC: u32 = 4;

/// Through the page cache instead of past it.
pub const DIO_WAL_CACHED: u32 = 1;
/// New segments are filled with zeros when they are made.
pub const DIO_WAL_ZEROED: u32 = 2;
/// A flush continues in a block that is not full, by atomic writes, also where only the file system
/// and not the disk itself has them.
pub const DIO_WAL_ATOMIC: u32 = 4;

/// No marks while the log is idle: see dio_wal_options.
pub const DIO_WAL_NEVER: u64 = u64::MAX;

/// How a log is opened. 0 in a field is its default, so memset() to 0 gives the defaults.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct dio_wal_options {
    /// Size of a segment of a new log, in bytes; 64 MiB by default.
    pub segment_bytes: u64,
    /// Size of a block of a new log, in bytes: a power of two from 512 to 65536; that of the file
    /// system by default. Smaller than the disk's physical block is not safe.
    pub block_bytes: u32,
    /// How writes become durable: DIO_WAL_FDATASYNC or another of these.
    pub method: u32,
    /// A sum of DIO_WAL_CACHED, DIO_WAL_ZEROED and DIO_WAL_ATOMIC.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Bytes of a buffer, in which records gather; 1 MiB by default. No write is larger.
    pub buffer_bytes: u64,
    /// How long a flush waits for more records, in nanoseconds; not at all by default.
    pub commit_delay_ns: u64,
    /// How long after the last commit the log writes a mark that says that all is durable, in
    /// nanoseconds; a second by default, DIO_WAL_NEVER for no marks.
    pub idle_mark_ns: u64,
}

/// The state of a log when it was opened.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct dio_wal_recovery {
    /// Records below this LSN were truncated.
    pub start: u64,
    /// LSN where the last record ends.
    pub end: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// LSN up to which the log itself says that it was durable. What lies behind was found whole.
    pub known_durable: u64,
    /// The log says that nothing is missing: it was closed, or idle, or has no records.
    pub ended: bool,
}

/// A log that is open for writing. Given back by dio_wal_close().
pub struct dio_wal {
    pub(crate) log: Log,
}

/// Opens the log in an existing directory, or makes one there. A log that exists is recovered
/// first: see dio_wal_recovery_of(). `options` has `size` bytes, sizeof(struct dio_wal_options);
/// NULL for the defaults.
///
/// Fails with EBUSY if the log is open already, here or in another process, and with EBADMSG if
/// records that were durable cannot be read: dio_wal_salvage() takes what is sound.
///
/// The log has some threads for work in the background.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_open(
    directory: *const c_char,
    options: *const dio_wal_options,
    size: usize,
    error: *mut *mut dio_error,
) -> *mut dio_wal {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        object(error, || {
            let defaults = dio_wal_options::default();
            let given =
                if options.is_null() { defaults } else { read_sized(options, size, defaults) };
            let directory: &Path = path(directory, "directory")?;
            Ok(dio_wal { log: Log::open(directory, &translate(&given)?)? })
        })
    }
}

fn translate(given: &dio_wal_options) -> Result<Options, Failure> {
    let invalid = |text: String| Failure::new(Errno::INVAL, text);
    let mut options = Options::new();
    options.method(match given.method {
        DIO_WAL_FDATASYNC => Method::Fdatasync,
        DIO_WAL_FSYNC => Method::Fsync,
        DIO_WAL_OPEN_DSYNC => Method::OpenDatasync,
        DIO_WAL_OPEN_SYNC => Method::OpenSync,
        DIO_WAL_RWF_DSYNC => Method::RwfDsync,
        other => return Err(invalid(format!("there is no sync method {other}"))),
    });
    let known = DIO_WAL_CACHED | DIO_WAL_ZEROED | DIO_WAL_ATOMIC;
    if given.reserved != 0 {
        return Err(invalid("the field 'reserved' is not 0".into()));
    }
    if given.flags & !known != 0 {
        return Err(invalid(format!("there are no flags {:#x} of a log", given.flags & !known)));
    }
    options.direct(given.flags & DIO_WAL_CACHED == 0);
    if given.flags & DIO_WAL_ZEROED != 0 {
        options.preallocate(Preallocate::Zeros);
    }
    if given.flags & DIO_WAL_ATOMIC != 0 {
        options.torn_writes(TornWrites::Atomic);
    }
    if given.segment_bytes > 0 {
        options.segment(given.segment_bytes);
    }
    if given.block_bytes > 0 {
        options.block(given.block_bytes);
    }
    if given.buffer_bytes > 0 {
        let bytes = usize::try_from(given.buffer_bytes);
        options.buffer(bytes.map_err(|_| invalid("the buffer is too large".to_owned()))?);
    }
    options.commit_delay(Duration::from_nanos(given.commit_delay_ns));
    match given.idle_mark_ns {
        0 => {}
        DIO_WAL_NEVER => drop(options.idle_mark(None)),
        ns => drop(options.idle_mark(Some(Duration::from_nanos(ns)))),
    }
    Ok(options)
}

/// Stores what was found when the log was opened, in a structure of `size` bytes: sizeof(struct
/// dio_wal_recovery).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_recovery_of(
    wal: *const dio_wal,
    recovery: *mut dio_wal_recovery,
    size: usize,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let found: &Recovery = shared(wal, "wal")?.log.recovery();
            let found = dio_wal_recovery {
                start: found.start.0,
                end: found.end.0,
                records: found.records,
                bytes: found.bytes,
                known_durable: found.known_durable.0,
                ended: found.ended,
            };
            write_sized(recovery, size, &found, "recovery")
        })
    }
}

/// Appends a record of `count` bytes, at most 64 MiB, and stores its log sequence number in `lsn`
/// unless that is NULL. The record is durable after dio_wal_commit() of this or a later LSN.
///
/// Fails with ENOSPC if there is no space: nothing was appended then, and the log is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_append(
    wal: *const dio_wal,
    record: *const c_void,
    count: usize,
    lsn: *mut u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let appended = shared(wal, "wal")?.log.append(bytes(record, count)?)?;
            put(lsn, appended.0);
            Ok(())
        })
    }
}

/// As dio_wal_append(), for one record that consists of `count` buffers, one behind the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_appendv(
    wal: *const dio_wal,
    buffers: *const iovec,
    count: c_int,
    lsn: *mut u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let (slices, _) = parts(buffers, count)?;
            let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
            let appended = shared(wal, "wal")?.log.append_vectored(&slices)?;
            put(lsn, appended.0);
            Ok(())
        })
    }
}

/// Returns when the record at `lsn`, and all before it, are durable. Threads that commit at the
/// same time share a flush.
///
/// Once a write or sync has failed, every later commit fails: what is durable is durable, and the
/// log must be opened again. ERANGE for an LSN that was not appended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_commit(
    wal: *const dio_wal,
    lsn: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(shared(wal, "wal")?.log.commit(Lsn(lsn))?)) }
}

/// Called when a commit is done, in a thread of the log or in one that commits. `error` is NULL, or
/// belongs to the function called. It should be short, and must neither commit nor close the log.
pub type dio_wal_done = Option<unsafe extern "C" fn(context: *mut c_void, error: *mut dio_error)>;

/// The context of a callback, which may be called in any thread.
struct Callback(unsafe extern "C" fn(*mut c_void, *mut dio_error), *mut c_void);

// SAFETY: the comment of `dio_wal_done` tells the caller that another thread will use the context.
unsafe impl Send for Callback {}

impl Callback {
    fn call(self, outcome: Result<(), WalError>) {
        let mut error = std::ptr::null_mut();
        // SAFETY: the error goes into a variable of ours; function and context are the caller's.
        unsafe {
            status(&raw mut error, || Ok(outcome?));
            (self.0)(self.1, error);
        }
    }
}

/// As dio_wal_commit(), but returns at once and calls `done` when the record is durable, or when it
/// never will be. `done` is called once for each call that returns 0, at the latest while the log
/// is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_commit_later(
    wal: *const dio_wal,
    lsn: u64,
    done: dio_wal_done,
    context: *mut c_void,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let done =
                done.ok_or_else(|| Failure::new(Errno::FAULT, "the argument 'done' is NULL"))?;
            let callback = Callback(done, context);
            Ok(shared(wal, "wal")?
                .log
                .commit_later(Lsn(lsn), move |outcome| callback.call(outcome))?)
        })
    }
}

/// Stores LSNs of the log where the pointers are not NULL: `start`, below which records were
/// truncated; `flushed`, below which all are durable; `end`, where the last one ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_bounds(
    wal: *const dio_wal,
    start: *mut u64,
    flushed: *mut u64,
    end: *mut u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let log = &shared(wal, "wal")?.log;
            put(start, log.start().0);
            put(flushed, log.flushed().0);
            put(end, log.end().0);
            Ok(())
        })
    }
}

/// Gives up all records below `lsn`, durably. Segments that hold no record that is still needed are
/// reused or removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_truncate(
    wal: *const dio_wal,
    lsn: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(shared(wal, "wal")?.log.truncate_before(Lsn(lsn))?)) }
}

/// Makes everything durable, ends the log with a mark that says so, and closes it, also if it
/// fails. Its readers go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_close(wal: *mut dio_wal, error: *mut *mut dio_error) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(taken(wal, "wal")?.log.close()?)) }
}
