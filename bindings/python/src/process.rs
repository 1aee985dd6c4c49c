//! The parts that each process has of its own: the engines,
//! and the thread that finishes writes behind.
//!
//! `fork(2)` copies the memory of the thread that calls it. The child has the parent's descriptors
//! of rings, which it must not use, and none of its threads. So everything here belongs to a
//! process by its number: the child of a fork finds none of it and makes its own. It takes no lock
//! for that, because another thread of the parent may have held it.

use std::sync::OnceLock;

use dio::{Io, Limits};
use pyo3::PyErr;
use pyo3::exceptions::PyOSError;

use crate::idle::IdleWriters;

/// The parts that a process has of its own.
pub(crate) struct Process {
    id: u32,
    io: OnceLock<Result<Io, String>>,
    /// Handles with writes in flight.
    pub(crate) idle: IdleWriters,
    /// The child that this process was when it forked.
    next: OnceLock<Box<Process>>,
}

impl Process {
    fn new(id: u32) -> Process {
        Process { id, io: OnceLock::new(), idle: IdleWriters::default(), next: OnceLock::new() }
    }

    /// The process that runs.
    pub(crate) fn current() -> &'static Process {
        static FIRST: OnceLock<Process> = OnceLock::new();
        let id = dio_sys::process_id();
        let mut process = FIRST.get_or_init(|| Process::new(id));
        while process.id != id {
            process = process.next.get_or_init(|| Box::new(Process::new(id)));
        }
        process
    }

    /// The shared I/O of the process.
    ///
    /// # Errors
    /// `OSError` if there is no engine or no memory.
    pub(crate) fn io(&self) -> Result<Io, PyErr> {
        let made = self.io.get_or_init(|| {
            // A child of a fork must not borrow the engines of its parent.
            Io::new(Limits::default()).map_err(|error| error.to_string())
        });
        made.clone().map_err(PyOSError::new_err)
    }
}
