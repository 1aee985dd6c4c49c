//! The head of a trace, and the bounds of its frames.

/// The first bytes of a trace.
pub const MAGIC: &[u8; 8] = b"diotrace";

/// The version that this program writes. It reads this one and those before it; they have fewer
/// kinds of events.
pub const VERSION: u32 = 3;

/// Bytes before the payload of a frame.
pub(super) const FRAME_HEADER: usize = 8;

/// Longest payload that is accepted, so that a hostile trace takes no more memory than this.
pub(super) const FRAME_MAX: usize = 1 << 20;
