//! How many requests keep all targets of a striped file busy: the one rule, for reading ahead, writing behind and copying.

/// Requests in flight for each file that holds a part of a striped one: one that the disk works on, one that it has next, and as
/// many for what the others are behind or ahead.
const PER_OBJECT: usize = 4;

/// Requests of `block` bytes to keep in flight for a file that so many hold: `depth`, or, of a striped one, as many as keep every
/// one of its targets busy, as far as `most` bytes go.
pub(crate) fn depth_over(objects: usize, depth: usize, block: usize, most: usize) -> usize {
    let spread = if objects > 1 { objects.saturating_mul(PER_OBJECT).min(most / block.max(1)) } else { 0 };
    depth.max(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_striped_file_has_four_requests_for_each_target_within_the_bound() {
        const MIB: usize = 1 << 20;
        let usual = |objects| depth_over(objects, 8, MIB, 64 * MIB);
        assert_eq!([1, 2, 4, 8, 16, 100].map(usual), [8, 8, 16, 32, 64, 64]);
        assert_eq!(depth_over(8, 8, MIB, 0), 8);
        assert_eq!(depth_over(8, 100, MIB, 64 * MIB), 100);
        assert_eq!(depth_over(8, 2, 16 * MIB, 64 * MIB), 4);
    }
}
