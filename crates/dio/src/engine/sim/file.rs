//! A simulated file: what reads see, what a power cut cannot take, and what lies between.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::SplitMix64;
use super::image::{Content, Image, PAGE, Page, SECTOR, SECTORS, pages_of};

/// Most states of a page, besides the durable and the live one, that a power cut can bring back.
const MOST_REMEMBERED: usize = 3;

/// A size that the file had, with what a cut-off left of computed contents.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    pattern_len: u64,
    version: u64,
}

/// What a sync has to make durable: everything that was live when it *began*. Writes that complete later are not its
/// business, even if they complete before it does.
#[derive(Debug)]
pub(super) struct Snapshot {
    size: Size,
    pages: Vec<(u64, Page)>,
}

/// A write in flight.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub(super) offset: u64,
    /// All of its memory: it must be the same when the write completes.
    pub(super) bytes: Vec<u8>,
    /// Bytes that will be written at most.
    pub(super) limit: usize,
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) live: Image,
    pub(super) durable: Image,
    /// Invariant: every page of which some sector is newer live than durable is in here (others may be).
    dirty: BTreeSet<u64>,
    /// Earlier states of dirty pages, oldest first: the disk may have written any of them.
    remembered: BTreeMap<u64, Vec<Page>>,
    /// Sizes since the durable one, oldest first. Invariant: the last one is the live size, if there is any.
    sizes: Vec<Size>,
    /// The last version given to a change. Invariant: no image holds a greater one.
    version: u64,
    /// Writes in flight, by the number of the operation: a power cut may find any part of them done.
    pub(super) under_way: BTreeMap<u64, UnderWay>,
    /// A block device: its size cannot change.
    pub(super) device: bool,
}

impl File {
    /// A file whose contents are durable already.
    pub(super) fn new(image: Image, device: bool) -> File {
        File {
            durable: image.clone(),
            live: image,
            dirty: BTreeSet::new(),
            remembered: BTreeMap::new(),
            sizes: Vec::new(),
            version: 0,
            under_way: BTreeMap::new(),
            device,
        }
    }

    /// Must precede every change of a page.
    fn touch(&mut self, index: u64) {
        if !self.dirty.insert(index) {
            let states = self.remembered.entry(index).or_default();
            if states.len() == MOST_REMEMBERED {
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

    fn live_size(&self) -> Size {
        Size { bytes: self.live.size, pattern_len: self.live.pattern_len(), version: self.live.size_version }
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

    /// Allocates what is a hole.
    pub(super) fn allocate(&mut self, range: Range<u64>, extend: bool) {
        let version = self.next_version();
        for index in pages_of(range.clone()).filter(|index| !self.live.occupied(*index)).collect::<Vec<_>>() {
            self.touch(index);
            self.live.set_pages(index..index + 1, &Content::Unwritten, version);
        }
        if extend && range.end > self.live.size {
            self.resized(range.end, version);
        }
    }

    /// Whole pages become holes, parts of pages zeros.
    pub(super) fn punch(&mut self, range: Range<u64>) {
        let page = PAGE as u64;
        let whole = range.start.div_ceil(page)..range.end / page;
        if whole.start >= whole.end {
            return self.zero(range);
        }
        self.zero(range.start..whole.start * page);
        self.zero(whole.end * page..range.end);
        let version = self.next_version();
        for index in whole.filter(|index| self.live.occupied(*index)).collect::<Vec<_>>() {
            self.touch(index);
            self.live.set_pages(index..index + 1, &Content::Hole, version);
        }
    }

    /// Zeros in part of a page, if it has data at all; the size stays.
    fn zero(&mut self, range: Range<u64>) {
        let zeros = [0; PAGE];
        let version = self.next_version();
        let mut at = range.start;
        while at < range.end {
            let index = at / PAGE as u64;
            let end = range.end.min((index + 1) * PAGE as u64);
            if self.live.page(index).is_data() {
                self.touch(index);
                self.live.store(at, &zeros[..(end - at) as usize], version);
            }
            at = end;
        }
    }

    /// What a sync that begins now has to do.
    pub(super) fn snapshot(&self) -> Snapshot {
        let pages = self.dirty.iter().map(|index| (*index, self.live.page(*index))).collect();
        Snapshot { size: self.live_size(), pages }
    }

    /// A sync that succeeded.
    pub(super) fn sync(&mut self, snapshot: &Snapshot) {
        self.settle_size(snapshot.size, true);
        for (index, page) in &snapshot.pages {
            self.settle_page(*index, page, 0..SECTORS, true);
        }
    }

    /// A sync that failed: some of it reached the disk, none of it will be tried again.
    pub(super) fn sync_fails(&mut self, snapshot: &Snapshot, random: &mut SplitMix64) {
        self.settle_size(snapshot.size, random.chance(500));
        for (index, page) in &snapshot.pages {
            let reached = random.chance(500);
            self.settle_page(*index, page, 0..SECTORS, reached);
        }
    }

    /// Ends a write with `dsync` of `range`: its own sectors, the size, and which blocks are allocated. What else was
    /// written stays volatile. With `random` it fails, as [`File::sync_fails`].
    pub(super) fn sync_range(&mut self, range: Range<u64>, mut random: Option<&mut SplitMix64>) {
        let mut reached = || random.as_mut().is_none_or(|random| random.chance(500));
        let (size, sector) = (self.live_size(), SECTOR as u64);
        let (first, end) = (range.start / sector, range.end.div_ceil(sector));
        self.settle_size(size, reached());
        for index in self.dirty.iter().copied().collect::<Vec<_>>() {
            let page = self.live.page(index);
            let start = index * SECTORS as u64;
            let from = first.clamp(start, start + SECTORS as u64) - start;
            let to = end.clamp(start, start + SECTORS as u64) - start;
            if !page.is_data() {
                self.settle_page(index, &page, 0..SECTORS, true);
            } else if from < to {
                self.settle_page(index, &page, from as usize..to as usize, reached());
            }
        }
    }

    fn settle_size(&mut self, size: Size, copy: bool) {
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

    /// What is there after the power went: each sector that was not durable holds its old or a newer state (a sector is
    /// atomic, a page or a write is not), and the size is one that the file had since. With `stale`, data blocks that
    /// were lost in what was a hole may hold anything, as on a file system that keeps no order between data and
    /// metadata (ext4 `data=writeback`).
    pub(super) fn after_power_cut(&self, random: &mut SplitMix64, stale: bool) -> File {
        let mut cut = self.clone();
        let mut under_way: Vec<_> = std::mem::take(&mut cut.under_way).into_values().collect();
        // Each may have reached the disk or not, in any order.
        while !under_way.is_empty() {
            let write = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
            if random.chance(500) {
                cut.write(write.offset, &write.bytes[..write.limit]);
            }
        }
        cut.settled(random, stale)
    }

    fn settled(&self, random: &mut SplitMix64, stale: bool) -> File {
        let durable = Size { bytes: self.durable.size, pattern_len: self.durable.pattern_len(), version: 0 };
        let sizes: Vec<Size> = std::iter::once(durable).chain(self.sizes.iter().copied()).collect();
        let chosen = match random.below(3) {
            0 => 0,
            1 => sizes.len() - 1,
            _ => random.below(sizes.len() as u64) as usize,
        };
        let least = |sizes: &[Size]| sizes.iter().map(|size| size.bytes).min().unwrap_or(u64::MAX);
        // A cut-off that happened took its blocks with it; one that was lost kept them.
        let (cut_to, kept_from) = (least(&sizes[1..=chosen]), least(&sizes[chosen + 1..]));
        let mut image = self.durable.clone();
        if cut_to < image.size {
            image.clear_from(cut_to, self.version);
        }
        image.size = sizes[chosen].bytes;
        // All may be lost or kept, or anything between.
        let kept_per_mille = [0, 125, 500, 875, 1000][random.below(5) as usize];
        for index in &self.dirty {
            let start = index * PAGE as u64;
            let mut states = self.remembered.get(index).cloned().unwrap_or_default();
            states.push(self.live.page(*index));
            states.retain(|state| state.is_data() || start < kept_from || start >= cut_to);
            if !states.is_empty() {
                let page = self.survivor(*index, image.page(*index), &states, kept_per_mille, stale, random);
                image.put(*index, page);
            }
        }
        let size = image.size;
        image.zero_data_from(size, self.version);
        File { version: self.version, ..File::new(image, self.device) }
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
            // Which blocks a file has is metadata, changed whole or not at all.
            if random.chance(kept_per_mille) {
                page.merge(newest, 0..SECTORS, true);
            }
            return page;
        }
        let torn = random.chance(250);
        let (whole_kept, whole_state) = (random.chance(kept_per_mille), pick(random));
        let lost_is_stale = stale && matches!(old.content, Content::Hole) && random.chance(500);
        for sector in 0..SECTORS {
            let (kept, state) = match torn {
                true => (random.chance(kept_per_mille), &states[pick(random)]),
                false => (whole_kept, &states[whole_state]),
            };
            if newest.versions[sector] <= durable.versions[sector] {
                continue;
            }
            let target = sector * SECTOR..(sector + 1) * SECTOR;
            if kept && state.versions[sector] > durable.versions[sector] {
                page.bytes_mut()[target].copy_from_slice(state.sector(sector));
            } else if lost_is_stale {
                random.fill(&mut page.bytes_mut()[target]);
            }
        }
        page
    }
}
