//! Questions to the user.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::stop::Stop;

/// Returns whether a descriptor is a terminal.
pub(crate) fn terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

/// The time between two checks for a request to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads an answer from standard input: yes if it begins with `y` or `Y`. A request to stop counts
/// as a no; so does an answer that cannot be read.
///
/// It reads only one line, because the next line may answer the next question.
pub(crate) fn agreed(stop: Option<&Stop>) -> bool {
    let (input, mut first) = (rustix::stdio::stdin(), None);
    let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as _ };
    loop {
        if stop.is_some_and(Stop::asked) {
            return false;
        }
        let mut byte = [0];
        let ready = poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&pause));
        match ready {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return false,
        }
        match rustix::io::read(input, &mut byte) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(1) if byte[0] != b'\n' => {
                first.get_or_insert(byte[0]);
            }
            Ok(_) | Err(_) => {
                return first.is_some_and(|first: u8| first.eq_ignore_ascii_case(&b'y'));
            }
        }
    }
}
