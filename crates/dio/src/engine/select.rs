//! Choosing an engine by trying, and saying why.

use super::{Blocking, Engine, Uring, UringError};

/// The engines for real files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// [`Uring`].
    Uring,
    /// [`Blocking`].
    Blocking,
}

/// The environment variable that forces an engine.
pub(super) const ENGINE_VARIABLE: &str = "DIO_ENGINE";

/// What was chosen.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The engine.
    pub kind: EngineKind,
    /// Why it is not io_uring, when that was not asked for.
    pub reason: Option<String>,
}

/// An engine was asked for that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The name is none we know.
    #[error("{ENGINE_VARIABLE}={0}: no such engine; use uring or blocking")]
    Unknown(String),
    /// It was forced, but the system refuses.
    #[error("{ENGINE_VARIABLE}=uring: {0}")]
    Refused(#[from] UringError),
}

impl Selection {
    /// Follows `DIO_ENGINE`, else tries io_uring and falls back to the blocking pool.
    ///
    /// # Errors
    /// [`SelectionError`] when the variable asks for what cannot be had.
    pub fn probe() -> Result<Selection, SelectionError> {
        let forced = std::env::var(ENGINE_VARIABLE).unwrap_or_default();
        match forced.as_str() {
            "" => Ok(match Uring::check_workers() {
                Ok(()) => Selection { kind: EngineKind::Uring, reason: None },
                Err(error) => Selection { kind: EngineKind::Blocking, reason: Some(error.to_string()) },
            }),
            "uring" => {
                Uring::check_workers()?;
                Ok(Selection { kind: EngineKind::Uring, reason: None })
            }
            "blocking" => {
                let reason = Some(format!("{ENGINE_VARIABLE}=blocking asks for it"));
                Ok(Selection { kind: EngineKind::Blocking, reason })
            }
            _ => Err(SelectionError::Unknown(forced)),
        }
    }

    /// The engine's name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            EngineKind::Uring => "uring",
            EngineKind::Blocking => "blocking",
        }
    }

    /// Makes an engine of the chosen kind. A ring that was possible when probed may be refused later (descriptors or
    /// locked memory run out): then this one engine is a pool of threads, with the same results. One whose worker threads are
    /// refused later has its calling thread do their work.
    pub fn engine(&self, depth: usize) -> Box<dyn Engine> {
        self.or_threads(depth, Uring::new)
    }

    /// As [`Selection::engine`], for the calling thread alone: it must not be used, nor dropped, by another.
    pub(crate) fn engine_for_this_thread(&self, depth: usize) -> Box<dyn Engine> {
        self.or_threads(depth, Uring::for_this_thread)
    }

    fn or_threads(&self, depth: usize, ring: impl Fn(usize) -> Result<Uring, UringError>) -> Box<dyn Engine> {
        if self.kind == EngineKind::Uring
            && let Ok(ring) = ring(depth)
        {
            return Box::new(ring);
        }
        Box::new(Blocking::new(depth.min(MOST_SERVERS)))
    }
}

/// Most threads of one blocking engine: past this the disk is busy and more only cost memory.
const MOST_SERVERS: usize = 64;
