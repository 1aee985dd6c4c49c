//! Standard error: a message that cannot be written makes a run fail, as with every tool that ends
//! by gnulib's `close_stdout` (coreutils, tar).

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use dio_sys::start::was_closed;

use crate::quote::as_shown_on;

/// A message of this process could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a message to standard error in one piece.
pub(crate) fn say(text: impl AsRef<[u8]>) {
    if let Ok(text) = std::str::from_utf8(text.as_ref()) {
        dio::names::details_were_printed(text);
    }
    // The standard library has put /dev/null in the place of a closed one.
    let text = as_shown_on(&io::stderr(), text.as_ref());
    if was_closed(2) || io::stderr().lock().write_all(&text).is_err() {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether a message was lost so far.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}
