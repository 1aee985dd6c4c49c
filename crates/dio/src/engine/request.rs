//! What is asked of an engine.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Fills the memory from the file.
    Read,
    /// Writes the memory to the file.
    Write,
    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    SyncData,
    /// Makes data and all metadata durable (`fsync(2)`).
    SyncAll,
}

/// The file descriptor that an operation goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The descriptor opened with `O_DIRECT`: offset, length and address must be aligned.
    Direct,
    /// The descriptor without `O_DIRECT`: the page cache takes any offset, length and address.
    Buffered,
}

/// Flags of one operation (`preadv2(2)`, `pwritev2(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpFlags {
    /// The write is durable when it completes (`RWF_DSYNC`).
    pub dsync: bool,
    /// The kernel drops the pages that the operation brings into the page cache (`RWF_DONTCACHE`).
    /// Buffered route only.
    pub dontcache: bool,
}
