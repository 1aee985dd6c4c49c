//! Aligned memory.

use std::ffi::c_void;

use crate::quiet::quiet;

/// Alignment of memory from `dio_alloc`, in bytes: a page, which satisfies every file system.
const ALIGN: usize = 4096;

/// Size of a huge page, in bytes. Larger memory is aligned to it, so that a request of many
/// megabytes is one piece of memory to the device.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Allocates `size` bytes of zeroed memory from and to which a device transfers without copying.
///
/// It begins on a page, and takes whole pages. NULL if there is no memory, or if `size` is 0.
/// Free it with dio_free(), from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dio_alloc(size: usize) -> *mut c_void {
    quiet(std::ptr::null_mut(), || {
        let align = if size >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { ALIGN };
        let len = size.checked_next_multiple_of(ALIGN).filter(|len| isize::try_from(*len).is_ok());
        let Some(len) = len.filter(|len| *len > 0) else { return std::ptr::null_mut() };
        let mut memory = std::ptr::null_mut();
        // SAFETY: the alignment is a power of two and a multiple of the size of a pointer.
        if unsafe { libc::posix_memalign(&raw mut memory, align, len) } != 0 {
            return std::ptr::null_mut();
        }
        if align == HUGE_PAGE_BYTES {
            // SAFETY: the pages are our own. A refusal only costs speed.
            unsafe { libc::madvise(memory, len, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: `memory` has `len` bytes.
        unsafe { memory.cast::<u8>().write_bytes(0, len) };
        memory
    })
}

/// Frees memory of dio_alloc(). NULL is allowed. No request that uses it may be in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_free(memory: *mut c_void) {
    // SAFETY: it comes from `posix_memalign` in `dio_alloc`, and is not used again.
    unsafe { libc::free(memory) };
}
