//! The locks and condition variables of `group_commit`. `tests/schedules.rs` replaces them with
//! those of a model.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
