//! Threads of this process that answer requests. One that made a request itself, of any mount that this process serves, would wait
//! for an answer that is its own to give: a name that leads back into a mount takes all threads that way, one after the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The bit of each thread that answers, or has answered: most callers are told from them at a glance.
static GLANCE: AtomicU64 = AtomicU64::new(0);

static THREADS: RwLock<Vec<u32>> = RwLock::new(Vec::new());

thread_local!(static OWN: Answering = Answering::begin());

/// This thread answers, until it ends.
struct Answering(u32);

impl Answering {
    fn begin() -> Answering {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        THREADS.write().unwrap_or_else(PoisonError::into_inner).push(thread);
        GLANCE.fetch_or(bit(thread), Ordering::Relaxed);
        Answering(thread)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        THREADS.write().unwrap_or_else(PoisonError::into_inner).retain(|thread| *thread != self.0);
    }
}

fn bit(thread: u32) -> u64 {
    1 << (thread % 64)
}

/// Counts the calling thread among those that answer.
pub(crate) fn answers() {
    OWN.with(|_| ());
}

/// Whether the caller of a request, by the number of its thread, is one of those that answer.
pub(crate) fn is_answering(caller: u32) -> bool {
    GLANCE.load(Ordering::Relaxed) & bit(caller) != 0
        && THREADS.read().unwrap_or_else(PoisonError::into_inner).contains(&caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_answers_until_it_ends() {
        let answering = std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            assert!(!is_answering(own));
            answers();
            answers();
            assert!(is_answering(own) && !is_answering(u32::MAX - 63 + own % 64));
            own
        });
        assert!(!is_answering(answering.join().unwrap()));
        assert!(!is_answering(0));
    }
}
