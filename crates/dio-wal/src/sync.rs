//! What `group_commit` waits with. `tests/schedules.rs` puts a model in its place.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
