//! What operations on a simulated disk do.

use crate::engine::OpKind;

/// What an operation on a simulated file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimAction {
    /// An operation of an engine.
    Transfer(OpKind),
    /// [`Medium::size`](crate::engine::Medium::size).
    Size,
    /// [`Medium::set_size`](crate::engine::Medium::set_size).
    SetSize,
    /// [`Medium::allocate`](crate::engine::Medium::allocate).
    Allocate,
    /// [`Medium::punch`](crate::engine::Medium::punch).
    Punch,
}

impl SimAction {
    /// True for the two syncs.
    pub fn is_sync(self) -> bool {
        matches!(self, SimAction::Transfer(OpKind::SyncData | OpKind::SyncAll))
    }
}
