//! Files: open modes, locks, reads and writes at any offset, length and address, resize, sync, and
//! counters.
//!
//! ```no_run
//! use dio::{File, Mode, OpenOptions};
//! # fn main() -> Result<(), dio::FileError> {
//! let mut options = OpenOptions::new();
//! let file = options.read(true).write(true).create(true).mode(Mode::Direct).open("data")?;
//! file.write_at(b"any length, at any offset", 4097)?;
//! file.sync_data()?;
//! let mut word = [0; 3];
//! assert_eq!(file.read_at(&mut word, 4097)?, 3);
//! println!("{:?}", file.counters());
//! # Ok(())
//! # }
//! ```

mod append;
mod append_state;
mod backing;
mod blocks;
pub(crate) mod byte_lock;
mod counters;
mod error;
mod flow;
mod handle;
pub(crate) mod held;
mod latch;
mod locking;
mod mode;
mod open;
mod ranges;
mod read;
mod residue;
mod routing;
mod segments;
mod size;
mod syncs;
mod trial;
mod write;

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::engine::OpKind;
use crate::geometry::Geometry;
use crate::io::Io;
use crate::lock::LockStats;

pub use append::EndLock;
pub use counters::{BytesByClass, Class, Counters, Reason};
pub(crate) use error::errno_of;
pub use error::{FileError, words, words_of};
pub use mode::{Mode, Need, SyncMethod};
pub use open::{DIRECT_FROM, OpenOptions};
pub use ranges::{RangesError, ReadRange, WriteRange, read_ranges, write_ranges};

pub(crate) use blocks::BlockIo;
pub use handle::File;
pub(crate) use handle::StripedObjects;

impl File {
    /// The name by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mode in which the file was opened.
    pub fn mode(&self) -> Mode {
        self.access.mode
    }

    /// The alignments and sizes of the file.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shared I/O that the file uses.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// The counters at this moment.
    pub fn counters(&self) -> Counters {
        let mut counters = self.meter.snapshot();
        counters.add(&self.backing.requests());
        counters
    }

    /// Lock waits by class, of all opens of this file in the process.
    pub fn lock_stats(&self) -> LockStats {
        self.locks.stats()
    }

    /// The file descriptor for questions to the system about the file; `None` for a simulated file.
    /// It must not be used for the bytes: those of a striped file lie elsewhere.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.backing.descriptor()
    }

    /// All file descriptors that the file has open, those of the objects of a striped file
    /// included. The process loses its POSIX locks on a file when it closes any of them
    /// (`fcntl(2)`), so whoever shares such locks with dio has to know them.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        if let Some(medium) = self.backing.os() {
            return medium.descriptors().collect();
        }
        let objects = self.backing.objects().unwrap_or_default();
        let objects = objects.iter().flat_map(File::descriptors);
        self.descriptor().into_iter().chain(objects).collect()
    }

    /// How the file is striped; `None` for an ordinary file.
    pub fn layout(&self) -> Option<&crate::layout::Layout> {
        self.backing.layout()
    }

    /// Whether the file is a block device, whose size is fixed.
    pub fn is_device(&self) -> bool {
        let stat = self.backing.os().and_then(|os| rustix::fs::fstat(os.any()).ok());
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    }

    /// How reads travel now. If they do not go direct although the mode asks for it, also the
    /// reason.
    pub fn read_class(&self) -> (Class, Option<Reason>) {
        self.backing.class(self.access.mode, OpKind::Read)
    }

    /// How writes travel now. If they do not go direct although the mode asks for it, also the
    /// reason.
    pub fn write_class(&self) -> (Class, Option<Reason>) {
        self.backing.class(self.access.mode, OpKind::Write)
    }

    /// Reads into `buffer` from `offset`. Returns the bytes read, which are fewer than asked for
    /// only at the end of the file.
    ///
    /// # Errors
    /// The first error of any part of the request, with its offset.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        read::read_at(self, buffer, offset)
    }

    /// Reads consecutive bytes of the file into several buffers in turn, as `preadv(2)` does, but
    /// without any rule of alignment.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored_at(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, FileError> {
        read::read_vectored_at(self, buffers, offset)
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// As [`File::read_at`]; ENODATA when the file ends before the buffer is full.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        let count = self.read_at(buffer, offset)?;
        if count < buffer.len() {
            return Err(self.failed("read", Errno::NODATA).at(offset + count as u64));
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`, and extends the file if need be. They are durable after a
    /// sync, or at once with a sync method other than explicit.
    ///
    /// # Errors
    /// The first error of any part, with its offset; the contents of the range are undefined then.
    /// The error latches: see [`File`]. EFBIG and EBADF are found before anything is written and do
    /// not latch.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    /// Writes several buffers in turn to consecutive bytes of the file, as `pwritev(2)` does, but
    /// without any rule of alignment.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<(), FileError> {
        write::write_vectored_at(self, buffers, offset)
    }

    /// As [`File::write_at`], for a caller that holds the lock of the file's blocks.
    pub(crate) fn write_unlocked(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        write::write_unlocked(self, bytes, offset)
    }

    /// Appends all of `buffers`, one behind the other, wherever the file ends at that moment.
    /// Returns how most of the bytes travelled.
    ///
    /// The append overwrites nothing that other programs append. Their bytes do not come between
    /// those of one call, unless the kernel writes only a part of these at first, as it does when
    /// space runs out.
    ///
    /// Whole blocks go direct where the file ends with a block and the kernel keeps direct appends
    /// of several programs apart ([`FileSystem::keeps_direct_appends_apart`]). Other bytes go
    /// through the page cache and are dropped from it.
    ///
    /// [`FileSystem::keeps_direct_appends_apart`]:
    ///     crate::geometry::FileSystem::keeps_direct_appends_apart
    ///
    /// # Errors
    /// As [`File::write_at`]. EOPNOTSUPP for a striped file (see [`File::lock_end`]) and for a
    /// simulated one.
    pub fn append(&self, buffers: &[IoSlice<'_>]) -> Result<Class, FileError> {
        append::append(self, buffers)
    }

    /// Waits for the right to append to a striped file. A write to it names an offset, so of two
    /// programs that look for the end at the same time one would overwrite the other's bytes. A
    /// program that appends therefore takes this lock, asks for the size, writes there and drops
    /// the lock. `None` for other files, where the system finds the end (`O_APPEND`).
    ///
    /// # Errors
    /// EBADF for a file that is open for reading only; what `fcntl(2)` answers. If the file system
    /// of the last object has no such locks, only the threads that share this file exclude each
    /// other.
    pub fn lock_end(&self) -> Result<Option<EndLock<'_>>, FileError> {
        append::lock_end(self)
    }

    /// Size in bytes.
    ///
    /// # Errors
    /// What `statx(2)` answers.
    pub fn size(&self) -> Result<u64, FileError> {
        size::size(self)
    }

    /// Sets the size. A smaller size cuts the file off; a larger one adds a hole. Excludes every
    /// read and write of the file.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers, or an earlier write error.
    pub fn set_size(&self, size: u64) -> Result<(), FileError> {
        size::set_size(self, size)
    }

    /// Cuts the file off behind `size` if it is longer. Of a striped file it also cuts off the
    /// bytes that some objects hold behind the end. Unlike [`File::set_size`] it works after an
    /// error too, which stays in force, so that bytes that could not be written need not remain as
    /// zeros.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    pub fn cut_off(&self, size: u64) -> Result<(), FileError> {
        size::cut_off(self, size)
    }

    /// Allocates blocks for a range, so that writing it cannot fail for lack of space. The size
    /// grows only if `extend` is set.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system
    /// cannot allocate, ENOSPC without space. Or an earlier write error.
    pub fn allocate(&self, range: Range<u64>, extend: bool) -> Result<(), FileError> {
        size::allocate(self, range, extend)
    }

    /// Turns a range into a hole that reads as zeros.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system
    /// cannot make holes. Or an earlier write error.
    pub fn punch(&self, range: Range<u64>) -> Result<(), FileError> {
        size::punch(self, range)
    }

    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    ///
    /// # Errors
    /// The write or sync error, which stays in force: see [`File`].
    pub fn sync_data(&self) -> Result<(), FileError> {
        self.sync(OpKind::SyncData)
    }

    /// Makes data and all metadata durable (`fsync(2)`).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), FileError> {
        self.sync(OpKind::SyncAll)
    }

    /// Makes earlier writes durable if the sync method demands it of every write.
    pub(crate) fn sync_if_durable(&self) -> Result<(), FileError> {
        if self.access.durable { self.sync_all() } else { Ok(()) }
    }

    /// How many of the `len` bytes of an aligned request are in flight at once: all of them, unless
    /// it has more parts than an engine takes.
    pub fn in_flight_of(&self, len: u64) -> u64 {
        flow::in_flight_of(self, len)
    }

    /// Alignment of the offsets and lengths of blocks, in bytes, for reading and for writing.
    pub fn block_align(&self) -> u64 {
        self.block_io().align()
    }

    /// Requests of whole aligned blocks to this file, for callers that keep many in flight.
    pub(crate) fn block_io(&self) -> BlockIo<'_> {
        BlockIo::new(self)
    }

    /// The files that hold its bytes: the objects of a striped file, or the file itself.
    pub fn objects(&self) -> &[File] {
        self.backing.objects().unwrap_or(std::slice::from_ref(self))
    }
}
