//! Memory for direct I/O.

/// The alignment of offset, length and memory that direct I/O accepts on every file system.
pub(super) const ALIGNMENT: usize = 4096;

/// Memory that is suitable for direct I/O.
pub(super) struct Aligned {
    /// Longer than `bytes` by [`ALIGNMENT`], so that it contains an aligned part of that length.
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
