//! Looks after what lies idle: bytes pending that nothing follows, bytes read ahead that nobody wants, memory not in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often it looks while there is anything.
const EVERY: Duration = Duration::from_millis(100);

/// Wakes the janitor.
#[derive(Debug, Default)]
pub(super) struct Janitor {
    busy: AtomicBool,
    thread: OnceLock<Thread>,
}

/// What a janitor looks after.
pub(super) trait Place: Send + Sync + 'static {
    /// Where its janitor is woken.
    fn janitor(&self) -> &Janitor;

    /// Tidies up; false when there is nothing left to do.
    fn tidy(&self) -> bool;
}

impl Janitor {
    /// There is something to look after.
    pub(super) fn stir(&self) {
        if !self.busy.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Lets the thread see that its place is gone.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the janitor of a place. It ends with the place.
pub(super) fn employ<P: Place>(place: &std::sync::Arc<P>) {
    let weak = std::sync::Arc::downgrade(place);
    let thread = thread::Builder::new().name("dio-janitor".into()).spawn(move || work(&weak));
    // Without one, what is pending is written by the requests that wait for it.
    if let Ok(handle) = thread {
        let _ = place.janitor().thread.set(handle.thread().clone());
    }
}

fn work<P: Place>(place: &Weak<P>) {
    loop {
        let Some(here) = place.upgrade() else { return };
        let busy = &here.janitor().busy;
        if busy.load(Ordering::Acquire) && !here.tidy() {
            busy.store(false, Ordering::Release);
            // What came in between is seen in the next round.
            if here.tidy() {
                busy.store(true, Ordering::Release);
            }
        }
        let busy = busy.load(Ordering::Acquire);
        drop(here);
        if busy { thread::park_timeout(EVERY) } else { thread::park() }
    }
}
