//! The digest algorithms, and their computation in sequence or in parts on several threads.
//!
//! ```
//! use dio_digest::{Algorithm, Hasher};
//!
//! let algorithm = Algorithm::named("sha256").expect("it is one of `Algorithm::ALL`");
//! let mut hasher = Hasher::new(algorithm.into());
//! hasher.update(b"ab");
//! hasher.update(b"c");
//! assert!(hasher.finish().digits().starts_with("ba7816bf"));
//! ```

mod algorithm;
mod hasher;
mod parts;

pub use algorithm::{Algorithm, DigestKind};
pub use hasher::{Hasher, Sum};
pub use parts::{DigestPart, Joiner, part};

#[cfg(test)]
mod tests;
