//! Messages on standard error. If a message cannot be written, the run fails, as for every tool
//! that ends with gnulib's `close_stdout` (coreutils, tar).

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use dio_sys::start::was_closed;

use crate::quote::as_shown_on;

/// Whether a message of this process could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a message to standard error in one piece.
pub(crate) fn say(text: impl AsRef<[u8]>) {
    if let Ok(text) = std::str::from_utf8(text.as_ref()) {
        dio::names::details_were_printed(text);
    }
    // The standard library has replaced a closed descriptor by /dev/null, so writing to it
    // succeeds.
    let text = as_shown_on(&io::stderr(), text.as_ref());
    if was_closed(2) || io::stderr().lock().write_all(&text).is_err() {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Returns whether a message has been lost so far.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}
