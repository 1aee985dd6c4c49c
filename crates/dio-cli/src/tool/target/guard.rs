//! Signals that end the process while a file is being written.

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

/// Takes a file away that is not whole when a signal ends the process, and lets a signal wait while
/// the file gets its name.
#[derive(Debug)]
pub(crate) struct Guard {
    /// What is removed, as long as it is not whole.
    partial: Arc<Mutex<Option<Partial>>>,
    watched: bool,
}

#[derive(Debug)]
pub(super) enum Partial {
    /// The name of a new file.
    New(PathBuf, FileId),
    /// A temporary name.
    Temporary(PathBuf),
}

impl Guard {
    /// From now on.
    pub(super) fn of(partial: Option<Partial>) -> Guard {
        // Without a name to remove there is nothing to do before the end: no descriptors are spent
        // on it.
        let watched = partial.is_some();
        let guard = Guard { partial: Arc::new(Mutex::new(partial)), watched };
        if watched {
            // Without it, a signal may leave a part of the output; that is no reason to fail now.
            let _ = guard.watch();
        }
        guard
    }

    fn watch(&self) -> io::Result<()> {
        let mut signals = Signals::new([] as [i32; 0])?;
        let (partial, handle) = (Arc::clone(&self.partial), signals.handle());
        // First the thread: a signal that nobody waits for would end nothing.
        thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Held until the process ends, so that the file does not become whole meanwhile.
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

    /// Does `last`, after which nothing has to be removed. A signal that comes meanwhile ends the
    /// process behind it.
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

/// Removes a name if it is still that of the file.
pub(super) fn remove_if(path: &Path, made: FileId) {
    if rustix::fs::lstat(path).is_ok_and(|stat| FileId::of(&stat) == made) {
        // It cannot be helped.
        let _ = names::unlink(path);
    }
}
