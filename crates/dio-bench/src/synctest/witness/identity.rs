//! The identity of a session.

use std::fmt;
use std::io::Read as _;
use std::str::FromStr;

/// The identity of one run of the writer: 128 random bits, written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WitnessIdentity(pub [u8; 16]);

impl WitnessIdentity {
    /// Creates a new random identity.
    ///
    /// # Errors
    /// When `/dev/urandom` cannot be read.
    pub fn random() -> std::io::Result<WitnessIdentity> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(WitnessIdentity(bytes))
    }

    pub(super) fn seed(self, number: u64) -> u64 {
        let (low, high) = self.0.split_at(8);
        let half = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        half(low) ^ half(high).rotate_left(17) ^ number
    }
}

impl fmt::Display for WitnessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for WitnessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for WitnessIdentity {
    type Err = String;

    fn from_str(text: &str) -> Result<WitnessIdentity, String> {
        let wrong =
            || format!("'{text}' is no identity of a session: these are 32 hexadecimal digits");
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 16];
        for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(WitnessIdentity(bytes))
    }
}
