//! Where the answer to a request of a ring lies until the thread that took the request sends it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use dio::block::{BLOCK_ALIGN, Block};
use rustix::io::Errno;

use crate::abi::OutHeader;

/// Where the payload of requests and answers begins in their memory: on a page, behind room for what precedes it.
pub(crate) const START: usize = BLOCK_ALIGN;

/// The answer to the one request that a thread has in hand: put there by whoever answers, taken by the thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    letter: Mutex<Letter>,
    put: Condvar,
    /// Bytes that an answer may have.
    room: usize,
}

#[derive(Debug, Default)]
struct Letter {
    /// The header, and the length of what is behind it.
    answer: Option<(OutHeader, usize)>,
    /// The memory that goes to the kernel, while nobody reads the request there.
    block: Option<Block>,
    /// What is copied there later, otherwise.
    bytes: Vec<u8>,
    /// The thread waits for the answer, which another gives.
    awaited: bool,
}

impl Outbox {
    pub(crate) fn new(room: usize) -> Outbox {
        Outbox { letter: Mutex::default(), put: Condvar::new(), room }
    }

    /// Answers with `parts`, or with the negative number of an error. False if there is no room for it: the answer is `EIO`
    /// then, as there must be one.
    pub(crate) fn put(&self, error: i32, unique: u64, parts: &[&[u8]]) -> bool {
        let letter = &mut *self.letter();
        let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
        let fits = length(parts) <= self.room;
        let (error, parts) = if fits { (error, parts) } else { (-Errno::IO.raw_os_error(), &[][..]) };
        let length = length(parts);
        letter.bytes.clear();
        if let Some(block) = &mut letter.block {
            let mut at = START;
            for part in parts {
                block.bytes_mut()[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        } else {
            parts.iter().for_each(|part| letter.bytes.extend_from_slice(part));
        }
        let header = OutHeader { len: (size_of::<OutHeader>() + length) as u32, error, unique };
        letter.answer = Some((header, length));
        // Each notification is a system call, whether there is somebody or not.
        if letter.awaited {
            self.put.notify_one();
        }
        fits
    }

    /// Lends the memory for the answer to a request that does not lie there.
    pub(crate) fn lend(&self, block: Block) {
        self.letter().block = Some(block);
    }

    /// Waits for the answer, and gives it with its memory: what was lent, or else `kept`.
    pub(crate) fn take(&self, kept: Option<Block>) -> (OutHeader, usize, Block) {
        let mut letter = self.letter();
        while letter.answer.is_none() {
            letter.awaited = true;
            letter = self.put.wait(letter).unwrap_or_else(PoisonError::into_inner);
        }
        letter.awaited = false;
        let (header, length) = letter.answer.take().expect("waited for above");
        let block = kept.map(|mut block| {
            block.bytes_mut()[START..START + length].copy_from_slice(&letter.bytes);
            block
        });
        let block = block.or_else(|| letter.block.take()).expect("a block is lent or kept");
        (header, length, block)
    }

    fn letter(&self) -> MutexGuard<'_, Letter> {
        self.letter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use dio::block::Pool;

    use super::*;
    use crate::channel::LEAST;

    fn block() -> Block {
        let mut block = Pool::new(START + LEAST, 1).unwrap().try_take().unwrap();
        block.bytes_mut().fill(9);
        block
    }

    #[test]
    fn an_answer_goes_into_what_was_lent() {
        let outbox = Outbox::new(LEAST);
        outbox.lend(block());
        outbox.put(0, 7, &[b"one", b"", b"two"]);
        let (header, length, block) = outbox.take(None);
        assert_eq!((header.len, header.error, header.unique, length), (22, 0, 7, 6));
        assert_eq!(&block.filled()[START - 1..START + 7], b"\x09onetwo\x09");
    }

    #[test]
    fn an_answer_waits_while_the_request_is_read() {
        let outbox = Outbox::new(LEAST);
        outbox.put(-5, 8, &[]);
        let (header, length, kept) = outbox.take(Some(block()));
        assert_eq!((header.len, header.error, header.unique, length), (16, -5, 8, 0));
        assert_eq!(kept.filled()[START], 9);
        outbox.put(0, 10, &[b"abc"]);
        let (_, length, kept) = outbox.take(Some(kept));
        assert_eq!((length, &kept.filled()[START..START + 3]), (3, &b"abc"[..]));
    }

    #[test]
    fn an_answer_of_another_thread_is_waited_for() {
        let outbox = Outbox::new(LEAST);
        for unique in 0..1000 {
            outbox.lend(block());
            let header = thread::scope(|scope| {
                scope.spawn(|| outbox.put(0, unique, &[b"x"]));
                outbox.take(None).0
            });
            assert_eq!(header.unique, unique);
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error() {
        let outbox = Outbox::new(4);
        outbox.lend(block());
        assert!(!outbox.put(0, 7, &[b"12345"]));
        let (header, length, _) = outbox.take(None);
        assert_eq!((header.len, header.error, header.unique, length), (16, -5, 7, 0));
    }
}
