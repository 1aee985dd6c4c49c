//! What `sync` is made of. `tests/schedules.rs` replaces it with the same types of a model.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
