//! Reading the next part of the log while the present one is looked at.
//!
//! A cursor that goes through the log from window to window would leave the disk idle while it checks what it has, and itself
//! while it waits for the disk. A thread that is started for the second window reads the next ones meanwhile, [`AHEAD`] of them,
//! so that it need not be woken between two.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use dio::block::Block;

use crate::segments::Segments;

/// Most windows that are read ahead.
pub(crate) const AHEAD: usize = 2;

/// Memory, and how many of its first bytes were read; `None` when that failed, or there is nothing.
type Answer = (Block, Option<usize>);

/// A thread that reads one window after the other.
pub(crate) struct ReadAhead {
    /// `None` only while it is dropped.
    wanted: Option<Sender<(Block, u64, usize)>>,
    read: Receiver<Answer>,
    /// Memory that is not being filled.
    spare: Vec<Block>,
    /// The windows that are being read, or were and wait to be taken: where each begins and should end.
    under_way: VecDeque<(u64, u64)>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Starts the thread, which reads into `spare`; `None` when there can be no more threads.
    pub(crate) fn start(segments: &Arc<Segments>, spare: Vec<Block>) -> Option<ReadAhead> {
        let (wanted, wants) = channel::<(Block, u64, usize)>();
        let (answers, read) = channel();
        let segments = Arc::clone(segments);
        let work = move || {
            for (mut block, start, length) in wants {
                let count = read_window(&segments, &mut block, start, length);
                if answers.send((block, count)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("dio-wal-read".into()).spawn(work).ok()?;
        Some(ReadAhead { wanted: Some(wanted), read, spare, under_way: VecDeque::new(), thread: Some(thread) })
    }

    /// Where the last window ends that is read ahead.
    pub(crate) fn end(&self) -> Option<u64> {
        self.under_way.back().map(|(_, end)| *end)
    }

    /// Whether one more window can be read.
    pub(crate) fn has_room(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Reads `length` bytes from `start` on too, which must lie within a segment.
    pub(crate) fn want(&mut self, start: u64, length: usize) {
        if let (Some(wanted), Some(block)) = (&self.wanted, self.spare.pop())
            // The thread ends only after the sender is gone, or with a panic: then nothing is read ahead any more.
            && wanted.send((block, start, length)).is_ok()
        {
            self.under_way.push_back((start, start + length as u64));
        }
    }

    /// What was read from `start` on, in exchange for the memory of `window`; `None` when that is not what was read, or
    /// nothing was. Whoever needs it then reads it and is told why.
    pub(crate) fn take(&mut self, start: u64, window: &mut Block) -> Option<usize> {
        if self.under_way.front().is_none_or(|(begins, _)| *begins != start) {
            self.forget();
            return None;
        }
        self.under_way.pop_front();
        let (block, count) = self.read.recv().ok()?;
        let spare = if count.is_some() { std::mem::replace(window, block) } else { block };
        self.spare.push(spare);
        count
    }

    /// Forgets what was read: the log may have changed since.
    pub(crate) fn forget(&mut self) {
        for _ in self.under_way.drain(..) {
            self.spare.extend(self.read.recv().ok().map(|(block, _)| block));
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.wanted = None;
        // A thread that panicked has printed why.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads a window of the log within a segment.
fn read_window(segments: &Segments, block: &mut Block, start: u64, length: usize) -> Option<usize> {
    let (number, offset) = segments.layout.locate(start);
    let file = segments.get(number).ok()??;
    debug_assert!(start + length as u64 <= segments.layout.segment_end(start));
    segments.read(&*file, number, &mut block.bytes_mut()[..length], offset).ok()
}
