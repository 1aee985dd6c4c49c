//! The digest algorithms.

use serde::{Deserialize, Serialize};

/// A digest function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// 16-bit rotating sum of BSD (`sum -r`).
    Bsd,
    /// 16-bit sum of System V (`sum -s`).
    Sysv,
    /// CRC-32 of POSIX `cksum`, with the length appended.
    Crc,
    /// CRC-32 of ISO 3309, as in gzip, zip and PNG.
    Crc32b,
    /// CRC-32 of Castagnoli, as in iSCSI, ext4 and btrfs.
    Crc32c,
    /// RFC 1321.
    Md5,
    /// FIPS 180-4.
    Sha1,
    /// FIPS 180-4.
    Sha224,
    /// FIPS 180-4.
    Sha256,
    /// FIPS 180-4.
    Sha384,
    /// FIPS 180-4.
    Sha512,
    /// RFC 7693, of any whole number of bytes up to 64.
    Blake2b,
    /// BLAKE3, of any whole number of bytes.
    Blake3,
    /// GB/T 32905-2016.
    Sm3,
    /// XXH3 of 64 bits, seed 0, written in the canonical (big-endian) form.
    Xxh3,
}

impl Algorithm {
    /// All algorithms; those of GNU `cksum` come first and in its order.
    pub const ALL: [Self; 15] = [
        Self::Bsd,
        Self::Sysv,
        Self::Crc,
        Self::Crc32b,
        Self::Md5,
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
        Self::Blake2b,
        Self::Sm3,
        Self::Blake3,
        Self::Crc32c,
        Self::Xxh3,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bsd => "bsd",
            Self::Sysv => "sysv",
            Self::Crc => "crc",
            Self::Crc32b => "crc32b",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Blake2b => "blake2b",
            Self::Blake3 => "blake3",
            Self::Sm3 => "sm3",
            Self::Xxh3 => "xxh3",
        }
    }

    /// Returns the name in a tagged line, `MD5 (file) = …`, and in messages.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::Bsd => "BSD",
            Self::Sysv => "SYSV",
            Self::Crc => "CRC",
            Self::Crc32b => "CRC32B",
            Self::Crc32c => "CRC32C",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA1",
            Self::Sha224 => "SHA224",
            Self::Sha256 => "SHA256",
            Self::Sha384 => "SHA384",
            Self::Sha512 => "SHA512",
            Self::Blake2b => "BLAKE2b",
            Self::Blake3 => "BLAKE3",
            Self::Sm3 => "SM3",
            Self::Xxh3 => "XXH3",
        }
    }

    /// Returns the algorithm called `name` on the command line.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns the length of the usual digest, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bsd | Self::Sysv => 2,
            Self::Crc | Self::Crc32b | Self::Crc32c => 4,
            Self::Xxh3 => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 | Self::Sm3 | Self::Blake3 => 32,
            Self::Sha384 => 48,
            Self::Sha512 | Self::Blake2b => 64,
        }
    }

    /// Returns the length of the longest digest that can be requested, in bytes.
    pub const fn most_bytes(self) -> usize {
        match self {
            // The function has no limit; this limit keeps a line in a list readable.
            Self::Blake3 => 1024,
            other => other.bytes(),
        }
    }

    /// Returns whether lengths other than the usual one can be requested.
    pub const fn any_length(self) -> bool {
        matches!(self, Self::Blake2b | Self::Blake3)
    }

    /// Returns whether its lines are a number, a size and a name, as those of `sum` and `cksum`,
    /// which cannot be checked.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Bsd | Self::Sysv | Self::Crc | Self::Crc32b)
    }
}

/// An algorithm and the length of its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DigestKind {
    /// The function.
    pub algorithm: Algorithm,
    /// Length of the digest in bytes: between 1 and [`Algorithm::most_bytes`], and the usual one
    /// unless [`Algorithm::any_length`].
    pub bytes: usize,
}

impl From<Algorithm> for DigestKind {
    /// Uses the usual length.
    fn from(algorithm: Algorithm) -> Self {
        Self { algorithm, bytes: algorithm.bytes() }
    }
}

impl DigestKind {
    /// Returns whether parts of the input can be processed separately and joined afterwards.
    pub const fn in_parts(self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Blake3
                | Algorithm::Crc
                | Algorithm::Crc32b
                | Algorithm::Crc32c
                | Algorithm::Sysv
        )
    }
}
