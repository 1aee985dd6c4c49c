//! A model of when a disk answers. It has no clock: the caller passes the time.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The performance of a modelled disk.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Timing {
    /// Shortest time from the arrival of a request to its answer, in seconds.
    pub service_seconds: f64,
    /// Bytes that it can read per second.
    pub read_bytes_per_second: u64,
    /// Bytes that it can write per second, at the same time.
    pub write_bytes_per_second: u64,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
}

/// The state of one disk: a channel for each direction, whose requests queue.
///
/// A request enters its channel when all earlier requests have left it, and occupies it for a time
/// proportional to its bytes. It is answered when it leaves the channel, but not before the service
/// time has passed since its arrival. The service times of queued requests overlap, as in a disk
/// with a command queue, and unlike in a disk whose arm must move for each request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    timing: Timing,
    /// The times at which the channels will have finished all accepted requests.
    free: [Instant; 2],
}

impl Channels {
    /// Creates an idle disk.
    pub(super) fn new(timing: Timing, now: Instant) -> Channels {
        Channels { timing, free: [now; 2] }
    }

    /// The time at which a request that arrives now is answered.
    pub(super) fn transfer(&mut self, now: Instant, way: Direction, bytes: u64) -> Instant {
        let (channel, speed) = match way {
            Direction::Read => (0, self.timing.read_bytes_per_second),
            Direction::Write => (1, self.timing.write_bytes_per_second),
        };
        let through = self.free[channel].max(now)
            + Duration::from_secs_f64(bytes as f64 / speed.max(1) as f64);
        self.free[channel] = through;
        through.max(now + self.service())
    }

    /// The time at which a flush that arrives now is answered: after all earlier writes.
    pub(super) fn flush(&self, now: Instant) -> Instant {
        self.free[1].max(now) + self.service()
    }

    /// Forgets all accepted requests, so that the disk is idle from `now` on. Returns `now`, at
    /// which a request without any delay is answered.
    pub(super) fn forget(&mut self, now: Instant) -> Instant {
        self.free = [now; 2];
        now
    }

    fn service(&self) -> Duration {
        Duration::from_secs_f64(self.timing.service_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk(now: Instant) -> Channels {
        let timing = Timing {
            service_seconds: 0.010,
            read_bytes_per_second: 100 * MIB,
            write_bytes_per_second: 50 * MIB,
        };
        Channels::new(timing, now)
    }

    fn millis(later: Instant, now: Instant) -> u128 {
        (later - now + Duration::from_micros(1)).as_millis()
    }

    #[test]
    fn a_request_takes_the_service_time_or_that_of_its_bytes() {
        let now = Instant::now();
        assert_eq!(millis(disk(now).transfer(now, Direction::Read, 4096), now), 10);
        assert_eq!(millis(disk(now).transfer(now, Direction::Read, 8 * MIB), now), 80);
        assert_eq!(millis(disk(now).transfer(now, Direction::Write, 8 * MIB), now), 160);
    }

    #[test]
    fn requests_of_one_direction_queue_and_share_the_service_time() {
        let now = Instant::now();
        let mut disk = disk(now);
        let last = (0..4).map(|_| disk.transfer(now, Direction::Read, 2 * MIB)).last().unwrap();
        assert_eq!(millis(last, now), 80, "the channel is never idle in between");
        assert_eq!(
            millis(disk.transfer(now, Direction::Write, MIB), now),
            20,
            "the other direction is free"
        );
        assert_eq!(millis(disk.flush(now), now), 30);
        // An idle channel accumulates no credit.
        let later = now + Duration::from_secs(1);
        assert_eq!(millis(disk.transfer(later, Direction::Read, 2 * MIB), later), 20);
    }
}
