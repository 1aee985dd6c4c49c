//! What errors of streams, and of the library behind them, are for a tool.

use std::io;

use dio::FileError;
use dio_sys::start::pipes_were_ignored;
use rustix::io::Errno;

use super::said;
use crate::grammar::called_as;

/// Says which objects of striped files were wrong, as far as messages of this run have only told
/// the number of the error.
pub(crate) fn tell_reasons(command: &str) {
    for error in dio::names::take_details() {
        said::say(format!("{}: {error}\n", called_as(command)));
    }
}

/// Says which directories' defaults were not followed, and why; whether there were any.
pub(crate) fn tell_unfollowed(command: &str) -> bool {
    let unfollowed = dio::names::take_ignored_defaults();
    for error in &unfollowed {
        said::say(format!("{}: {error}\n", called_as(command)));
    }
    !unfollowed.is_empty()
}

/// A closed pipe ends the process by SIGPIPE, as every tool that writes into one, unless whoever
/// started it ignores that signal; returns for everything else.
pub(crate) fn die_of_a_closed_pipe(errno: Errno) {
    if errno == Errno::PIPE && !pipes_were_ignored() {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    }
}

/// The library's error inside one of the standard library.
pub(super) fn file_error(error: &io::Error) -> Option<&FileError> {
    error.get_ref()?.downcast_ref()
}

/// The error number behind an error of a stream. What the error says beyond that is told when the
/// run ends (`tell_reasons`).
pub fn errno_of(error: &io::Error) -> Errno {
    file_error(error).map(dio::names::errno_of).or_else(|| Errno::from_io_error(error)).unwrap_or(Errno::IO)
}
