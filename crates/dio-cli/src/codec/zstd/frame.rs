//! What the headers of frames say (RFC 8878, section 3.1), without decoding what is in them.

use std::io;

use dio::stream::Input;

/// The first bytes of a frame.
pub const MAGIC: u32 = 0xfd2f_b528;

/// The first four bits of these are any: the first bytes of a frame to be skipped.
const SKIPPABLE: u32 = 0x184d_2a50;

/// The longest header: magic number, descriptor, window, dictionary and size.
pub const LONGEST_HEADER: usize = 18;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its own length in bytes, with the magic number.
    pub length: usize,
    /// Bytes that a decoder keeps for references backwards.
    pub window: u64,
    /// Bytes of the content, if it says so.
    pub content: Option<u64>,
    /// The number of the dictionary; 0 for none.
    pub dictionary: u32,
    /// Whether a checksum follows the blocks.
    pub checksum: bool,
}

/// What a stream has at a place where a frame may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// A frame with this header.
    Frame(Header),
    /// A frame of so many bytes, with its head of 8, that decoders pass over.
    Skippable(u64),
    /// Something that no frame begins with, or a header with a reserved bit.
    Other,
    /// More bytes are needed to tell: so many from the beginning.
    More(usize),
}

/// Reads what is at the beginning of `bytes`.
pub fn begins(bytes: &[u8]) -> Begins {
    let Some(magic) = number(bytes, 4) else { return Begins::More(4) };
    if magic as u32 & !0xf == SKIPPABLE {
        return number(&bytes[4..], 4).map_or(Begins::More(8), |size| Begins::Skippable(size + 8));
    }
    if magic != u64::from(MAGIC) {
        return Begins::Other;
    }
    let Some(&descriptor) = bytes.get(4) else { return Begins::More(5) };
    if descriptor & 0x08 != 0 {
        return Begins::Other;
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
        return Begins::More(length);
    }
    let field = |at: usize, count| number(&bytes[at..], count).unwrap_or(0);
    let content = (size_bytes > 0).then(|| {
        // Two bytes count from 256 on.
        field(length - size_bytes, size_bytes) + if size_bytes == 2 { 256 } else { 0 }
    });
    let window = match content {
        Some(size) if single => size,
        _ => window(bytes[5]),
    };
    let dictionary = field(5 + window_bytes, dictionary_bytes) as u32;
    Begins::Frame(Header { length, window, content, dictionary, checksum: descriptor & 4 != 0 })
}

/// The window that a descriptor stands for (section 3.1.1.1.2).
fn window(descriptor: u8) -> u64 {
    let base = 1u64 << (10 + (descriptor >> 3));
    base + base / 8 * u64::from(descriptor & 7)
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], count: usize) -> Option<u64> {
    Some(bytes.get(..count)?.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}

/// What the frames of a file add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames with content.
    pub frames: u64,
    /// Frames to be passed over.
    pub skippable: u64,
    /// Bytes of all of them.
    pub compressed: u64,
    /// Bytes of content, unless a frame does not say.
    pub content: Option<u64>,
    /// The largest window.
    pub window: u64,
    /// The dictionary of the last frame; 0 for none.
    pub dictionary: u32,
    /// Whether all frames have a checksum.
    pub checksum: bool,
    /// The checksum of the last frame that has one.
    pub check: Option<u32>,
}

/// Why frames could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// What reading answers.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It does not begin with a frame.
    #[error("not compressed by zstd")]
    NotInFormat,
    /// It ends within a frame, or something else follows one.
    #[error("{what}, at byte {offset}")]
    Damaged {
        /// Where, in bytes from the beginning.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// Reads the headers of all frames and blocks, and passes over what is in them.
///
/// # Errors
/// What reading answers; frames that are not whole, and what is none.
pub fn list(input: &mut Input) -> Result<Summary, ListError> {
    let mut all = Summary { content: Some(0), checksum: true, ..Summary::default() };
    loop {
        let start = input.position();
        let mut head = take(input, 4)?;
        if head.is_empty() && all.frames + all.skippable > 0 {
            all.compressed = start;
            return Ok(all);
        }
        let header = loop {
            match begins(&head) {
                Begins::More(wanted) => {
                    let more = take(input, wanted - head.len())?;
                    if more.is_empty() {
                        let what = "the header of a frame is incomplete";
                        return Err(ListError::Damaged { offset: input.position(), what });
                    }
                    head.extend(more);
                }
                Begins::Skippable(size) => {
                    all.skippable += 1;
                    pass(input, size - 8)?;
                    break None;
                }
                Begins::Frame(header) => break Some(header),
                Begins::Other if all.frames + all.skippable == 0 => return Err(ListError::NotInFormat),
                Begins::Other => return Err(ListError::Damaged { offset: start, what: "no frame begins here" }),
            }
        };
        let Some(header) = header else { continue };
        blocks(input)?;
        if header.checksum {
            all.check = number(&take(input, 4)?, 4).map(|check| check as u32);
            if all.check.is_none() {
                return Err(ListError::Damaged { offset: input.position(), what: "the checksum is incomplete" });
            }
        }
        all.frames += 1;
        all.checksum &= header.checksum;
        all.content = all.content.zip(header.content).map(|(sum, size)| sum.saturating_add(size));
        all.window = all.window.max(header.window);
        all.dictionary = header.dictionary;
    }
}

/// Passes over the blocks of a frame (section 3.1.1.2).
fn blocks(input: &mut Input) -> Result<(), ListError> {
    loop {
        let offset = input.position();
        let Some(header) = number(&take(input, 3)?, 3) else {
            return Err(ListError::Damaged { offset, what: "the frame ends before its last block" });
        };
        let (last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        match kind {
            // One byte, to be repeated.
            1 => pass(input, 1)?,
            3 => return Err(ListError::Damaged { offset, what: "a block of a reserved type" }),
            _ => pass(input, size)?,
        }
        if last {
            return Ok(());
        }
    }
}

/// Up to `count` bytes, fewer at the end.
fn take(input: &mut Input, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    io::Read::read_to_end(&mut io::Read::take(input, count as u64), &mut bytes)?;
    Ok(bytes)
}

fn pass(input: &mut Input, bytes: u64) -> Result<(), ListError> {
    match input.skip(bytes)? {
        passed if passed == bytes => Ok(()),
        _ => Err(ListError::Damaged { offset: input.position(), what: "the last block is incomplete" }),
    }
}
