//! Requests to events of `perf_event_open(2)` that no crate makes safely.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

use rustix::ioctl::{Opcode, opcode};

/// `PERF_EVENT_IOC_SET_FILTER` of `include/uapi/linux/perf_event.h`.
const SET_FILTER: Opcode = opcode::write::<*const libc::c_char>(b'$', 6);

/// Lets a tracepoint record only what its fields say (`PERF_EVENT_IOC_SET_FILTER`; the grammar is
/// that of `Documentation/trace/events.rst`), which costs less than throwing records away later.
///
/// # Errors
/// `EINVAL` for a filter that the kernel does not understand, and where `event` is no tracepoint.
pub fn set_filter(event: &impl AsRawFd, filter: &CStr) -> io::Result<()> {
    // SAFETY: the string ends with a zero byte and lives during the call, in which the kernel
    // copies it; a descriptor that is no event answers an error.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER.into(), filter.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_number_of_the_kernel_and_other_files_refuse_it() {
        assert_eq!(u64::from(SET_FILTER), 0x4008_2406);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(set_filter(&file, c"flags == 1").unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
