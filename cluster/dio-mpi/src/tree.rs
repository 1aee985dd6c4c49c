//! The tree by which rank 0 reaches all ranks, and sums come back: each rank has at most as many
//! children as a rank number has bits, so rank 0 sends and receives little however many ranks there
//! are.

/// The rank from which `rank` gets what concerns all; none for rank 0.
#[must_use]
pub fn parent(rank: usize) -> Option<usize> {
    // Without its lowest bit.
    (rank > 0).then(|| rank & (rank - 1))
}

/// The ranks to which `rank` passes on what concerns all.
pub fn children(rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    let bits = if rank == 0 { usize::BITS } else { rank.trailing_zeros() };
    (0..bits).map(move |bit| rank | (1 << bit)).take_while(move |child| *child < ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_reached_once_by_its_parent() {
        for ranks in [1, 2, 3, 4, 7, 8, 9, 1000] {
            let mut reached = vec![0];
            let mut at = 0;
            while let Some(&rank) = reached.get(at) {
                for child in children(rank, ranks) {
                    assert_eq!(parent(child), Some(rank));
                    reached.push(child);
                }
                at += 1;
            }
            reached.sort_unstable();
            assert_eq!(reached, (0..ranks).collect::<Vec<_>>());
        }
    }
}
