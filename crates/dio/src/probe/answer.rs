//! The types of answers and of probed files.

/// The answer to a yes-or-no question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, as observed.
    Yes,
    /// No, with what was observed.
    No(String),
    /// Unknown, with the reason.
    Unknown(String),
}

/// The kind of file that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory; the answers are those of a file created in it.
    Directory,
    /// A block device.
    BlockDevice,
}
