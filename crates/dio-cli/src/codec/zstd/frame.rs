//! Reads the headers of frames (RFC 8878, section 3.1) without decoding the contents.

use std::io;

use dio::stream::Input;

/// The magic number of a frame.
pub const MAGIC: u32 = 0xfd2f_b528;

/// The magic number of a skippable frame; its lowest four bits may have any value.
const SKIPPABLE: u32 = 0x184d_2a50;

/// The longest header: magic number, descriptor, window, dictionary and size.
pub const LONGEST_HEADER: usize = 18;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the header in bytes, including the magic number.
    pub length: usize,
    /// Bytes that a decoder keeps for references backwards.
    pub window: u64,
    /// Bytes of the content, if the header has them.
    pub content: Option<u64>,
    /// The ID of the dictionary; 0 for none.
    pub dictionary: u32,
    /// Whether a checksum follows the blocks.
    pub checksum: bool,
}

/// The kind of data at a position where a frame may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStart {
    /// A frame with this header.
    Frame(Header),
    /// A frame that decoders skip, of this many bytes including its header of 8.
    Skippable(u64),
    /// Bytes that do not begin a frame, or a header with a reserved bit set.
    Other,
    /// The beginning is too short; this many bytes of it are needed.
    More(usize),
}

/// Determines what `bytes` begins with.
pub fn begins(bytes: &[u8]) -> FrameStart {
    let Some(magic) = number(bytes, 4) else { return FrameStart::More(4) };
    if magic as u32 & !0xf == SKIPPABLE {
        return number(&bytes[4..], 4)
            .map_or(FrameStart::More(8), |size| FrameStart::Skippable(size + 8));
    }
    if magic != u64::from(MAGIC) {
        return FrameStart::Other;
    }
    let Some(&descriptor) = bytes.get(4) else { return FrameStart::More(5) };
    if descriptor & 0x08 != 0 {
        return FrameStart::Other;
    }
    let single = descriptor & 0x20 != 0;
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(single),
        flag => 1 << flag,
    };
    let window_bytes = usize::from(!single);
    let length = 5 + window_bytes + dictionary_bytes + size_bytes;
    if bytes.len() < length {
        return FrameStart::More(length);
    }
    let field = |at: usize, count| number(&bytes[at..], count).unwrap_or(0);
    let content = (size_bytes > 0).then(|| {
        // A field of two bytes counts from 256 on.
        field(length - size_bytes, size_bytes) + if size_bytes == 2 { 256 } else { 0 }
    });
    let window = match content {
        Some(size) if single => size,
        _ => window(bytes[5]),
    };
    // The library takes this size for none.
    let content = content.filter(|size| *size != u64::MAX);
    let dictionary = field(5 + window_bytes, dictionary_bytes) as u32;
    FrameStart::Frame(Header { length, window, content, dictionary, checksum: descriptor & 4 != 0 })
}

/// Returns the window size that a descriptor encodes (section 3.1.1.1.2).
fn window(descriptor: u8) -> u64 {
    let base = 1u64 << (10 + (descriptor >> 3));
    base + base / 8 * u64::from(descriptor & 7)
}

/// Returns a little-endian number of `count` bytes.
fn number(bytes: &[u8], count: usize) -> Option<u64> {
    Some(bytes.get(..count)?.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}

/// The totals of all frames of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames with content.
    pub frames: u64,
    /// Frames that decoders skip.
    pub skippable: u64,
    /// Bytes of all frames together.
    pub compressed: u64,
    /// Bytes of content, unless a frame does not have that size in its header.
    pub content: Option<u64>,
    /// The largest window.
    pub window: u64,
    /// The dictionary of the last frame; 0 for none.
    pub dictionary: u32,
    /// Whether any frame has a checksum.
    pub checksum: bool,
    /// The checksum of the last frame that has one.
    pub check: Option<u32>,
}

/// Why frames could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A read error.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file does not begin with a frame.
    #[error("not compressed by zstd")]
    NotInFormat,
    /// The file ends within a frame, or something other than a frame follows one.
    #[error("{what}, at byte {offset}")]
    Damaged {
        /// The offset in bytes from the beginning.
        offset: u64,
        /// A description of the damage.
        what: &'static str,
    },
}

/// Reads the headers of all frames and blocks, and skips the contents.
///
/// # Errors
/// Read errors; incomplete frames; bytes that are not a frame.
pub fn list(input: &mut Input) -> Result<Summary, ListError> {
    let mut all = Summary { content: Some(0), ..Summary::default() };
    loop {
        let start = input.position();
        let mut head = take(input, 4)?;
        if head.is_empty() && all.frames + all.skippable > 0 {
            all.compressed = start;
            return Ok(all);
        }
        let header = loop {
            match begins(&head) {
                FrameStart::More(wanted) => {
                    let more = take(input, wanted - head.len())?;
                    if more.is_empty() {
                        let what = "the header of a frame is incomplete";
                        return Err(ListError::Damaged { offset: input.position(), what });
                    }
                    head.extend(more);
                }
                FrameStart::Skippable(size) => {
                    all.skippable += 1;
                    pass(input, size - 8)?;
                    break None;
                }
                FrameStart::Frame(header) => break Some(header),
                FrameStart::Other if all.frames + all.skippable == 0 => {
                    return Err(ListError::NotInFormat);
                }
                FrameStart::Other => {
                    return Err(ListError::Damaged { offset: start, what: "no frame begins here" });
                }
            }
        };
        let Some(header) = header else { continue };
        blocks(input)?;
        if header.checksum {
            all.check = number(&take(input, 4)?, 4).map(|check| check as u32);
            if all.check.is_none() {
                return Err(ListError::Damaged {
                    offset: input.position(),
                    what: "the checksum is incomplete",
                });
            }
        }
        all.frames += 1;
        all.checksum |= header.checksum;
        all.content = all.content.zip(header.content).map(|(sum, size)| sum.saturating_add(size));
        all.window = all.window.max(header.window);
        all.dictionary = header.dictionary;
    }
}

/// Skips the blocks of a frame (section 3.1.1.2).
fn blocks(input: &mut Input) -> Result<(), ListError> {
    loop {
        let offset = input.position();
        let Some(header) = number(&take(input, 3)?, 3) else {
            return Err(ListError::Damaged {
                offset,
                what: "the frame ends before its last block",
            });
        };
        let (last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        match kind {
            // One byte, which the block repeats.
            1 => pass(input, 1)?,
            3 => return Err(ListError::Damaged { offset, what: "a block of a reserved type" }),
            _ => pass(input, size)?,
        }
        if last {
            return Ok(());
        }
    }
}

/// Returns the next `count` bytes, fewer at the end.
fn take(input: &mut Input, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    io::Read::read_to_end(&mut io::Read::take(input, count as u64), &mut bytes)?;
    Ok(bytes)
}

fn pass(input: &mut Input, bytes: u64) -> Result<(), ListError> {
    match input.skip(bytes)? {
        passed if passed == bytes => Ok(()),
        _ => Err(ListError::Damaged {
            offset: input.position(),
            what: "the last block is incomplete",
        }),
    }
}
