//! Ctrl-C and its kin: the first asks the command to stop cleanly, the second ends it at once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Whether, and by which signal, the command was asked to stop.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// The process's own; the handlers are installed at the first call.
    pub fn on_signals() -> &'static Stop {
        static STOP: OnceLock<Stop> = OnceLock::new();
        STOP.get_or_init(|| {
            let stop = Stop { asked: Arc::default(), signal: Arc::default() };
            for signal in that_end() {
                // In this order: the second signal finds the flag that the first one set. A signal
                // that cannot be handled keeps its default, which is to end the process.
                let _ = flag::register_conditional_default(signal, Arc::clone(&stop.asked));
                let _ = flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize);
                let _ = flag::register(signal, Arc::clone(&stop.asked));
            }
            stop
        })
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Ends the process by the signal that was caught, so that a shell sees what happened; returns
    /// if there was none.
    pub fn die_if_asked(&self) {
        if self.asked() {
            let _ = low_level::emulate_default_handler(self.signal.load(Ordering::Relaxed) as i32);
        }
    }
}

/// The signals that are to end the process: of Ctrl-C and its kin those that are not ignored, as
/// `nohup`, or a shell that started it in the background, wants some to be.
pub(crate) fn that_end() -> impl Iterator<Item = i32> + Clone {
    let ignored = ignored();
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored & (1 << (signal - 1)) == 0)
}

/// The signals that are ignored, a bit each from signal 1 on (`proc_pid_status(5)`, `SigIgn`); none
/// where /proc is missing.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
