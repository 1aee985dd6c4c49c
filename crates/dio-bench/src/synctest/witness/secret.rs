//! A secret that a witness shares with its writers: a client that does not have it is rejected.
//!
//! The witness sends a challenge, 128 random bits, with its greeting. The answer is the keyed
//! BLAKE3 hash of the challenge, with a key derived from the secret. The secret itself is never
//! sent. Nothing else is encrypted, and the witness proves nothing to the writer.

use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::synctest::error::SyncError;

/// The context string of the key derivation (`blake3::derive_key`), so that the same secret yields
/// another key elsewhere.
const PURPOSE: &str = "dio synctest 2026-11-23 proof of a writer to its witness";

/// The fewest bytes of a secret: a shorter one could be guessed from a single overheard proof.
const SHORTEST: usize = 16;

/// The most bytes of its file.
const LONGEST: u64 = 4096;

/// A secret, as a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads the secret from a file; line feeds at the end are dropped.
    ///
    /// # Errors
    /// [`SyncError::System`] when the file cannot be read; [`SyncError::Asked`] when users other
    /// than its owner may access it, or when the secret is too short or too long.
    pub fn read(path: &Path) -> Result<Secret, SyncError> {
        let file = std::fs::File::open(path).map_err(SyncError::system("open", path))?;
        let found = file.metadata().map_err(SyncError::system("look at", path))?;
        let refused =
            |why: &str| Err(SyncError::Asked(format!("'{}' is no secret: {why}", path.display())));
        if found.is_file() && found.mode() & 0o077 != 0 {
            return refused("others than its owner may use it (chmod 600)");
        }
        let mut bytes = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(SyncError::system("read", path))?;
        let end = bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |at| at + 1);
        match end {
            length if length < SHORTEST => {
                refused(&format!("it has {length} bytes, of at least {SHORTEST}"))
            }
            length if length as u64 > LONGEST => {
                refused(&format!("it has more than {LONGEST} bytes"))
            }
            _ => Ok(Secret(blake3::derive_key(PURPOSE, &bytes[..end]))),
        }
    }

    /// The answer to `challenge`, in hexadecimal digits. It cannot be computed without the secret.
    pub(crate) fn proof(&self, challenge: &str) -> String {
        blake3::keyed_hash(&self.0, challenge.as_bytes()).to_hex().to_string()
    }

    /// Whether `proof` is the answer to `challenge`. The time does not depend on the contents of a
    /// proof of the right length.
    pub(crate) fn is_proved(&self, challenge: &str, proof: &str) -> bool {
        // BLAKE3 hashes are compared in constant time.
        blake3::Hash::from_hex(proof)
            .is_ok_and(|proof| proof == blake3::keyed_hash(&self.0, challenge.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_who_knows_it_can_prove_it_and_only_for_this_challenge() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str, text: &str, mode: u32| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Secret::read(&path).map_err(|error| error.to_string())
        };
        let (one, other) =
            (read("one", "0123456789abcdef\n", 0o600), read("other", "0123456789abcdeg", 0o400));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one, read("same", "0123456789abcdef", 0o600).unwrap());
        assert!(one.is_proved("a", &one.proof("a")) && !format!("{one:?}").contains("0123"));
        for wrong in
            [one.proof("b"), other.proof("a"), String::new(), "00".repeat(32), "x".repeat(64)]
        {
            assert!(!one.is_proved("a", &wrong), "{wrong}");
        }
        assert!(read("open", "0123456789abcdef", 0o640).unwrap_err().contains("chmod 600"));
        assert!(read("short", "0123456789abcde\n\n", 0o600).unwrap_err().contains("15 bytes"));
        assert!(read("long", &"x".repeat(4097), 0o600).unwrap_err().contains("more than 4096"));
    }
}
