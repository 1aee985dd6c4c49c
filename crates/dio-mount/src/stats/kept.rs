//! The busiest paths of closed files, in bounded memory.

use std::collections::HashMap;
use std::path::PathBuf;

use super::figures::Figures;

/// One path and its counters since it entered the list.
#[derive(Debug)]
struct KeptCounters {
    /// When its counters began, as [`FileFigures::since`](super::FileFigures::since).
    since: u64,
    /// An upper bound of the requests since the mount began: it starts with the weight of the path
    /// that this one replaced.
    weight: u64,
    /// Boxed, because the search for the least weight passes over all entries.
    figures: Box<Figures>,
}

/// The paths with most requests, by the algorithm *space-saving* (Metwally, Agrawal, El Abbadi:
/// Efficient computation of frequent and top-k elements in data streams, 2005). When the list is
/// full, a new path replaces the path with the least weight and inherits the weight. So every path
/// with more than `1 / places` of all requests is in the list.
#[derive(Debug)]
pub(super) struct BusiestPaths {
    places: usize,
    entries: HashMap<PathBuf, KeptCounters>,
}

impl BusiestPaths {
    pub(super) fn new(places: usize) -> BusiestPaths {
        BusiestPaths { places, entries: HashMap::new() }
    }

    /// Adds the counters of a path, which began at `since`.
    pub(super) fn add(&mut self, path: PathBuf, since: u64, figures: &Figures) {
        let weight = figures.requests.total();
        if let Some(entry) = self.entries.get_mut(&path) {
            entry.weight += weight;
            entry.since = entry.since.min(since);
            entry.figures.plus(figures);
            return;
        }
        let inherited = if self.entries.len() < self.places { 0 } else { self.give_up_least() };
        self.entries.insert(
            path,
            KeptCounters { since, weight: inherited + weight, figures: Box::new(figures.clone()) },
        );
    }

    /// Removes the entry with the least weight; returns its weight.
    fn give_up_least(&mut self) -> u64 {
        let least = self.entries.iter().min_by_key(|(_, entry)| entry.weight);
        let Some((path, weight)) = least.map(|(path, entry)| (path.clone(), entry.weight)) else {
            return 0;
        };
        self.entries.remove(&path);
        weight
    }

    /// Iterates over paths, the beginning of their counters, and the counters; in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathBuf, u64, &Figures)> {
        self.entries.iter().map(|(path, entry)| (path, entry.since, entry.figures.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestKind;
    use super::*;
    use proptest::prelude::*;

    fn requests(count: u64) -> Figures {
        let mut figures = Figures::default();
        figures.requests.add(RequestKind::Read, count);
        figures
    }

    proptest! {
        /// There are never more entries than allowed, no path has more requests than it made, and
        /// each path that must be in the list is there.
        #[test]
        fn the_busiest_are_kept(
            closes in prop::collection::vec((0..40u64, 1..50u64), 1..400), places in 1..12usize
        ) {
            let mut kept = BusiestPaths::new(places);
            let mut exact = HashMap::<u64, u64>::new();
            // Two of three closes are of a few busy files.
            let busy = |file: u64| if file % 3 == 0 { file } else { file % 4 };
            for (file, count) in &closes {
                *exact.entry(busy(*file)).or_default() += count;
                kept.add(PathBuf::from(busy(*file).to_string()), 0, &requests(*count));
                prop_assert!(kept.entries.len() <= places);
            }
            let all: u64 = exact.values().sum();
            for (file, count) in exact {
                let path = PathBuf::from(file.to_string());
                let told = kept.entries.get(&path);
                prop_assert!(
                    told.is_some() || count <= all / places as u64, "{} of {} lost", count, all
                );
                if let Some(entry) = told {
                    prop_assert!(entry.figures.requests.total() <= count && count <= entry.weight);
                }
            }
        }
    }
}
