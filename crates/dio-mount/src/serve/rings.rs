//! Whether requests come by io_uring (`Documentation/filesystems/fuse/fuse-io-uring.rst`, Linux
//! 6.14).

use std::io;

use dio_fuse::{InitFlags, KernelConfig, rings_are_possible};

use crate::options::Rings;

/// The kernel's switch, off unless somebody turned it on; connections made later obey it.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Turns the switch on, which only root may. What comes of it is told by the kernel's greeting.
pub(crate) fn switch_on() {
    let is_off = std::fs::read_to_string(SWITCH).is_ok_and(|state| state.trim() == "N");
    if is_off {
        let _ = std::fs::write(SWITCH, "1");
    }
}

/// Asks the kernel for it, if it offers it and rings for about `threads` threads can be made; tells
/// whether that is agreed on.
///
/// # Errors
/// Why it cannot be, where it must be.
pub(crate) fn agree(rings: Rings, threads: usize, config: &mut KernelConfig) -> io::Result<bool> {
    if rings == Rings::Never {
        return Ok(false);
    }
    // Whether rings can be made is found by making them, which most mounts need not do: the switch
    // is off.
    let why = if !config.capabilities().contains(InitFlags::FUSE_OVER_IO_URING) {
        "the kernel does not offer FUSE over io_uring (Linux 6.14), or it is switched off: \
         'echo 1 > /sys/module/fuse/parameters/enable_uring' as root turns it on"
    } else if !rings_are_possible(threads) {
        "this process cannot make as many rings as it needs: see the sysctl kernel.io_uring_disabled and 'ulimit -n'"
    } else {
        return Ok(config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok());
    };
    match rings {
        Rings::Required => Err(io::Error::new(io::ErrorKind::Unsupported, format!("no io_uring: {why}"))),
        _ => Ok(false),
    }
}
