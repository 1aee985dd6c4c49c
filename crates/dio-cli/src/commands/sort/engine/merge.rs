//! Merges sorted lines with a tree of losers over the next line of each lane.
//!
//! See Knuth, The Art of Computer Programming, volume 3, section 5.4.1. Each inner node keeps the
//! line that lost there, so that a new line is compared only with the lines on its path to the
//! root.

use std::cmp::Ordering;
use std::thread;

use parking_lot::Mutex;

use super::entry::LineEntry;
use super::exchange::Exchange;
use super::failure::{SortFailure, SortResult};
use super::gather::{Drain, LineGatherer};
use super::key_order::{PREFETCH_LINES, fetch};
use super::piece::{Decoder, LinePiece, LineRules};

/// Source of the lines of one lane.
#[derive(Debug)]
pub(super) enum MergeInput {
    /// All lines are in memory.
    Memory(LinePiece),
    /// Lines are decoded from a stream.
    Stream(Decoder),
}

/// Merges lanes. Among lines that compare equal, those of an earlier lane come first.
///
/// # Errors
/// Reading or writing failed.
pub(super) fn merge<D: Drain + ?Sized>(
    lanes: Vec<MergeInput>,
    how: LineRules<'_>,
    out: &mut LineGatherer<'_, D>,
) -> SortResult<()> {
    let (mut decoders, mut places) = (Vec::new(), Vec::new());
    for lane in lanes {
        places.push(match lane {
            MergeInput::Memory(piece) => LaneSource::Memory(Some(piece)),
            MergeInput::Stream(decoder) => {
                decoders.push(decoder);
                LaneSource::Stream(decoders.len() - 1)
            }
        });
    }
    let exchange = Exchange::new(decoders.len());
    if decoders.is_empty() {
        return run(places, &exchange, how, out);
    }
    // The decoding thread takes the decoders. If that thread cannot be started, they stay here.
    let decoders = Mutex::new(decoders);
    let taken = || std::mem::take(&mut *decoders.lock());
    let started = thread::scope(|scope| {
        let decode = || exchange.decode(taken(), how);
        if thread::Builder::new().name("decode".into()).spawn_scoped(scope, decode).is_err() {
            return Err(places);
        }
        let _over = exchange.close_at_the_end();
        Ok(run(places, &exchange, how, &mut *out))
    });
    let places = match started {
        Ok(merged) => return merged,
        Err(places) => places,
    };
    let mut decoders = taken().into_iter();
    let here = |place| match place {
        LaneSource::Stream(_) => {
            LaneSource::Here(Box::new(decoders.next().expect("each stream has its decoder")))
        }
        other => other,
    };
    run(places.into_iter().map(here).collect(), &exchange, how, out)
}

/// A lane while it is merged.
#[derive(Debug)]
enum LaneSource {
    Memory(Option<LinePiece>),
    /// Decoded by the decoding thread; the number is the index of its decoder.
    Stream(usize),
    /// Decoded in the merging thread when lines are needed.
    Here(Box<Decoder>),
}

impl LaneSource {
    fn next_piece(
        &mut self,
        exchange: &Exchange,
        how: LineRules<'_>,
    ) -> SortResult<Option<LinePiece>> {
        loop {
            let piece = match self {
                LaneSource::Memory(piece) => piece.take(),
                LaneSource::Stream(lane) => exchange.next_piece(*lane)?,
                LaneSource::Here(decoder) => decoder.next_piece(how)?,
            };
            match piece {
                Some(piece) if piece.entries.is_empty() => {}
                piece => return Ok(piece),
            }
        }
    }
}

/// A lane's current piece and the position of the next line in it.
struct Cursor {
    place: LaneSource,
    piece: LinePiece,
    at: usize,
    /// The lines are not in memory order, so they are fetched ahead.
    scattered: bool,
}

impl Cursor {
    #[inline]
    fn entry(&self) -> LineEntry {
        self.piece.entries[self.at]
    }

    #[inline]
    fn line(&self, terminator: u8) -> &[u8] {
        self.entry().line(self.piece.bytes(), terminator)
    }

    /// Goes to the next line; returns false when there is none.
    #[inline]
    fn advance(&mut self, exchange: &Exchange, how: LineRules<'_>) -> SortResult<bool> {
        self.at += 1;
        if self.at < self.piece.entries.len() {
            if self.scattered && self.at % PREFETCH_LINES == 0 {
                let end = self.piece.entries.len();
                let next = &self.piece.entries
                    [(self.at + PREFETCH_LINES).min(end)..(self.at + 2 * PREFETCH_LINES).min(end)];
                fetch(next, self.piece.bytes(), 0);
            }
            return Ok(true);
        }
        self.refill(exchange, how)
    }

    #[cold]
    fn refill(&mut self, exchange: &Exchange, how: LineRules<'_>) -> SortResult<bool> {
        let Some(piece) = self.place.next_piece(exchange, how)? else { return Ok(false) };
        (self.piece, self.at) = (piece, 0);
        Ok(true)
    }
}

fn run<D: Drain + ?Sized>(
    places: Vec<LaneSource>,
    exchange: &Exchange,
    how: LineRules<'_>,
    out: &mut LineGatherer<'_, D>,
) -> SortResult<()> {
    let mut cursors = Vec::new();
    for mut place in places {
        let scattered = matches!(place, LaneSource::Memory(_));
        if let Some(piece) = place.next_piece(exchange, how)? {
            cursors.push(Cursor { place, piece, at: 0, scattered });
        }
    }
    let mut writer = LineWriter::new(how, out);
    while cursors.len() > 1 {
        let mut tree = Tree::new(&cursors, how);
        loop {
            let winner = tree.winner;
            let cursor = &mut cursors[winner];
            writer.put(cursor.entry(), cursor.piece.bytes())?;
            if !cursor.advance(exchange, how)? {
                break;
            }
            tree.keys[winner] = cursor.entry().prefix();
            tree.replay(&cursors, how);
        }
        // This lane has ended, so the tree is built again without it. There are far fewer lanes
        // than lines.
        cursors.remove(tree.winner);
    }
    let Some(mut cursor) = cursors.pop() else { return Ok(()) };
    loop {
        writer.put_all(&cursor.piece.entries[cursor.at..], cursor.piece.bytes())?;
        if !cursor.refill(exchange, how)? {
            return Ok(());
        }
    }
}

/// The tree of losers: the first lane, and the loser of each comparison on its path.
struct Tree {
    /// The prefix of the next line of each lane.
    keys: Vec<u64>,
    /// The loser at each inner node. Node 0 is not used; the children of `n` are `2n` and `2n + 1`;
    /// lane `l` is the leaf `lanes + l`.
    losers: Vec<u32>,
    winner: usize,
}

impl Tree {
    fn new(cursors: &[Cursor], how: LineRules<'_>) -> Tree {
        let lanes = cursors.len();
        let keys = cursors.iter().map(|cursor| cursor.entry().prefix()).collect();
        let mut tree = Tree { keys, losers: vec![0; lanes], winner: 0 };
        let mut winners = vec![0; 2 * lanes];
        for (lane, leaf) in winners[lanes..].iter_mut().enumerate() {
            *leaf = lane;
        }
        for node in (1..lanes).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let first = tree.is_first(a, b, cursors, how);
            let (winner, loser) = if first { (a, b) } else { (b, a) };
            (winners[node], tree.losers[node]) = (winner, loser as u32);
        }
        tree.winner = winners[1];
        tree
    }

    /// Finds the winner after the previous winner's lane got a new line.
    #[inline]
    fn replay(&mut self, cursors: &[Cursor], how: LineRules<'_>) {
        let mut winner = self.winner;
        let mut key = self.keys[winner];
        let mut node = (self.keys.len() + winner) / 2;
        while node > 0 {
            let loser = self.losers[node] as usize;
            let other = self.keys[loser];
            let wins = if other == key {
                self.is_first_of_equals(loser, winner, cursors, how)
            } else {
                other < key
            };
            // Written without branches, because the outcome cannot be predicted.
            let (up, down) = if wins { (loser, winner) } else { (winner, loser) };
            self.losers[node] = down as u32;
            key = if wins { other } else { key };
            winner = up;
            node /= 2;
        }
        self.winner = winner;
    }

    fn is_first(&self, a: usize, b: usize, cursors: &[Cursor], how: LineRules<'_>) -> bool {
        match self.keys[a].cmp(&self.keys[b]) {
            Ordering::Equal => self.is_first_of_equals(a, b, cursors, how),
            order => order.is_lt(),
        }
    }

    #[cold]
    #[inline(never)]
    fn is_first_of_equals(
        &self,
        a: usize,
        b: usize,
        cursors: &[Cursor],
        how: LineRules<'_>,
    ) -> bool {
        let (first, second) = (cursors[a].line(how.terminator), cursors[b].line(how.terminator));
        how.order.compare_rest(first, second).then(a.cmp(&b)).is_lt()
    }
}

/// Writes lines in order. If `unique` is set, skips lines that are equal to the one before.
pub(super) struct LineWriter<'a, 'b, D: Drain + ?Sized> {
    how: LineRules<'a>,
    out: &'a mut LineGatherer<'b, D>,
    /// The last written line and its prefix. Set only if `unique` is.
    last: Option<(u64, Vec<u8>)>,
}

impl<'a, 'b, D: Drain + ?Sized> LineWriter<'a, 'b, D> {
    pub(super) fn new(
        how: LineRules<'a>,
        out: &'a mut LineGatherer<'b, D>,
    ) -> LineWriter<'a, 'b, D> {
        LineWriter { how, out, last: None }
    }

    /// Writes the line of an entry.
    ///
    /// # Errors
    /// Writing failed.
    #[inline]
    pub(super) fn put(&mut self, entry: LineEntry, bytes: &[u8]) -> SortResult<()> {
        if self.how.unique && self.is_repeated(entry, bytes) {
            return Ok(());
        }
        self.out.put(entry.whole(bytes, self.how.terminator)).map_err(SortFailure::Write)
    }

    /// Writes lines that are not in memory order.
    ///
    /// # Errors
    /// Writing failed.
    pub(super) fn put_all(&mut self, entries: &[LineEntry], bytes: &[u8]) -> SortResult<()> {
        for part in entries.chunks(PREFETCH_LINES) {
            fetch(part, bytes, 0);
            for entry in part {
                self.put(*entry, bytes)?;
            }
        }
        Ok(())
    }

    fn is_repeated(&mut self, entry: LineEntry, bytes: &[u8]) -> bool {
        let line = entry.line(bytes, self.how.terminator);
        match &mut self.last {
            Some((prefix, last))
                if *prefix == entry.prefix() && self.how.order.same(last, line) =>
            {
                return true;
            }
            Some((prefix, last)) => {
                *prefix = entry.prefix();
                last.clear();
                last.extend_from_slice(line);
            }
            None => self.last = Some((entry.prefix(), line.to_vec())),
        }
        false
    }
}
