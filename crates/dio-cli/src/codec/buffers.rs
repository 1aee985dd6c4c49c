//! A pool of buffers that are reused: touching new memory for the first time costs more than
//! filling it.

use parking_lot::Mutex;

/// Buffers that are free at the moment. The pool never holds more than were in use at once.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers::default()
    }

    /// Returns a buffer of at least `length` bytes with arbitrary contents.
    pub(super) fn take(&self, length: usize) -> Vec<u8> {
        let free = self.free.lock().pop();
        match free {
            Some(mut buffer) => {
                if buffer.len() < length {
                    buffer.resize(length, 0);
                }
                buffer
            }
            None => vec![0; length],
        }
    }

    /// Returns an empty buffer with any capacity. Use a separate pool for such buffers:
    /// [`Buffers::take`] would have to clear the memory of those it finds here.
    pub(super) fn take_empty(&self) -> Vec<u8> {
        let mut buffer = self.free.lock().pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Returns a buffer to the pool.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        self.free.lock().push(buffer);
    }
}
