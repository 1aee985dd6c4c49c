//! Memory for the requests of a thread.

/// Alignment of the memory, for files that were open for direct I/O.
const ALIGN: usize = 4096;

/// A request that asked for more than this, and got less, asked for the rest of a file: programs
/// that read a file whole do.
const LARGE: u64 = 64 << 20;

/// The most bytes of one request (`MAX_RW_COUNT` of the kernel).
const MOST: u64 = 0x7fff_f000;

/// Memory that grows with the requests.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// The memory for a request that asked for so many bytes, and got `done`.
    pub(super) fn bytes(&mut self, asked: u64, done: u64) -> &mut [u8] {
        let length = if asked > LARGE { done.max(LARGE) } else { asked }.min(MOST) as usize;
        if self.0.len() < length + ALIGN {
            self.0.resize(length + ALIGN, 0x5a);
        }
        let start = self.0.as_ptr().align_offset(ALIGN);
        &mut self.0[start..start + length]
    }
}
