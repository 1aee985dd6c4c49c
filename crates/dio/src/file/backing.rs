//! What holds the bytes of a file: one medium, or the objects of a striped file.
//!
//! Of this layer, this module alone tells the two apart. The other modules learn what they need
//! from [`BackingTraits`].

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use super::counters::{Class, Counters, Reason};
use super::residue::Residue;
use super::{File, FileError, Mode};
use crate::drive::{RequestTarget, StripedMedium};
use crate::engine::{Medium, OpKind, OsMedium, Route};
use crate::layout::Layout;

/// The objects of a striped file. Each is a [`File`], opened as the striped file is. The locks of a
/// request are those of the striped file; an object's own locks only protect its bookkeeping.
pub(crate) trait StripedObjects: StripedMedium {
    /// The objects, in the order of the layout.
    fn objects(&self) -> &[File];

    /// The file descriptor of the file that has the name; `None` for a file of the tests.
    fn named_file(&self) -> Option<BorrowedFd<'_>>;

    /// Whether growing writes zeros, as it does on block devices, which hold old bytes.
    fn zeroes_growth(&self) -> bool;

    /// Size in bytes.
    ///
    /// # Errors
    /// Those of the objects. Here and below, each error names its object.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size. A smaller size cuts the file off; a larger one adds a hole.
    ///
    /// # Errors
    /// Those of the objects.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// As [`Medium::allocate`].
    ///
    /// # Errors
    /// Those of the objects.
    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()>;

    /// As [`Medium::punch`].
    ///
    /// # Errors
    /// Those of the objects.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;

    /// Extends the file by a hole to at least `size` bytes, because something is about to be
    /// written there. It never shortens the file. The caller keeps out all writes before `size`.
    ///
    /// # Errors
    /// Those of the objects.
    fn extend_to(&self, size: u64) -> io::Result<()>;

    /// Requests to the objects so far, apart from those that opened them.
    fn requests(&self) -> Counters;

    /// Whether some objects hold bytes behind the end of the file.
    ///
    /// # Errors
    /// Those of the objects.
    fn has_surplus(&self) -> io::Result<bool>;

    /// The lengths of the objects before a sync, if they are to be recorded as durable after it.
    fn lengths_before_sync(&self) -> Option<Vec<u64>>;

    /// Records after a sync that so much of each object is durable.
    fn record_durable(&self, lengths: &[u64]);
}

/// What the other modules need to know about the backing. Asked for once, when the file is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackingTraits {
    /// Most objects that a request may be split over; 1 for an ordinary file, and for a striped file of one object.
    pub(super) objects: usize,
    /// Bytes that lie in one object before the next object continues the file; `u64::MAX` for an
    /// ordinary file.
    pub(super) stripe: u64,
    /// Each object ends by itself. So the file is made longer piece by piece, and a gap before a
    /// write is filled first: at no moment does the file hold a gap.
    pub(super) ordered_growth: bool,
    /// Growing the file writes zeros. A caller that writes all of it should not grow it first.
    pub(super) zeroed_growth: bool,
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

/// What holds the bytes of a file.
#[derive(Debug)]
pub(super) enum Backing {
    Single(SingleFile),
    Striped(Arc<dyn StripedObjects>),
}

impl Backing {
    pub(super) fn traits(&self) -> BackingTraits {
        match self {
            Backing::Single(_) => {
                BackingTraits { objects: 1, stripe: u64::MAX, ordered_growth: false, zeroed_growth: false }
            }
            Backing::Striped(striped) => BackingTraits {
                objects: striped.layout().objects(),
                stripe: striped.layout().stripe(),
                ordered_growth: true,
                zeroed_growth: striped.zeroes_growth(),
            },
        }
    }

    /// The target of requests to the file.
    pub(super) fn target(&self) -> RequestTarget {
        match self {
            Backing::Single(single) => RequestTarget::Medium(Arc::clone(&single.medium)),
            Backing::Striped(striped) => RequestTarget::Striped(Arc::clone(striped) as Arc<dyn StripedMedium>),
        }
    }

    pub(super) fn single(&self) -> Option<&SingleFile> {
        match self {
            Backing::Single(single) => Some(single),
            Backing::Striped(_) => None,
        }
    }

    /// The system's file that holds the bytes; `None` for a simulated and for a striped file.
    pub(super) fn os(&self) -> Option<&Arc<OsMedium>> {
        self.single().and_then(|single| single.os.as_ref())
    }

    pub(super) fn layout(&self) -> Option<&Layout> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => Some(striped.layout()),
        }
    }

    /// The objects of a striped file.
    pub(super) fn objects(&self) -> Option<&[File]> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => Some(striped.objects()),
        }
    }

    /// The file descriptor for questions to the system about the file.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Backing::Single(single) => single.os.as_ref().map(|os| os.any()),
            Backing::Striped(striped) => striped.named_file(),
        }
    }

    /// The object of a striped file that holds a byte.
    pub(super) fn holder(&self, position: u64) -> Option<&Path> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => Some(striped.objects()[striped.layout().locate(position).object].path()),
        }
    }

    /// Whether direct I/O was refused, for a striped file by all objects.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Backing::Single(single) => single.refusal.is_some(),
            Backing::Striped(striped) => striped.objects().iter().all(|object| object.backing.is_refused()),
        }
    }

    /// How reads, or writes, travel now. For a striped file, how they travel to the object that is
    /// furthest from direct.
    pub(super) fn class(&self, mode: Mode, kind: OpKind) -> (Class, Option<Reason>) {
        match (self, mode) {
            (_, Mode::Cached) => (Class::Cached, None),
            (_, Mode::Uncached) => (Class::Uncached, None),
            (Backing::Single(single), _) if single.refusal.is_some() => (Class::Uncached, single.refusal),
            (Backing::Single(single), _) if single.residue.trial(kind).is_buffered() => {
                (Class::Uncached, Some(Reason::KernelBuffers))
            }
            (Backing::Single(_), _) => (Class::Direct, None),
            (Backing::Striped(striped), _) => {
                let classes = striped.objects().iter().map(|object| object.backing.class(mode, kind));
                classes.max_by_key(|(class, _)| *class as usize).expect("there is at least one object")
            }
        }
    }

    /// Whether requests are counted where they are made. Otherwise the objects count them.
    pub(super) fn counts_requests(&self) -> bool {
        matches!(self, Backing::Single(_))
    }

    /// Requests that the objects have counted.
    pub(super) fn requests(&self) -> Counters {
        match self {
            Backing::Single(_) => Counters::default(),
            Backing::Striped(striped) => striped.requests(),
        }
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        match self {
            Backing::Single(single) => single.medium.size(),
            Backing::Striped(striped) => striped.size(),
        }
    }

    pub(super) fn set_size(&self, size: u64) -> io::Result<()> {
        match self {
            Backing::Single(single) => single.medium.set_size(size),
            Backing::Striped(striped) => striped.set_size(size),
        }
    }

    pub(super) fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        match self {
            Backing::Single(single) => single.medium.allocate(range, extend),
            Backing::Striped(striped) => striped.allocate(range, extend),
        }
    }

    pub(super) fn punch(&self, range: Range<u64>) -> io::Result<()> {
        match self {
            Backing::Single(single) => single.medium.punch(range),
            Backing::Striped(striped) => striped.punch(range),
        }
    }

    /// Extends the file to at least `size`, because something is about to be written there. A file
    /// that is not striped needs no extending first.
    pub(super) fn extend_to(&self, size: u64) -> io::Result<()> {
        match self {
            Backing::Single(_) => Ok(()),
            Backing::Striped(striped) => striped.extend_to(size),
        }
    }

    /// Whether a failed write beyond the end may have left bytes that must not become part of the
    /// file.
    pub(super) fn may_have_surplus(&self) -> bool {
        match self {
            Backing::Single(_) => true,
            Backing::Striped(striped) => striped.has_surplus().unwrap_or(true),
        }
    }

    /// The lengths that [`Backing::record_durable`] needs after a sync.
    pub(super) fn lengths_before_sync(&self) -> Option<Vec<u64>> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => striped.lengths_before_sync(),
        }
    }

    pub(super) fn record_durable(&self, lengths: Option<&[u64]>) {
        if let (Backing::Striped(striped), Some(lengths)) = (self, lengths) {
            striped.record_durable(lengths);
        }
    }

    /// Makes all disks of a striped file write back dirty pages at the same time. The kernel runs
    /// the syncs of a ring one after the other, and each waits for its disk.
    pub(super) fn start_write_back(&self) {
        for object in self.objects().unwrap_or_default() {
            if let Some(fd) = object.backing.os().and_then(|os| os.descriptor(Route::Buffered).ok()) {
                // This only begins the write-back. The sync does the rest and reports errors.
                let _ = dio_sys::start_write_back(fd);
            }
        }
    }

    /// Writes back and drops what passed through the page cache, for all objects even if one fails.
    /// Returns the first error.
    pub(super) fn settle(
        &self,
        failed: impl Fn(rustix::io::Errno, Option<&FileError>) -> FileError,
    ) -> Result<(), FileError> {
        match self {
            Backing::Single(single) => match &single.os {
                Some(os) => single.residue.settle(os).map_err(|errno| failed(errno, None)),
                None => Ok(()),
            },
            Backing::Striped(striped) => {
                let all = striped.objects().iter().map(File::settle).fold(Ok(()), Result::and);
                all.map_err(|error: FileError| failed(error.errno(), Some(&error)))
            }
        }
    }
}
