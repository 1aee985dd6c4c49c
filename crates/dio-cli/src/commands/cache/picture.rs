//! A map of a file's resident pages, reduced to the few cells that fit on a line.

use std::ops::Range;

/// Number of cells in a map.
pub(super) const CELLS: usize = 32;

/// Characters for increasing shares of resident pages, and their substitutes where only ASCII is
/// shown.
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 9] = ['.', '-', '-', ':', ':', '=', '+', '*', '#'];

/// Number of resident pages in each of [`CELLS`] equal parts of a file.
pub(super) struct Picture {
    /// Number of all pages of the file.
    pages: u64,
    resident: [u64; CELLS],
}

impl Picture {
    /// Creates the map of a file with this number of pages, none of them resident.
    pub(super) fn new(pages: u64) -> Self {
        Self { pages, resident: [0; CELLS] }
    }

    /// Adds a run of resident pages; pages beyond the end of the file are ignored.
    pub(super) fn add(&mut self, run: Range<u64>) {
        let end = run.end.min(self.pages);
        for cell in 0..CELLS {
            let part = self.part(cell);
            let (start, end) = (run.start.max(part.start), end.min(part.end));
            self.resident[cell] += end.saturating_sub(start);
        }
    }

    /// Number of all resident pages.
    pub(super) fn resident(&self) -> u64 {
        self.resident.iter().sum()
    }

    /// The range of pages that a cell represents.
    fn part(&self, cell: usize) -> Range<u64> {
        let bound = |cell: usize| {
            let bound = u128::from(self.pages) * cell as u128 / CELLS as u128;
            // The quotient is at most `pages`, which has 64 bits.
            bound as u64
        };
        bound(cell)..bound(cell + 1)
    }

    /// For each cell the resident share of its pages, from 0 to 1. In a file with fewer pages than
    /// cells, a cell without a page of its own shows the page it falls into.
    pub(super) fn fractions(&self) -> Vec<f64> {
        (0..CELLS).map(|cell| self.fraction(cell)).collect()
    }

    fn fraction(&self, cell: usize) -> f64 {
        if self.pages == 0 {
            return 0.0;
        }
        let part = self.part(cell);
        if !part.is_empty() {
            return self.resident[cell] as f64 / (part.end - part.start) as f64;
        }
        // An empty cell lies in the page at which the next cell that is not empty starts.
        let holder = (cell + 1..CELLS).find(|later| !self.part(*later).is_empty());
        holder.map_or(0.0, |holder| self.fraction(holder))
    }

    /// Draws the map. A cell is blank only if none of its pages is resident, and full only if all
    /// are.
    pub(super) fn draw(&self, utf8: bool) -> String {
        let levels = if utf8 { BLOCKS } else { ASCII };
        let level = |fraction: f64| match fraction {
            0.0 => 0,
            full if full >= 1.0 => 8,
            part => ((part * 8.0) as usize).clamp(1, 7),
        };
        (0..CELLS).map(|cell| levels[level(self.fraction(cell))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_seen_in_their_place() {
        let mut picture = Picture::new(1000);
        picture.add(0..500);
        let map = picture.draw(false);
        assert_eq!(map, format!("{}{}", "#".repeat(16), ".".repeat(16)));
        assert_eq!(picture.resident(), 500);
    }

    #[test]
    fn a_single_page_of_many_is_seen_and_one_missing_too() {
        let mut picture = Picture::new(1 << 20);
        picture.add(70_000..70_001);
        assert_eq!(picture.draw(true).matches('▁').count(), 1);
        let mut picture = Picture::new(1 << 20);
        picture.add(0..70_000);
        picture.add(70_001..1 << 20);
        assert_eq!(picture.draw(true).matches('▇').count(), 1);
        assert_eq!(picture.draw(true).matches('█').count(), CELLS - 1);
    }

    #[test]
    fn a_file_of_fewer_pages_than_cells_fills_the_line() {
        for pages in [1, 2, 3, 31, 33] {
            let mut picture = Picture::new(pages);
            assert_eq!(picture.draw(false), ".".repeat(CELLS));
            picture.add(0..pages + 7);
            assert_eq!(picture.draw(false), "#".repeat(CELLS), "{pages} pages");
            assert_eq!(picture.resident(), pages);
        }
        let mut picture = Picture::new(2);
        picture.add(1..2);
        assert_eq!(picture.draw(false), format!("{}{}", ".".repeat(16), "#".repeat(16)));
    }

    #[test]
    fn an_empty_file_has_an_empty_map() {
        let picture = Picture::new(0);
        assert_eq!(picture.draw(false), ".".repeat(CELLS));
        assert_eq!(picture.fractions(), vec![0.0; CELLS]);
    }
}
