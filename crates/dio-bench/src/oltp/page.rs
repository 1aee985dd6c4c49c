//! Pages that show whether they are what was written last: each has its number, version and
//! checksum.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use xxhash_rust::xxh3::xxh3_64;

use crate::data::Random;

/// The first eight bytes of every page.
const MARK: u64 = u64::from_le_bytes(*b"dio oltp");

/// Bytes before the contents: mark, number, version, and a checksum of everything but itself.
const HEAD: usize = 32;

/// The smallest page size in bytes.
pub(super) const LEAST: usize = 512;

/// The difference between a page that was read and the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it is page {0}")]
    Number(u64),
    #[error("it has version {found} instead of {expected}")]
    Version { found: u64, expected: u64 },
}

fn word(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

fn put(page: &mut [u8], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn checksum(page: &[u8]) -> u64 {
    // The head without the checksum goes into the result too.
    xxh3_64(&page[HEAD..]) ^ xxh3_64(&page[..HEAD - 8])
}

fn seal(page: &mut [u8], number: u64, version: u64) {
    put(page, 0, MARK);
    put(page, 8, number);
    put(page, 16, version);
    put(page, 24, checksum(page));
}

/// Fills a page with random contents, as version 0.
pub(super) fn make(page: &mut [u8], number: u64, random: &mut Random) {
    random.fill(&mut page[HEAD..]);
    seal(page, number, 0);
}

/// Overwrites a row of a page, which becomes version `version`.
pub(super) fn change(page: &mut [u8], number: u64, version: u64, random: &mut Random) {
    let row = 128.min(page.len() - HEAD);
    let at = HEAD + random.below((page.len() - HEAD - row + 1) as u64) as usize;
    random.fill(&mut page[at..at + row]);
    seal(page, number, version);
}

/// Checks that a page has the expected number and version, and a correct checksum.
pub(super) fn check(page: &[u8], number: u64, version: u64) -> Result<(), Damage> {
    if word(page, 0) != MARK || word(page, 24) != checksum(page) {
        return Err(Damage::Checksum);
    }
    if word(page, 8) != number {
        return Err(Damage::Number(word(page, 8)));
    }
    let found = word(page, 16);
    if found == version { Ok(()) } else { Err(Damage::Version { found, expected: version }) }
}

/// The versions of all pages of one storage. Each is behind a lock that orders the I/O of its page,
/// as in a database.
#[derive(Debug)]
pub(super) struct Versions(Box<[RwLock<u64>]>);

impl Versions {
    pub(super) fn new(pages: u64) -> Versions {
        Versions((0..pages).map(|_| RwLock::new(0)).collect())
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn shared(&self, page: u64) -> RwLockReadGuard<'_, u64> {
        self.0[page as usize].read()
    }

    pub(super) fn alone(&self, page: u64) -> RwLockWriteGuard<'_, u64> {
        self.0[page as usize].write()
    }

    /// Pages that were changed since the beginning, and their versions.
    pub(super) fn changed(&self) -> Vec<(u64, u64)> {
        let versions = (0..self.len()).map(|page| (page, *self.shared(page)));
        versions.filter(|(_, version)| *version > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_is_found() {
        let mut random = Random::new(1);
        let mut page = vec![0; 8192];
        make(&mut page, 7, &mut random);
        assert_eq!(check(&page, 7, 0), Ok(()));
        assert_eq!(check(&page, 8, 0), Err(Damage::Number(7)));
        let before = page.clone();
        change(&mut page, 7, 1, &mut random);
        assert_eq!(check(&page, 7, 1), Ok(()));
        assert_eq!(check(&before, 7, 1), Err(Damage::Version { found: 0, expected: 1 }));
        for at in [0, 9, 17, 25, 32, 5000, 8191] {
            let mut torn = page.clone();
            torn[at] ^= 1;
            assert_eq!(check(&torn, 7, 1), Err(Damage::Checksum), "byte {at}");
        }
        // One half is of the previous version.
        let mut torn = page.clone();
        torn[32..].copy_from_slice(&before[32..]);
        assert_eq!(check(&torn, 7, 1), Err(Damage::Checksum));
        assert_eq!(check(&vec![0; 8192], 7, 1), Err(Damage::Checksum));
    }

    #[test]
    fn versions_know_what_was_changed() {
        let versions = Versions::new(5);
        *versions.alone(3) += 2;
        assert_eq!((*versions.shared(3), *versions.shared(4), versions.len()), (2, 0, 5));
        assert_eq!(versions.changed(), [(3, 2)]);
    }
}
