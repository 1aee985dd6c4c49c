//! Tells machines apart.

use std::fs;

/// A name for this machine that says nothing about it, but is the same each time: a checksum of
/// `machine-id(5)`, which programs should not show itself, or of the host's name.
///
/// ```
/// assert_eq!(dio_advise::machine_id(), dio_advise::machine_id());
/// ```
pub fn machine_id() -> String {
    let id = fs::read("/etc/machine-id").ok().filter(|id| !id.trim_ascii().is_empty());
    let id = id.unwrap_or_else(|| rustix::system::uname().nodename().to_bytes().to_vec());
    format!("{:08x}", crc32c::crc32c(&id))
}
