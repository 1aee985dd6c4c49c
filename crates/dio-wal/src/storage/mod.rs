//! The seam: what a log needs of the place where its segments are.
//!
//! [`Directory`] is a directory of the system, through `dio`. Tests put a simulated one in its place, whose power can be cut.
//! An implementation does what it is told and reports what happened; every policy is above it.

mod directory;

use std::io;
use std::sync::Arc;

pub use directory::Directory;

/// How what was written becomes durable. Independent of whether the page cache is used (`wal_sync_method` of PostgreSQL
/// has the first four).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// `fsync(2)` after the writes of a commit.
    Fsync,
    /// `fdatasync(2)` after the writes of a commit.
    #[default]
    Fdatasync,
    /// Every write is durable with all metadata when it returns (`O_SYNC`).
    OpenSync,
    /// Every write is durable when it returns (`O_DSYNC`).
    OpenDatasync,
    /// The one write of a commit is durable when it returns (`RWF_DSYNC`); where there were others before it, `fdatasync(2)`
    /// follows.
    RwfDsync,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 5] =
        [Method::Fsync, Method::Fdatasync, Method::OpenSync, Method::OpenDatasync, Method::RwfDsync];

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
pub enum Written {
    /// They are durable.
    Durable,
    /// A power cut may take any of them until [`SegmentFile::sync`] has returned.
    Volatile,
}

/// Whether a block can be written over so that it holds the old bytes or the new ones, whenever the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untorn {
    /// Nobody says so.
    No,
    /// The file system does it, by writing elsewhere and recording where (`RWF_ATOMIC` of xfs on any disk): slower.
    Software,
    /// The disk does it, at no cost.
    Hardware,
}

/// An open segment.
pub trait SegmentFile: Send + Sync {
    /// Size in bytes.
    ///
    /// # Errors
    /// The storage's.
    fn size(&self) -> io::Result<u64>;

    /// Gives the file `size` bytes, which read as zeros. `true` when the room for them is set aside; otherwise only writing
    /// to them shows whether there is any.
    ///
    /// # Errors
    /// The storage's, ENOSPC above all.
    fn allocate(&self, size: u64) -> io::Result<bool>;

    /// Reads bytes; fewer than asked only at the end of the file.
    ///
    /// # Errors
    /// The storage's.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes whole blocks, from memory aligned to [`dio::block::BLOCK_ALIGN`], all of them. With `commit` this is the last
    /// write before they are to be durable, and the only one since the last [`SegmentFile::sync`].
    ///
    /// # Errors
    /// The storage's; what the range holds then is not known.
    fn write_at(&self, blocks: &[u8], offset: u64, commit: bool) -> io::Result<Written>;

    /// Writes zeros over `length` bytes of space that no record has yet, whole blocks of it, `zeros` at a time or less: memory
    /// that holds nothing else, aligned as that of [`SegmentFile::write_at`]. What they change of the file, other than its
    /// bytes, is durable afterwards.
    ///
    /// # Errors
    /// As [`SegmentFile::write_at`] and [`SegmentFile::sync`].
    fn write_ahead(&self, zeros: &[u8], offset: u64, length: u64) -> io::Result<()> {
        for at in (0..length).step_by(zeros.len()) {
            let count = (length - at).min(zeros.len() as u64) as usize;
            self.write_at(&zeros[..count], offset + at, false)?;
        }
        self.sync()
    }

    /// What is claimed of writes of one block of `block` bytes.
    fn untorn(&self, block: u64) -> Untorn;

    /// As [`SegmentFile::write_at`], one block, never torn.
    ///
    /// # Errors
    /// The storage's; [`io::ErrorKind::Unsupported`] and [`io::ErrorKind::InvalidInput`] when the claim was wrong, and nothing
    /// was written.
    fn write_untorn(&self, block: &[u8], offset: u64, commit: bool) -> io::Result<Written>;

    /// Makes durable what was written before the call, with the metadata that reading it again needs: where space that was
    /// only allocated was written, that it is written (`fdatasync(2)`).
    ///
    /// # Errors
    /// The storage's. What was written may be lost, whatever later syncs answer.
    fn sync(&self) -> io::Result<()>;

    /// Makes durable what was written before, by whomever, and sees to it that what is read afterwards is what the disk holds.
    /// Where an earlier sync failed, the page cache holds pages that it takes for written and that are not, and the next sync
    /// comes out well.
    ///
    /// # Errors
    /// As [`SegmentFile::sync`].
    fn settle(&self) -> io::Result<()>;

    /// As [`SegmentFile::sync`], with size and all metadata, however writes become durable otherwise.
    ///
    /// # Errors
    /// As [`SegmentFile::sync`].
    fn sync_all(&self) -> io::Result<()>;
}

/// A directory of segments.
pub trait Storage: Send + Sync {
    /// Keeps others from writing to the log until [`Storage::unlock`], or until the storage is dropped; `false` if one does
    /// already.
    ///
    /// # Errors
    /// The storage's.
    fn lock(&self) -> io::Result<bool>;

    /// Lets others write to the log again. Readers may still use the storage.
    fn unlock(&self);

    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// The storage's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file, or cuts an existing one to nothing.
    ///
    /// # Errors
    /// The storage's.
    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>>;

    /// Opens a file: for reading and writing if `write`.
    ///
    /// # Errors
    /// The storage's; [`io::ErrorKind::NotFound`] when there is none of that name.
    fn open(&self, name: &str, write: bool) -> io::Result<Arc<dyn SegmentFile>>;

    /// Gives a file another name. Durable only after [`Storage::sync`].
    ///
    /// # Errors
    /// The storage's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable only after [`Storage::sync`].
    ///
    /// # Errors
    /// The storage's.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Makes names durable that were created, changed or removed before.
    ///
    /// # Errors
    /// The storage's.
    fn sync(&self) -> io::Result<()>;

    /// Fills `out` with numbers that never come again.
    ///
    /// # Errors
    /// The storage's.
    fn random(&self, out: &mut [u8]) -> io::Result<()>;

    /// The blocks that suit the files here, asked with one of them.
    ///
    /// # Errors
    /// The storage's.
    fn blocks(&self, name: &str) -> io::Result<Blocks>;
}

/// Sizes of blocks, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Offsets and lengths of writes must be multiples of this.
    pub least: u64,
    /// What writes should be multiples of: smaller ones make the file system or the disk read and rewrite a block, which
    /// costs time, and puts what stands beside them at risk when the power fails.
    pub best: u64,
}
