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

use super::identity::Identity;
use super::protocol::{Request, Session};
use crate::data::Random;

/// The first bytes of each block.
const MAGIC: &[u8; 8] = b"dioSYNCT";

/// Offset of the filler in a block.
const FILLER: usize = 48;

/// Bytes of the header, if blocks are not larger.
pub const HEADER: u64 = 4096;

/// Fills `block` with the contents of the block with this number.
pub fn fill(block: &mut [u8], identity: Identity, number: u64) {
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
pub enum Found {
    /// The complete block of this number.
    Number(u64),
    /// Nothing: zeros, or the end of the file.
    Nothing,
    /// Part of the block of this number, or that block with changed bytes.
    Torn(u64),
    /// A block of another session.
    Foreign(Identity),
    /// None of these.
    Garbage,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Number(number) => write!(f, "the block of number {number}"),
            Found::Nothing => f.write_str("nothing (zeros, or the end of the file)"),
            Found::Torn(number) => write!(f, "a damaged block that begins as that of number {number}"),
            Found::Foreign(identity) => write!(f, "a block of session {identity}"),
            Found::Garbage => f.write_str("something else"),
        }
    }
}

/// Classifies the bytes that were read from a slot of `length` bytes.
pub fn look(bytes: &[u8], length: usize, identity: Identity) -> Found {
    if bytes.iter().all(|byte| *byte == 0) {
        return Found::Nothing;
    }
    if bytes.len() < FILLER || &bytes[..8] != MAGIC {
        return Found::Garbage;
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let owner = Identity(bytes[8..24].try_into().expect("sixteen bytes"));
    if owner != identity {
        return Found::Foreign(owner);
    }
    let number = word(24);
    let mut whole = vec![0; length];
    fill(&mut whole, identity, number);
    if whole == bytes { Found::Number(number) } else { Found::Torn(number) }
}

/// The header of a session's file.
pub fn header(session: &Session) -> Vec<u8> {
    let line = Request::Begin(session.clone()).to_string();
    let text = format!("{line}\nsum {:016x}\n", xxh3_64(line.as_bytes()));
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len().max(HEADER as usize), 0);
    bytes
}

/// The session that a header describes; `None` if it is no header, or damaged.
pub fn read_header(bytes: &[u8]) -> Option<Session> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let (line, rest) = text.split_once('\n')?;
    if rest.trim_end() != format!("sum {:016x}", xxh3_64(line.as_bytes())) {
        return None;
    }
    match line.parse() {
        Ok(Request::Begin(session)) => Some(session),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Identity = Identity([7; 16]);

    #[test]
    fn a_block_tells_what_it_is_and_whether_it_is_whole() {
        for length in [512, 4096, 65536] {
            let mut block = vec![0; length];
            fill(&mut block, OWN, 41);
            assert_eq!(look(&block, length, OWN), Found::Number(41));
            assert_eq!(look(&block, length, Identity([8; 16])), Found::Foreign(OWN));
            // Any single sector that still has its old contents.
            let mut older = vec![0; length];
            fill(&mut older, OWN, 40);
            for sector in (0..length).step_by(512).filter(|_| length > 512) {
                let mut torn = block.clone();
                torn[sector..sector + 512].copy_from_slice(&older[sector..sector + 512]);
                assert_eq!(look(&torn, length, OWN), Found::Torn(if sector == 0 { 40 } else { 41 }));
            }
            for byte in [24, 40, 47, 48, length - 1] {
                let mut changed = block.clone();
                changed[byte] ^= 1;
                assert!(matches!(look(&changed, length, OWN), Found::Torn(_)), "{byte}");
            }
            assert_eq!(look(&block[..length - 1], length, OWN), Found::Torn(41));
            assert_eq!(look(&block[..30], length, OWN), Found::Garbage);
            assert_eq!(look(&vec![0; length], length, OWN), Found::Nothing);
            assert_eq!(look(&[], length, OWN), Found::Nothing);
            assert_eq!(look(&vec![1; length], length, OWN), Found::Garbage);
        }
    }

    #[test]
    fn a_header_comes_back_or_is_refused() {
        let session = Session {
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
        let identity = Identity::random().unwrap();
        assert_eq!(identity.to_string().parse(), Ok(identity));
        assert_ne!(identity, Identity::random().unwrap());
        for wrong in ["", "0", &"g".repeat(32), &"0".repeat(33), "ä".repeat(16).as_str()] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong}");
        }
    }
}
