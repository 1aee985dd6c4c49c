//! Receipts: how the bytes of a file travelled.

use std::ffi::{CStr, c_char};

use dio::file::{BytesByClass, Class, Reason};

use crate::border::{number, shared, status, write_sized};
use crate::error::{Failure, dio_error};
use crate::file::dio_file;

/// Bytes by the way they went.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct dio_bytes {
    /// Between the device and the caller's memory.
    pub direct: u64,
    /// Between the device and aligned memory of libdio, copied once.
    pub bounced: u64,
    /// Through the page cache, from which they were dropped.
    pub uncached: u64,
    /// Through the page cache, where they stayed.
    pub cached: u64,
}

/// The bytes that calls on one dio_file have moved, by how they travelled.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct dio_receipt {
    /// Bytes read for the caller.
    pub read: dio_bytes,
    /// Bytes written for the caller.
    pub written: dio_bytes,
    /// Read requests to the kernel.
    pub read_requests: u64,
    /// Write requests to the kernel.
    pub write_requests: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Why most of those bytes that did not go direct did not: a text that is never freed, or NULL
    /// if all went direct.
    pub reason: *const c_char,
}

/// Stores what has happened so far, in a structure of `size` bytes: sizeof(struct dio_receipt).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_receipt_of(
    file: *const dio_file,
    receipt: *mut dio_receipt,
    size: usize,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let counters = shared(file, "file")?.file.counters();
            let found = dio_receipt {
                read: by_class(&counters.read),
                written: by_class(&counters.written),
                read_requests: counters.read_requests,
                write_requests: counters.write_requests,
                syncs: counters.syncs,
                reason: counters.main_reason().map_or(std::ptr::null(), |why| text(why).as_ptr()),
            };
            write_sized(receipt, size, &found, "receipt")
        })
    }
}

fn by_class(bytes: &BytesByClass) -> dio_bytes {
    dio_bytes {
        direct: bytes.get(Class::Direct),
        bounced: bytes.get(Class::Bounced),
        uncached: bytes.get(Class::Uncached),
        cached: bytes.get(Class::Cached),
    }
}

/// [`Reason::text`] with a zero byte at its end.
fn text(reason: Reason) -> &'static CStr {
    match reason {
        Reason::MisalignedRequest => c"request not aligned to blocks",
        Reason::MisalignedMemory => c"memory not aligned",
        Reason::EndOfFile => c"end of file within a block",
        Reason::NoDirectIo => c"file system has no direct I/O",
        Reason::KernelBuffers => c"file system buffers direct I/O",
        Reason::Small => c"small file or request",
    }
}

/// Returns the number of pages of the file that are in the page cache, of a striped file those of
/// all its objects. Whoever must not fill the page cache checks by it that nothing did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_resident_pages(
    file: *const dio_file,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let mut pages = 0;
            for object in shared(file, "file")?.file.objects() {
                let Some(descriptor) = object.descriptor() else { continue };
                let found = dio::names::resident_pages(descriptor).map_err(|error| {
                    Failure::new(
                        rustix::io::Errno::OPNOTSUPP,
                        format!("cannot count the cached pages of the file: {error}"),
                    )
                })?;
                pages += found;
            }
            Ok(pages as i64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_library() {
        for reason in Reason::ALL {
            assert_eq!(text(reason).to_str(), Ok(reason.text()));
        }
    }
}
