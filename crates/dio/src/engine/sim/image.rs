//! The contents of a file, in pages that images share until one of them writes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::SplitMix64;

/// Bytes in a page, which is also the block in which the simulated file system allocates.
pub(super) const PAGE: usize = 4096;
/// Bytes that a disk writes whole or not at all.
pub(super) const SECTOR: usize = 512;
/// Sectors in a page.
pub(super) const SECTORS: usize = PAGE / SECTOR;

/// What a page holds.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing; it reads as zeros and takes no space.
    Hole,
    /// Allocated, never written; it reads as zeros (an unwritten extent).
    Unwritten,
    /// Data.
    Data(Arc<[u8; PAGE]>),
}

/// A page, with the version of the write that each sector comes from. Versions only grow, so of two states of a sector
/// the newer is known, whatever the order in which syncs complete.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) versions: [u64; SECTORS],
    pub(super) content: Content,
}

impl Page {
    pub(super) fn is_data(&self) -> bool {
        matches!(self.content, Content::Data(_))
    }

    pub(super) fn sector(&self, sector: usize) -> &[u8] {
        match &self.content {
            Content::Data(bytes) => &bytes[sector * SECTOR..][..SECTOR],
            Content::Hole | Content::Unwritten => &[0; SECTOR],
        }
    }

    /// The bytes, for changing: a copy if another image shares them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        if !self.is_data() {
            self.content = Content::Data(Arc::new([0; PAGE]));
        }
        match &mut self.content {
            Content::Data(bytes) => Arc::make_mut(bytes),
            Content::Hole | Content::Unwritten => unreachable!("made data above"),
        }
    }

    /// Takes over those of `sectors` that are newer in `from`; with `copy` unset only their versions, which is what a
    /// kernel does that believes a page clean although it never reached the disk.
    pub(super) fn merge(&mut self, from: &Page, sectors: Range<usize>, copy: bool) {
        let newer: Vec<usize> = sectors.filter(|sector| from.versions[*sector] > self.versions[*sector]).collect();
        for sector in &newer {
            self.versions[*sector] = from.versions[*sector];
        }
        if !copy || newer.is_empty() {
            return;
        }
        if newer.len() == SECTORS {
            self.content = from.content.clone();
            return;
        }
        let bytes = self.bytes_mut();
        for sector in newer {
            bytes[sector * SECTOR..][..SECTOR].copy_from_slice(from.sector(sector));
        }
    }
}

/// Contents that are computed, not stored: a large source costs no memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    pub(super) seed: u64,
    /// Bytes from the start of the file that it fills, where no page says otherwise.
    pub(super) len: u64,
}

/// Fills `out` with the bytes that a file made by [`SimDisk::pattern_file`](super::SimDisk::pattern_file) with this
/// seed has from `offset` on.
pub fn pattern(seed: u64, offset: u64, out: &mut [u8]) {
    let mut at = 0;
    while at < out.len() {
        let position = offset + at as u64;
        let word = SplitMix64::for_use(seed, position / 8).next_u64().to_le_bytes();
        let skip = (position % 8) as usize;
        let count = (8 - skip).min(out.len() - at);
        out[at..at + count].copy_from_slice(&word[skip..skip + count]);
        at += count;
    }
}

/// One state of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pub(super) size: u64,
    pub(super) size_version: u64,
    pub(super) pattern: Option<Pattern>,
    pages: BTreeMap<u64, Page>,
    /// Pages that take space.
    used: u64,
}

/// The pages that a range of bytes touches.
pub(super) fn pages_of(range: Range<u64>) -> Range<u64> {
    let page = PAGE as u64;
    if range.is_empty() { 0..0 } else { range.start / page..range.end.div_ceil(page) }
}

impl Image {
    pub(super) fn of_pattern(size: u64, seed: u64) -> Image {
        let pattern = Some(Pattern { seed, len: size });
        Image { size, pattern, used: size.div_ceil(PAGE as u64), ..Image::default() }
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn pattern_len(&self) -> u64 {
        self.pattern.map_or(0, |pattern| pattern.len)
    }

    /// True when the page takes space.
    pub(super) fn occupied(&self, index: u64) -> bool {
        match self.pages.get(&index) {
            Some(page) => !matches!(page.content, Content::Hole),
            None => index * (PAGE as u64) < self.pattern_len(),
        }
    }

    pub(super) fn page(&self, index: u64) -> Page {
        if let Some(page) = self.pages.get(&index) {
            return page.clone();
        }
        let mut page = Page { versions: [0; SECTORS], content: Content::Hole };
        let start = index * PAGE as u64;
        if let Some(Pattern { seed, len }) = self.pattern.filter(|computed| start < computed.len) {
            let count = (len - start).min(PAGE as u64) as usize;
            pattern(seed, start, &mut page.bytes_mut()[..count]);
        }
        page
    }

    pub(super) fn put(&mut self, index: u64, page: Page) {
        let before = self.occupied(index);
        self.pages.insert(index, page);
        self.used = self.used + u64::from(self.occupied(index)) - u64::from(before);
    }

    /// Stored pages from the one that holds byte `offset` on.
    pub(super) fn stored_from(&self, offset: u64) -> Vec<u64> {
        self.pages.range(offset / PAGE as u64..).map(|(index, _)| *index).collect()
    }

    /// Copies out bytes, whatever the size is.
    pub(super) fn copy_out(&self, offset: u64, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let position = offset + at as u64;
            let (index, skip) = (position / PAGE as u64, (position % PAGE as u64) as usize);
            let count = (PAGE - skip).min(out.len() - at);
            let piece = &mut out[at..at + count];
            match self.pages.get(&index).map(|page| &page.content) {
                Some(Content::Data(bytes)) => piece.copy_from_slice(&bytes[skip..skip + count]),
                Some(Content::Hole | Content::Unwritten) => piece.fill(0),
                None => {
                    let filled = self.pattern_len().saturating_sub(position).min(count as u64) as usize;
                    if let Some(Pattern { seed, .. }) = self.pattern {
                        pattern(seed, position, &mut piece[..filled]);
                    }
                    piece[filled..].fill(0);
                }
            }
            at += count;
        }
    }

    /// Stores bytes, without a change of size.
    pub(super) fn store(&mut self, offset: u64, bytes: &[u8], version: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let position = offset + at as u64;
            let (index, skip) = (position / PAGE as u64, (position % PAGE as u64) as usize);
            let count = (PAGE - skip).min(bytes.len() - at);
            let mut page = self.take(index);
            page.bytes_mut()[skip..skip + count].copy_from_slice(&bytes[at..at + count]);
            page.versions[skip / SECTOR..(skip + count).div_ceil(SECTOR)].fill(version);
            self.put(index, page);
            at += count;
        }
    }

    /// The page, to be changed and put back: its bytes are copied only if another image shares them.
    fn take(&mut self, index: u64) -> Page {
        match self.pages.get_mut(&index) {
            // Data and an unwritten block take the same space, so `used` stays right meanwhile.
            Some(stored) if stored.is_data() => {
                let content = std::mem::replace(&mut stored.content, Content::Unwritten);
                Page { versions: stored.versions, content }
            }
            _ => self.page(index),
        }
    }

    /// Turns the pages into `content`, all of them.
    pub(super) fn set_pages(&mut self, pages: Range<u64>, content: &Content, version: u64) {
        for index in pages {
            self.put(index, Page { versions: [version; SECTORS], content: content.clone() });
        }
    }

    /// Frees every page behind `size`, and zeroes what is behind it in its own page.
    pub(super) fn clear_from(&mut self, size: u64, version: u64) {
        for index in self.stored_from(size).into_iter().filter(|index| index * PAGE as u64 >= size) {
            self.set_pages(index..index + 1, &Content::Hole, version);
        }
        self.zero_data_from(size, version);
    }

    /// Makes everything from `size` on read as zeros. What is allocated and not written stays so.
    pub(super) fn zero_data_from(&mut self, size: u64, version: u64) {
        for index in self.stored_from(size) {
            let start = index * PAGE as u64;
            if !self.page(index).is_data() {
                continue;
            }
            if start >= size {
                self.set_pages(index..index + 1, &Content::Hole, version);
                continue;
            }
            let keep = (size - start) as usize;
            let mut partial = self.page(index);
            partial.bytes_mut()[keep..].fill(0);
            partial.versions[keep / SECTOR..].fill(version);
            self.put(index, partial);
        }
        self.shorten_pattern(size);
    }

    pub(super) fn shorten_pattern(&mut self, size: u64) {
        let Some(Pattern { seed, len }) = self.pattern.filter(|pattern| pattern.len > size) else { return };
        let page = PAGE as u64;
        let gone = size.div_ceil(page)..len.div_ceil(page);
        let stored = self.pages.range(gone.clone()).count() as u64;
        self.used -= (gone.end - gone.start) - stored;
        self.pattern = Some(Pattern { seed, len: size });
    }
}
