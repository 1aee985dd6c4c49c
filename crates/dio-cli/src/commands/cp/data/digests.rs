//! Digests of blocks, used to compare what was written with what was read.

use std::ops::Range;

use dio::transfer::Watch;

use super::super::checks::{PieceDigest, WrittenPiece};

/// The digest of a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockDigest {
    offset: u64,
    length: u64,
    hash: blake3::Hash,
}

/// The digests of the blocks of a file, in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Digests {
    blocks: Vec<BlockDigest>,
    /// The transferred ranges. Both sides cut their blocks from these ranges in the same way.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Digests {
    /// Adds a block.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        let (length, hash) = (bytes.len() as u64, blake3::hash(bytes));
        self.blocks.push(BlockDigest { offset, length, hash });
    }

    /// Returns the offset of the first block that differs.
    pub(super) fn first_difference(mut self, mut other: Digests) -> Option<u64> {
        self.sort();
        other.sort();
        let (ours, theirs) = (&self.blocks, &other.blocks);
        let place =
            (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at))?;
        ours.get(place).or(theirs.get(place)).map(|block| block.offset)
    }

    /// One digest of all blocks.
    pub(super) fn condensed(mut self) -> PieceDigest {
        self.sort();
        condensed(&self.blocks)
    }

    /// Divides the blocks into pieces of at most `bytes_max` bytes, unless a block is longer, that
    /// the process `writer` has written. The last one tells which ranges were transferred.
    pub(super) fn pieces(mut self, bytes_max: u64, writer: usize) -> Vec<WrittenPiece> {
        self.sort();
        let mut pieces = Vec::new();
        let mut blocks = &self.blocks[..];
        while let Some(first) = blocks.first() {
            let end = first.offset.saturating_add(bytes_max);
            let count =
                blocks.iter().take_while(|block| block.offset + block.length <= end).count();
            let (piece, rest) = blocks.split_at(count.max(1));
            blocks = rest;
            pieces.push(WrittenPiece {
                ranges: piece.iter().map(|b| b.offset..b.offset + b.length).collect(),
                digest: Some(condensed(piece)),
                writer: Some(writer),
                transferred: None,
            });
        }
        if pieces.is_empty() {
            let digest = Some(condensed(&[]));
            pieces.push(WrittenPiece { digest, writer: Some(writer), ..WrittenPiece::default() });
        }
        if let Some(last) = pieces.last_mut() {
            last.transferred = Some(self.ranges);
        }
        pieces
    }

    fn sort(&mut self) {
        self.blocks.sort_unstable_by_key(|block| block.offset);
    }
}

fn condensed(blocks: &[BlockDigest]) -> PieceDigest {
    let mut hasher = blake3::Hasher::new();
    for block in blocks {
        hasher.update(&block.offset.to_le_bytes()).update(&block.length.to_le_bytes());
        hasher.update(block.hash.as_bytes());
    }
    hasher.finalize().into()
}

impl Watch for Digests {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        self.add(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(blocks: &[(u64, &[u8])]) -> Digests {
        let mut digests = Digests::default();
        blocks.iter().for_each(|(offset, bytes)| digests.add(*offset, bytes));
        digests
    }

    #[test]
    fn the_first_difference_is_found_whatever_the_order() {
        let one = || digests(&[(8, b"b"), (0, b"a"), (16, b"c")]);
        assert_eq!(one().first_difference(digests(&[(0, b"a"), (16, b"c"), (8, b"b")])), None);
        assert_eq!(one().first_difference(digests(&[(0, b"a"), (16, b"x"), (8, b"y")])), Some(8));
        assert!(one().first_difference(digests(&[(0, b"a"), (8, b"b")])).is_some());
    }

    #[test]
    fn the_digest_of_a_piece_depends_on_bytes_and_offsets_but_not_on_the_order() {
        let one = digests(&[(8, b"bb"), (0, b"a")]).condensed();
        assert_eq!(one, digests(&[(0, b"a"), (8, b"bb")]).condensed());
        for other in [
            digests(&[(0, b"a"), (9, b"bb")]),
            digests(&[(0, b"a"), (8, b"bc")]),
            digests(&[(0, b"a")]),
            digests(&[(0, b"a"), (8, b"bb"), (16, b"")]),
        ] {
            assert_ne!(one, other.condensed());
        }
    }

    #[test]
    fn pieces_have_every_block_once() {
        let blocks = [(20, &b"ddddd"[..]), (0, b"aaaa"), (4, b"bbbb"), (8, b"cc"), (25, b"ee")];
        let mut all = digests(&blocks);
        all.ranges = vec![0..10, 20..27];
        let pieces = all.pieces(8, 3);
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.ranges.clone()).collect();
        assert_eq!(ranges, [vec![0..4, 4..8], Vec::from_iter(Some(8..10)), vec![20..25, 25..27]]);
        let expected = digests(&[(8, b"cc")]).condensed();
        assert_eq!((pieces[1].digest, pieces[1].writer), (Some(expected), Some(3)));
        let told: Vec<_> = pieces.iter().map(|piece| piece.transferred.is_some()).collect();
        assert_eq!(told, [false, false, true]);
        // A block that is longer than a piece, and a file without any.
        assert_eq!(digests(&blocks).pieces(1, 0).len(), 5);
        let empty = Digests::default().pieces(8, 0);
        assert_eq!((empty.len(), empty[0].bytes()), (1, 0));
        assert_eq!(empty[0].transferred, Some(Vec::new()));
    }
}
