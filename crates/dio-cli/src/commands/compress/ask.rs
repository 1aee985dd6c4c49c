//! Questions to the user.

use std::io::{self, BufRead};
use std::os::fd::AsFd;

/// Whether a descriptor is a terminal.
pub(crate) fn terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

/// Reads an answer from standard input: yes if it begins with `y` or `Y`.
pub(crate) fn agreed() -> bool {
    let mut line = Vec::new();
    // An answer that cannot be read is no agreement.
    let _ = io::stdin().lock().read_until(b'\n', &mut line);
    line.first().is_some_and(|first| first.eq_ignore_ascii_case(&b'y'))
}
