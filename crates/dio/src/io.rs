//! What the files of a process share: the choice of an engine, engines to borrow, bounce memory and limits.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::block::Pool;
use crate::drive::{self, Driver, Finished, Request};
use crate::engine::{Engine, EngineKind, Selection, SelectionError};

/// Every limit on memory and requests in flight, in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Operations in flight of one borrowed engine.
    pub depth: usize,
    /// Largest single request in bytes; larger ones are split. Rounded down to whole blocks of a file, at least one.
    pub request: usize,
    /// Size of one bounce block in bytes, rounded up to a page. A file whose blocks are larger cannot be opened.
    pub bounce_block: usize,
    /// Number of bounce blocks, shared by all files of the [`Io`].
    pub bounce_blocks: usize,
    /// Engines kept for the next borrower.
    pub idle_engines: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { depth: 32, request: 1 << 20, bounce_block: 64 << 10, bounce_blocks: 512, idle_engines: 16 }
    }
}

/// There is no I/O to be had.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The environment asks for an engine that cannot be had.
    #[error(transparent)]
    Engine(#[from] SelectionError),
    /// No memory for bounce blocks.
    #[error("cannot map {bytes} bytes of bounce memory: {source}")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// What `mmap(2)` answered.
        source: std::io::Error,
    },
}

/// Makes an engine of a depth; the flag says that only the calling thread will use it.
type EngineFactory = dyn Fn(usize, bool) -> Box<dyn Engine> + Send + Sync;

/// The I/O of a process: open files through it to share engines, memory and locks. Cheap to clone.
#[derive(Clone)]
pub struct Io {
    shared: Arc<Shared>,
}

struct Shared {
    engine_name: &'static str,
    engine_reason: Option<String>,
    make_engine: Box<EngineFactory>,
    limits: Limits,
    bounce: Pool,
    idle: Mutex<Vec<Driver>>,
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Io({}, {:?})", self.engine_name(), self.limits())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Io {
    /// The `Io` of the process, made at first use with the default limits.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn shared() -> Result<Io, IoError> {
        static SHARED: OnceLock<Io> = OnceLock::new();
        if let Some(io) = SHARED.get() {
            return Ok(io.clone());
        }
        let io = Io::new(Limits::default())?;
        Ok(SHARED.get_or_init(|| io).clone())
    }

    /// The `Io` of the process whose requests run on threads, made at first use without trying
    /// io_uring: a ring, even one that is closed again, has the kernel interrupt system calls of
    /// the thread that made it.
    ///
    /// # Errors
    /// [`IoError::Memory`].
    pub fn on_threads() -> Result<Io, IoError> {
        static THREADS: OnceLock<Io> = OnceLock::new();
        if let Some(io) = THREADS.get() {
            return Ok(io.clone());
        }
        let selection = Selection { kind: EngineKind::Blocking, reason: None };
        let io = Io::with_engine(Limits::default(), selection.name(), move |depth| selection.engine(depth))?;
        Ok(THREADS.get_or_init(|| io).clone())
    }

    /// An `Io` of its own, with the engine that probing finds.
    ///
    /// # Errors
    /// [`IoError`].
    pub fn new(limits: Limits) -> Result<Io, IoError> {
        let selection = Selection::probe()?;
        let (name, reason) = (selection.name(), selection.reason.clone());
        Io::build(
            limits,
            name,
            reason,
            Box::new(
                move |depth, alone| {
                    if alone { selection.engine_for_this_thread(depth) } else { selection.engine(depth) }
                },
            ),
        )
    }

    /// An `Io` whose engines the caller makes, such as the simulator's.
    ///
    /// # Errors
    /// [`IoError::Memory`].
    pub fn with_engine(
        limits: Limits,
        name: &'static str,
        make: impl Fn(usize) -> Box<dyn Engine> + Send + Sync + 'static,
    ) -> Result<Io, IoError> {
        Io::build(limits, name, None, Box::new(move |depth, _alone| make(depth)))
    }

    fn build(
        limits: Limits,
        engine_name: &'static str,
        engine_reason: Option<String>,
        make_engine: Box<EngineFactory>,
    ) -> Result<Io, IoError> {
        let bytes = limits.bounce_block * limits.bounce_blocks;
        let bounce =
            Pool::new(limits.bounce_block, limits.bounce_blocks).map_err(|source| IoError::Memory { bytes, source })?;
        let shared = Shared { engine_name, engine_reason, make_engine, limits, bounce, idle: Mutex::default() };
        Ok(Io { shared: Arc::new(shared) })
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.shared.engine_name
    }

    /// Why the engine is not io_uring, when it is not.
    pub fn engine_reason(&self) -> Option<&str> {
        self.shared.engine_reason.as_deref()
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// An engine of the chosen kind; `alone` says that only the calling thread will use it.
    pub(crate) fn engine(&self, depth: usize, alone: bool) -> Box<dyn Engine> {
        (self.shared.make_engine)(depth, alone)
    }

    /// A driver over a new engine of the chosen kind, for a user with a depth of its own.
    pub fn driver(&self, depth: usize) -> Driver {
        Driver::new((self.shared.make_engine)(depth, false))
    }

    /// As [`Io::driver`], for a user that stays in the calling thread.
    pub(crate) fn driver_for_this_thread(&self, depth: usize) -> Driver {
        Driver::new((self.shared.make_engine)(depth, true))
    }

    /// The bounce memory.
    pub(crate) fn bounce(&self) -> &Pool {
        &self.shared.bounce
    }

    /// Runs a request to its end: in the calling thread, and where it has several parts, all of them at once by an engine.
    pub(crate) fn run(&self, request: Request) -> Finished {
        drive::run(request, || self.borrow_driver())
    }

    /// Borrows an idle driver, or makes one.
    pub(crate) fn borrow_driver(&self) -> Borrowed<'_> {
        let idle = locked(&self.shared.idle).pop();
        let driver = idle.unwrap_or_else(|| self.driver(self.shared.limits.depth));
        Borrowed { io: self, driver: Some(driver) }
    }
}

/// A driver on loan; goes back when dropped, unless operations are stuck in it.
pub(crate) struct Borrowed<'a> {
    io: &'a Io,
    driver: Option<Driver>,
}

impl Deref for Borrowed<'_> {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("a borrowed driver is there until it is dropped")
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("a borrowed driver is there until it is dropped")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        let mut idle = locked(&self.io.shared.idle);
        if driver.outstanding() == 0 && idle.len() < self.io.shared.limits.idle_engines {
            idle.push(driver);
        }
    }
}
