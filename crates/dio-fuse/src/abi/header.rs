//! The headers of requests and replies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::layout::layout;

/// `struct fuse_in_header`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct InHeader {
    pub(crate) len: u32,
    pub(crate) opcode: u32,
    pub(crate) unique: u64,
    pub(crate) nodeid: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    /// In units of 8 bytes (since 7.38; 0 before).
    pub(crate) total_extlen: u16,
    pub(crate) padding: u16,
}
layout!(
    InHeader, 40, opcode @ 4, unique @ 8, nodeid @ 16, uid @ 24, gid @ 28, pid @ 32,
    total_extlen @ 36
);

/// `struct fuse_out_header`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct OutHeader {
    pub(crate) len: u32,
    pub(crate) error: i32,
    pub(crate) unique: u64,
}
layout!(OutHeader, 16, error @ 4, unique @ 8);
