//! Ctrl-C and similar signals: the first requests a clean stop, the second ends the process at
//! once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Whether a stop was requested, and by which signal.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Returns the stop state of the process; the first call installs the handlers.
    pub fn on_signals() -> &'static Stop {
        static STOP: OnceLock<Stop> = OnceLock::new();
        STOP.get_or_init(|| {
            let stop = Stop { asked: Arc::default(), signal: Arc::default() };
            for signal in that_end() {
                // The order matters: the handler of the second signal checks the flag that the
                // first one set. A signal that cannot be handled keeps its default, which ends the
                // process.
                let _ = flag::register_conditional_default(signal, Arc::clone(&stop.asked));
                let _ = flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize);
                let _ = flag::register(signal, Arc::clone(&stop.asked));
            }
            stop
        })
    }

    /// Returns whether a stop was requested.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Requests a stop, as if `signal` had been caught.
    pub fn ask(&self, signal: i32) {
        self.signal.store(signal as usize, Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Returns the signal that requested a stop.
    pub fn signal(&self) -> Option<i32> {
        self.asked().then(|| self.signal.load(Ordering::Relaxed) as i32)
    }

    /// Takes what was asked for as done: the next signal is the first one again.
    pub(crate) fn heeded(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Returns the signal that a command which this process runs would not get by itself: Ctrl-C
    /// reaches all processes of the terminal, the others only the one that they are sent to.
    pub(crate) fn passed_on(&self) -> Option<i32> {
        let signal = self.signal.load(Ordering::Relaxed) as i32;
        (self.asked() && signal != SIGINT).then_some(signal)
    }

    /// Ends the process by the signal that was caught, so that a shell gets the right status;
    /// returns if there was none.
    pub fn die_if_asked(&self) {
        if self.asked() {
            let _ = low_level::emulate_default_handler(self.signal.load(Ordering::Relaxed) as i32);
        }
    }
}

/// Returns the signals that end the process: those of SIGINT, SIGTERM and SIGHUP that are not
/// ignored. `nohup`, or a shell that starts the process in the background, sets some to be ignored.
pub(crate) fn that_end() -> impl Iterator<Item = i32> + Clone {
    let ignored = ignored();
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored & (1 << (signal - 1)) == 0)
}

/// Returns the ignored signals, one bit each from signal 1 on (`proc_pid_status(5)`, `SigIgn`);
/// none if /proc is not mounted.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
