//! Divides the memory of one operation among several, and puts it together again.

use std::ptr::NonNull;
use std::sync::Arc;

use super::mem::{Mem, Segment, SharedMem};

/// Memory whose parts belong to other operations. It can be rejoined when all of them are dropped.
#[derive(Debug)]
pub(crate) struct DividedMem(Arc<SharedMem>);

impl DividedMem {
    /// The memory as it was. `None` while a part is still in use.
    pub(crate) fn rejoin(self) -> Option<Mem> {
        Arc::into_inner(self.0).map(SharedMem::into_mem)
    }
}

/// Hands out consecutive bytes of a memory. Invariant: it hands out each byte once, so parts never
/// overlap.
#[derive(Debug)]
pub(crate) struct MemDivider {
    memory: Arc<SharedMem>,
    writable: bool,
    /// Address, length and pool of each segment, in order.
    segments: Vec<(NonNull<u8>, usize, Option<usize>)>,
    /// Index of the current segment, and the bytes of it that are handed out.
    next: (usize, usize),
}

impl MemDivider {
    /// Takes the memory to divide.
    pub(crate) fn new(memory: Mem) -> MemDivider {
        let (segments, writable) = (memory.segment_parts().collect(), memory.writable());
        MemDivider { memory: Arc::new(SharedMem::new(memory)), writable, segments, next: (0, 0) }
    }

    /// Appends the next `len` bytes to `to`.
    ///
    /// # Panics
    /// When fewer bytes are left.
    pub(crate) fn give(&mut self, mut len: usize, to: &mut Option<Mem>) {
        while len > 0 {
            let (index, given) = self.next;
            let (start, segment_len, pool) = self.segments[index];
            let count = len.min(segment_len - given);
            // SAFETY: given + count <= segment_len, so the bytes lie in the segment. `next` moves
            // past them, so no other part gets them.
            let segment = unsafe {
                Segment::share(&self.memory, start.add(given), count, self.writable, pool)
            };
            self.next =
                if given + count == segment_len { (index + 1, 0) } else { (index, given + count) };
            len -= count;
            match to {
                _ if count == 0 => {}
                Some(mem) => mem.push(segment),
                None => *to = Some(Mem::one(segment)),
            }
        }
    }

    /// Ends the division. The remaining bytes are in no part.
    pub(crate) fn finish(self) -> DividedMem {
        DividedMem(self.memory)
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
        let mut divider = MemDivider::new(mem);
        let (mut odd, mut even) = (None, None);
        for number in 0..5 {
            divider.give(1000, if number % 2 == 0 { &mut even } else { &mut odd });
        }
        let divided = divider.finish();
        let (mut odd, mut even) = (odd.unwrap(), even.unwrap());
        assert_eq!((odd.len(), odd.segments(), even.len(), even.segments()), (2000, 2, 3000, 3));
        odd.slices_mut(0).iter_mut().for_each(|slice| slice.fill(1));
        even.slices_mut(0).iter_mut().for_each(|slice| slice.fill(2));
        drop(odd);
        drop(even);
        let memory = divided.rejoin().unwrap();
        let bytes: Vec<u8> = memory.slices(0).iter().flat_map(|slice| slice.to_vec()).collect();
        let expected = [[2; 1000], [1; 1000], [2; 1000], [1; 1000], [2; 1000]].concat();
        assert!(bytes == expected);
        assert!(pool.try_take().is_none(), "the blocks are in use until the memory is gone");
        drop(memory);
        assert_eq!(pool.take_many(2).len(), 2);
    }

    #[test]
    fn memory_is_not_whole_while_a_part_is_out_and_lives_as_long() {
        let mut bytes = vec![0u8; 100];
        scope(|loans| {
            let mut divider = MemDivider::new(Mem::one(loans.lend_mut(&mut bytes)));
            let mut part = None;
            divider.give(60, &mut part);
            divider.give(40, &mut part);
            let part = part.unwrap();
            assert!(divider.finish().rejoin().is_none());
            drop(part);
        });
    }
}
