//! Batches: input lines in memory, with one entry per line, that are sorted together.

use std::io;

use dio::block::{Block, Pool};

use super::entry::{self, LineEntry};
use super::key_order::arrange;
use crate::commands::sort::key::Order;

/// Lines in one allocation of bounded size.
///
/// The memory is divided between line bytes and entries when the batch is made, based on the mean
/// line length so far. The batch is full when either part is full.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Block,
    entries: Vec<LineEntry>,
    /// Maximum number of entries.
    most: usize,
    /// Offset of the first line that is not terminated yet.
    start: usize,
    /// Memory that the batch was made for, in bytes.
    size: u64,
    /// Memory that earlier lines in this batch touched, in bytes.
    touched: u64,
}

/// Result of offering bytes to a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BatchOffer {
    /// All bytes were taken.
    All,
    /// The batch is full and took this many of the offered bytes. The bytes of an unfinished line
    /// are in [`Batch::rest`].
    Full(usize),
}

/// Bytes that are copied and scanned in one step: few enough to stay in the nearest processor
/// cache.
const STEP: usize = 16 << 10;

impl Batch {
    /// Makes a batch of `size` bytes of memory for lines of about `mean` bytes, terminators
    /// included.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub(super) fn new(size: u64, mean: u64) -> io::Result<Batch> {
        let (bytes, most) = divide(size, mean);
        let block =
            Pool::new(bytes as usize, 1)?.take_many(1).pop().expect("one block was asked for");
        Ok(Batch { bytes: block, entries: reserve(most)?, most, start: 0, size, touched: 0 })
    }

    /// Returns whether this batch can be reused for `size` bytes and lines of about `mean` bytes.
    pub(super) fn suits(&self, size: u64, mean: u64) -> bool {
        let (_, most) = divide(size, mean);
        self.size == size
            && most.abs_diff(self.most) <= self.most / 8
            && self.bytes.capacity() as u64 <= size
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Memory that the batch has touched so far, in bytes.
    pub(super) fn used(&self) -> u64 {
        let now = self.bytes.filled().len() as u64 + self.entries.len() as u64 * entry::SIZE;
        now.max(self.touched)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Mean length of its lines, terminators included.
    pub(super) fn mean(&self) -> u64 {
        (self.start as u64).checked_div(self.entries.len() as u64).unwrap_or(0).max(1)
    }

    /// Removes all lines. The memory that they touched stays with the process.
    pub(super) fn clear(&mut self) {
        self.touched = self.used();
        self.bytes.clear();
        self.entries.clear();
        self.start = 0;
    }

    /// Takes lines from the start of `offered`.
    ///
    /// # Errors
    /// Memory for a line that is larger than the batch cannot be allocated.
    pub(super) fn take(
        &mut self,
        offered: &[u8],
        terminator: u8,
        order: &Order,
    ) -> io::Result<BatchOffer> {
        let mut at = 0;
        while at < offered.len() {
            let room = self.bytes.capacity() - self.bytes.filled().len();
            if self.entries.len() == self.most || (room == 0 && self.start > 0) {
                return Ok(BatchOffer::Full(at));
            }
            if room == 0 {
                self.grow()?;
                continue;
            }
            let from = self.bytes.filled().len();
            let count = room.min(STEP).min(offered.len() - at);
            self.bytes.push(&offered[at..at + count]);
            at += count;
            self.scan(from, terminator, order);
        }
        Ok(BatchOffer::All)
    }

    /// Makes entries of the lines whose terminators are at `from` or behind it.
    fn scan(&mut self, from: usize, terminator: u8, order: &Order) {
        let bytes = self.bytes.filled();
        let free = self.most - self.entries.len();
        for end in memchr::memchr_iter(terminator, &bytes[from..]).take(free) {
            let (start, end) = (self.start, from + end);
            let line = &bytes[start..end];
            self.entries.push(LineEntry::new(order.prefix(line), start, line.len()));
            self.start = end + 1;
        }
    }

    /// The bytes behind the last whole line. They belong to the next batch.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes.filled()[self.start..]
    }

    /// Doubles the memory for bytes, because a single line is larger than the batch.
    #[cold]
    fn grow(&mut self) -> io::Result<()> {
        let pool = Pool::new(self.bytes.capacity().saturating_mul(2), 1)?;
        let mut block = pool.take_many(1).pop().expect("one block was asked for");
        block.push(self.bytes.filled());
        self.bytes = block;
        Ok(())
    }

    pub(super) fn sort(&mut self, terminator: u8, order: &Order) {
        arrange(&mut self.entries, self.bytes.filled(), terminator, order);
    }

    /// The bytes, and the entries in their present order.
    pub(super) fn lines(&self) -> (&[u8], &[LineEntry]) {
        (self.bytes.filled(), &self.entries)
    }

    pub(super) fn into_parts(self) -> (Block, Vec<LineEntry>) {
        (self.bytes, self.entries)
    }
}

/// Divides `size` bytes of memory; returns the bytes for lines and the number of entries.
fn divide(size: u64, mean: u64) -> (u64, usize) {
    // The ratio is that of a mean line to its entry. The mean is capped at 1 MiB.
    let mean = mean.clamp(1, 1 << 20);
    let bytes = (u128::from(size) * u128::from(mean) / u128::from(mean + entry::SIZE)) as u64;
    let bytes = bytes.clamp(1, entry::MOST_BYTES);
    let most = size.saturating_sub(bytes) / entry::SIZE;
    (bytes, (most as usize).max(16))
}

fn reserve(entries: usize) -> io::Result<Vec<LineEntry>> {
    let mut list = Vec::new();
    list.try_reserve_exact(entries).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(batch: &Batch) -> Vec<Vec<u8>> {
        let (bytes, entries) = batch.lines();
        entries.iter().map(|entry| entry.line(bytes, b'\n').to_vec()).collect()
    }

    #[test]
    fn lines_come_in_pieces_of_any_size() {
        let (text, order) = (b"one\n\ntwo\nthree\nunfinished", Order::bytes(false));
        for step in 1..text.len() {
            let mut batch = Batch::new(1 << 16, 8).unwrap();
            for piece in text.chunks(step) {
                assert_eq!(batch.take(piece, b'\n', &order).unwrap(), BatchOffer::All);
            }
            assert_eq!(lines(&batch), [b"one".as_slice(), b"", b"two", b"three"]);
            assert_eq!(batch.rest(), b"unfinished");
            batch.sort(b'\n', &order);
            assert_eq!(lines(&batch), [b"".as_slice(), b"one", b"three", b"two"]);
        }
    }

    #[test]
    fn a_full_batch_says_what_it_did_not_take() {
        let order = Order::bytes(false);
        let text: Vec<u8> = (0..10_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        let (mut offered, mut carried, mut all) = (text.as_slice(), Vec::new(), Vec::new());
        while !offered.is_empty() || !carried.is_empty() {
            let mut batch = Batch::new(4096, 5).unwrap();
            assert_eq!(
                batch.take(&std::mem::take(&mut carried), b'\n', &order).unwrap(),
                BatchOffer::All
            );
            match batch.take(offered, b'\n', &order).unwrap() {
                BatchOffer::All => offered = &[],
                BatchOffer::Full(at) => offered = &offered[at..],
            }
            carried = batch.rest().to_vec();
            all.extend(lines(&batch));
        }
        assert!(all == (0..10_000).map(|n| n.to_string().into_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_larger_than_the_batch_makes_it_grow() {
        let order = Order::bytes(false);
        let mut batch = Batch::new(4096, 100).unwrap();
        let line = [vec![b'y'; 100_000], b"\nx\n".to_vec()].concat();
        let taken = batch.take(&line, b'\n', &order).unwrap();
        assert_eq!((taken, batch.lines().1.len()), (BatchOffer::All, 2));
    }
}
