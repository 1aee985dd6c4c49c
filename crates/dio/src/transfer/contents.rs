//! Copies the contents of one file. Its holes are kept, and its space is allocated before the first
//! byte is written.

use std::cmp::Ordering;
use std::ops::Range;

use rustix::io::Errno;

use super::copier::{Copier, CopierJob, Watch, data_ranges};
use super::error::TransferError;
use super::pace::Pace;
use crate::file::{File, FileError};
use crate::geometry::{align_down, align_up};

/// What happens to holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sparse {
    /// The source's holes stay holes. On a device they are filled with zeros.
    #[default]
    Auto,
    /// As `Auto`, and blocks of zeros become holes.
    Always,
    /// Holes are filled with zeros.
    Never,
}

/// A copy of a whole file into an empty one.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The file to read.
    pub source: &'a File,
    /// The file to write. The copy sets its size.
    pub target: &'a File,
    /// The source's size in bytes when the caller asked for it.
    pub size: u64,
    /// Bytes at the start that the target has already. A block of which only a part is there is
    /// copied again.
    pub start: u64,
    /// What happens to holes.
    pub sparse: Sparse,
    /// A limit on bytes per second.
    pub pace: Option<&'a Pace>,
}

/// What a copy did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The ranges that were read and written, ascending. All other bytes up to the size are holes.
    pub ranges: Vec<Range<u64>>,
    /// Bytes of holes.
    pub holes: u64,
}

impl Copier {
    /// Copies the contents of a file. Space is allocated first, so that a full disk is found before
    /// any data moves. After an error the target is cut off behind what is complete from its start.
    ///
    /// # Errors
    /// As [`Copier::run`]. [`TransferError::Grew`] or [`TransferError::Shrunk`] when the source's
    /// size has changed.
    pub fn copy_contents(
        &mut self,
        contents: &Contents<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Copied, TransferError> {
        let copied = contents.prepare()?;
        let outcome =
            self.run(&contents.job(&copied.ranges), watch).and_then(|()| contents.check_size());
        if outcome.is_err() && !contents.target.is_device() {
            // The first error is reported. A target that stays too long is no worse.
            let _ = contents.target.cut_off(self.complete());
        }
        outcome.map(|()| copied)
    }
}

impl<'a> Contents<'a> {
    /// Finds the ranges to copy, ascending.
    ///
    /// # Errors
    /// What asking for the source's holes answers.
    pub fn ranges(&self) -> Result<Vec<Range<u64>>, TransferError> {
        let align = self.source.block_align().max(self.target.block_align());
        ranges_to_copy(self, align)
    }

    /// Finds the ranges to copy and allocates space for them.
    ///
    /// # Errors
    /// ENOSPC, and what asking for the source's holes answers.
    pub fn prepare(&self) -> Result<Copied, TransferError> {
        let ranges = self.ranges()?;
        // Ranges that are searched for zeros must not be allocated: they would not become holes.
        let allocated = if self.sparse() == Sparse::Always { &[] } else { &ranges[..] };
        let reserved = reserve(self.target, self.size, allocated);
        if reserved.is_err() && !self.target.is_device() {
            // The first error is reported. A target that stays too long is no worse.
            let _ = self.target.cut_off(self.start);
        }
        reserved?;
        let data: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        Ok(Copied { holes: self.size.saturating_sub(data + self.start), ranges })
    }

    /// The job that transfers some of the ranges.
    pub fn job(&self, ranges: &'a [Range<u64>]) -> CopierJob<'a> {
        let skip_zeros = self.sparse() == Sparse::Always;
        CopierJob {
            source: self.source,
            target: Some(self.target),
            ranges,
            pace: self.pace,
            skip_zeros,
        }
    }

    /// What happens to holes in this target. A device has none, and keeps its old contents wherever
    /// nothing is written.
    fn sparse(&self) -> Sparse {
        if self.target.is_device() { Sparse::Never } else { self.sparse }
    }

    /// Checks that the source still has its size. Bytes cut off before the search for data counted
    /// as a hole.
    ///
    /// # Errors
    /// [`TransferError::Grew`], [`TransferError::Shrunk`].
    pub fn check_size(&self) -> Result<(), TransferError> {
        let (expected, found) = (self.size, self.source.size().map_err(TransferError::Source)?);
        let path = || self.source.path().to_owned();
        match found.cmp(&expected) {
            Ordering::Greater => Err(TransferError::Grew { path: path(), expected, found }),
            Ordering::Less => Err(TransferError::Shrunk { path: path(), expected, found }),
            Ordering::Equal => Ok(()),
        }
    }
}

/// The ranges to copy: data, rounded out to blocks, from where an earlier attempt stopped.
fn ranges_to_copy(contents: &Contents<'_>, align: u64) -> Result<Vec<Range<u64>>, TransferError> {
    let Contents { source, size, .. } = *contents;
    let start = align_down(contents.start, align);
    let data = match contents.sparse() {
        Sparse::Never => std::iter::once(0..size).collect(),
        Sparse::Auto | Sparse::Always => {
            data_ranges(source, size).map_err(TransferError::Source)?
        }
    };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for range in data {
        let (from, to) =
            (align_down(range.start, align).max(start), align_up(range.end, align).min(size));
        match ranges.last_mut() {
            Some(last) if last.end >= from => last.end = last.end.max(to),
            _ if from < to => ranges.push(from..to),
            _ => {}
        }
    }
    Ok(ranges)
}

/// Sets the size and allocates the blocks, because a write that extends a file is exclusive, and on
/// ext4 synchronous.
fn reserve(target: &File, size: u64, ranges: &[Range<u64>]) -> Result<(), TransferError> {
    if target.is_device() {
        // The size of a device cannot change.
        let fits = target.size().map_err(TransferError::Target)? >= size;
        let full = || FileError::new("write past the end of", target.path(), Errno::NOSPC).at(size);
        return if fits { Ok(()) } else { Err(TransferError::Target(full())) };
    }
    let is_whole = matches!(ranges, [only] if *only == (0..size));
    if !is_whole {
        target.set_size(size).map_err(TransferError::Target)?;
    }
    // Where growing writes zeros, the data itself makes the file longer.
    let extend = is_whole && !target.zeroes_growth();
    for range in ranges {
        match target.allocate(range.clone(), extend) {
            Ok(()) => {}
            Err(error) if no_fallocate(&error) => {
                return target.set_size(size).map_err(TransferError::Target);
            }
            Err(error) => return Err(TransferError::Target(error)),
        }
    }
    Ok(())
}

/// File systems without `fallocate(2)` (NFS before 4.2, FUSE servers, ramfs) find the space while
/// writing.
fn no_fallocate(error: &FileError) -> bool {
    matches!(error.errno(), Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::NoWatch;
    use crate::{Io, Limits, OpenOptions};

    fn copy(
        source: &std::path::Path,
        target: &File,
        size: u64,
        sparse: Sparse,
    ) -> Result<Copied, TransferError> {
        let source = OpenOptions::new().read(true).open(source).unwrap();
        let contents = Contents { source: &source, target, size, start: 0, sparse, pace: None };
        let io = Io::new(Limits::default()).unwrap();
        Copier::new(&io, 64 << 10, 2).unwrap().copy_contents(&contents, &mut NoWatch)
    }

    #[test]
    fn a_source_cut_off_before_its_data_was_looked_for_is_no_hole() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        std::fs::write(&from, vec![7; 4096]).unwrap();
        let target = OpenOptions::new().write(true).create(true).open(to).unwrap();
        let error = copy(&from, &target, 1 << 20, Sparse::Auto).unwrap_err();
        assert!(matches!(error, TransferError::Shrunk { .. }), "{error}");
    }

    #[test]
    fn holes_are_written_to_a_device() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let (disk, from) = (scratch.path().join("disk"), scratch.path().join("from"));
        std::fs::write(&disk, vec![7; 1 << 20]).unwrap();
        let losetup =
            std::process::Command::new("losetup").args(["--find", "--show"]).arg(&disk).output();
        let device = match losetup {
            Ok(output) if output.status.success() => {
                String::from_utf8(output.stdout).unwrap().trim().to_owned()
            }
            _ => return dio_test::skip!("no loop device can be set up"),
        };
        let outcomes = [Sparse::Auto, Sparse::Always].map(|sparse| {
            std::fs::write(&from, vec![5; 8192]).unwrap();
            std::fs::File::options().write(true).open(&from).unwrap().set_len(512 << 10).unwrap();
            let target = OpenOptions::new().read(true).write(true).open(&device)?;
            target.write_at(&vec![7; 1 << 20], 0)?;
            let copied = copy(&from, &target, 512 << 10, sparse);
            let mut found = vec![1; 1 << 20];
            target.read_exact_at(&mut found, 0)?;
            Ok::<_, FileError>((copied, found))
        });
        let detached = std::process::Command::new("losetup").arg("--detach").arg(&device).status();
        assert!(detached.unwrap().success());
        for outcome in outcomes {
            let (copied, found) = outcome.unwrap();
            assert_eq!(copied.unwrap().holes, 0);
            let expected =
                [vec![5; 8192], vec![0; (512 << 10) - 8192], vec![7; 512 << 10]].concat();
            assert!(found == expected, "what was there before shows through the holes");
        }
    }
}
