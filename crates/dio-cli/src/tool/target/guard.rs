//! Handles signals that end the process while a file is being written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use dio::names;
use dio::names::FileId;
use parking_lot::Mutex;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::stop;

/// Removes an incomplete file when a signal ends the process, and delays signals while the file
/// gets its name.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The incomplete file to remove.
    partial: Arc<Mutex<Option<Partial>>>,
    watched: bool,
}

#[derive(Debug)]
pub(super) enum Partial {
    /// The path of a new file, and the file's identity.
    New(PathBuf, FileId),
    /// The path of a temporary name.
    Temporary(PathBuf),
}

impl Guard {
    /// Starts to watch for signals.
    pub(super) fn of(partial: Option<Partial>) -> Guard {
        // Without a name to remove there is nothing to do before the end, so no descriptors are
        // spent on it.
        let watched = partial.is_some();
        let guard = Guard { partial: Arc::new(Mutex::new(partial)), watched };
        if watched {
            // If watching fails, a signal may leave a part of the output. That is no reason to fail
            // now.
            let _ = guard.watch();
        }
        guard
    }

    fn watch(&self) -> io::Result<()> {
        let mut signals = Signals::new([] as [i32; 0])?;
        let (partial, handle) = (Arc::clone(&self.partial), signals.handle());
        // The thread starts first: a signal that is caught without a thread to handle it would not
        // end the process.
        thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // The lock is held until the process ends, so that the file cannot be completed
                // meanwhile.
                let partial = partial.lock();
                match &*partial {
                    Some(Partial::New(path, made)) => remove_if(path, *made),
                    Some(Partial::Temporary(path)) => drop(names::unlink(path)),
                    None => {}
                }
                let _ = low_level::emulate_default_handler(signal);
            }
        })?;
        stop::that_end().try_for_each(|signal| handle.add_signal(signal))
    }

    /// Runs `last`, after which nothing has to be removed. A signal that arrives meanwhile ends the
    /// process afterwards.
    pub(crate) fn finally<T>(&self, last: impl FnOnce() -> T) -> T {
        if !self.watched {
            let _ = self.watch();
        }
        let mut partial = self.partial.lock();
        let done = last();
        *partial = None;
        done
    }
}

/// Removes a name if it still belongs to that file.
pub(crate) fn remove_if(path: &Path, made: FileId) {
    if rustix::fs::lstat(path).is_ok_and(|stat| FileId::of(&stat) == made) {
        // A failure here cannot be handled.
        let _ = names::unlink(path);
    }
}
