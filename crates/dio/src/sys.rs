//! tmp
use rustix::io::ReadWriteFlags;
/// drop-behind
pub const RWF_DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
