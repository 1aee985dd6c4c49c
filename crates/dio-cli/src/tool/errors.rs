//! Errors of streams, and of the library behind them, as a tool reports them.

use std::io;

use dio::FileError;
use dio_sys::start::pipes_were_ignored;
use rustix::io::Errno;

use super::messages;
use crate::grammar::called_as;

/// Prints the details of errors in striped files, where the messages of this run have so far only
/// named the error number.
pub(crate) fn tell_reasons(command: &str) {
    for error in dio::names::take_details() {
        messages::say(format!("{}: {error}\n", called_as(command)));
    }
}

/// Prints the directories whose defaults were not applied, with the reasons; returns whether there
/// were any.
pub(crate) fn tell_unfollowed(command: &str) -> bool {
    let unfollowed = dio::names::take_ignored_defaults();
    for error in &unfollowed {
        messages::say(format!("{}: {error}\n", called_as(command)));
    }
    !unfollowed.is_empty()
}

/// Ends the process by SIGPIPE if the error is a closed pipe, as for every tool that writes into
/// one, unless SIGPIPE was ignored when the process started. Returns for every other error.
pub(crate) fn die_of_a_closed_pipe(errno: Errno) {
    if errno == Errno::PIPE && !pipes_were_ignored() {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    }
}

/// Returns the library's error inside an error of the standard library.
pub(super) fn file_error(error: &io::Error) -> Option<&FileError> {
    error.get_ref()?.downcast_ref()
}

/// Returns the error number of a stream error. Details beyond the number are printed when the run
/// ends (`tell_reasons`).
pub fn errno_of(error: &io::Error) -> Errno {
    file_error(error)
        .map(dio::names::errno_of)
        .or_else(|| Errno::from_io_error(error))
        .unwrap_or(Errno::IO)
}
