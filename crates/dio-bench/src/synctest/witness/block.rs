//! The format of the blocks on the disk.
//!
//! A file begins with a header of 4096 bytes, or of one block if that is larger: the `begin` line
//! of the [protocol](super::protocol), a line `sum X` with the XXH3 of that line in hexadecimal,
//! and zeros. The slots follow. A block:
//!
//! | bytes | what |
//! |---|---|
//! | 0–7 | `dioSYNCT` |
//! | 8–23 | identity of the session |
//! | 24–31 | number, little endian |
//! | 32–39 | length of the block, little endian |
//! | 40–47 | XXH3 (64 bits) of the block with zeros here, little endian |
//! | 48– | bytes that follow from identity and number |

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::identity::WitnessIdentity;
use super::protocol::{WitnessRequest, WitnessSession};
use crate::data::Random;

/// The first bytes of each block.
const MAGIC: &[u8; 8] = b"dioSYNCT";

/// Offset of the filler in a block.
const FILLER: usize = 48;

/// Bytes of the header, if blocks are not larger.
pub const HEADER: u64 = 4096;

/// Fills `block` with the contents of the block with this number.
pub fn fill(block: &mut [u8], identity: WitnessIdentity, number: u64) {
    debug_assert!(block.len() >= 512);
    Random::new(identity.seed(number)).fill(&mut block[FILLER..]);
    block[..8].copy_from_slice(MAGIC);
    block[8..24].copy_from_slice(&identity.0);
    block[24..32].copy_from_slice(&number.to_le_bytes());
    let length = block.len() as u64;
    block[32..40].copy_from_slice(&length.to_le_bytes());
    block[40..48].fill(0);
    let sum = xxh3_64(block);
    block[40..48].copy_from_slice(&sum.to_le_bytes());
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBlock {
    /// The complete block of this number.
    Number(u64),
    /// Nothing: zeros, or the end of the file.
    Nothing,
    /// Part of the block of this number, or that block with changed bytes.
    Torn(u64),
    /// A block of another session.
    Foreign(WitnessIdentity),
    /// None of these.
    Garbage,
}

impl fmt::Display for FoundBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundBlock::Number(number) => write!(f, "the block of number {number}"),
            FoundBlock::Nothing => f.write_str("nothing (zeros, or the end of the file)"),
            FoundBlock::Torn(number) => {
                write!(f, "a damaged block that begins as that of number {number}")
            }
            FoundBlock::Foreign(identity) => write!(f, "a block of session {identity}"),
            FoundBlock::Garbage => f.write_str("something else"),
        }
    }
}

/// Classifies the bytes that were read from a slot of `length` bytes.
pub fn look(bytes: &[u8], length: usize, identity: WitnessIdentity) -> FoundBlock {
    if bytes.iter().all(|byte| *byte == 0) {
        return FoundBlock::Nothing;
    }
    if bytes.len() < FILLER || &bytes[..8] != MAGIC {
        return FoundBlock::Garbage;
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let owner = WitnessIdentity(bytes[8..24].try_into().expect("sixteen bytes"));
    if owner != identity {
        return FoundBlock::Foreign(owner);
    }
    let number = word(24);
    let mut whole = vec![0; length];
    fill(&mut whole, identity, number);
    if whole == bytes { FoundBlock::Number(number) } else { FoundBlock::Torn(number) }
}

/// The header of a session's file.
pub fn header(session: &WitnessSession) -> Vec<u8> {
    let line = WitnessRequest::Begin(session.clone()).to_string();
    let text = format!("{line}\nsum {:016x}\n", xxh3_64(line.as_bytes()));
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len().max(HEADER as usize), 0);
    bytes
}

/// The session that a header describes; `None` if it is no header, or damaged.
pub fn read_header(bytes: &[u8]) -> Option<WitnessSession> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let (line, rest) = text.split_once('\n')?;
    if rest.trim_end() != format!("sum {:016x}", xxh3_64(line.as_bytes())) {
        return None;
    }
    match line.parse() {
        Ok(WitnessRequest::Begin(session)) => Some(session),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: WitnessIdentity = WitnessIdentity([7; 16]);

    #[test]
    fn a_block_tells_what_it_is_and_whether_it_is_whole() {
        for length in [512, 4096, 65536] {
            let mut block = vec![0; length];
            fill(&mut block, OWN, 41);
            assert_eq!(look(&block, length, OWN), FoundBlock::Number(41));
            assert_eq!(look(&block, length, WitnessIdentity([8; 16])), FoundBlock::Foreign(OWN));
            // Any single sector that still has its old contents.
            let mut older = vec![0; length];
            fill(&mut older, OWN, 40);
            for sector in (0..length).step_by(512).filter(|_| length > 512) {
                let mut torn = block.clone();
                torn[sector..sector + 512].copy_from_slice(&older[sector..sector + 512]);
                assert_eq!(
                    look(&torn, length, OWN),
                    FoundBlock::Torn(if sector == 0 { 40 } else { 41 })
                );
            }
            for byte in [24, 40, 47, 48, length - 1] {
                let mut changed = block.clone();
                changed[byte] ^= 1;
                assert!(matches!(look(&changed, length, OWN), FoundBlock::Torn(_)), "{byte}");
            }
            assert_eq!(look(&block[..length - 1], length, OWN), FoundBlock::Torn(41));
            assert_eq!(look(&block[..30], length, OWN), FoundBlock::Garbage);
            assert_eq!(look(&vec![0; length], length, OWN), FoundBlock::Nothing);
            assert_eq!(look(&[], length, OWN), FoundBlock::Nothing);
            assert_eq!(look(&vec![1; length], length, OWN), FoundBlock::Garbage);
        }
    }

    #[test]
    fn a_header_comes_back_or_is_refused() {
        let session = WitnessSession {
            identity: OWN,
            size: 4096,
            slots: 99,
            boot: "a-b".into(),
            host: "höst 1".into(),
            path: "/mnt/a b%/\n".into(),
            file_system: "fsid-7".into(),
            directory: 12,
            method: "fsync".into(),
        };
        let bytes = header(&session);
        assert_eq!(bytes.len() as u64, HEADER);
        assert_eq!(read_header(&bytes), Some(session));
        for at in 0..60 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(read_header(&changed), None, "{at}");
        }
        assert_eq!(read_header(&[]), None);
        assert_eq!(read_header(&[255; 4096]), None);
    }

    #[test]
    fn identities_are_read_as_they_are_written() {
        let identity = WitnessIdentity::random().unwrap();
        assert_eq!(identity.to_string().parse(), Ok(identity));
        assert_ne!(identity, WitnessIdentity::random().unwrap());
        for wrong in ["", "0", &"g".repeat(32), &"0".repeat(33), "ä".repeat(16).as_str()] {
            assert!(wrong.parse::<WitnessIdentity>().is_err(), "{wrong}");
        }
    }
}
