//! The threads of this process that serve requests.
//!
//! Such a thread must not make requests to a mount that this process serves, because another thread
//! would have to serve them. A path that leads back into the mount would block all threads that
//! way, one after the other.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// One bit for each thread that serves or has served, by its number modulo 64. The bit of most
/// callers is not set, so most requests need not lock `THREADS`.
static THREAD_BITS: AtomicU64 = AtomicU64::new(0);

static THREADS: RwLock<Vec<u32>> = RwLock::new(Vec::new());

thread_local!(static OWN: ServingThread = ServingThread::begin());

/// The registration of a thread, which lasts until the thread ends.
struct ServingThread(u32);

impl ServingThread {
    fn begin() -> ServingThread {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        THREADS.write().push(thread);
        THREAD_BITS.fetch_or(bit(thread), Ordering::Relaxed);
        ServingThread(thread)
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        THREADS.write().retain(|thread| *thread != self.0);
    }
}

fn bit(thread: u32) -> u64 {
    1 << (thread % 64)
}

/// Registers the calling thread as one that serves requests.
pub(crate) fn register_thread() {
    OWN.with(|_| ());
}

/// Whether `caller`, the number of the thread that made a request, is itself a thread that serves
/// requests.
pub(crate) fn is_serving(caller: u32) -> bool {
    THREAD_BITS.load(Ordering::Relaxed) & bit(caller) != 0 && THREADS.read().contains(&caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_answers_until_it_ends() {
        let answering = std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            assert!(!is_serving(own));
            register_thread();
            register_thread();
            assert!(is_serving(own) && !is_serving(u32::MAX - 63 + own % 64));
            own
        });
        assert!(!is_serving(answering.join().unwrap()));
        assert!(!is_serving(0));
    }
}
