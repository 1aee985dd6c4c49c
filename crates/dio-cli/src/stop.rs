//! Ctrl-C and similar signals: the first requests a clean stop, and one that comes a moment later
//! ends the process.

use dio_sys::stop_signal::StopSignal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

static STOP: Stop = Stop(StopSignal::new());

/// Whether a stop was requested, and by which signal.
#[derive(Debug)]
pub struct Stop(StopSignal);

impl Stop {
    /// Returns the stop state of the process; the first call installs the handlers.
    pub fn on_signals() -> &'static Stop {
        static HANDLED: std::sync::Once = std::sync::Once::new();
        HANDLED.call_once(|| {
            for signal in that_end() {
                // A signal that cannot be handled keeps its default, which ends the process.
                let _ = STOP.0.handle(signal);
            }
        });
        &STOP
    }

    /// Returns whether a stop was requested.
    pub fn asked(&self) -> bool {
        self.0.asked()
    }

    /// Requests a stop, as if `signal` had been caught.
    pub fn ask(&self, signal: i32) {
        self.0.ask(signal);
    }

    /// Returns the signal that requested a stop.
    pub fn signal(&self) -> Option<i32> {
        self.0.signal()
    }

    /// Takes what was asked for as done: the next signal is the first one again.
    pub(crate) fn heeded(&self) {
        self.0.heeded();
    }

    /// Returns the signal that a command which this process runs would not get by itself: Ctrl-C
    /// reaches all processes of the terminal, others only the one that they are sent to.
    pub(crate) fn passed_on(&self) -> Option<i32> {
        self.signal().filter(|signal| *signal != SIGINT || self.0.is_sent())
    }

    /// Ends the process by the signal that was caught, so that a shell gets the right status;
    /// returns if there was none.
    pub fn die_if_asked(&self) {
        if let Some(signal) = self.signal() {
            let _ = low_level::emulate_default_handler(signal);
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
