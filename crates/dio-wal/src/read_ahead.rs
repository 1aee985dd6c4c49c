//! Reading the next windows of the log while the present one is examined.
//!
//! A cursor that goes through the log window by window would leave the disk idle while it checks
//! records, and would be idle itself while the disk reads. So from the second window on a thread
//! reads the next [`WINDOWS_AHEAD`] windows meanwhile. More than one window is requested at a time,
//! so that the thread never waits between two windows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use dio::block::Block;

use crate::segments::Segments;

/// Windows that are read ahead at a time.
pub(crate) const WINDOWS_AHEAD: usize = 2;

/// The memory of a window to read, its first LSN and its length in bytes.
type WindowRequest = (Block, u64, usize);

/// The memory of a window, and the number of its first bytes that were read. The number is `None`
/// if the read failed, or if there is no such segment.
type WindowAnswer = (Block, Option<usize>);

/// A thread that reads windows one after the other.
pub(crate) struct ReadAhead {
    /// `None` only while this is dropped.
    requests: Option<Sender<WindowRequest>>,
    answers: Receiver<WindowAnswer>,
    /// Memory that is not being filled.
    spare: Vec<Block>,
    /// Start and end LSN of the windows that were requested and not yet taken, in the order of the
    /// log.
    requested: VecDeque<(u64, u64)>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Starts the thread, which reads into `spare`. Returns `None` if the system allows no more
    /// threads.
    pub(crate) fn start(segments: &Arc<Segments>, spare: Vec<Block>) -> Option<ReadAhead> {
        let (requests, received) = channel::<WindowRequest>();
        let (sent, answers) = channel();
        let segments = Arc::clone(segments);
        let serve = move || {
            for (mut block, start, length) in received {
                let count = read_window(&segments, &mut block, start, length);
                if sent.send((block, count)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("dio-wal-read".into()).spawn(serve).ok()?;
        let requests = Some(requests);
        Some(ReadAhead {
            requests,
            answers,
            spare,
            requested: VecDeque::new(),
            thread: Some(thread),
        })
    }

    /// LSN where the last requested window ends.
    pub(crate) fn end(&self) -> Option<u64> {
        self.requested.back().map(|(_, end)| *end)
    }

    /// Whether memory for one more window is free.
    pub(crate) fn has_room(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Requests `length` bytes from `start` on, which must lie within a segment.
    pub(crate) fn request(&mut self, start: u64, length: usize) {
        if let (Some(requests), Some(block)) = (&self.requests, self.spare.pop())
            // Sending fails only if the thread has panicked. Then nothing is read ahead any more.
            && requests.send((block, start, length)).is_ok()
        {
            self.requested.push_back((start, start + length as u64));
        }
    }

    /// Waits for the window that begins at `start` and swaps its memory with that of `window`.
    /// Returns how many bytes were read. Returns `None` if another window was requested, or if the
    /// read failed: the caller then reads the window itself and receives the error.
    pub(crate) fn take(&mut self, start: u64, window: &mut Block) -> Option<usize> {
        if self.requested.front().is_none_or(|(begins, _)| *begins != start) {
            self.discard();
            return None;
        }
        self.requested.pop_front();
        let (block, count) = self.answers.recv().ok()?;
        let spare = if count.is_some() { std::mem::replace(window, block) } else { block };
        self.spare.push(spare);
        count
    }

    /// Discards what was read. The log may have changed since.
    pub(crate) fn discard(&mut self) {
        for _ in self.requested.drain(..) {
            self.spare.extend(self.answers.recv().ok().map(|(block, _)| block));
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.requests = None;
        // A thread that panicked has printed its own message.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads a window that lies within a segment.
fn read_window(segments: &Segments, block: &mut Block, start: u64, length: usize) -> Option<usize> {
    let (number, offset) = segments.layout.locate(start);
    let file = segments.get(number).ok()??;
    debug_assert!(start + length as u64 <= segments.layout.segment_end(start));
    segments.read(&*file, number, &mut block.bytes_mut()[..length], offset).ok()
}
