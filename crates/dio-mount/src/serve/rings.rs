//! Decides whether requests come through io_uring
//! (`Documentation/filesystems/fuse/fuse-io-uring.rst`, Linux 6.14).

use std::io;

use dio_fuse::{InitFlags, KernelConfig, rings_are_possible};

use crate::options::Rings;

/// The kernel's switch, off by default; it applies to connections that are made later.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Turns the switch on, which only root may do. The kernel's `FUSE_INIT` request shows the result.
pub(crate) fn switch_on() {
    let is_off = std::fs::read_to_string(SWITCH).is_ok_and(|state| state.trim() == "N");
    if is_off {
        let _ = std::fs::write(SWITCH, "1");
    }
}

/// Asks the kernel for io_uring, if it offers io_uring and rings for about `threads` threads can be
/// made. Returns whether io_uring is used.
///
/// # Errors
/// The reason why io_uring cannot be used, if it is required.
pub(crate) fn agree(rings: Rings, threads: usize, config: &mut KernelConfig) -> io::Result<bool> {
    if rings == Rings::Never {
        return Ok(false);
    }
    // The test makes the rings, so it comes last: on most mounts the kernel's switch is off, and no
    // test is needed.
    let why = if !config.capabilities().contains(InitFlags::FUSE_OVER_IO_URING) {
        "the kernel does not offer FUSE over io_uring (Linux 6.14), or it is switched off: \
         'echo 1 > /sys/module/fuse/parameters/enable_uring' as root turns it on"
    } else if !rings_are_possible(threads) {
        "this process cannot make as many rings as it needs: see the sysctl \
         kernel.io_uring_disabled and 'ulimit -n'"
    } else {
        return Ok(config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok());
    };
    match rings {
        Rings::Required => {
            Err(io::Error::new(io::ErrorKind::Unsupported, format!("no io_uring: {why}")))
        }
        _ => Ok(false),
    }
}
