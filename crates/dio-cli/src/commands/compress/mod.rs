//! The code that the compressing and decompressing commands share: from the first byte read to the
//! removal of the source.
//!
//! A target has no name until it is complete, so neither an error nor a signal nor `kill -9` leaves
//! a partial one. A source is removed only after its target and the target's name are on the
//! medium.

mod ask;
mod directory;
mod retire;
mod watched;

pub(crate) use crate::tool::target::OutputFile;
pub(crate) use crate::tool::target::attributes::give_usual;
pub(crate) use ask::{agreed, terminal};
pub(crate) use directory::Directory;
pub(crate) use retire::{PendingRemovals, RetireError};
pub(crate) use watched::{Watched, WatchedSink, pass};
