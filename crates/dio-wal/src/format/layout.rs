//! LSNs, and the segments and blocks that they lie in.

use super::fault::HeaderFault;

/// Smallest block size in bytes.
pub(crate) const BLOCK_BYTES_MIN: u32 = 512;
/// Largest block size in bytes.
const BLOCK_BYTES_MAX: u32 = 65_536;
/// Largest segment size in bytes.
const SEGMENT_BYTES_MAX: u64 = 1 << 40;
/// Every LSN is smaller than this, so that sums of two LSNs never overflow.
const LSN_LIMIT: u64 = 1 << 62;

/// A log sequence number: an offset in the stream of all data of a log. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Block size and segment size of a log.
///
/// Invariant: the block size is a power of two from 512 to 65,536 bytes; the segment size is a
/// multiple of it, at least two blocks, and at most 1 TiB.
///
/// ```
/// use dio_wal::Layout;
/// let layout = Layout::new(4096, 1 << 20)?;
/// // The first block of each segment is its header, so segment 0 ends at LSN 1,044,480.
/// assert_eq!(layout.locate(0), (0, 4096));
/// assert_eq!(layout.locate(1_044_479), (0, 1_048_575));
/// assert_eq!(layout.locate(1_044_480), (1, 4096));
/// assert_eq!(layout.locate(2_000_000), (1, 959_616));
/// # Ok::<(), dio_wal::HeaderFault>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    block: u32,
    segment: u64,
}

impl Layout {
    /// Checks the sizes, in bytes, and makes a layout of them.
    ///
    /// # Errors
    /// [`HeaderFault::Sizes`] if no log can have these sizes.
    pub fn new(block: u32, segment: u64) -> Result<Layout, HeaderFault> {
        let valid = (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block)
            && block.is_power_of_two()
            && segment % u64::from(block) == 0
            && segment >= 2 * u64::from(block)
            && segment <= SEGMENT_BYTES_MAX;
        if valid {
            Ok(Layout { block, segment })
        } else {
            Err(HeaderFault::Sizes { block, segment })
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.block.into()
    }

    /// Bytes of a segment's file.
    pub fn segment_bytes(&self) -> u64 {
        self.segment
    }

    /// Bytes of data in a segment: all but the header's block.
    pub fn data_bytes(&self) -> u64 {
        self.segment - self.block_bytes()
    }

    /// The number of the segment that holds an LSN, and the offset of that LSN in the segment's
    /// file.
    pub fn locate(&self, lsn: u64) -> (u64, u64) {
        (self.segment_of(lsn), self.block_bytes() + lsn % self.data_bytes())
    }

    /// The number of the segment that holds an LSN.
    pub fn segment_of(&self, lsn: u64) -> u64 {
        lsn / self.data_bytes()
    }

    /// The first LSN of a segment.
    pub fn segment_start(&self, number: u64) -> u64 {
        number * self.data_bytes()
    }

    /// The first LSN behind the segment that holds `lsn`.
    pub fn segment_end(&self, lsn: u64) -> u64 {
        self.segment_start(self.segment_of(lsn) + 1)
    }

    /// The start of the first block at or behind `lsn`.
    pub fn block_at_or_after(&self, lsn: u64) -> u64 {
        dio::geometry::align_up(lsn, self.block_bytes())
    }

    /// Whether a log can grow as far as segment `number`.
    pub fn is_segment_possible(&self, number: u64) -> bool {
        number < LSN_LIMIT / self.data_bytes()
    }
}

/// The name of the file of segment `number`.
pub fn segment_name(number: u64) -> String {
    format!("{number:016x}.wal")
}

/// The number of the segment whose file has this name; `None` for other names.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal").filter(|digits| digits.len() == 16)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    // `from_str_radix` also accepts a sign and capital letters.
    (segment_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsns_are_located_by_division() {
        let layout = Layout::new(512, 2048).unwrap();
        assert_eq!(layout.locate(0), (0, 512));
        assert_eq!(layout.locate(1535), (0, 2047));
        assert_eq!(layout.locate(1536), (1, 512));
        assert_eq!((layout.segment_start(2), layout.segment_end(1536)), (3072, 3072));
        for (block, segment) in
            [(256, 4096), (1000, 4000), (512, 512), (512, 2000), (131_072, 1 << 20)]
        {
            Layout::new(block, segment).unwrap_err();
        }
    }

    #[test]
    fn only_names_that_are_written_are_read() {
        assert_eq!(segment_number(&segment_name(0xabc)), Some(0xabc));
        for name in [
            "abc.wal",
            "0000000000000ABC.wal",
            "+000000000000abc.wal",
            "0000000000000abc.spare",
            "",
        ] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
