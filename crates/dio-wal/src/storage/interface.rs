//! The traits that a storage implements.

use std::io;
use std::sync::Arc;

/// How written bytes become durable. The method is independent of whether the page cache is used;
/// the first four are those of PostgreSQL's `wal_sync_method`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// `fsync(2)` follows the writes of a commit.
    Fsync,
    /// `fdatasync(2)` follows the writes of a commit.
    #[default]
    Fdatasync,
    /// Every write is durable with all metadata when it returns (`O_SYNC`).
    OpenSync,
    /// Every write is durable when it returns (`O_DSYNC`).
    OpenDatasync,
    /// A commit of one write makes that write durable by itself (`RWF_DSYNC`). A commit of several
    /// writes is followed by `fdatasync(2)`.
    RwfDsync,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 5] = [
        Method::Fsync,
        Method::Fdatasync,
        Method::OpenSync,
        Method::OpenDatasync,
        Method::RwfDsync,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Fsync => "fsync",
            Method::Fdatasync => "fdatasync",
            Method::OpenSync => "open_sync",
            Method::OpenDatasync => "open_datasync",
            Method::RwfDsync => "rwf_dsync",
        }
    }
}

/// Whether written bytes need a sync before they are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The bytes are durable.
    Durable,
    /// A power cut may take any of the bytes until [`SegmentFile::sync`] has returned.
    Volatile,
}

/// Whether a block can be overwritten atomically: whenever the power fails, the block holds the old
/// bytes or the new ones, and no mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicWrites {
    /// Neither the disk nor the file system claims that.
    Unsupported,
    /// The file system claims it. It writes the block elsewhere and records where (`RWF_ATOMIC` of
    /// xfs on any disk), which is slower than a plain write.
    Software,
    /// The disk claims it. An atomic write costs no more than a plain one.
    Hardware,
}

/// Block sizes that suit a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths of writes must be multiples of this.
    pub min: u64,
    /// Offsets and lengths of writes should be multiples of this. For smaller ones the file system
    /// or the disk reads a block and writes it again, which costs time, and endangers the other
    /// bytes of that block when the power fails.
    pub preferred: u64,
}

/// An open segment.
///
/// Memory that is written from is aligned to [`dio::block::BLOCK_ALIGN`].
pub trait SegmentFile: Send + Sync {
    /// Size of the file in bytes.
    ///
    /// # Errors
    /// Errors of the storage.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size of the file to `size` bytes, which read as zeros.
    ///
    /// Returns `true` if the space for these bytes is reserved. Otherwise only writing them shows
    /// whether there is space.
    ///
    /// # Errors
    /// Errors of the storage, above all ENOSPC.
    fn allocate(&self, size: u64) -> io::Result<bool>;

    /// Reads into all of `out`, or up to the end of the file. Returns how many bytes were read.
    ///
    /// # Errors
    /// Errors of the storage.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `blocks`, which are whole blocks.
    ///
    /// `commit` says that this is the last write before these blocks are to become durable, and the
    /// only write since the last [`SegmentFile::sync`].
    ///
    /// # Errors
    /// Errors of the storage. The contents of the range are unknown then.
    fn write_at(&self, blocks: &[u8], offset: u64, commit: bool) -> io::Result<Durability>;

    /// Overwrites `length` bytes, whole blocks that hold no record yet, with zeros. `zeros` is
    /// memory that holds nothing but zeros; each write takes at most all of it.
    ///
    /// The metadata that the writes change is durable afterwards.
    ///
    /// # Errors
    /// As [`SegmentFile::write_at`] and [`SegmentFile::sync`].
    fn write_zeros(&self, zeros: &[u8], offset: u64, length: u64) -> io::Result<()> {
        for at in (0..length).step_by(zeros.len()) {
            let count = (length - at).min(zeros.len() as u64) as usize;
            self.write_at(&zeros[..count], offset + at, false)?;
        }
        self.sync()
    }

    /// Returns what is claimed about atomic writes of one block of `block_bytes`.
    fn atomic_writes(&self, block_bytes: u64) -> AtomicWrites;

    /// As [`SegmentFile::write_at`] for one block, atomically.
    ///
    /// # Errors
    /// Errors of the storage. [`io::ErrorKind::Unsupported`] and [`io::ErrorKind::InvalidInput`]
    /// say that the claim was wrong and nothing was written.
    fn write_atomic(&self, block: &[u8], offset: u64, commit: bool) -> io::Result<Durability>;

    /// Makes durable what was written before the call, and the metadata that reading it requires.
    /// Where space was allocated only, that includes the fact that it is written now
    /// (`fdatasync(2)`).
    ///
    /// # Errors
    /// Errors of the storage. What was written may be lost then, even if later syncs succeed.
    fn sync(&self) -> io::Result<()>;

    /// Makes durable what any process wrote before the call, and makes later reads return what the
    /// disk holds.
    ///
    /// After a sync that failed, the page cache may hold pages that it considers clean although
    /// they were not written, and the next sync succeeds.
    ///
    /// # Errors
    /// As [`SegmentFile::sync`].
    fn sync_and_drop_cache(&self) -> io::Result<()>;

    /// As [`SegmentFile::sync`], including the size and all metadata, whatever the sync method.
    ///
    /// # Errors
    /// As [`SegmentFile::sync`].
    fn sync_all(&self) -> io::Result<()>;
}

/// A directory of segments.
pub trait Storage: Send + Sync {
    /// Locks the log for writing until [`Storage::unlock`] is called or the storage is dropped.
    /// Returns `false` if another writer holds the lock.
    ///
    /// # Errors
    /// Errors of the storage.
    fn lock(&self) -> io::Result<bool>;

    /// Releases the lock. Readers may continue to use the storage.
    fn unlock(&self);

    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// Errors of the storage.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file. A file that has the name already is removed, and not written into.
    ///
    /// # Errors
    /// Errors of the storage.
    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>>;

    /// Opens a file for reading, and for writing too if `write`.
    ///
    /// # Errors
    /// Errors of the storage; [`io::ErrorKind::NotFound`] if no file has this name.
    fn open(&self, name: &str, write: bool) -> io::Result<Arc<dyn SegmentFile>>;

    /// Renames a file. The new name is durable only after [`Storage::sync`].
    ///
    /// # Errors
    /// Errors of the storage.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. The removal is durable only after [`Storage::sync`].
    ///
    /// # Errors
    /// Errors of the storage.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable that were created, changed or removed before the call.
    ///
    /// # Errors
    /// Errors of the storage.
    fn sync(&self) -> io::Result<()>;

    /// Fills `out` with random bytes, which must be unpredictable enough never to repeat.
    ///
    /// # Errors
    /// Errors of the storage.
    fn fill_random(&self, out: &mut [u8]) -> io::Result<()>;

    /// The block sizes that suit the files of this directory, taken from the file `name`.
    ///
    /// # Errors
    /// Errors of the storage.
    fn block_sizes(&self, name: &str) -> io::Result<BlockSizes>;
}
