//! Values of options.

use crate::tool::{Mode, When};

/// Maximum total size of the buffers of all copiers, in bytes.
pub(super) const MOST_BUFFERS: usize = 48 << 20;

/// The largest permitted block, in bytes. Two of them fit in the buffers, so that reads and writes
/// overlap.
pub(super) const MOST_BLOCK: u64 = MOST_BUFFERS as u64 / 2;

/// Rule for following symbolic links in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dereference {
    /// No link is followed; links are copied as links.
    Never,
    /// Links named on the command line are followed.
    Operands,
    /// All links are followed.
    Always,
}

/// Rule for a target file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExistingRule {
    /// It is replaced.
    #[default]
    Replace,
    /// The user is asked.
    Ask,
    /// It stays.
    Keep,
}

/// How a target is made like its source, with what differs only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// Remove what the source lacks, when the copies are durable.
    pub(crate) delete: bool,
    /// Print what would be done, and do nothing.
    pub(crate) dry_run: bool,
    /// Compare contents instead of sizes and times of modification.
    pub(crate) checksum: bool,
}

/// How two trees are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Compare modes, owners, times of modification, extended attributes and ACLs too.
    pub(crate) metadata: bool,
}

/// Attributes that a copy takes from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preserve {
    /// Permission bits and ACLs.
    pub(crate) mode: bool,
    /// User and group.
    pub(crate) ownership: bool,
    /// Times of access and modification.
    pub(crate) timestamps: bool,
    /// Hard links within the set of copied files.
    pub(crate) links: bool,
    /// Extended attributes.
    pub(crate) xattr: bool,
    /// Extended attributes were requested by name, so failing to copy one is an error.
    pub(crate) xattr_required: bool,
    /// `--no-preserve=mode`: new files get the default permissions, whatever the source has.
    pub(crate) default_mode: bool,
}

/// How the data layer moves the bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) mode: Mode,
    pub(crate) strict: bool,
    /// Size of a block in bytes.
    pub(crate) block: Option<u64>,
    pub(crate) depth: Option<u32>,
    /// Maximum size in bytes of files that are copied by the small method with `Mode::Auto`.
    pub(crate) small: u64,
    pub(crate) atomic: bool,
    pub(crate) verify: bool,
    /// Limit in bytes per second.
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
