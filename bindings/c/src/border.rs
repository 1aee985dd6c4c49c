//! The border between C and Rust: every exported function consists of one call of [`number`],
//! [`object`] or [`quiet`](crate::quiet::quiet), in which it turns its arguments into values of
//! Rust.

use std::any::Any;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::NonNull;

use rustix::io::Errno;

use crate::error::{Failure, dio_error};

/// Runs `work`, whose result is a number that is not negative. Returns it, or a negative error
/// number.
///
/// # Safety
/// `error` is null or may be written to.
pub(crate) unsafe fn number(
    error: *mut *mut dio_error,
    work: impl FnOnce() -> Result<i64, Failure>,
) -> i64 {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(number)) => return number,
        Ok(Err(failure)) => failure,
        Err(panic) => panicked(&*panic),
    };
    let number = -i64::from(failure.errno().raw_os_error());
    // SAFETY: the caller's promise.
    unsafe { store(error, failure) };
    number
}

/// As [`number`], for functions whose result says only whether they failed.
///
/// # Safety
/// As [`number`].
pub(crate) unsafe fn status(
    error: *mut *mut dio_error,
    work: impl FnOnce() -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller's promise.
    let number = unsafe { number(error, || work().map(|()| 0)) };
    i32::try_from(number).expect("an error number is small")
}

/// As [`number`], for functions that make an object, which the caller will own.
///
/// # Safety
/// As [`number`].
pub(crate) unsafe fn object<T>(
    error: *mut *mut dio_error,
    work: impl FnOnce() -> Result<T, Failure>,
) -> *mut T {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(object)) => return Box::into_raw(Box::new(object)),
        Ok(Err(failure)) => failure,
        Err(panic) => panicked(&*panic),
    };
    // SAFETY: the caller's promise.
    unsafe { store(error, failure) };
    std::ptr::null_mut()
}

/// A panic as an error. Its message has been printed, too.
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Failure::new(Errno::NOTRECOVERABLE, format!("libdio has a defect, please report it: {text}"))
}

/// Hands an error to the caller.
///
/// # Safety
/// `error` is null or may be written to.
unsafe fn store(error: *mut *mut dio_error, failure: Failure) {
    if !error.is_null() {
        // SAFETY: the caller's promise.
        unsafe { error.write(Box::into_raw(Box::new(dio_error::new(failure)))) };
    }
}

fn null(what: &str) -> Failure {
    Failure::new(Errno::FAULT, format!("the argument '{what}' is NULL"))
}

/// The object behind a pointer of the caller's.
///
/// # Safety
/// `pointer` is null, or the object behind it lives and nobody changes it for `'a`.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// As [`shared`], for an object that is changed.
///
/// # Safety
/// `pointer` is null, or the object behind it lives and nobody else uses it for `'a`.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// Takes back an object that [`object`] has handed out.
///
/// # Safety
/// `pointer` is null or comes from [`object`], and is not used again.
pub(crate) unsafe fn taken<T>(pointer: *mut T, what: &str) -> Result<Box<T>, Failure> {
    let pointer = NonNull::new(pointer).ok_or_else(|| null(what))?;
    // SAFETY: the caller's promise: it was made by `Box::into_raw`.
    Ok(unsafe { Box::from_raw(pointer.as_ptr()) })
}

/// Bytes of the caller's to read from.
///
/// # Safety
/// `len` bytes at `bytes` can be read, and nobody changes them for `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(bytes, len)?;
    // SAFETY: the caller's promise, and `check`.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) })
}

/// Bytes of the caller's to write to.
///
/// # Safety
/// `len` bytes at `bytes` can be written to, and nobody else uses them for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(
    bytes: *mut c_void,
    len: usize,
) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(bytes, len)?;
    // SAFETY: the caller's promise, and `check`. Any bytes are valid bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), len) })
}

/// Checks that `len` bytes at `bytes` can be an object.
pub(crate) fn check(bytes: *const c_void, len: usize) -> Result<(), Failure> {
    let end = bytes.addr().checked_add(len);
    if bytes.is_null() || end.is_none() || isize::try_from(len).is_err() {
        return Err(Failure::new(
            Errno::FAULT,
            format!("there are no {len} bytes of memory at {bytes:p}"),
        ));
    }
    Ok(())
}

/// An array of the caller's.
///
/// # Safety
/// `items` points to `count` elements that nobody changes for `'a`, or `count` is 0.
pub(crate) unsafe fn array<'a, T>(
    items: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if items.is_null() {
        return Err(null(what));
    }
    check(items.cast(), count.saturating_mul(size_of::<T>()))?;
    // SAFETY: the caller's promise, and the checks.
    Ok(unsafe { std::slice::from_raw_parts(items, count) })
}

/// A name of the caller's.
///
/// # Safety
/// `name` is null or a string that ends with a zero byte and that nobody changes for `'a`.
pub(crate) unsafe fn path<'a>(name: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    if name.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Reads a structure of which the caller may know only the first `size` bytes, because it was
/// compiled with an older header. The rest keeps its defaults.
///
/// # Safety
/// `size` bytes at `from` can be read. Any bytes are a valid `T`.
pub(crate) unsafe fn read_sized<T: Copy>(from: *const T, size: usize, defaults: T) -> T {
    let mut value = defaults;
    let len = size.min(size_of::<T>());
    // SAFETY: both sides have `len` bytes, and the value is our own.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), len);
    }
    value
}

/// Writes a structure of which the caller may know only the first `size` bytes. What it knows
/// beyond ours is zeroed.
///
/// # Safety
/// `size` bytes at `to` can be written to.
pub(crate) unsafe fn write_sized<T: Copy>(
    to: *mut T,
    size: usize,
    value: &T,
    what: &str,
) -> Result<(), Failure> {
    if to.is_null() {
        return Err(null(what));
    }
    let (len, to) = (size.min(size_of::<T>()), to.cast::<u8>());
    // SAFETY: the caller's promise; `value` has at least `len` bytes and is not the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), to, len);
        to.add(len).write_bytes(0, size - len);
    }
    Ok(())
}

/// Stores a value where the caller wants it; null if it does not want it.
///
/// # Safety
/// `to` is null or may be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{dio_error_errno, dio_error_free, dio_error_text};

    #[test]
    fn a_panic_becomes_an_error() {
        let mut error = std::ptr::null_mut();
        // SAFETY: the error is stored in a variable, read and freed once.
        unsafe {
            let work = || -> Result<i64, Failure> { panic!("seven is {}", 7) };
            assert_eq!(number(&raw mut error, work), -i64::from(libc::ENOTRECOVERABLE));
            assert_eq!(dio_error_errno(error), libc::ENOTRECOVERABLE);
            let text = CStr::from_ptr(dio_error_text(error)).to_str().unwrap();
            assert!(text.contains("seven is 7"), "{text}");
            dio_error_free(error);
            assert!(object(std::ptr::null_mut(), || -> Result<u8, Failure> { panic!() }).is_null());
        }
    }

    #[test]
    fn structures_of_older_and_newer_callers_are_read_and_written_in_part() {
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C)]
        struct Pair(u64, u64);
        let given = Pair(1, 2);
        // SAFETY: each size is at most that of the variable.
        unsafe {
            assert_eq!(read_sized(&raw const given, 8, Pair(8, 9)), Pair(1, 9));
            let mut newer = [7_u64; 3];
            write_sized((&raw mut newer).cast(), 24, &given, "newer").unwrap();
            assert_eq!(newer, [1, 2, 0]);
            let mut older = [7_u64; 2];
            write_sized((&raw mut older).cast(), 8, &given, "older").unwrap();
            assert_eq!(older, [1, 7]);
        }
    }

    #[test]
    fn memory_that_cannot_be_is_refused() {
        for (address, len) in [(0, 1), (usize::MAX, 2), (1, usize::MAX), (1, 1 << 63)] {
            assert!(check(std::ptr::without_provenance(address), len).is_err());
        }
    }
}
