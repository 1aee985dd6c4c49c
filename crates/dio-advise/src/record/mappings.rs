//! Which files processes have mapped where.

use std::collections::{BTreeMap, HashMap};

/// So many mappings of a process are remembered.
const MAPPINGS_MAX: usize = 10_000;

/// The mapped files of processes, by their numbers in the trace. Mappings that were made before the
/// process was watched are not known.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// By process, the ends and files of mappings by their first address.
    processes: HashMap<u32, BTreeMap<u64, (u64, u32)>>,
}

impl Mappings {
    /// A process makes a child, or a thread, which is no process of its own.
    pub(super) fn fork(&mut self, process: u32, child: u32) {
        if child != process
            && let Some(mappings) = self.processes.get(&process)
        {
            self.processes.insert(child, mappings.clone());
        }
    }

    pub(super) fn add(&mut self, process: u32, address: u64, bytes: u64, file: u32) {
        let mappings = self.processes.entry(process).or_default();
        let end = address.saturating_add(bytes);
        // What lay there before is no longer mapped.
        while let Some((first, _)) = mappings.range(address..end).next() {
            let first = *first;
            mappings.remove(&first);
        }
        if mappings.len() < MAPPINGS_MAX {
            mappings.insert(address, (end, file));
        }
    }

    /// The file that is mapped at an address.
    pub(super) fn file(&self, process: u32, address: u64) -> Option<u32> {
        let (_, (end, file)) = self.processes.get(&process)?.range(..=address).next_back()?;
        (address < *end).then_some(*file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mapping_of_an_address_counts() {
        let mut mappings = Mappings::default();
        mappings.add(1, 0x1000, 0x3000, 7);
        mappings.add(1, 0x9000, 0x1000, 8);
        mappings.fork(1, 2);
        mappings.add(1, 0x1000, 0x1000, 9);
        let files =
            |process| [0xfff, 0x1000, 0x3fff, 0x4000, 0x9000].map(|at| mappings.file(process, at));
        assert_eq!(files(1), [None, Some(9), None, None, Some(8)]);
        assert_eq!(files(2), [None, Some(7), Some(7), None, Some(8)]);
        assert_eq!(files(3), [None; 5]);
        mappings.add(1, u64::MAX, u64::MAX, 1);
    }
}
