//! How it is remembered which places of a file were used recently: the rule of mode `auto`.

/// Bytes of a piece, the unit in which uses of a file are remembered.
pub const PIECE: u64 = 16 << 10;

/// Number of pieces of a file that are remembered.
pub const PIECES: usize = 2048;

/// The slot, below [`PIECES`], in which the use of the piece at an offset is noted, and the mark of
/// that piece, which is never 0.
///
/// All slots together are a ghost list without order: a piece replaces another one of the same
/// slot. So a piece that is used again within some thousand requests is found, and one that is used
/// once costs nothing.
#[must_use]
pub fn slot(offset: u64) -> (usize, u32) {
    // 0 is a slot that was never used, so bit 31 is always set.
    let piece = (offset / PIECE) as u32 | 1 << 31;
    let slot = (u64::from(piece).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % PIECES;
    (slot, piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_one_slot_and_one_mark() {
        for offset in [0, PIECE, 12_345 * PIECE, u64::MAX - PIECE] {
            let (number, mark) = slot(offset);
            assert!(number < PIECES && mark != 0);
            assert_eq!(slot(offset / PIECE * PIECE + PIECE - 1), (number, mark));
            assert_ne!(slot(offset + PIECE).1, mark);
        }
    }
}
