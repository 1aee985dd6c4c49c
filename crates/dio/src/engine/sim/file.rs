//! A simulated file: what reads see, what survives a power cut, and the states between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::SplitMix64;
use super::image::{
    Image, PAGE_BYTES, Page, PageContent, SECTOR_BYTES, SECTORS_PER_PAGE, pages_of,
};

/// Most earlier states of a page that are kept for a power cut to bring back, besides the durable
/// one and the live one.
const PAGE_STATES_MAX: usize = 3;

/// A size that the file had, and how many bytes of its computed contents a cut-off had left.
#[derive(Clone, Copy, Debug)]
struct SizeState {
    bytes: u64,
    pattern_len: u64,
    version: u64,
}

/// What a sync has to make durable: everything that was live when it *began*. Writes that complete
/// later do not belong to it, even if they complete before the sync does.
#[derive(Debug)]
pub(super) struct SyncSnapshot {
    size: SizeState,
    pages: Vec<(u64, Page)>,
}

/// A write in flight.
#[derive(Clone, Debug)]
pub(super) struct WriteInFlight {
    pub(super) offset: u64,
    /// All of its memory, to check that it is unchanged when the write completes.
    pub(super) bytes: Vec<u8>,
    /// Most bytes that the write can store.
    pub(super) limit: usize,
}

/// The images of one file, and the changes that are not durable.
#[derive(Clone, Debug)]
pub(super) struct SimFile {
    pub(super) live: Image,
    pub(super) durable: Image,
    /// Invariant: holds every page of which some live sector is newer than the durable one. May
    /// hold others.
    dirty: BTreeSet<u64>,
    /// Earlier states of dirty pages, oldest first. The disk may have written any of them.
    remembered: BTreeMap<u64, Vec<Page>>,
    /// Sizes since the durable one, oldest first. Invariant: the last one, if any, is the live
    /// size.
    sizes: Vec<SizeState>,
    /// The last version given to a change. Invariant: no image holds a greater one.
    version: u64,
    /// Writes in flight, by the number of their operation. A power cut may find any part of them
    /// done.
    pub(super) writes_in_flight: BTreeMap<u64, WriteInFlight>,
    /// True for a block device, whose size cannot change.
    pub(super) device: bool,
}

impl SimFile {
    /// A file whose contents are durable already.
    pub(super) fn new(image: Image, device: bool) -> SimFile {
        SimFile {
            durable: image.clone(),
            live: image,
            dirty: BTreeSet::new(),
            remembered: BTreeMap::new(),
            sizes: Vec::new(),
            version: 0,
            writes_in_flight: BTreeMap::new(),
            device,
        }
    }

    /// Must be called before every change of a page.
    fn touch(&mut self, index: u64) {
        if !self.dirty.insert(index) {
            let states = self.remembered.entry(index).or_default();
            if states.len() == PAGE_STATES_MAX {
                states.remove(0);
            }
            states.push(self.live.page(index));
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn resized(&mut self, bytes: u64, version: u64) {
        self.live.size = bytes;
        self.live.size_version = version;
        self.sizes.push(self.live_size());
    }

    fn live_size(&self) -> SizeState {
        SizeState {
            bytes: self.live.size,
            pattern_len: self.live.pattern_len(),
            version: self.live.size_version,
        }
    }

    /// Writes, and grows as needed.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        for index in pages_of(offset..end) {
            self.touch(index);
        }
        let version = self.next_version();
        self.live.store(offset, bytes, version);
        if end > self.live.size {
            self.resized(end, version);
        }
    }

    pub(super) fn set_size(&mut self, size: u64) {
        if size == self.live.size {
            return;
        }
        let version = self.next_version();
        if size < self.live.size {
            for index in self.live.stored_from(size) {
                self.touch(index);
            }
            self.live.clear_from(size, version);
        }
        self.resized(size, version);
    }

    /// Allocates the holes of a range.
    pub(super) fn allocate(&mut self, range: Range<u64>, extend: bool) {
        let version = self.next_version();
        for index in
            pages_of(range.clone()).filter(|index| !self.live.occupied(*index)).collect::<Vec<_>>()
        {
            self.touch(index);
            self.live.set_pages(index..index + 1, &PageContent::Unwritten, version);
        }
        if extend && range.end > self.live.size {
            self.resized(range.end, version);
        }
    }

    /// Turns whole pages into holes and fills parts of pages with zeros.
    pub(super) fn punch(&mut self, range: Range<u64>) {
        let page = PAGE_BYTES as u64;
        let whole = range.start.div_ceil(page)..range.end / page;
        if whole.start >= whole.end {
            return self.zero(range);
        }
        self.zero(range.start..whole.start * page);
        self.zero(whole.end * page..range.end);
        let version = self.next_version();
        for index in whole.filter(|index| self.live.occupied(*index)).collect::<Vec<_>>() {
            self.touch(index);
            self.live.set_pages(index..index + 1, &PageContent::Hole, version);
        }
    }

    /// Fills a part of a page with zeros if the page has data. The size stays.
    fn zero(&mut self, range: Range<u64>) {
        let zeros = [0; PAGE_BYTES];
        let version = self.next_version();
        let mut at = range.start;
        while at < range.end {
            let index = at / PAGE_BYTES as u64;
            let end = range.end.min((index + 1) * PAGE_BYTES as u64);
            if self.live.page(index).is_data() {
                self.touch(index);
                self.live.store(at, &zeros[..(end - at) as usize], version);
            }
            at = end;
        }
    }

    /// What a sync that begins now has to make durable.
    pub(super) fn snapshot(&self) -> SyncSnapshot {
        let pages = self.dirty.iter().map(|index| (*index, self.live.page(*index))).collect();
        SyncSnapshot { size: self.live_size(), pages }
    }

    /// Ends a sync that succeeded.
    pub(super) fn sync(&mut self, snapshot: &SyncSnapshot) {
        self.settle_size(snapshot.size, true);
        for (index, page) in &snapshot.pages {
            self.settle_page(*index, page, 0..SECTORS_PER_PAGE, true);
        }
    }

    /// Ends a sync that failed: some of it reached the disk, and the rest is never tried again.
    pub(super) fn sync_fails(&mut self, snapshot: &SyncSnapshot, random: &mut SplitMix64) {
        self.settle_size(snapshot.size, random.chance(500));
        for (index, page) in &snapshot.pages {
            let reached = random.chance(500);
            self.settle_page(*index, page, 0..SECTORS_PER_PAGE, reached);
        }
    }

    /// Ends a write of `range` with `dsync`: makes its sectors, the size and the allocation of
    /// blocks durable. Other written data stays volatile. With `random` it fails as
    /// [`SimFile::sync_fails`] does.
    pub(super) fn sync_range(&mut self, range: Range<u64>, mut random: Option<&mut SplitMix64>) {
        let mut reached = || random.as_mut().is_none_or(|random| random.chance(500));
        let (size, sector) = (self.live_size(), SECTOR_BYTES as u64);
        let (first, end) = (range.start / sector, range.end.div_ceil(sector));
        self.settle_size(size, reached());
        for index in self.dirty.iter().copied().collect::<Vec<_>>() {
            let page = self.live.page(index);
            let start = index * SECTORS_PER_PAGE as u64;
            let from = first.clamp(start, start + SECTORS_PER_PAGE as u64) - start;
            let to = end.clamp(start, start + SECTORS_PER_PAGE as u64) - start;
            if !page.is_data() {
                self.settle_page(index, &page, 0..SECTORS_PER_PAGE, true);
            } else if from < to {
                self.settle_page(index, &page, from as usize..to as usize, reached());
            }
        }
    }

    fn settle_size(&mut self, size: SizeState, copy: bool) {
        if size.version > self.durable.size_version {
            self.durable.size_version = size.version;
            if copy {
                self.durable.size = size.bytes;
                self.durable.shorten_pattern(size.pattern_len);
            }
        }
        self.sizes.retain(|later| later.version > size.version);
    }

    fn settle_page(&mut self, index: u64, page: &Page, sectors: Range<usize>, copy: bool) {
        let mut durable = self.durable.page(index);
        durable.merge(page, sectors, copy);
        let live = self.live.page(index);
        if live.versions.iter().zip(&durable.versions).all(|(live, durable)| live <= durable) {
            self.dirty.remove(&index);
            self.remembered.remove(&index);
        }
        self.durable.put(index, durable);
    }

    /// The file after a power cut. Each sector that was not durable holds its old or a newer state:
    /// a sector is atomic, a page or a write is not. The size is one that the file has had since.
    /// With `stale`, lost data blocks in a former hole may hold anything, as on a file system that
    /// keeps no order between data and metadata (ext4 `data=writeback`).
    pub(super) fn after_power_cut(&self, random: &mut SplitMix64, stale: bool) -> SimFile {
        let mut cut = self.clone();
        let mut writes_in_flight: Vec<_> =
            std::mem::take(&mut cut.writes_in_flight).into_values().collect();
        // Each write may have reached the disk or not, in any order.
        while !writes_in_flight.is_empty() {
            let write =
                writes_in_flight.swap_remove(random.below(writes_in_flight.len() as u64) as usize);
            if random.chance(500) {
                cut.write(write.offset, &write.bytes[..write.limit]);
            }
        }
        cut.settled(random, stale)
    }

    fn settled(&self, random: &mut SplitMix64, stale: bool) -> SimFile {
        let durable = SizeState {
            bytes: self.durable.size,
            pattern_len: self.durable.pattern_len(),
            version: 0,
        };
        let sizes: Vec<SizeState> =
            std::iter::once(durable).chain(self.sizes.iter().copied()).collect();
        let chosen = match random.below(3) {
            0 => 0,
            1 => sizes.len() - 1,
            _ => random.below(sizes.len() as u64) as usize,
        };
        let least =
            |sizes: &[SizeState]| sizes.iter().map(|size| size.bytes).min().unwrap_or(u64::MAX);
        // A cut-off that reached the disk freed its blocks; one that was lost kept them.
        let (cut_to, kept_from) = (least(&sizes[1..=chosen]), least(&sizes[chosen + 1..]));
        let mut image = self.durable.clone();
        if cut_to < image.size {
            image.clear_from(cut_to, self.version);
        }
        image.size = sizes[chosen].bytes;
        // Everything may be lost or kept, or anything between.
        let kept_per_mille = [0, 125, 500, 875, 1000][random.below(5) as usize];
        for index in &self.dirty {
            let start = index * PAGE_BYTES as u64;
            let mut states = self.remembered.get(index).cloned().unwrap_or_default();
            states.push(self.live.page(*index));
            states.retain(|state| state.is_data() || start < kept_from || start >= cut_to);
            if !states.is_empty() {
                let page = self.survivor(
                    *index,
                    image.page(*index),
                    &states,
                    kept_per_mille,
                    stale,
                    random,
                );
                image.put(*index, page);
            }
        }
        let size = image.size;
        image.zero_data_from(size, self.version);
        SimFile { version: self.version, ..SimFile::new(image, self.device) }
    }

    /// One page after a power cut.
    fn survivor(
        &self,
        index: u64,
        old: Page,
        states: &[Page],
        kept_per_mille: u64,
        stale: bool,
        random: &mut SplitMix64,
    ) -> Page {
        let durable = self.durable.page(index);
        let newest = &states[states.len() - 1];
        let pick = |random: &mut SplitMix64| match random.chance(750) {
            true => states.len() - 1,
            false => random.below(states.len() as u64) as usize,
        };
        let mut page = old.clone();
        if !newest.is_data() {
            // The blocks of a file are metadata, which changes whole or not at all.
            if random.chance(kept_per_mille) {
                page.merge(newest, 0..SECTORS_PER_PAGE, true);
            }
            return page;
        }
        let torn = random.chance(250);
        let (whole_kept, whole_state) = (random.chance(kept_per_mille), pick(random));
        let lost_is_stale = stale && matches!(old.content, PageContent::Hole) && random.chance(500);
        for sector in 0..SECTORS_PER_PAGE {
            let (kept, state) = match torn {
                true => (random.chance(kept_per_mille), &states[pick(random)]),
                false => (whole_kept, &states[whole_state]),
            };
            if newest.versions[sector] <= durable.versions[sector] {
                continue;
            }
            let target = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            if kept && state.versions[sector] > durable.versions[sector] {
                page.bytes_mut()[target].copy_from_slice(state.sector(sector));
            } else if lost_is_stale {
                random.fill(&mut page.bytes_mut()[target]);
            }
        }
        page
    }
}
