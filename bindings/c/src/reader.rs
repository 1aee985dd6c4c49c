//! Readers of a log, and taking what is sound out of a damaged one.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use ::dio_wal::storage::{Directory, Method};
use ::dio_wal::{Lsn, Reader, WalError, salvage};

use crate::border::{exclusive, number, object, path, put, shared, status, write_sized};
use crate::error::{Failure, dio_error};
use crate::quiet::quiet;
use crate::wal::dio_wal;
use rustix::io::Errno;

/// Reads the records of a log in their order. One thread at a time may use it. Given back by
/// dio_wal_reader_free().
pub struct dio_wal_reader {
    reader: Reader,
}

/// Opens the log in a directory for reading, whether or not it is open for writing, here or in
/// another process. It returns records from LSN `from` on, the last of which may not be durable
/// yet; 0 for all.
///
/// Fails with ENOENT if there is no log, and with EBADMSG if its beginning is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_reader_open(
    directory: *const c_char,
    from: u64,
    error: *mut *mut dio_error,
) -> *mut dio_wal_reader {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        object(error, || {
            let reader = Reader::open(path(directory, "directory")?, true, Lsn(from))?;
            Ok(dio_wal_reader { reader })
        })
    }
}

/// Makes a reader of the durable records of a log that is open, from LSN `from` on, including those
/// that become durable later. It may outlive the log.
///
/// Fails with ERANGE if `from` was truncated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_reader_new(
    wal: *const dio_wal,
    from: u64,
    error: *mut *mut dio_error,
) -> *mut dio_wal_reader {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        object(error, || Ok(dio_wal_reader { reader: shared(wal, "wal")?.log.reader(Lsn(from))? }))
    }
}

/// Reads the next record. Returns 1 and stores where its bytes are, how many there are, and its
/// LSN, each unless the pointer is NULL. Returns 0 where the log ends, for now if it is being
/// written.
///
/// The bytes belong to the reader and stay until its next call. Fails with EBADMSG if a record
/// cannot be read although later ones were durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_reader_next(
    reader: *mut dio_wal_reader,
    record: *mut *const c_void,
    count: *mut usize,
    lsn: *mut u64,
    error: *mut *mut dio_error,
) -> c_int {
    // SAFETY: the arguments are valid by the header's rules.
    let found = unsafe {
        number(error, || {
            let Some(found) = exclusive(reader, "reader")?.reader.next()? else { return Ok(0) };
            put(record, found.data.as_ptr().cast());
            put(count, found.data.len());
            put(lsn, found.lsn.0);
            Ok(1)
        })
    };
    found as c_int
}

/// Checks, after dio_wal_reader_next() has returned 0, that the log ends there: fails with EBADMSG
/// if there is evidence that more was durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_reader_check_end(
    reader: *mut dio_wal_reader,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(exclusive(reader, "reader")?.reader.check_end()?)) }
}

/// Frees a reader. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_reader_free(reader: *mut dio_wal_reader) {
    if !reader.is_null() {
        // SAFETY: it was made by `border::object` and is not used again.
        quiet((), || drop(unsafe { Box::from_raw(reader) }));
    }
}

/// The records that were taken out of a damaged log, and those that are lost.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct dio_wal_salvaged {
    /// Number of sound records.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Records below this LSN were truncated, as far as the log says.
    pub start: u64,
    /// LSN where the last sound record ends.
    pub end: u64,
    /// LSN up to which the log says that it was durable.
    pub known_durable: u64,
    /// Number of parts that are missing between sound records or before them.
    pub gaps: u64,
    /// Number of parts that the disk could not read.
    pub unreadable: u64,
}

/// Called with each sound record of a log. Returns 0 to go on, or a positive error number, with
/// which dio_wal_salvage() then fails. It must not leave by longjmp().
pub type dio_wal_take = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        lsn: u64,
        record: *const c_void,
        count: usize,
    ) -> c_int,
>;

/// Hands every sound record of a log to `take`, whether or not the log is damaged, and changes
/// nothing. Records that were truncated may be among them. Stores what is lost in `salvaged`, of
/// `size` bytes: sizeof(struct dio_wal_salvaged).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_wal_salvage(
    directory: *const c_char,
    take: dio_wal_take,
    context: *mut c_void,
    salvaged: *mut dio_wal_salvaged,
    size: usize,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let take =
                take.ok_or_else(|| Failure::new(Errno::FAULT, "the argument 'take' is NULL"))?;
            let directory = path(directory, "directory")?;
            let storage = Directory::open(directory, true, Method::Fdatasync).map_err(|error| {
                Failure::io(&format!("cannot open the log in '{}'", directory.display()), &error)
            })?;
            let found = salvage::<Stopped>(Arc::new(storage), |record| {
                let (data, len) = (record.data.as_ptr().cast(), record.data.len());
                match take(context, record.lsn.0, data, len) {
                    0 => Ok(()),
                    number => Err(Stopped::ByCaller(number)),
                }
            })?;
            let found = dio_wal_salvaged {
                records: found.records,
                bytes: found.bytes,
                start: found.start.0,
                end: found.to.0,
                known_durable: found.known_durable.0,
                gaps: found.gaps.len() as u64,
                unreadable: found.unreadable.len() as u64,
            };
            write_sized(salvaged, size, &found, "salvaged")
        })
    }
}

/// Why salvaging ended early.
enum Stopped {
    ByCaller(c_int),
    Log(WalError),
}

impl From<WalError> for Stopped {
    fn from(error: WalError) -> Stopped {
        Stopped::Log(error)
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        match stopped {
            Stopped::ByCaller(number) => {
                let errno = Errno::from_raw_os_error(number.clamp(1, 4095));
                Failure::system("the callback refused a record", errno)
            }
            Stopped::Log(error) => error.into(),
        }
    }
}
