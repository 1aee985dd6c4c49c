//! Files.

use std::ffi::{c_char, c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use dio::{File, Mode, Need, OpenOptions, SyncMethod};
use libc::iovec;
use rustix::io::Errno;

use crate::border::{
    array, bytes, bytes_mut, check, number, object, path, shared, status, taken, write_sized,
};
use crate::error::{Failure, dio_error};

/// Open for reading.
pub const DIO_READ: u32 = 1;
/// Open for writing.
pub const DIO_WRITE: u32 = 2;
/// Create the file if it does not exist.
pub const DIO_CREATE: u32 = 4;
/// Create the file; an existing one is an error (EEXIST).
pub const DIO_EXCLUSIVE: u32 = 8;
/// Cut an existing file to nothing. Needs DIO_WRITE.
pub const DIO_TRUNCATE: u32 = 16;
/// A symbolic link as the last part of the name is an error (ELOOP).
pub const DIO_NOFOLLOW: u32 = 32;
/// Each write is durable when it returns, with what is needed to read it back.
pub const DIO_DSYNC: u32 = 64;
/// Each write is durable when it returns, with all metadata.
pub const DIO_SYNC: u32 = 128;
/// Bytes that cannot go direct are an error (EOPNOTSUPP), with DIO_CONCURRENT. DIO_DIRECT implies
/// it.
pub const DIO_REQUIRED: u32 = 256;

/// Direct where the file system can; elsewhere through the page cache, which keeps nothing of it.
/// dio_receipt_of() tells what happened. Reads share their range of the file and writes have it
/// alone, within the process.
pub const DIO_AUTO: u32 = 0;
/// As DIO_AUTO, but where it cannot be direct, opening, reading or writing fails (EOPNOTSUPP).
pub const DIO_DIRECT: u32 = 1;
/// Through the page cache.
pub const DIO_CACHED: u32 = 2;
/// As DIO_AUTO without the locks of ranges: the caller orders its own overlapping requests, as
/// databases do. Fastest for many writers of one file.
pub const DIO_CONCURRENT: u32 = 3;
/// Through the page cache, which keeps nothing of it that was not there before.
pub const DIO_UNCACHED: u32 = 4;

const FLAGS: u32 = DIO_REQUIRED * 2 - 1;

/// An open file, plain or striped, or a block device. Given back by dio_close().
pub struct dio_file {
    pub(crate) file: Arc<File>,
}

/// The alignments and sizes that a file prefers. No caller has to keep to them; bytes that do are
/// not copied.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct dio_alignment {
    /// Alignment of memory, in bytes.
    pub memory: u64,
    /// Alignment of offsets and lengths, in bytes, for reading and for writing.
    pub block: u64,
    /// Size of requests that the file system recommends, in bytes.
    pub preferred: u64,
}

/// Opens a file. `flags` are DIO_READ, DIO_WRITE or both, and others of DIO_CREATE to
/// DIO_REQUIRED; `mode` is one of DIO_AUTO to DIO_UNCACHED. `permissions` are those of a file that
/// is created, before the umask.
///
/// Fails as open(2), with EOPNOTSUPP if direct I/O is required and cannot be had, and with EINVAL
/// for unknown flags, for neither DIO_READ nor DIO_WRITE, for DIO_TRUNCATE without DIO_WRITE, and
/// for what is neither a regular file nor a block device. Close it with dio_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_open(
    path: *const c_char,
    flags: u32,
    mode: u32,
    permissions: u32,
    error: *mut *mut dio_error,
) -> *mut dio_file {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        object(error, || {
            let path = self::path(path, "path")?;
            let file = options(flags, mode, permissions)?.open(path)?;
            Ok(dio_file { file: Arc::new(file) })
        })
    }
}

fn options(flags: u32, mode: u32, permissions: u32) -> Result<OpenOptions, Failure> {
    let is_set = |flag| flags & flag != 0;
    let (mode, need) = match mode {
        DIO_AUTO => (Mode::Direct, Need::Preferred),
        DIO_DIRECT => (Mode::Direct, Need::Required),
        DIO_CACHED => (Mode::Cached, Need::Preferred),
        DIO_CONCURRENT if is_set(DIO_REQUIRED) => (Mode::Concurrent, Need::Required),
        DIO_CONCURRENT => (Mode::Concurrent, Need::Preferred),
        DIO_UNCACHED => (Mode::Uncached, Need::Preferred),
        other => return Err(Failure::new(Errno::INVAL, format!("there is no mode {other}"))),
    };
    if flags & !FLAGS != 0 {
        let unknown = flags & !FLAGS;
        return Err(Failure::new(Errno::INVAL, format!("there are no flags {unknown:#x}")));
    }
    if !is_set(DIO_READ | DIO_WRITE) {
        let text = "flags have neither DIO_READ nor DIO_WRITE";
        return Err(Failure::new(Errno::INVAL, text));
    }
    if is_set(DIO_TRUNCATE) && !is_set(DIO_WRITE) {
        let text = "flags have DIO_TRUNCATE without DIO_WRITE";
        return Err(Failure::new(Errno::INVAL, text));
    }
    let sync = match () {
        () if is_set(DIO_SYNC) => SyncMethod::Sync,
        () if is_set(DIO_DSYNC) => SyncMethod::Dsync,
        () => SyncMethod::Explicit,
    };
    let mut options = OpenOptions::new();
    options
        .read(is_set(DIO_READ))
        .write(is_set(DIO_WRITE))
        .create(is_set(DIO_CREATE))
        .create_new(is_set(DIO_EXCLUSIVE))
        .truncate(is_set(DIO_TRUNCATE))
        .no_follow(is_set(DIO_NOFOLLOW))
        .permissions(permissions)
        .mode(mode)
        .need(need)
        .sync_method(sync);
    Ok(options)
}

/// Closes a file, also if it reports an error. What passed through the page cache is written back
/// and dropped from it before. Reports the first write or sync error of the file, if there was one.
/// It does not make anything durable.
///
/// Requests of queues to the file go on. The file must not be used by another call any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_close(file: *mut dio_file, error: *mut *mut dio_error) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(taken(file, "file")?.file.settle()?)) }
}

/// Reads `count` bytes from `offset` into `buffer`. Returns the bytes read, which are fewer than
/// `count` only at the end of the file. Fails with the first error of any part; EOVERFLOW for a
/// range that no file can have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_pread(
    file: *const dio_file,
    buffer: *mut c_void,
    count: usize,
    offset: u64,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let file = &shared(file, "file")?.file;
            check_end(offset, count as u64)?;
            let buffer = bytes_mut(buffer, count)?;
            let count = within(file, offset, count)?;
            Ok(file.read_at(&mut buffer[..count], offset)? as i64)
        })
    }
}

/// Writes `count` bytes at `offset`, and extends the file if need be. Returns `count`: all bytes
/// are written, or it fails. They are durable after dio_sync().
///
/// After a failure the contents of the range are undefined, and every later write, resize and sync
/// through this dio_file fails with the same error, since the kernel may have lost data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_pwrite(
    file: *const dio_file,
    buffer: *const c_void,
    count: usize,
    offset: u64,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            shared(file, "file")?.file.write_at(bytes(buffer, count)?, offset)?;
            Ok(count as i64)
        })
    }
}

/// As dio_pread(), into `count` buffers in turn, which must not overlap. Any number of buffers of
/// any length may be given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_preadv(
    file: *const dio_file,
    buffers: *const iovec,
    count: c_int,
    offset: u64,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let file = &shared(file, "file")?.file;
            let slices = vectors(buffers, count)?
                .iter()
                .map(|each| bytes_mut(each.iov_base, each.iov_len).map(IoSliceMut::new));
            let mut slices: Vec<_> = slices.collect::<Result<_, _>>()?;
            check_end(
                offset,
                slices.iter().fold(0, |sum: u64, each| sum.saturating_add(each.len() as u64)),
            )?;
            Ok(file.read_vectored_at(&mut slices, offset)? as i64)
        })
    }
}

/// As dio_pwrite(), from `count` buffers in turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_pwritev(
    file: *const dio_file,
    buffers: *const iovec,
    count: c_int,
    offset: u64,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let file = &shared(file, "file")?.file;
            let (slices, len) = parts(buffers, count)?;
            file.write_vectored_at(&slices, offset)?;
            Ok(len)
        })
    }
}

/// Appends `count` buffers, one behind the other, wherever the file ends at that moment. Returns
/// the bytes written. It overwrites nothing that other programs append. Fails as dio_pwrite(), and
/// with EOPNOTSUPP for a striped file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_appendv(
    file: *const dio_file,
    buffers: *const iovec,
    count: c_int,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let file = &shared(file, "file")?.file;
            let (slices, len) = parts(buffers, count)?;
            file.append(&slices)?;
            Ok(len)
        })
    }
}

/// The caller's buffers to write, and their bytes.
///
/// # Safety
/// As [`array`] and [`bytes`].
pub(crate) unsafe fn parts<'a>(
    buffers: *const iovec,
    count: c_int,
) -> Result<(Vec<IoSlice<'a>>, i64), Failure> {
    // SAFETY: the caller's promise.
    let vectors: &'a [iovec] = unsafe { vectors(buffers, count)? };
    let mut slices = Vec::with_capacity(vectors.len());
    for each in vectors {
        // SAFETY: the caller's promise.
        slices.push(IoSlice::new(unsafe { bytes(each.iov_base, each.iov_len)? }));
    }
    let len = vectors.iter().fold(0_usize, |sum, each| sum.saturating_add(each.iov_len));
    check(std::ptr::without_provenance(1), len)?;
    Ok((slices, len as i64))
}

/// # Safety
/// As [`array`].
unsafe fn vectors<'a>(buffers: *const iovec, count: c_int) -> Result<&'a [iovec], Failure> {
    let count = usize::try_from(count);
    let count =
        count.map_err(|_| Failure::new(Errno::INVAL, "the number of buffers is negative"))?;
    // SAFETY: the caller's promise.
    unsafe { array(buffers, count, "buffers") }
}

/// Returns the size of the file in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_size(file: *const dio_file, error: *mut *mut dio_error) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { number(error, || Ok(shared(file, "file")?.file.size()? as i64)) }
}

/// Sets the size in bytes. A smaller size cuts the file off; a larger one adds a hole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_truncate(
    file: *const dio_file,
    size: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(shared(file, "file")?.file.set_size(size)?)) }
}

/// Allocates space for `length` bytes from `offset`, so that writing there cannot fail for lack of
/// it. With `extend` the file grows if need be, and what was not written reads as zeros. Writes
/// that extend a file exclude each other, so whoever writes much allocates first.
///
/// Fails as fallocate(2): ENOSPC without space, and then nothing has been lost; EOPNOTSUPP where
/// the file system cannot allocate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_allocate(
    file: *const dio_file,
    offset: u64,
    length: u64,
    extend: bool,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let file = &shared(file, "file")?.file;
            Ok(file.allocate(range(offset, length)?, extend)?)
        })
    }
}

/// Turns `length` bytes from `offset` into a hole, which reads as zeros. Fails as fallocate(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_punch(
    file: *const dio_file,
    offset: u64,
    length: u64,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe { status(error, || Ok(shared(file, "file")?.file.punch(range(offset, length)?)?)) }
}

fn range(offset: u64, length: u64) -> Result<Range<u64>, Failure> {
    check_end(offset, length)?;
    Ok(offset..offset + length)
}

/// Checks that a file can reach so far.
/// Reduces a count that is larger than most files to what the file has from `offset` on, because
/// planning a read takes time and memory by its length.
fn within(file: &File, offset: u64, count: usize) -> Result<usize, Failure> {
    const COUNT_MAX: usize = 256 << 20;
    if count <= COUNT_MAX {
        return Ok(count);
    }
    let rest = file.size()?.saturating_sub(offset);
    Ok(count.min(usize::try_from(rest).unwrap_or(usize::MAX).max(COUNT_MAX)))
}

fn check_end(offset: u64, length: u64) -> Result<(), Failure> {
    let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
    end.map(drop).ok_or_else(|| Failure::new(Errno::OVERFLOW, "no file reaches as far"))
}

/// Makes durable what was written: the data and what is needed to read it back (fdatasync(2)), or
/// with `all` also all other metadata (fsync(2)). A new file's name is durable after an fsync(2) of
/// its directory.
///
/// An error stays: see dio_pwrite().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_sync(
    file: *const dio_file,
    all: bool,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let file = &shared(file, "file")?.file;
            Ok(if all { file.sync_all() } else { file.sync_data() }?)
        })
    }
}

/// Stores what the file likes, in a structure of `size` bytes: sizeof(struct dio_alignment).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_alignment_of(
    file: *const dio_file,
    alignment: *mut dio_alignment,
    size: usize,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let file = &shared(file, "file")?.file;
            let geometry = file.geometry();
            let found = dio_alignment {
                memory: geometry.mem_align(),
                block: file.block_align(),
                preferred: geometry.preferred(),
            };
            write_sized(alignment, size, &found, "alignment")
        })
    }
}

/// Stores at most `max` of the file descriptors that the file has open now, and returns how many
/// there are. They belong to the dio_file, and serve for questions to the system about the file
/// (fstat(2)), never for the bytes. Those of a striped file include those of its parts; the first
/// is that of the file with the name.
///
/// As with any descriptors, the process loses its POSIX locks on the file (fcntl(2), F_SETLK) when
/// one of them is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_descriptors(
    file: *const dio_file,
    descriptors: *mut c_int,
    max: u32,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    let count = unsafe {
        number(error, || {
            let open = shared(file, "file")?.file.descriptors();
            if max > 0 {
                shared(descriptors, "descriptors")?;
            }
            for (index, fd) in open.iter().take(max as usize).enumerate() {
                descriptors.add(index).write(fd.as_raw_fd());
            }
            Ok(open.len() as i64)
        })
    };
    count as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        for (flags, word) in [
            (0, "DIO_READ"),
            (DIO_CREATE | DIO_SYNC, "DIO_READ"),
            (DIO_TRUNCATE, "DIO_READ"),
            (DIO_READ | DIO_TRUNCATE, "DIO_TRUNCATE"),
            (DIO_READ | (FLAGS + 1), "0x200"),
        ] {
            let failure = options(flags, DIO_AUTO, 0o644).unwrap_err();
            assert_eq!(failure.errno(), Errno::INVAL);
            assert!(format!("{failure:?}").contains(word), "{flags}: {failure:?}");
        }
        for flags in [DIO_READ, DIO_WRITE, DIO_WRITE | DIO_TRUNCATE, DIO_READ | DIO_CREATE] {
            options(flags, DIO_AUTO, 0o644).unwrap();
        }
    }
}
