//! What options stand for.

use crate::tool::{Mode, When};

/// Most bytes in the buffers of all copiers together.
pub(super) const MOST_BUFFERS: usize = 48 << 20;

/// The largest block that may be asked for, in bytes: two of them fit, so that reads and writes
/// overlap.
pub(super) const MOST_BLOCK: u64 = MOST_BUFFERS as u64 / 2;

/// Which symbolic links in the source are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dereference {
    /// None: links are copied as links.
    Never,
    /// Those named on the command line.
    Operands,
    /// All.
    Always,
}

/// What becomes of a target file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is replaced.
    #[default]
    Replace,
    /// The user is asked.
    Ask,
    /// It stays.
    Keep,
}

/// The attributes a copy takes over from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preserve {
    /// Permission bits and ACLs.
    pub(crate) mode: bool,
    /// User and group.
    pub(crate) ownership: bool,
    /// Times of access and modification.
    pub(crate) timestamps: bool,
    /// Hard links within the set of files copied.
    pub(crate) links: bool,
    /// Extended attributes.
    pub(crate) xattr: bool,
    /// Extended attributes were asked for by name: failing to copy one is an error.
    pub(crate) xattr_required: bool,
    /// Failing to keep mode, ownership or times makes the exit status 1.
    pub(crate) required: bool,
    /// `--no-preserve=mode`: new files get the default permissions, whatever the source has.
    pub(crate) default_mode: bool,
}

/// How the bytes of a file are moved; the data layer's part.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "read by the data layer")]
pub(crate) struct Transfer {
    pub(crate) mode: Mode,
    pub(crate) strict: bool,
    /// Bytes.
    pub(crate) block: Option<u64>,
    pub(crate) depth: Option<u32>,
    /// Bytes: up to this, files take the small way under `Mode::Auto`.
    pub(crate) small: u64,
    pub(crate) atomic: bool,
    pub(crate) verify: bool,
    /// Bytes per second.
    pub(crate) limit: Option<u64>,
    pub(crate) resume: bool,
    pub(crate) sparse: When,
    pub(crate) reflink: When,
}

impl Default for Transfer {
    fn default() -> Transfer {
        Transfer {
            mode: Mode::Auto,
            strict: false,
            block: None,
            depth: None,
            small: 64 << 10,
            atomic: false,
            verify: false,
            limit: None,
            resume: false,
            sparse: When::Auto,
            reflink: When::Auto,
        }
    }
}
