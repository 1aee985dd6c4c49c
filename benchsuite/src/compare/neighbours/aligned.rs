//! Memory for direct I/O.

/// What offset, length and memory of direct I/O are a multiple of on every file system.
pub(super) const ALIGNMENT: usize = 4096;

/// Bytes in memory that direct I/O may use.
pub(super) struct Aligned {
    /// Longer than `bytes` by [`ALIGNMENT`], so that an aligned part of that length is in it.
    memory: Vec<u8>,
    bytes: usize,
}

impl Aligned {
    pub(super) fn new(bytes: usize) -> Aligned {
        Aligned { memory: vec![7; bytes + ALIGNMENT], bytes }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let at = self.memory.as_ptr().align_offset(ALIGNMENT);
        &mut self.memory[at..at + self.bytes]
    }
}
