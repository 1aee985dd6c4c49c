//! Pieces: sorted lines with one entry each, ready to be merged.

use std::sync::Arc;

use dio::block::Block;
use dio::stream::Chunk;

use super::entry::LineEntry;
use super::failure::SortResult;
use super::stream::Stream;
use crate::commands::sort::key::Order;

/// Memory that holds lines.
#[derive(Debug)]
pub(super) enum Bytes {
    /// A chunk of a stream.
    Chunk(Arc<Chunk>),
    /// A line that spanned two chunks or more.
    Own(Vec<u8>),
    /// A batch that was never written to a file.
    Batch(Block),
}

/// Lines in order, and their entries.
#[derive(Debug)]
pub(super) struct LinePiece {
    pub(super) bytes: Bytes,
    pub(super) entries: Vec<LineEntry>,
}

impl LinePiece {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Chunk(chunk) => chunk,
            Bytes::Own(bytes) => bytes,
            Bytes::Batch(block) => block.filled(),
        }
    }

    /// Returns whether the piece holds a chunk. A stream has a limited number of chunks.
    pub(super) fn holds_chunk(&self) -> bool {
        matches!(self.bytes, Bytes::Chunk(_))
    }
}

/// How lines are separated and compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRules<'a> {
    pub(super) order: &'a Order,
    pub(super) terminator: u8,
    /// Only the first of several equal lines is wanted.
    pub(super) unique: bool,
}

/// Cuts a stream into pieces.
#[derive(Debug)]
pub(super) struct Decoder {
    stream: Option<Stream>,
    /// The chunk being scanned, and the offset of the next line in it.
    chunk: Option<Arc<Chunk>>,
    at: usize,
    /// The beginning of a line whose end has not been read yet.
    begun: Vec<u8>,
    /// Maximum number of lines in a piece.
    most: usize,
}

impl Decoder {
    /// Makes a decoder whose pieces have at most `most` lines.
    pub(super) fn new(stream: Stream, most: usize) -> Decoder {
        Decoder { stream: Some(stream), chunk: None, at: 0, begun: Vec::new(), most: most.max(1) }
    }

    /// Returns whether the next piece can be read without waiting for the writer of a pipe.
    pub(super) fn is_ready(&self) -> bool {
        self.chunk.is_some() || self.stream.as_ref().is_none_or(Stream::is_ready)
    }

    /// Returns the next lines, or `None` at the end.
    ///
    /// # Errors
    /// Reading failed.
    pub(super) fn next_piece(&mut self, how: LineRules<'_>) -> SortResult<Option<LinePiece>> {
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

    /// Cuts lines from a chunk; returns `None` when it has no more line ends.
    fn cut(&mut self, chunk: Arc<Chunk>, how: LineRules<'_>) -> Option<LinePiece> {
        let bytes: &[u8] = &chunk;
        if !self.begun.is_empty() {
            let end = memchr::memchr(how.terminator, bytes);
            self.begun.extend_from_slice(&bytes[..end.map_or(bytes.len(), |end| end + 1)]);
            self.at = end? + 1;
            self.chunk = Some(chunk);
            return Some(self.whole(how.order));
        }
        let (mut entries, mut start) =
            (Vec::with_capacity(self.most.min(bytes.len() - self.at)), self.at);
        for end in memchr::memchr_iter(how.terminator, &bytes[self.at..]).take(self.most) {
            let line = &bytes[start..self.at + end];
            entries.push(LineEntry::new(how.order.prefix(line), start, line.len()));
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
        Some(LinePiece { bytes: Bytes::Chunk(chunk), entries })
    }

    /// Makes a piece of the line in `begun`, which is complete now.
    fn whole(&mut self, order: &Order) -> LinePiece {
        let bytes = std::mem::take(&mut self.begun);
        let line = &bytes[..bytes.len() - 1];
        let entries = vec![LineEntry::new(order.prefix(line), 0, line.len())];
        LinePiece { bytes: Bytes::Own(bytes), entries }
    }
}
