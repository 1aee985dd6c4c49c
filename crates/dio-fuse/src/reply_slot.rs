//! Holds the reply to a request that came through a ring, until the thread of the ring sends it.

use dio::block::{BLOCK_ALIGN, Block};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;

use crate::abi::OutHeader;

/// Offset of the payload of requests and replies in their memory: one page, which leaves room for
/// the headers.
pub(crate) const PAYLOAD_OFFSET: usize = BLOCK_ALIGN;

/// The reply to the one request that a thread of a ring serves. Any thread may put the reply; the
/// thread of the ring takes it.
#[derive(Debug)]
pub(crate) struct ReplySlot {
    state: Mutex<SlotState>,
    /// A reply was put.
    put: Condvar,
    /// Bytes that a reply may have behind its header.
    room: usize,
}

#[derive(Debug, Default)]
struct SlotState {
    /// The header of the reply, and the number of bytes behind it.
    reply: Option<(OutHeader, usize)>,
    /// The memory that goes to the kernel, if the request does not lie in it.
    block: Option<Block>,
    /// Otherwise, the bytes that are copied to that memory when the request is done.
    bytes: Vec<u8>,
    /// The thread of the ring waits for the reply.
    awaited: bool,
}

impl ReplySlot {
    pub(crate) fn new(room: usize) -> ReplySlot {
        ReplySlot { state: Mutex::default(), put: Condvar::new(), room }
    }

    /// Replies with `parts`, or with the negative number of an error. Returns `false` if `parts`
    /// are too long; the reply is `EIO` then, because there must be one.
    pub(crate) fn put(&self, error: i32, unique: u64, parts: &[&[u8]]) -> bool {
        let state = &mut *self.lock();
        let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
        let fits = length(parts) <= self.room;
        let (error, parts) =
            if fits { (error, parts) } else { (-Errno::IO.raw_os_error(), &[][..]) };
        let length = length(parts);
        state.bytes.clear();
        if let Some(block) = &mut state.block {
            let mut at = PAYLOAD_OFFSET;
            for part in parts {
                block.bytes_mut()[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        } else {
            parts.iter().for_each(|part| state.bytes.extend_from_slice(part));
        }
        let header = OutHeader { len: (size_of::<OutHeader>() + length) as u32, error, unique };
        state.reply = Some((header, length));
        // Waking is a system call even if no one waits.
        if state.awaited {
            self.put.notify_one();
        }
        fits
    }

    /// Lends the memory that goes to the kernel, for a request that does not lie in it. The reply
    /// is then written there directly.
    pub(crate) fn lend(&self, block: Block) {
        self.lock().block = Some(block);
    }

    /// Waits for the reply, and returns it with its memory: the lent block, or else `kept`, in
    /// which the request lay.
    pub(crate) fn take(&self, kept: Option<Block>) -> (OutHeader, usize, Block) {
        let mut state = self.lock();
        while state.reply.is_none() {
            state.awaited = true;
            self.put.wait(&mut state);
        }
        state.awaited = false;
        let (header, length) = state.reply.take().expect("waited for above");
        let block = kept.map(|mut block| {
            block.bytes_mut()[PAYLOAD_OFFSET..PAYLOAD_OFFSET + length]
                .copy_from_slice(&state.bytes);
            block
        });
        let block = block.or_else(|| state.block.take()).expect("a block is lent or kept");
        (header, length, block)
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use dio::block::Pool;

    use super::*;
    use crate::channel::PAYLOAD_ROOM_MIN;

    fn block() -> Block {
        let mut block =
            Pool::new(PAYLOAD_OFFSET + PAYLOAD_ROOM_MIN, 1).unwrap().try_take().unwrap();
        block.bytes_mut().fill(9);
        block
    }

    #[test]
    fn an_answer_goes_into_what_was_lent() {
        let reply_slot = ReplySlot::new(PAYLOAD_ROOM_MIN);
        reply_slot.lend(block());
        reply_slot.put(0, 7, &[b"one", b"", b"two"]);
        let (header, length, block) = reply_slot.take(None);
        assert_eq!((header.len, header.error, header.unique, length), (22, 0, 7, 6));
        assert_eq!(&block.filled()[PAYLOAD_OFFSET - 1..PAYLOAD_OFFSET + 7], b"\x09onetwo\x09");
    }

    #[test]
    fn an_answer_waits_while_the_request_is_read() {
        let reply_slot = ReplySlot::new(PAYLOAD_ROOM_MIN);
        reply_slot.put(-5, 8, &[]);
        let (header, length, kept) = reply_slot.take(Some(block()));
        assert_eq!((header.len, header.error, header.unique, length), (16, -5, 8, 0));
        assert_eq!(kept.filled()[PAYLOAD_OFFSET], 9);
        reply_slot.put(0, 10, &[b"abc"]);
        let (_, length, kept) = reply_slot.take(Some(kept));
        assert_eq!((length, &kept.filled()[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 3]), (3, &b"abc"[..]));
    }

    #[test]
    fn an_answer_of_another_thread_is_waited_for() {
        let reply_slot = ReplySlot::new(PAYLOAD_ROOM_MIN);
        for unique in 0..1000 {
            reply_slot.lend(block());
            let header = thread::scope(|scope| {
                scope.spawn(|| reply_slot.put(0, unique, &[b"x"]));
                reply_slot.take(None).0
            });
            assert_eq!(header.unique, unique);
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error() {
        let reply_slot = ReplySlot::new(4);
        reply_slot.lend(block());
        assert!(!reply_slot.put(0, 7, &[b"12345"]));
        let (header, length, _) = reply_slot.take(None);
        assert_eq!((header.len, header.error, header.unique, length), (16, -5, 7, 0));
    }
}
