//! Finishes writes behind of handles that pause.
//!
//! Blocks in flight keep others out of their part of the file until their writer has looked at what
//! became of them, which it does in its next call. A program that writes and then does something
//! else would make others wait, or itself, through another handle. So one thread looks at all
//! handles with blocks in flight every few milliseconds, and finishes those of the handles that
//! have not been used meanwhile.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::handle::Handle;

/// How long a handle may pause before its blocks in flight are finished for it.
const PAUSE: Duration = Duration::from_millis(4);

/// The handles with writes in flight.
#[derive(Clone, Default)]
pub(crate) struct IdleWriters {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Default)]
struct State {
    handles: Vec<Weak<Handle>>,
    running: bool,
}

impl IdleWriters {
    /// Adds a handle that has blocks in flight and is not watched yet. If there can be no thread,
    /// the answer is false, and the caller must finish the blocks itself.
    pub(crate) fn watch(&self, handle: &Arc<Handle>) -> bool {
        let mut state = self.shared.state.lock();
        state.handles.push(Arc::downgrade(handle));
        if !state.running {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("dio-behind".into());
            state.running = thread.spawn(move || shared.run()).is_ok();
            if !state.running {
                state.handles.pop();
                return false;
            }
        }
        self.shared.added.notify_one();
        true
    }
}

impl Shared {
    /// Runs until the process ends.
    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            while state.handles.is_empty() {
                self.added.wait(&mut state);
            }
            drop(state);
            std::thread::sleep(PAUSE);
            let handles = std::mem::take(&mut self.state.lock().handles);
            let kept: Vec<Weak<Handle>> = handles
                .into_iter()
                .filter(|handle| handle.upgrade().is_some_and(|handle| handle.is_in_flight()))
                .collect();
            self.state.lock().handles.extend(kept);
        }
    }
}
