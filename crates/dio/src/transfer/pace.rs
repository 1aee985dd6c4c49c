//! A limit on bytes per second, which several transfers may share.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most time that an idle transfer may save up: enough for requests to overlap, too little for a
/// noticeable burst.
const SAVED_MAX: Duration = Duration::from_millis(50);

/// A limit on bytes per second. Each byte spent moves the time of the next request. It is shared by
/// reference.
#[derive(Debug)]
pub struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    bytes_per_second: f64,
    next: Instant,
}

impl State {
    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }
}

impl Pace {
    /// A limit of so many bytes per second, at least one.
    pub fn new(bytes_per_second: u64) -> Pace {
        let bytes_per_second = bytes_per_second.max(1) as f64;
        Pace(Mutex::new(State { bytes_per_second, next: Instant::now() }))
    }

    /// Changes the limit, for requests from now on.
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.0.lock().bytes_per_second = bytes_per_second.max(1) as f64;
    }

    /// How long to wait before the next request; `None` if it may start now.
    pub fn pause(&self) -> Option<Duration> {
        let next = self.0.lock().next;
        next.checked_duration_since(Instant::now()).filter(|pause| !pause.is_zero())
    }

    /// Counts the bytes of a request.
    pub fn spend(&self, bytes: u64) {
        self.reserve(bytes);
    }

    /// Counts the bytes of a request, and returns how long to wait before it. Requests of several
    /// threads each get a turn of their own.
    pub fn reserve(&self, bytes: u64) -> Duration {
        let mut state = self.0.lock();
        let now = Instant::now();
        let floor = now.checked_sub(SAVED_MAX).unwrap_or(state.next);
        let turn = state.next.max(floor);
        state.next = turn + state.time_of(bytes);
        turn.saturating_duration_since(now)
    }

    /// Takes back bytes that were counted and not transferred.
    pub fn give_back(&self, bytes: u64) {
        let mut state = self.0.lock();
        state.next = state.next.checked_sub(state.time_of(bytes)).unwrap_or(state.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_gets_its_own_turn() {
        let pace = Pace::new(1000);
        let first = pace.reserve(1000);
        let turns = [pace.reserve(1000), pace.reserve(1000)];
        assert_eq!(first, Duration::ZERO);
        for (turn, seconds) in turns.iter().zip([1.0, 2.0]) {
            // At most `SAVED_MAX` is saved up, and time passes between the calls.
            assert!(turn.as_secs_f64() <= seconds, "{turns:?}");
            assert!(*turn > first, "{turns:?}");
        }
        assert!(turns[1] > turns[0], "{turns:?}");
    }

    #[test]
    fn what_was_not_transferred_is_given_back() {
        let pace = Pace::new(1);
        pace.spend(1 << 20);
        assert!(pace.pause().is_some());
        pace.give_back(1 << 20);
        assert_eq!(pace.pause(), None);
    }

    #[test]
    fn a_new_rate_is_for_later_requests() {
        let pace = Pace::new(1);
        pace.set_rate(u64::MAX);
        pace.spend(1 << 30);
        assert!(pace.pause().is_none_or(|pause| pause < Duration::from_secs(1)));
    }
}
