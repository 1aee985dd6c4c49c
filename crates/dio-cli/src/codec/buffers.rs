//! Buffers that are used again: new memory costs more to touch than to fill.

use parking_lot::Mutex;

/// Buffers that nobody uses at the moment. There are never more of them than were in use at once.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers::default()
    }

    /// A buffer of `length` bytes or more, with anything in it.
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

    /// An empty buffer, with whatever room it has. For a pool of its own: what [`Buffers::take`]
    /// finds here it has to clear.
    pub(super) fn take_empty(&self) -> Vec<u8> {
        let mut buffer = self.free.lock().pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Gives a buffer back.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        self.free.lock().push(buffer);
    }
}
