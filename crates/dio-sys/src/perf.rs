//! Operations on events of `perf_event_open(2)` that no other crate offers safely.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

use rustix::ioctl::{Opcode, opcode};

/// `PERF_EVENT_IOC_SET_FILTER` of `include/uapi/linux/perf_event.h`.
const SET_FILTER: Opcode = opcode::write::<*const libc::c_char>(b'$', 6);

/// Restricts a tracepoint to records that match a filter on its fields
/// (`PERF_EVENT_IOC_SET_FILTER`; for the grammar see `Documentation/trace/events.rst`). That costs
/// less than discarding records later.
///
/// # Errors
/// `EINVAL` for a filter that the kernel cannot parse, and if `event` is no tracepoint.
pub fn set_filter(event: &impl AsRawFd, filter: &CStr) -> io::Result<()> {
    // SAFETY: the string ends with a zero byte and is alive during the call, in which the kernel
    // copies it; for a descriptor that is no event the call fails.
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
        assert_eq!(
            set_filter(&file, c"flags == 1").unwrap_err().raw_os_error(),
            Some(libc::ENOTTY)
        );
    }
}
