//! Chooses an engine by trying, and reports why.

use super::{Blocking, Engine, Uring, UringError};

/// The engines for real files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// [`Uring`].
    Uring,
    /// [`Blocking`].
    Blocking,
}

/// Name of the environment variable that forces an engine.
pub(super) const ENGINE_VARIABLE: &str = "DIO_ENGINE";

/// The engine that was chosen, and why.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The engine.
    pub kind: EngineKind,
    /// Why it is not io_uring, unless `DIO_ENGINE` asked for another engine.
    pub reason: Option<String>,
}

/// `DIO_ENGINE` asks for an engine that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// No engine has this name.
    #[error("{ENGINE_VARIABLE}={0}: no such engine; use uring or blocking")]
    Unknown(String),
    /// The system refuses the engine.
    #[error("{ENGINE_VARIABLE}=uring: {0}")]
    Refused(#[from] UringError),
}

impl Selection {
    /// Obeys `DIO_ENGINE`. Without it, tries io_uring and falls back to the blocking engine.
    ///
    /// # Errors
    /// [`SelectionError`] when the variable asks for an engine that cannot be had.
    pub fn probe() -> Result<Selection, SelectionError> {
        let forced = std::env::var(ENGINE_VARIABLE).unwrap_or_default();
        match forced.as_str() {
            "" => Ok(match Uring::check_workers() {
                Ok(()) => Selection { kind: EngineKind::Uring, reason: None },
                Err(error) => {
                    Selection { kind: EngineKind::Blocking, reason: Some(error.to_string()) }
                }
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

    /// Makes an engine of the chosen kind. The system may refuse a ring later although probing
    /// found one (file descriptors or locked memory run out); this one engine is then a pool of
    /// threads with the same results. If it refuses worker threads later, the thread that uses the
    /// ring does their work.
    pub fn engine(&self, depth: usize) -> Box<dyn Engine> {
        self.or_threads(depth, Uring::new)
    }

    /// As [`Selection::engine`], for the calling thread alone: no other thread may use or drop the
    /// engine.
    pub(crate) fn engine_for_this_thread(&self, depth: usize) -> Box<dyn Engine> {
        self.or_threads(depth, Uring::for_this_thread)
    }

    fn or_threads(
        &self,
        depth: usize,
        ring: impl Fn(usize) -> Result<Uring, UringError>,
    ) -> Box<dyn Engine> {
        if self.kind == EngineKind::Uring
            && let Ok(ring) = ring(depth)
        {
            return Box::new(ring);
        }
        Box::new(Blocking::new(depth.min(THREADS_MAX)))
    }
}

/// Most threads of one blocking engine. With more, the disk is busy already and they only cost
/// memory.
const THREADS_MAX: usize = 64;
