//! How much memory lies between two uses of a page.
//!
//! The distance of a use is the number of different pages that were used since the last use of the
//! same page. A cache that drops the page that was used longest ago has the page still if, and only
//! if, it holds more pages than that (Mattson et al. 1970): so one pass tells what a cache of any
//! size would have had. Where there are many pages, a part of them is looked at, chosen by a hash
//! of the page (SHARDS, Waldspurger et al. 2015).

use std::collections::HashMap;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// So many pages are looked at, at most; twice as many in the moment before they are halved.
const PAGES_MAX: usize = 1 << 20;

/// A page: the number of its file, and its own in the file.
type Page = (u32, u64);

/// Finds the distances of uses.
#[derive(Debug)]
pub(super) struct ReuseCounter {
    pages_max: usize,
    /// A page is looked at if the upper bits of its hash, as many as this, are zero.
    skipped_bits: u32,
    /// When each page was used last.
    last: HashMap<Page, usize>,
    /// For each time, by sums over ranges (Fenwick 1994), whether it is the last use of a page.
    sums: Vec<u32>,
    now: usize,
}

/// What is known of one use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The page is not looked at.
    Skipped,
    /// It is used for the first time.
    First,
    /// So many different pages were used since its last use.
    Again(u64),
}

impl ReuseCounter {
    pub(super) fn new() -> ReuseCounter {
        ReuseCounter::with_most(PAGES_MAX)
    }

    /// A counter that looks at no more than `pages_max` pages.
    pub(super) fn with_most(pages_max: usize) -> ReuseCounter {
        let sums = vec![0; 1 << 10];
        ReuseCounter { pages_max, skipped_bits: 0, last: HashMap::new(), sums, now: 0 }
    }

    /// How many pages a page that is looked at stands for.
    pub(super) fn weight(&self) -> u64 {
        1 << self.skipped_bits
    }

    /// Notes a use of a page.
    pub(super) fn touch(&mut self, page: Page) -> Use {
        if !self.is_looked_at(page) {
            return Use::Skipped;
        }
        if self.now + 1 >= self.sums.len() {
            self.renumber();
        }
        self.now += 1;
        let before = self.last.insert(page, self.now);
        let found = match before {
            None => Use::First,
            Some(time) => {
                let later = self.last.len() as u64 - u64::from(self.sum(time));
                self.change(time, u32::MAX);
                Use::Again(later.saturating_mul(self.weight()))
            }
        };
        self.change(self.now, 1);
        if self.last.len() > self.pages_max {
            self.skipped_bits += 1;
            self.renumber();
        }
        found
    }

    fn is_looked_at(&self, page: Page) -> bool {
        let mixed =
            (page.1 ^ u64::from(page.0).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.skipped_bits == 0 || hash >> (64 - self.skipped_bits) == 0
    }

    /// Drops the pages that are not looked at any more, and numbers the last uses of the others
    /// from 1 on, in their order.
    fn renumber(&mut self) {
        let mut uses: Vec<(usize, Page)> =
            self.last.iter().map(|(page, time)| (*time, *page)).collect();
        uses.retain(|(_, page)| self.is_looked_at(*page));
        uses.sort_unstable();
        self.last = uses.iter().enumerate().map(|(place, (_, page))| (*page, place + 1)).collect();
        self.now = uses.len();
        self.sums = vec![0; (4 * uses.len()).max(1 << 10)];
        (1..=self.now).for_each(|time| self.change(time, 1));
    }

    /// Adds to a time; `u32::MAX` takes one off.
    fn change(&mut self, mut time: usize, by: u32) {
        while time < self.sums.len() {
            self.sums[time] = self.sums[time].wrapping_add(by);
            time += time & time.wrapping_neg();
        }
    }

    /// The number of pages whose last use was at `time` or before.
    fn sum(&self, mut time: usize) -> u32 {
        let mut sum = 0_u32;
        while time > 0 {
            sum = sum.wrapping_add(self.sums[time]);
            time -= time & time.wrapping_neg();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A list of pages, the one that was used last in front.
    #[derive(Default)]
    struct Plain(Vec<Page>);

    impl Plain {
        fn touch(&mut self, page: Page) -> Use {
            let place = self.0.iter().position(|other| *other == page);
            let found = place.map_or(Use::First, |place| {
                self.0.remove(place);
                Use::Again(place as u64)
            });
            self.0.insert(0, page);
            found
        }
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_plain_list(
            pages in proptest::collection::vec((0..3_u32, 0..60_u64), 1..3000)
        ) {
            let (mut counter, mut plain) = (ReuseCounter::new(), Plain::default());
            for page in pages {
                // A distance of `n` pages means that the page is the one behind `n` others.
                prop_assert_eq!(counter.touch(page), plain.touch(page));
            }
        }
    }

    #[test]
    fn a_part_of_the_pages_tells_about_all() {
        let mut counter = ReuseCounter::with_most(1000);
        let mut found = Vec::new();
        for round in 0..3 {
            for page in 0..100_000 {
                match counter.touch((1, page)) {
                    Use::Again(distance) if round == 2 => found.push(distance),
                    _ => {}
                }
            }
        }
        assert!(counter.weight() >= 64, "{}", counter.weight());
        let mean = found.iter().sum::<u64>() / found.len() as u64;
        assert!((80_000..120_000).contains(&mean), "{mean}");
    }
}
