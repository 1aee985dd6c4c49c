//! Sorted lines with an entry each, ready to be merged.

use std::sync::Arc;

use dio::block::Block;
use dio::stream::Chunk;

use super::entry::Entry;
use super::failure::Outcome;
use super::stream::Stream;
use crate::commands::sort::key::Order;

/// Memory that lines are in.
#[derive(Debug)]
pub(super) enum Bytes {
    /// Of a stream.
    Chunk(Arc<Chunk>),
    /// A line that was in two chunks.
    Own(Vec<u8>),
    /// A batch that was never written.
    Batch(Block),
}

/// Some lines in order.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) entries: Vec<Entry>,
}

impl Piece {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Chunk(chunk) => chunk,
            Bytes::Own(bytes) => bytes,
            Bytes::Batch(block) => block.filled(),
        }
    }

    /// Whether it is part of a chunk, of which a stream has only so many.
    pub(super) fn holds_chunk(&self) -> bool {
        matches!(self.bytes, Bytes::Chunk(_))
    }
}

/// How lines are told from each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a> {
    pub(super) order: &'a Order,
    pub(super) terminator: u8,
    /// Of equal lines only the first is wanted.
    pub(super) unique: bool,
}

/// Makes pieces of a stream.
#[derive(Debug)]
pub(super) struct Decoder {
    stream: Option<Stream>,
    /// The chunk being looked through, and where the next line starts.
    chunk: Option<Arc<Chunk>>,
    at: usize,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// Most lines of a piece.
    most: usize,
}

impl Decoder {
    /// A decoder of pieces of at most `most` lines.
    pub(super) fn new(stream: Stream, most: usize) -> Decoder {
        Decoder { stream: Some(stream), chunk: None, at: 0, begun: Vec::new(), most: most.max(1) }
    }

    /// Whether the next piece can be had without waiting for whoever writes into a pipe.
    pub(super) fn is_ready(&self) -> bool {
        self.chunk.is_some() || self.stream.as_ref().is_none_or(Stream::is_ready)
    }

    /// The next lines, or `None` at the end.
    ///
    /// # Errors
    /// What reading answers.
    pub(super) fn next_piece(&mut self, how: Lines<'_>) -> Outcome<Option<Piece>> {
        loop {
            if let Some(chunk) = self.chunk.take() {
                if let Some(piece) = self.cut(chunk, how) {
                    return Ok(Some(piece));
                }
                continue;
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            match stream.next_chunk()? {
                Some(chunk) => (self.chunk, self.at) = (Some(Arc::new(chunk)), 0),
                None => {
                    self.stream.take().expect("it was read just now").close();
                    if self.begun.is_empty() {
                        return Ok(None);
                    }
                    self.begun.push(how.terminator);
                    return Ok(Some(self.whole(how.order)));
                }
            }
        }
    }

    /// Lines of a chunk; `None` when it holds no more ends of lines.
    fn cut(&mut self, chunk: Arc<Chunk>, how: Lines<'_>) -> Option<Piece> {
        let bytes: &[u8] = &chunk;
        if !self.begun.is_empty() {
            let end = memchr::memchr(how.terminator, bytes);
            self.begun.extend_from_slice(&bytes[..end.map_or(bytes.len(), |end| end + 1)]);
            self.at = end? + 1;
            self.chunk = Some(chunk);
            return Some(self.whole(how.order));
        }
        let (mut entries, mut start) = (Vec::with_capacity(self.most.min(bytes.len() - self.at)), self.at);
        for end in memchr::memchr_iter(how.terminator, &bytes[self.at..]).take(self.most) {
            let line = &bytes[start..self.at + end];
            entries.push(Entry::new(how.order.prefix(line), start, line.len()));
            start = self.at + end + 1;
        }
        self.at = start;
        if entries.len() < self.most {
            self.begun.extend_from_slice(&bytes[start..]);
            if entries.is_empty() {
                return None;
            }
        } else {
            self.chunk = Some(Arc::clone(&chunk));
        }
        Some(Piece { bytes: Bytes::Chunk(chunk), entries })
    }

    /// The line that has come together from parts.
    fn whole(&mut self, order: &Order) -> Piece {
        let bytes = std::mem::take(&mut self.begun);
        let line = &bytes[..bytes.len() - 1];
        let entries = vec![Entry::new(order.prefix(line), 0, line.len())];
        Piece { bytes: Bytes::Own(bytes), entries }
    }
}
