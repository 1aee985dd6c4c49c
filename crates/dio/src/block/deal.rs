//! Dealing out the memory of one operation to several, and putting it together again.

use std::ptr::NonNull;
use std::sync::Arc;

use super::mem::{Mem, Segment};

/// Memory that is dealt out. Only addresses are taken from it until it has one owner again.
#[derive(Debug)]
pub(super) struct Whole(Mem);

// SAFETY: nothing of the memory's bytes can be reached through a shared reference (there is no method that would), and
// what it owns, blocks and counts of loans, may be dropped in any thread (`Mem` is `Send`).
unsafe impl Sync for Whole {}

/// Memory of which parts are with other operations. It is whole again when all of them are back.
#[derive(Debug)]
pub(crate) struct Dealt(Arc<Whole>);

impl Dealt {
    /// The memory as it was; `None` while a part is still out.
    pub(crate) fn rejoin(self) -> Option<Mem> {
        Arc::into_inner(self.0).map(|whole| whole.0)
    }
}

/// Deals out consecutive bytes. Each byte is given once: what is dealt never overlaps.
#[derive(Debug)]
pub(crate) struct Dealer {
    whole: Arc<Whole>,
    writable: bool,
    /// Address, length and pool of each segment, in order.
    segments: Vec<(NonNull<u8>, usize, Option<usize>)>,
    /// The segment being dealt and the bytes of it that are gone.
    next: (usize, usize),
}

impl Dealer {
    /// Takes the memory to deal out.
    pub(crate) fn new(whole: Mem) -> Dealer {
        let (segments, writable) = (whole.places().collect(), whole.writable());
        Dealer { whole: Arc::new(Whole(whole)), writable, segments, next: (0, 0) }
    }

    /// Gives the next `len` bytes to `to`, behind what it has.
    ///
    /// # Panics
    /// When fewer are left.
    pub(crate) fn give(&mut self, mut len: usize, to: &mut Option<Mem>) {
        while len > 0 {
            let (index, gone) = self.next;
            let (start, whole_len, pool) = self.segments[index];
            let count = len.min(whole_len - gone);
            // SAFETY: gone + count <= whole_len, so the bytes are those of the segment, and `next` moves past them: nobody
            // else is given them.
            let segment = unsafe { Segment::share(&self.whole, start.add(gone), count, self.writable, pool) };
            self.next = if gone + count == whole_len { (index + 1, 0) } else { (index, gone + count) };
            len -= count;
            match to {
                _ if count == 0 => {}
                Some(mem) => mem.push(segment),
                None => *to = Some(Mem::one(segment)),
            }
        }
    }

    /// What is left when everything has been dealt.
    pub(crate) fn finish(self) -> Dealt {
        Dealt(self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Pool, scope};

    #[test]
    fn what_was_dealt_comes_together_again() {
        let pool = Pool::new(4096, 2).unwrap();
        let mut mem = pool.try_take().unwrap().into_mem(0..3000);
        mem.push(pool.try_take().unwrap().into_segment(0..2000));
        let mut dealer = Dealer::new(mem);
        let (mut odd, mut even) = (None, None);
        for number in 0..5 {
            dealer.give(1000, if number % 2 == 0 { &mut even } else { &mut odd });
        }
        let dealt = dealer.finish();
        let (mut odd, mut even) = (odd.unwrap(), even.unwrap());
        assert_eq!((odd.len(), odd.segments(), even.len(), even.segments()), (2000, 2, 3000, 3));
        odd.slices_mut(0).iter_mut().for_each(|slice| slice.fill(1));
        even.slices_mut(0).iter_mut().for_each(|slice| slice.fill(2));
        drop(odd);
        drop(even);
        let whole = dealt.rejoin().unwrap();
        let bytes: Vec<u8> = whole.slices(0).iter().flat_map(|slice| slice.to_vec()).collect();
        let expected = [[2; 1000], [1; 1000], [2; 1000], [1; 1000], [2; 1000]].concat();
        assert!(bytes == expected);
        assert!(pool.try_take().is_none(), "the blocks are in use until the memory is gone");
        drop(whole);
        assert_eq!(pool.take_many(2).len(), 2);
    }

    #[test]
    fn memory_is_not_whole_while_a_part_is_out_and_lives_as_long() {
        let mut bytes = vec![0u8; 100];
        scope(|loans| {
            let mut dealer = Dealer::new(Mem::one(loans.lend_mut(&mut bytes)));
            let mut part = None;
            dealer.give(60, &mut part);
            dealer.give(40, &mut part);
            let part = part.unwrap();
            assert!(dealer.finish().rejoin().is_none());
            drop(part);
        });
    }
}
