//! What the modules of this folder know of what holds the bytes of a file.

use std::sync::Arc;

use super::counters::Reason;
use super::residue::Residue;
use crate::engine::{Medium, OsMedium};

/// What the other modules need to know about the backing. Asked for once, when the file is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackingTraits {
    /// Most objects that a request may be split over; 1 for an ordinary file, and for a striped
    /// file of one object.
    pub(super) objects: usize,
    /// Bytes that lie in one object before the next object continues the file; `u64::MAX` for an
    /// ordinary file.
    pub(super) stripe: u64,
    /// Each object ends by itself. So the file is made longer piece by piece, and a gap before a
    /// write is filled first: at no moment does the file hold a gap.
    pub(super) ordered_growth: bool,
    /// Growing the file writes zeros. A caller that writes all of it should not grow it first.
    pub(super) zeroed_growth: bool,
    /// The cure for a lack of space, if it is not the usual one.
    pub(super) space_cure: Option<&'static str>,
}

impl BackingTraits {
    /// A striped file may consist of one object only.
    pub(super) fn is_striped(&self) -> bool {
        self.stripe < u64::MAX
    }
}

/// A file of the system, or a simulated one.
#[derive(Debug)]
pub(super) struct SingleFile {
    pub(super) medium: Arc<dyn Medium>,
    /// The system's file under `medium`; `None` for a simulated file. Needed for everything that
    /// concerns the page cache.
    pub(super) os: Option<Arc<OsMedium>>,
    /// Why everything is uncached although the mode asks for direct I/O.
    pub(super) refusal: Option<Reason>,
    pub(super) residue: Residue,
}
