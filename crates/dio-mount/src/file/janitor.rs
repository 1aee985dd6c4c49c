//! Cleans up idle state: pending bytes that no write follows, read-ahead bytes that no program
//! reads, and memory not in use.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often the janitor runs while there is anything to clean up.
pub(super) const EVERY: Duration = Duration::from_millis(100);

/// State of the janitor: it does nothing until it is woken, it runs now and then, or it runs every
/// [`EVERY`].
const IDLE: u8 = 0;
const WATCHING: u8 = 1;
const BUSY: u8 = 2;

/// Refers to the janitor thread, to wake it.
#[derive(Debug, Default)]
pub(super) struct Janitor {
    doing: AtomicU8,
    thread: OnceLock<Thread>,
}

/// An object that a janitor cleans up.
pub(super) trait Tidied: Send + Sync + 'static {
    /// Returns the reference to its janitor.
    fn janitor(&self) -> &Janitor;

    /// Cleans up. Returns when to do so again, or `None` if nothing is left to do.
    fn tidy(&self) -> Option<Duration>;
}

impl Janitor {
    /// Makes the janitor run every [`EVERY`], since there is something to clean up.
    pub(super) fn wake_if_idle(&self) {
        if self.doing.load(Ordering::Relaxed) != BUSY
            && self.doing.swap(BUSY, Ordering::AcqRel) != BUSY
        {
            self.wake();
        }
    }

    /// Wakes the thread, which then runs, or ends if its owner is gone.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the janitor of `owner`. It ends when the owner is gone.
pub(super) fn start_janitor<P: Tidied>(owner: &std::sync::Arc<P>) {
    let weak = std::sync::Arc::downgrade(owner);
    let thread = thread::Builder::new().name("dio-janitor".into()).spawn(move || work(&weak));
    // Without a janitor, pending bytes are written by the requests that wait for them.
    if let Ok(handle) = thread {
        let _ = owner.janitor().thread.set(handle.thread().clone());
    }
}

fn work<P: Tidied>(owner: &Weak<P>) {
    loop {
        let Some(here) = owner.upgrade() else { return };
        let rest = look(&*here);
        drop(here);
        match rest {
            Some(rest) => thread::park_timeout(rest),
            None => thread::park(),
        }
    }
}

/// Cleans up unless the janitor is idle. Returns how long to rest, or `None` to rest until woken.
fn look(owner: &impl Tidied) -> Option<Duration> {
    let doing = &owner.janitor().doing;
    if doing.load(Ordering::Acquire) == IDLE {
        return None;
    }
    let left = owner.tidy();
    if left.is_some_and(|rest| rest <= EVERY) {
        return left;
    }
    doing.store(if left.is_some() { WATCHING } else { IDLE }, Ordering::Release);
    // The second round covers what arrived before `doing` was lowered. Anything that arrives later
    // wakes this thread.
    let left = owner.tidy();
    match left {
        Some(rest) => {
            doing.fetch_max(if rest <= EVERY { BUSY } else { WATCHING }, Ordering::AcqRel)
        }
        None => return None,
    };
    left
}
