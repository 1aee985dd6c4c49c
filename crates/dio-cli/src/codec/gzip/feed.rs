//! The compressed input, with its offset and a buffer for bytes that are put back.

use std::io::{self, BufRead};

use dio_sys::uninterrupted;

/// An input that counts its offset and accepts bytes back.
pub(super) struct Feed<'a> {
    input: &'a mut (dyn BufRead + Send),
    /// Bytes consumed and not put back.
    offset: u64,
    /// Bytes that were put back and are read first, from `at` on.
    back: Vec<u8>,
    at: usize,
    /// Bytes of the input that can be read without waiting.
    ready: usize,
    /// The input has ended. It is not read again, because a terminal would wait for more.
    ended: bool,
}

impl<'a> Feed<'a> {
    pub(super) fn new(input: &'a mut (dyn BufRead + Send)) -> Feed<'a> {
        Feed { input, offset: 0, back: Vec::new(), at: 0, ready: 0, ended: false }
    }

    /// Returns the number of bytes consumed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether [`Feed::fill`] may have to wait.
    pub(super) fn may_wait(&self) -> bool {
        self.at == self.back.len() && self.ready == 0
    }

    /// Returns the next bytes, as many as are available; none at the end.
    pub(super) fn fill(&mut self) -> io::Result<&[u8]> {
        if self.at < self.back.len() {
            return Ok(&self.back[self.at..]);
        }
        if self.ended {
            return Ok(&[]);
        }
        self.ready = uninterrupted(|| self.input.fill_buf().map(<[u8]>::len))?;
        if self.ready == 0 {
            self.ended = true;
            return Ok(&[]);
        }
        self.input.fill_buf()
    }

    /// Consumes bytes that [`Feed::fill`] returned.
    pub(super) fn consume(&mut self, count: usize) {
        self.offset += count as u64;
        if self.at < self.back.len() {
            self.at += count;
        } else {
            self.input.consume(count);
            self.ready = self.ready.saturating_sub(count);
        }
    }

    /// Consumes one byte; `None` at the end.
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.fill()?.first().copied();
        if byte.is_some() {
            self.consume(1);
        }
        Ok(byte)
    }

    /// Consumes `count` bytes, or fewer at the end of the input, and appends them to `bytes`;
    /// returns how many.
    pub(super) fn take(&mut self, count: usize, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let mut left = count;
        while left > 0 {
            let next = self.fill()?;
            if next.is_empty() {
                break;
            }
            let some = next.len().min(left);
            bytes.extend_from_slice(&next[..some]);
            self.consume(some);
            left -= some;
        }
        Ok(count - left)
    }

    /// Puts bytes back, so that they are read next.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.offset -= bytes.len() as u64;
        self.back.splice(..self.at, bytes.iter().copied());
        self.at = 0;
    }

    /// Returns the next `count` bytes, or fewer at the end of the input, without consuming them.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        self.take(count, &mut bytes)?;
        self.put_back(&bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::Feed;

    #[test]
    fn bytes_put_back_come_again_in_order_and_offsets_follow() {
        for capacity in [1, 2, 3, 100] {
            let mut input = BufReader::with_capacity(capacity, Cursor::new(b"abcdefgh"));
            let mut feed = Feed::new(&mut input);
            assert!(feed.may_wait());
            assert_eq!(feed.peek(3).expect("reads"), b"abc");
            assert_eq!((feed.offset(), feed.may_wait()), (0, false));
            assert_eq!(feed.byte().expect("reads"), Some(b'a'));
            let mut taken = Vec::new();
            assert_eq!(feed.take(4, &mut taken).expect("reads"), 4);
            assert_eq!((&taken[..], feed.offset()), (&b"bcde"[..], 5));
            feed.put_back(b"de");
            feed.put_back(b"c");
            assert_eq!(feed.offset(), 2);
            assert_eq!(feed.peek(100).expect("reads"), b"cdefgh");
            taken.clear();
            assert_eq!(feed.take(100, &mut taken).expect("reads"), 6);
            assert_eq!((&taken[..], feed.offset()), (&b"cdefgh"[..], 8));
            assert_eq!(feed.byte().expect("reads"), None);
        }
    }
}
