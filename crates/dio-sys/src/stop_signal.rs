//! Signals that ask the process to stop, when they came and from whom.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use signal_hook::low_level::emulate_default_handler;

/// Nanoseconds after a signal within which others belong to it: timeout(1) sends its signal to the
/// command and at once to the whole group.
const SAME_NANOS: i64 = 100_000_000;

/// The same for a signal that processes send once more: on a busy machine timeout(1) may lose the
/// processor in between.
const SAME_SENT_NANOS: i64 = 1_000_000_000;

/// Whether a stop was asked for by a signal. The first one is noted; one that comes later than a
/// moment after it does what it does by default, which is to end the process.
#[derive(Debug, Default)]
pub struct StopSignal {
    asked: AtomicBool,
    signal: AtomicI32,
    is_sent: AtomicBool,
    /// The time of the first signal, in nanoseconds of the monotonic clock.
    at: AtomicI64,
}

impl StopSignal {
    /// Nothing was asked for.
    #[must_use]
    pub const fn new() -> StopSignal {
        StopSignal {
            asked: AtomicBool::new(false),
            signal: AtomicI32::new(0),
            is_sent: AtomicBool::new(false),
            at: AtomicI64::new(0),
        }
    }

    /// Handles a signal from now on.
    ///
    /// # Errors
    /// The signal cannot be handled.
    pub fn handle(&'static self, signal: i32) -> io::Result<()> {
        // The kernel's own signals have positive codes, those of kill(2) and the like none.
        let action = move |info: &libc::siginfo_t| self.arrived(signal, info.si_code <= 0);
        // SAFETY: the action uses atomic numbers, clock_gettime(2), and a function which is made
        // for handlers.
        unsafe { signal_hook_registry::register_sigaction(signal, action) }.map(drop)
    }

    fn arrived(&self, signal: i32, is_sent: bool) {
        if self.is_second(signal, is_sent, now()) {
            let _ = emulate_default_handler(signal);
        }
    }

    /// Notes the first signal. Returns whether this one is a second one.
    fn is_second(&self, signal: i32, is_sent: bool, now: i64) -> bool {
        if !self.asked() {
            // Another thread may handle the next one when `asked` is set, so that comes last.
            self.signal.store(signal, Ordering::Relaxed);
            self.is_sent.store(is_sent, Ordering::Relaxed);
            self.at.store(now, Ordering::Relaxed);
            self.asked.store(true, Ordering::Release);
            return false;
        }
        let is_repeated = is_sent && self.is_sent() && self.signal() == Some(signal);
        let same = if is_repeated { SAME_SENT_NANOS } else { SAME_NANOS };
        now.saturating_sub(self.at.load(Ordering::Relaxed)) >= same
    }

    /// Asks for a stop, as if `signal` had come from a process, unless one is asked for already.
    pub fn ask(&self, signal: i32) {
        let _ = self.is_second(signal, true, now());
    }

    /// Returns whether a stop was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns the signal that asked.
    pub fn signal(&self) -> Option<i32> {
        self.asked().then(|| self.signal.load(Ordering::Relaxed))
    }

    /// Returns whether a process has sent the signal. Otherwise the kernel has: for Ctrl-C, to all
    /// processes of the terminal.
    pub fn is_sent(&self) -> bool {
        self.asked() && self.is_sent.load(Ordering::Relaxed)
    }

    /// Takes what was asked for as done: the next signal is the first one again.
    pub fn heeded(&self) {
        self.asked.store(false, Ordering::Release);
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_first_signal_is_no_second_one() {
        let (stop, second) = (StopSignal::new(), 1_000_000_000);
        // Another process of a job has been told, and says so before the signal comes here.
        stop.ask(libc::SIGTERM);
        let asked = now();
        assert!(!stop.is_second(libc::SIGTERM, true, asked + second / 2));
        assert!(stop.is_second(libc::SIGTERM, true, asked + 2 * second));
        assert!(stop.is_second(libc::SIGINT, true, asked + second / 2), "another signal");
        assert!(!stop.is_second(libc::SIGINT, false, asked + second / 20));
        stop.ask(libc::SIGHUP);
        assert_eq!(stop.signal(), Some(libc::SIGTERM), "the first one counts");
    }

    #[test]
    fn the_first_signal_is_noted_with_its_sender() {
        static STOP: StopSignal = StopSignal::new();
        // By default it is ignored, so the test survives a second one.
        STOP.handle(libc::SIGURG).unwrap();
        assert_eq!((STOP.signal(), STOP.is_sent()), (None, false));
        let send = || {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::URG)
        };
        send().unwrap();
        while !STOP.asked() {
            std::thread::yield_now();
        }
        assert_eq!((STOP.signal(), STOP.is_sent()), (Some(libc::SIGURG), true));
        STOP.heeded();
        assert_eq!(STOP.signal(), None);
        STOP.arrived(libc::SIGWINCH, false);
        assert_eq!((STOP.signal(), STOP.is_sent()), (Some(libc::SIGWINCH), false));
        STOP.arrived(libc::SIGURG, true);
        assert_eq!(STOP.signal(), Some(libc::SIGWINCH), "the first one counts");
    }
}
