//! Engines run operations. An operation owns its memory and shares its file; the engine gives it
//! back with the raw result.
//!
//! An engine never retries, rounds or interprets. The layer above, [`crate::drive`], alone decides
//! what a short transfer, EAGAIN or the end of the file means. The simulated engine therefore
//! exercises the policy that production runs.

mod blocking;
mod null;
mod op;
mod os;
mod request;
mod select;
pub mod sim;
mod uring;
mod workers;

pub use blocking::Blocking;
pub use null::{Null, NullMedium};
pub use op::{Done, Engine, Medium, Op};
pub use os::OsMedium;
pub use request::{OpFlags, OpKind, Route};
pub use select::{EngineKind, Selection, SelectionError};
pub use uring::{Uring, UringError};
