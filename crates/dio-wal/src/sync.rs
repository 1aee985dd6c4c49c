//! What `group_commit` waits with. `tests/schedules.rs` puts a model in its place.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
