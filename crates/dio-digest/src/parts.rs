//! Digests whose parts can be computed by several threads and joined in order: the CRCs, because
//! they are linear; BLAKE3, because it is a tree of chunks of 1024 bytes (section 2.1 of its
//! paper); System V's sum.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, max_subtree_len, merge_subtrees_non_root,
    merge_subtrees_root_xof,
};
use crc_fast::CrcAlgorithm;
use serde::{Deserialize, Serialize};

use super::algorithm::{Algorithm, DigestKind};
use super::hasher::{Sum, byte_sum, crc_bytes, length_octets, sysv_bytes};

/// The result for one part of the input. Another process may join it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DigestPart(PartResult);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum PartResult {
    /// The CRC of the part alone.
    Crc(u64),
    /// The sum of the part's bytes.
    Sum(u32),
    /// The chaining values of the largest complete subtrees that the part consists of, and the
    /// number of bytes that each covers.
    Trees(Vec<(ChainingValue, u64)>),
}

impl DigestPart {
    /// Returns the part as bytes, which [`DigestPart::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            PartResult::Crc(crc) => crc.to_le_bytes().to_vec(),
            PartResult::Sum(sum) => sum.to_le_bytes().to_vec(),
            PartResult::Trees(trees) => trees
                .iter()
                .flat_map(|(tree, length)| tree.iter().copied().chain(length.to_le_bytes()))
                .collect(),
        }
    }

    /// Reads a part of a digest that works [in parts](DigestKind::in_parts); `None` if it is none.
    pub fn from_bytes(kind: DigestKind, bytes: &[u8]) -> Option<DigestPart> {
        const TREE: usize = size_of::<ChainingValue>() + size_of::<u64>();
        Some(DigestPart(match kind.algorithm {
            Algorithm::Sysv => PartResult::Sum(u32::from_le_bytes(bytes.try_into().ok()?)),
            Algorithm::Blake3 if bytes.len() % TREE == 0 => PartResult::Trees(
                bytes
                    .chunks_exact(TREE)
                    .map(|tree| {
                        let (tree, length) = tree.split_at(size_of::<ChainingValue>());
                        let tree = tree.try_into().expect("it was split there");
                        (tree, u64::from_le_bytes(length.try_into().expect("the rest of it")))
                    })
                    .collect(),
            ),
            Algorithm::Blake3 => return None,
            _ => PartResult::Crc(u64::from_le_bytes(bytes.try_into().ok()?)),
        }))
    }
}

/// Computes the part `bytes` that starts at `offset`; `None` if the digest cannot be cut there.
/// BLAKE3 can only be cut between chunks of 1024 bytes.
///
/// # Panics
/// If the digest does not work [in parts](DigestKind::in_parts).
pub fn part(kind: DigestKind, bytes: &[u8], offset: u64) -> Option<DigestPart> {
    Some(DigestPart(match kind.algorithm {
        Algorithm::Sysv => PartResult::Sum(byte_sum(bytes)),
        Algorithm::Blake3 => PartResult::Trees(trees(bytes, offset)?),
        algorithm => PartResult::Crc(crc_fast::checksum(crc_of(algorithm), bytes)),
    }))
}

fn crc_of(algorithm: Algorithm) -> CrcAlgorithm {
    match algorithm {
        Algorithm::Crc => CrcAlgorithm::Crc32Cksum,
        Algorithm::Crc32b => CrcAlgorithm::Crc32IsoHdlc,
        Algorithm::Crc32c => CrcAlgorithm::Crc32Iscsi,
        other => panic!("{other:?} does not work in parts"),
    }
}

/// Returns the largest complete subtrees of BLAKE3 in `bytes`, which start at `offset` of the
/// input.
fn trees(mut bytes: &[u8], mut offset: u64) -> Option<Vec<(ChainingValue, u64)>> {
    const CHUNK: u64 = blake3::CHUNK_LEN as u64;
    if offset % CHUNK != 0 {
        return None;
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let rest = bytes.len() as u64;
        let whole = if rest < CHUNK { rest } else { 1 << rest.ilog2() };
        let length = whole.min(max_subtree_len(offset).unwrap_or(u64::MAX));
        let (tree, after) = bytes.split_at(usize::try_from(length).ok()?);
        found.push((
            blake3::Hasher::new().set_input_offset(offset).update(tree).finalize_non_root(),
            length,
        ));
        bytes = after;
        offset += length;
    }
    Some(found)
}

/// Joins parts into the digest of the whole.
#[derive(Debug)]
pub struct Joiner {
    kind: DigestKind,
    length: u64,
    state: PartState,
}

#[derive(Debug)]
enum PartState {
    Crc(u64),
    Sum(u32),
    /// Subtrees that wait for their right-hand neighbour. Their lengths are powers of two, strictly
    /// decreasing except for the last one. That one is merged only when more follows, because the
    /// very last merge is the root's, which is computed differently.
    Trees(Vec<(ChainingValue, u64)>),
}

impl Joiner {
    /// Creates a joiner for a digest that works [in parts](DigestKind::in_parts).
    pub fn new(kind: DigestKind) -> Self {
        let state = match kind.algorithm {
            Algorithm::Sysv => PartState::Sum(0),
            Algorithm::Blake3 => PartState::Trees(Vec::new()),
            algorithm => PartState::Crc(crc_fast::checksum(crc_of(algorithm), &[])),
        };
        Self { kind, length: 0, state }
    }

    /// Adds the next part, which covers `length` bytes.
    ///
    /// # Panics
    /// If the part is of another digest.
    pub fn push(&mut self, part: DigestPart, length: u64) {
        self.length += length;
        match (&mut self.state, part.0) {
            (PartState::Crc(crc), PartResult::Crc(part)) => {
                *crc = crc_fast::checksum_combine(crc_of(self.kind.algorithm), *crc, part, length);
            }
            (PartState::Sum(sum), PartResult::Sum(part)) => *sum = sum.wrapping_add(part),
            (PartState::Trees(stack), PartResult::Trees(trees)) => {
                trees.into_iter().for_each(|tree| {
                    merge_equal(stack);
                    stack.push(tree);
                })
            }
            _ => panic!("a part of another digest"),
        }
    }

    /// Returns all parts as one, for another joiner.
    ///
    /// The first of them has to begin at a multiple of a power of two that is not less than their
    /// length.
    pub fn into_part(self) -> DigestPart {
        DigestPart(match self.state {
            PartState::Crc(crc) => PartResult::Crc(crc),
            PartState::Sum(sum) => PartResult::Sum(sum),
            PartState::Trees(mut stack) => {
                merge_equal(&mut stack);
                PartResult::Trees(stack)
            }
        })
    }

    /// Returns the digest; `None` if there is too little to join: less than two subtrees of BLAKE3.
    pub fn finish(self) -> Option<Sum> {
        let bytes = match self.state {
            PartState::Sum(sum) => sysv_bytes(sum),
            PartState::Crc(crc) if self.kind.algorithm == Algorithm::Crc => {
                let octets = self.length.to_le_bytes();
                let octets = length_octets(&octets);
                let last = crc_fast::checksum(CrcAlgorithm::Crc32Cksum, octets);
                let joined = crc_fast::checksum_combine(
                    CrcAlgorithm::Crc32Cksum,
                    crc,
                    last,
                    octets.len() as u64,
                );
                crc_bytes(joined)
            }
            PartState::Crc(crc) => crc_bytes(crc),
            PartState::Trees(mut stack) => {
                let (mut right, _) = stack.pop()?;
                let (root, inner) = stack.split_first()?;
                for (left, _) in inner.iter().rev() {
                    right = merge_subtrees_non_root(left, &right, Mode::Hash);
                }
                let mut bytes = vec![0; self.kind.bytes];
                merge_subtrees_root_xof(&root.0, &right, Mode::Hash).fill(&mut bytes);
                bytes
            }
        };
        Some(Sum { bytes, length: self.length })
    }
}

/// Merges neighbours of the same length from the right, as long as there are any.
fn merge_equal(stack: &mut Vec<(ChainingValue, u64)>) {
    while let [.., (left, left_length), (right, right_length)] = &stack[..]
        && left_length == right_length
    {
        let merged = (merge_subtrees_non_root(left, right, Mode::Hash), left_length + right_length);
        stack.truncate(stack.len() - 2);
        stack.push(merged);
    }
}

/// Computes the digest of bytes in memory.
#[cfg(test)]
pub(super) fn whole(kind: DigestKind, bytes: &[u8]) -> Sum {
    let mut hasher = super::Hasher::new(kind);
    hasher.update(bytes);
    hasher.finish()
}
