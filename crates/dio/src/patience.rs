//! The one loop for locks of the system that others hold for a moment only.

use std::time::{Duration, Instant};

use rustix::io::Errno;

/// The first and the longest sleep between two attempts.
const SLEEPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// Takes a lock, a lease or a device. Calls `take` again while it answers EAGAIN or EBUSY, which
/// say that somebody else has it, for as long as `patience`.
///
/// # Errors
/// What the last call of `take` answers.
pub fn take_within<T>(
    patience: Duration,
    mut take: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let (start, (mut sleep, longest)) = (Instant::now(), SLEEPS);
    loop {
        match take() {
            Err(Errno::AGAIN | Errno::BUSY) if start.elapsed() < patience => {
                std::thread::sleep(sleep);
                sleep = (sleep * 2).min(longest);
            }
            other => return other,
        }
    }
}
