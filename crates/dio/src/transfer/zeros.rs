//! Finds zeros in blocks.

use std::ops::Range;

/// The ranges of a block that hold anything but zeros, in units of `unit` bytes.
pub(super) fn non_zero(bytes: &[u8], unit: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, piece) in bytes.chunks(unit).enumerate() {
        let start = index * unit;
        if piece.iter().all(|byte| *byte == 0) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = start + piece.len(),
            _ => runs.push(start..start + piece.len()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_told_from_data_by_the_unit() {
        let mut bytes = [0u8; 40];
        assert!(non_zero(&bytes, 8).is_empty());
        bytes[9] = 1;
        bytes[17] = 1;
        bytes[39] = 1;
        assert_eq!(non_zero(&bytes, 8), [8..24, 32..40]);
        assert_eq!(non_zero(&bytes[..35], 8).first(), Some(&(8..24)));
    }
}
