//! The identity of a log.

use std::fmt;

/// Identifies a log: 16 random bytes, drawn when the log is created. Every segment header and every
/// mark contains them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

impl Identity {
    /// The CRC32C of the identity. All record checksums of the log are continued from it, so a
    /// record of another log fails its check.
    pub fn checksum_seed(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
