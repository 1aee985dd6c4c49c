//! Computes one digest over bytes that arrive in order.

use crc_fast::CrcAlgorithm;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use xxhash_rust::xxh3::Xxh3;

use super::algorithm::{Algorithm, DigestKind};

/// A finished digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The digest; numeric checksums are big-endian.
    pub bytes: Vec<u8>,
    /// The number of bytes that were digested.
    pub length: u64,
}

impl Sum {
    /// Returns the digest in hexadecimal digits.
    pub fn digits(&self) -> String {
        self.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A digest that is being computed.
pub struct Hasher {
    kind: DigestKind,
    length: u64,
    state: HasherState,
}

/// Large states are boxed, because a hasher is moved to its thread.
enum HasherState {
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha224(sha2::Sha224),
    Sha256(sha2::Sha256),
    Sha384(sha2::Sha384),
    Sha512(sha2::Sha512),
    Sm3(sm3::Sm3),
    Blake2b(Box<blake2b_simd::State>),
    Blake3(Box<blake3::Hasher>),
    Xxh3(Box<Xxh3>),
    Crc(Box<crc_fast::Digest>),
    Bsd(u16),
    Sysv(u32),
}

impl Hasher {
    /// Starts a digest.
    pub fn new(kind: DigestKind) -> Self {
        let state = match kind.algorithm {
            Algorithm::Md5 => HasherState::Md5(md5::Md5::new()),
            Algorithm::Sha1 => HasherState::Sha1(sha1::Sha1::new()),
            Algorithm::Sha224 => HasherState::Sha224(sha2::Sha224::new()),
            Algorithm::Sha256 => HasherState::Sha256(sha2::Sha256::new()),
            Algorithm::Sha384 => HasherState::Sha384(sha2::Sha384::new()),
            Algorithm::Sha512 => HasherState::Sha512(sha2::Sha512::new()),
            Algorithm::Sm3 => HasherState::Sm3(sm3::Sm3::new()),
            Algorithm::Blake2b => HasherState::Blake2b(Box::new(
                blake2b_simd::Params::new().hash_length(kind.bytes).to_state(),
            )),
            Algorithm::Blake3 => HasherState::Blake3(Box::default()),
            Algorithm::Xxh3 => HasherState::Xxh3(Box::default()),
            Algorithm::Crc => crc(CrcAlgorithm::Crc32Cksum),
            Algorithm::Crc32b => crc(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Bsd => HasherState::Bsd(0),
            Algorithm::Sysv => HasherState::Sysv(0),
        };
        Self { kind, length: 0, state }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        match &mut self.state {
            HasherState::Md5(state) => state.update(bytes),
            HasherState::Sha1(state) => state.update(bytes),
            HasherState::Sha224(state) => state.update(bytes),
            HasherState::Sha256(state) => state.update(bytes),
            HasherState::Sha384(state) => state.update(bytes),
            HasherState::Sha512(state) => state.update(bytes),
            HasherState::Sm3(state) => state.update(bytes),
            HasherState::Blake2b(state) => drop(state.update(bytes)),
            HasherState::Blake3(state) => drop(state.update(bytes)),
            HasherState::Xxh3(state) => state.update(bytes),
            HasherState::Crc(state) => state.update(bytes),
            HasherState::Bsd(sum) => {
                *sum = bytes
                    .iter()
                    .fold(*sum, |sum, &byte| sum.rotate_right(1).wrapping_add(byte.into()));
            }
            HasherState::Sysv(sum) => *sum = sum.wrapping_add(byte_sum(bytes)),
        }
    }

    /// Returns the digest of all bytes that were added.
    pub fn finish(self) -> Sum {
        let length = self.length;
        let bytes = match self.state {
            HasherState::Md5(state) => state.finalize().to_vec(),
            HasherState::Sha1(state) => state.finalize().to_vec(),
            HasherState::Sha224(state) => state.finalize().to_vec(),
            HasherState::Sha256(state) => state.finalize().to_vec(),
            HasherState::Sha384(state) => state.finalize().to_vec(),
            HasherState::Sha512(state) => state.finalize().to_vec(),
            HasherState::Sm3(state) => state.finalize().to_vec(),
            HasherState::Blake2b(state) => state.finalize().as_bytes().to_vec(),
            HasherState::Blake3(state) => {
                let mut bytes = vec![0; self.kind.bytes];
                state.finalize_xof().fill(&mut bytes);
                bytes
            }
            HasherState::Xxh3(state) => state.digest().to_be_bytes().to_vec(),
            HasherState::Crc(mut state) => {
                if self.kind.algorithm == Algorithm::Crc {
                    state.update(length_octets(&length.to_le_bytes()));
                }
                crc_bytes(state.finalize())
            }
            HasherState::Bsd(sum) => sum.to_be_bytes().to_vec(),
            HasherState::Sysv(sum) => sysv_bytes(sum),
        };
        debug_assert_eq!(bytes.len(), self.kind.bytes);
        Sum { bytes, length }
    }
}

fn crc(algorithm: CrcAlgorithm) -> HasherState {
    HasherState::Crc(Box::new(crc_fast::Digest::new(algorithm)))
}

/// Returns what POSIX `cksum` appends to the data: the length, least significant octet first,
/// without leading zeros.
pub(super) fn length_octets(length: &[u8; 8]) -> &[u8] {
    let used = length.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
    &length[..used]
}

/// Returns a 32-bit CRC that is given in 64 bits, big-endian.
pub(super) fn crc_bytes(crc: u64) -> Vec<u8> {
    crc.to_be_bytes()[4..].to_vec()
}

/// Returns the sum of all bytes, modulo 2³².
pub(super) fn byte_sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, &byte| sum.wrapping_add(byte.into()))
}

/// Folds System V's 32-bit sum into 16 bits, big-endian.
pub(super) fn sysv_bytes(sum: u32) -> Vec<u8> {
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    folded.to_be_bytes()[2..].to_vec()
}
