//! A limit on bytes per second, which several transfers may share.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most time that an idle transfer may save up: enough for requests to overlap, too little for a
/// noticeable burst.
const SAVED_MAX: Duration = Duration::from_millis(50);

/// A limit on bytes per second. Each byte spent moves the time of the next request. It is shared by
/// reference.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: f64,
    next: Mutex<Instant>,
}

impl Pace {
    /// A limit of so many bytes per second, at least one.
    pub fn new(bytes_per_second: u64) -> Pace {
        Pace { bytes_per_second: bytes_per_second.max(1) as f64, next: Mutex::new(Instant::now()) }
    }

    /// How long to wait before the next request; `None` if it may start now.
    pub fn pause(&self) -> Option<Duration> {
        let next = *self.next.lock();
        next.checked_duration_since(Instant::now()).filter(|pause| !pause.is_zero())
    }

    /// Counts the bytes of a request.
    pub fn spend(&self, bytes: u64) {
        let mut next = self.next.lock();
        let floor = Instant::now().checked_sub(SAVED_MAX).unwrap_or(*next);
        *next = (*next).max(floor) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
    }
}
