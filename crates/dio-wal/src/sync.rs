//! The locks that committers contend for.
//!
//! They are the standard library's, with the methods of parking_lot's, and likewise no panic
//! poisons them. The end of a flush wakes all committers of its turn. The standard library does
//! that by one system call. parking_lot wakes them one after the other, each when the one before
//! has released the lock: with 64 clients on two processors, that costs a quarter of the commits
//! per second. With parking_lot's lock for the tail, the slowest hundredth of the commits takes
//! twice as long on two processors, and 16 processors make a quarter fewer commits.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use super::primitives;

pub(crate) struct Mutex<T>(primitives::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(primitives::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// `None` only during a wait.
pub(crate) struct MutexGuard<'a, T>(Option<primitives::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("no wait is running")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("no wait is running")
    }
}

pub(crate) struct Condvar(primitives::Condvar);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(primitives::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiting = guard.0.take().expect("no wait is running");
        guard.0 = Some(self.0.wait(waiting).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
