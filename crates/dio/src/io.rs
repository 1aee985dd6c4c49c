//! What the files of a process share: the choice of an engine, engines to borrow, bounce memory and
//! limits.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::block::Pool;
use crate::drive::{self, Driver, Finished, Request};
use crate::engine::{Engine, EngineKind, Selection, SelectionError};

/// The limits on memory and on requests in flight, all in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Operations in flight in one borrowed engine.
    pub depth: usize,
    /// Largest single request in bytes. Larger ones are split. It is rounded down to whole blocks
    /// of a file, but at least to one.
    pub request: usize,
    /// Size of a bounce block in bytes, rounded up to a page. A file whose blocks are larger cannot
    /// be opened.
    pub bounce_block: usize,
    /// Number of bounce blocks, which all files of the [`Io`] share.
    pub bounce_blocks: usize,
    /// Idle engines that are kept for later use.
    pub idle_engines: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            depth: 32,
            request: 1 << 20,
            bounce_block: 64 << 10,
            bounce_blocks: 512,
            idle_engines: 16,
        }
    }
}

/// Why there is no [`Io`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// `DIO_ENGINE` asks for an engine that cannot be had.
    #[error(transparent)]
    Engine(#[from] SelectionError),
    /// There is no memory for bounce blocks.
    #[error("cannot map {bytes} bytes of bounce memory: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What `mmap(2)` answered.
        source: std::io::Error,
    },
}

/// Makes an engine of a given depth. The flag says that only the calling thread will use it.
type EngineFactory = dyn Fn(usize, bool) -> Box<dyn Engine> + Send + Sync;

/// The I/O of a process. Files that are opened through the same `Io` share its engines and its
/// memory. Cheap to clone.
///
/// ```no_run
/// use dio::{Io, Limits, OpenOptions};
///
/// let limits = Limits { request: 4 << 20, ..Limits::default() };
/// let io = Io::new(limits)?;
/// println!("the engine is {}", io.engine_name());
/// let file = OpenOptions::new().read(true).io(&io).open("data")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Io {
    shared: Arc<IoShared>,
}

struct IoShared {
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

    /// A second `Io` of the process, made at first use, whose requests run on threads. It never
    /// tries io_uring: the kernel interrupts system calls of a thread that has made a ring, even
    /// after the ring is closed.
    ///
    /// # Errors
    /// [`IoError::Memory`].
    pub fn on_threads() -> Result<Io, IoError> {
        static THREADS: OnceLock<Io> = OnceLock::new();
        if let Some(io) = THREADS.get() {
            return Ok(io.clone());
        }
        let selection = Selection { kind: EngineKind::Blocking, reason: None };
        let io = Io::with_engine(Limits::default(), selection.name(), move |depth| {
            selection.engine(depth)
        })?;
        Ok(THREADS.get_or_init(|| io).clone())
    }

    /// A separate `Io` with the engine that probing finds.
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
            Box::new(move |depth, alone| {
                if alone {
                    selection.engine_for_this_thread(depth)
                } else {
                    selection.engine(depth)
                }
            }),
        )
    }

    /// A separate `Io` with engines that `make` makes, such as the simulator's.
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
        let bounce = Pool::new(limits.bounce_block, limits.bounce_blocks)
            .map_err(|source| IoError::Memory { bytes, source })?;
        let shared = IoShared {
            engine_name,
            engine_reason,
            make_engine,
            limits,
            bounce,
            idle: Mutex::default(),
        };
        Ok(Io { shared: Arc::new(shared) })
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.shared.engine_name
    }

    /// Why the engine is not io_uring; `None` if it is.
    pub fn engine_reason(&self) -> Option<&str> {
        self.shared.engine_reason.as_deref()
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// An engine of the chosen kind. `alone` says that only the calling thread will use it.
    pub(crate) fn engine(&self, depth: usize, alone: bool) -> Box<dyn Engine> {
        (self.shared.make_engine)(depth, alone)
    }

    /// A driver with a new engine of the chosen kind, for a caller with a depth of its own.
    pub fn driver(&self, depth: usize) -> Driver {
        Driver::new((self.shared.make_engine)(depth, false))
    }

    /// As [`Io::driver`], for a caller that stays in the calling thread.
    pub(crate) fn driver_for_this_thread(&self, depth: usize) -> Driver {
        Driver::new((self.shared.make_engine)(depth, true))
    }

    /// The bounce memory.
    pub(crate) fn bounce(&self) -> &Pool {
        &self.shared.bounce
    }

    /// Runs a request to its end in the calling thread. If it has several parts, an engine runs all
    /// of them at once.
    pub(crate) fn run(&self, request: Request) -> Finished {
        drive::run(request, || self.borrow_driver())
    }

    /// Borrows an idle driver, or makes one.
    pub(crate) fn borrow_driver(&self) -> BorrowedDriver<'_> {
        let idle = self.shared.idle.lock().pop();
        let driver = idle.unwrap_or_else(|| self.driver(self.shared.limits.depth));
        BorrowedDriver { io: self, driver: Some(driver) }
    }
}

/// A borrowed driver. It is kept for later use when dropped, unless operations are stuck in it.
pub(crate) struct BorrowedDriver<'a> {
    io: &'a Io,
    driver: Option<Driver>,
}

impl Deref for BorrowedDriver<'_> {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("a borrowed driver is there until it is dropped")
    }
}

impl DerefMut for BorrowedDriver<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("a borrowed driver is there until it is dropped")
    }
}

impl Drop for BorrowedDriver<'_> {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        let mut idle = self.io.shared.idle.lock();
        if driver.outstanding() == 0 && idle.len() < self.io.shared.limits.idle_engines {
            idle.push(driver);
        }
    }
}
