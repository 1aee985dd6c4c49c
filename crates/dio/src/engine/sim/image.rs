//! The contents of a file, in pages. Images share a page until one of them writes to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::SplitMix64;

/// Bytes in a page, which is also the unit of allocation of the simulated file system.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes that a disk writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
/// Sectors in a page.
pub(super) const SECTORS_PER_PAGE: usize = PAGE_BYTES / SECTOR_BYTES;

/// What a page holds.
#[derive(Clone, Debug)]
pub(super) enum PageContent {
    /// Nothing. The page reads as zeros and takes no space.
    Hole,
    /// Allocated and never written: an unwritten extent, which reads as zeros.
    Unwritten,
    /// Data.
    Data(Arc<[u8; PAGE_BYTES]>),
}

/// A page, with the version of the write that each sector comes from. Versions only grow, so the
/// newer of two states of a sector is known, in whatever order syncs complete.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) versions: [u64; SECTORS_PER_PAGE],
    pub(super) content: PageContent,
}

impl Page {
    pub(super) fn is_data(&self) -> bool {
        matches!(self.content, PageContent::Data(_))
    }

    pub(super) fn sector(&self, sector: usize) -> &[u8] {
        match &self.content {
            PageContent::Data(bytes) => &bytes[sector * SECTOR_BYTES..][..SECTOR_BYTES],
            PageContent::Hole | PageContent::Unwritten => &[0; SECTOR_BYTES],
        }
    }

    /// The bytes, for changing. They are copied first if another image shares them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        if !self.is_data() {
            self.content = PageContent::Data(Arc::new([0; PAGE_BYTES]));
        }
        match &mut self.content {
            PageContent::Data(bytes) => Arc::make_mut(bytes),
            PageContent::Hole | PageContent::Unwritten => unreachable!("made data above"),
        }
    }

    /// Takes over the `sectors` that are newer in `from`. Without `copy` it takes over their
    /// versions only: so does a kernel that takes a page for clean although it never reached the
    /// disk.
    pub(super) fn merge(&mut self, from: &Page, sectors: Range<usize>, copy: bool) {
        let newer: Vec<usize> =
            sectors.filter(|sector| from.versions[*sector] > self.versions[*sector]).collect();
        for sector in &newer {
            self.versions[*sector] = from.versions[*sector];
        }
        if !copy || newer.is_empty() {
            return;
        }
        if newer.len() == SECTORS_PER_PAGE {
            self.content = from.content.clone();
            return;
        }
        let bytes = self.bytes_mut();
        for sector in newer {
            bytes[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(from.sector(sector));
        }
    }
}

/// Contents that are computed and not stored, so that a large source costs no memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComputedContents {
    pub(super) seed: u64,
    /// Length in bytes from the start of the file. Stored pages take precedence.
    pub(super) len: u64,
}

/// Fills `out` with the bytes from `offset` on of a file that
/// [`SimDisk::pattern_file`](super::SimDisk::pattern_file) makes with this seed.
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
    pub(super) pattern: Option<ComputedContents>,
    pages: BTreeMap<u64, Page>,
    /// Number of pages that take space.
    used: u64,
}

/// The pages that a range of bytes touches.
pub(super) fn pages_of(range: Range<u64>) -> Range<u64> {
    let page = PAGE_BYTES as u64;
    if range.is_empty() { 0..0 } else { range.start / page..range.end.div_ceil(page) }
}

impl Image {
    pub(super) fn of_pattern(size: u64, seed: u64) -> Image {
        let pattern = Some(ComputedContents { seed, len: size });
        Image { size, pattern, used: size.div_ceil(PAGE_BYTES as u64), ..Image::default() }
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
            Some(page) => !matches!(page.content, PageContent::Hole),
            None => index * (PAGE_BYTES as u64) < self.pattern_len(),
        }
    }

    pub(super) fn page(&self, index: u64) -> Page {
        if let Some(page) = self.pages.get(&index) {
            return page.clone();
        }
        let mut page = Page { versions: [0; SECTORS_PER_PAGE], content: PageContent::Hole };
        let start = index * PAGE_BYTES as u64;
        if let Some(ComputedContents { seed, len }) =
            self.pattern.filter(|computed| start < computed.len)
        {
            let count = (len - start).min(PAGE_BYTES as u64) as usize;
            pattern(seed, start, &mut page.bytes_mut()[..count]);
        }
        page
    }

    pub(super) fn put(&mut self, index: u64, page: Page) {
        let before = self.occupied(index);
        self.pages.insert(index, page);
        self.used = self.used + u64::from(self.occupied(index)) - u64::from(before);
    }

    /// Indices of the stored pages, beginning with the one that holds byte `offset`.
    pub(super) fn stored_from(&self, offset: u64) -> Vec<u64> {
        self.pages.range(offset / PAGE_BYTES as u64..).map(|(index, _)| *index).collect()
    }

    /// Copies bytes out, even beyond the size.
    pub(super) fn copy_out(&self, offset: u64, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let position = offset + at as u64;
            let (index, skip) =
                (position / PAGE_BYTES as u64, (position % PAGE_BYTES as u64) as usize);
            let count = (PAGE_BYTES - skip).min(out.len() - at);
            let piece = &mut out[at..at + count];
            match self.pages.get(&index).map(|page| &page.content) {
                Some(PageContent::Data(bytes)) => piece.copy_from_slice(&bytes[skip..skip + count]),
                Some(PageContent::Hole | PageContent::Unwritten) => piece.fill(0),
                None => {
                    let filled =
                        self.pattern_len().saturating_sub(position).min(count as u64) as usize;
                    if let Some(ComputedContents { seed, .. }) = self.pattern {
                        pattern(seed, position, &mut piece[..filled]);
                    }
                    piece[filled..].fill(0);
                }
            }
            at += count;
        }
    }

    /// Stores bytes without changing the size.
    pub(super) fn store(&mut self, offset: u64, bytes: &[u8], version: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let position = offset + at as u64;
            let (index, skip) =
                (position / PAGE_BYTES as u64, (position % PAGE_BYTES as u64) as usize);
            let count = (PAGE_BYTES - skip).min(bytes.len() - at);
            let mut page = self.take(index);
            page.bytes_mut()[skip..skip + count].copy_from_slice(&bytes[at..at + count]);
            page.versions[skip / SECTOR_BYTES..(skip + count).div_ceil(SECTOR_BYTES)].fill(version);
            self.put(index, page);
            at += count;
        }
    }

    /// Takes the page out to be changed and put back. Its bytes are copied only if another image
    /// shares them.
    fn take(&mut self, index: u64) -> Page {
        match self.pages.get_mut(&index) {
            // Data and an unwritten block take the same space, so `used` stays right in between.
            Some(stored) if stored.is_data() => {
                let content = std::mem::replace(&mut stored.content, PageContent::Unwritten);
                Page { versions: stored.versions, content }
            }
            _ => self.page(index),
        }
    }

    /// Gives all of the pages this content.
    pub(super) fn set_pages(&mut self, pages: Range<u64>, content: &PageContent, version: u64) {
        for index in pages {
            self.put(
                index,
                Page { versions: [version; SECTORS_PER_PAGE], content: content.clone() },
            );
        }
    }

    /// Frees every page behind `size`, and zeroes the rest of the page that holds the last byte.
    pub(super) fn clear_from(&mut self, size: u64, version: u64) {
        for index in
            self.stored_from(size).into_iter().filter(|index| index * PAGE_BYTES as u64 >= size)
        {
            self.set_pages(index..index + 1, &PageContent::Hole, version);
        }
        self.zero_data_from(size, version);
    }

    /// Makes everything from `size` on read as zeros. Unwritten pages stay unwritten.
    pub(super) fn zero_data_from(&mut self, size: u64, version: u64) {
        for index in self.stored_from(size) {
            let start = index * PAGE_BYTES as u64;
            if !self.page(index).is_data() {
                continue;
            }
            if start >= size {
                self.set_pages(index..index + 1, &PageContent::Hole, version);
                continue;
            }
            let keep = (size - start) as usize;
            let mut partial = self.page(index);
            partial.bytes_mut()[keep..].fill(0);
            partial.versions[keep / SECTOR_BYTES..].fill(version);
            self.put(index, partial);
        }
        self.shorten_pattern(size);
    }

    pub(super) fn shorten_pattern(&mut self, size: u64) {
        let Some(ComputedContents { seed, len }) =
            self.pattern.filter(|pattern| pattern.len > size)
        else {
            return;
        };
        let page = PAGE_BYTES as u64;
        let gone = size.div_ceil(page)..len.div_ceil(page);
        let stored = self.pages.range(gone.clone()).count() as u64;
        self.used -= (gone.end - gone.start) - stored;
        self.pattern = Some(ComputedContents { seed, len: size });
    }
}
