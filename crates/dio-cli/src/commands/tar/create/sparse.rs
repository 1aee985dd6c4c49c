//! Finds the data of sparse files (`-S`).

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, Stat, seek};
use rustix::io::Errno;

use super::super::format::block_extents;
use super::super::options::Holes;

/// Whether a file has fewer blocks than its size requires.
pub(super) fn has_holes(stat: &Stat) -> bool {
    (stat.st_blocks as u64) < (stat.st_size as u64).div_ceil(512)
}

/// The data extents of a file with holes; `None` if the file system cannot report them.
///
/// # Errors
/// The errors of `lseek(2)`.
pub(super) fn extents(
    fd: BorrowedFd<'_>,
    stat: &Stat,
    how: Holes,
) -> Result<Option<Vec<(u64, u64)>>, Errno> {
    let size = stat.st_size as u64;
    if how == Holes::Raw {
        // A block count of 0 alone proves nothing: data may still be in memory, or be stored in the
        // inode.
        let nothing = stat.st_blocks == 0 && seek(fd, SeekFrom::Data(0)) == Err(Errno::NXIO);
        return Ok(nothing.then(Vec::new));
    }
    Ok(holes(fd, size)?.map(|found| block_extents(&found, size)))
}

/// The data extents as the file system reports them; `None` if it cannot report them.
fn holes(fd: BorrowedFd<'_>, size: u64) -> Result<Option<Vec<(u64, u64)>>, Errno> {
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let data = match seek(fd, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let hole = seek(fd, SeekFrom::Hole(data))?.min(size);
        if data == 0 && hole == size {
            // This is the answer of a file system that does not support `SEEK_HOLE`.
            return Ok(None);
        }
        if data >= size {
            break;
        }
        found.push((data, hole - data));
        offset = hole;
    }
    Ok(Some(found))
}

/// Finds the blocks that are not all zeros in data that is passed to it in order.
#[derive(Debug, Default)]
pub(super) struct Scan {
    found: Vec<(u64, u64)>,
    position: u64,
    /// The bytes seen of an incomplete block, and whether any of them is not zero.
    partial: (u64, bool),
}

/// The unit in which GNU tar looks for zeros.
const BLOCK: u64 = 512;

impl Scan {
    /// Scans the next bytes of the file.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = ((BLOCK - self.partial.0) as usize).min(bytes.len());
            let (part, rest) = bytes.split_at(count);
            self.partial.0 += count as u64;
            self.partial.1 |= part.iter().any(|byte| *byte != 0);
            bytes = rest;
            if self.partial.0 == BLOCK {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        let (length, data) = std::mem::take(&mut self.partial);
        match self.found.last_mut() {
            Some((offset, before)) if data && *offset + *before == self.position => {
                *before += length
            }
            _ if data => self.found.push((self.position, length)),
            _ => {}
        }
        self.position += length;
    }

    /// Returns the data extents.
    pub(super) fn finish(mut self) -> Vec<(u64, u64)> {
        if self.partial.0 > 0 {
            self.end_block();
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_holes() {
        let mut contents = vec![0; 512];
        contents.extend([1; 600]);
        contents.resize(512 * 5, 0);
        contents.extend([0, 0, 7]);
        for step in [1, 7, 512, 1000, contents.len()] {
            let mut scan = Scan::default();
            contents.chunks(step).for_each(|chunk| scan.feed(chunk));
            assert_eq!(scan.finish(), [(512, 1024), (2560, 3)], "{step}");
        }
    }
}
