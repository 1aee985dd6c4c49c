//! Looks after what lies idle: bytes pending that nothing follows, bytes read ahead that nobody
//! wants, memory not in use.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often it looks while there is anything to tidy up.
pub(super) const EVERY: Duration = Duration::from_millis(100);

/// What a janitor is doing: nothing until it is woken, looking now and then, or looking every
/// [`EVERY`].
const IDLE: u8 = 0;
const WATCHING: u8 = 1;
const BUSY: u8 = 2;

/// Wakes the janitor.
#[derive(Debug, Default)]
pub(super) struct Janitor {
    doing: AtomicU8,
    thread: OnceLock<Thread>,
}

/// What a janitor looks after.
pub(super) trait Place: Send + Sync + 'static {
    /// Where its janitor is woken.
    fn janitor(&self) -> &Janitor;

    /// Tidies up; returns when to look again, `None` when there is nothing left to do.
    fn tidy(&self) -> Option<Duration>;
}

impl Janitor {
    /// There is something to look after.
    pub(super) fn stir(&self) {
        if self.doing.load(Ordering::Relaxed) != BUSY && self.doing.swap(BUSY, Ordering::AcqRel) != BUSY {
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
        let rest = look(&*here);
        drop(here);
        match rest {
            Some(rest) => thread::park_timeout(rest),
            None => thread::park(),
        }
    }
}

/// Tidies up where there is anything to tidy; returns how long to rest.
fn look(place: &impl Place) -> Option<Duration> {
    let doing = &place.janitor().doing;
    if doing.load(Ordering::Acquire) == IDLE {
        return None;
    }
    let left = place.tidy();
    if left.is_some_and(|rest| rest <= EVERY) {
        return left;
    }
    doing.store(if left.is_some() { WATCHING } else { IDLE }, Ordering::Release);
    // What came in between is seen in the second round; whoever comes after it wakes this thread.
    let left = place.tidy();
    match left {
        Some(rest) => doing.fetch_max(if rest <= EVERY { BUSY } else { WATCHING }, Ordering::AcqRel),
        None => return None,
    };
    left
}
