//! What the bytes of a file lie on: one medium, or the objects of a striped file.
//!
//! This is the one place of the layer that tells the two apart. What the others need to know of it is a [`Shape`].

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

/// A file whose bytes lie in several others, its objects, each of which is a [`File`] opened as the whole is. Its own
/// locks are only for housekeeping: those of the file are the whole's.
pub(crate) trait Objects: StripedMedium {
    /// The objects, in the order of the layout.
    fn objects(&self) -> &[File];

    /// The descriptor of the system's file that has the name; `None` for a file of the tests.
    fn head(&self) -> Option<BorrowedFd<'_>>;

    /// Whether growing writes zeros, as on block devices, which hold bytes of before.
    fn zeroes_growth(&self) -> bool;

    /// Size in bytes.
    ///
    /// # Errors
    /// Those of the objects; each error names its object, here and below.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size: cuts off, or extends by a hole.
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

    /// Makes the file at least so long by a hole, and never shorter, because something is about to be written there. The
    /// caller keeps out what writes before that place.
    ///
    /// # Errors
    /// Those of the objects.
    fn reach(&self, size: u64) -> io::Result<()>;

    /// Requests to the objects so far, without those of opening them.
    fn requests(&self) -> Counters;

    /// Whether some objects hold bytes behind the end of the file.
    ///
    /// # Errors
    /// Those of the objects.
    fn has_surplus(&self) -> io::Result<bool>;

    /// Before a sync: the lengths of the objects, if they are to be noted as durable after it.
    fn lengths_to_note(&self) -> Option<Vec<u64>>;

    /// After a sync: so much of each object is durable.
    fn note_durable(&self, lengths: &[u64]);
}

/// What a file's medium looks like from above. It is asked for once, when the file is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Objects that a request may be split over; 1 for a file that is not striped, and for a striped file of one object.
    pub(super) objects: usize,
    /// Bytes that lie in one object before it is the turn of the next; `u64::MAX` for a file that is not striped.
    pub(super) stripe: u64,
    /// Each object ends by itself. So what makes the file longer arrives piece by piece, and a gap before a write is
    /// filled first: the file holds no gap at any moment.
    pub(super) ordered_growth: bool,
    /// Making the file longer writes zeros: what writes all of it should do without.
    pub(super) zeroed_growth: bool,
}

impl Shape {
    /// A striped file may consist of one object only.
    pub(super) fn is_striped(&self) -> bool {
        self.stripe < u64::MAX
    }
}

/// One file of the system, or a simulated one.
#[derive(Debug)]
pub(super) struct Single {
    pub(super) medium: Arc<dyn Medium>,
    /// The system's file under `medium`, unless it is simulated; what concerns the page cache needs it.
    pub(super) os: Option<Arc<OsMedium>>,
    /// Why everything is uncached although direct I/O was asked for.
    pub(super) refusal: Option<Reason>,
    pub(super) residue: Residue,
}

/// What the bytes of a file lie on.
#[derive(Debug)]
pub(super) enum Body {
    Single(Single),
    Striped(Arc<dyn Objects>),
}

impl Body {
    pub(super) fn shape(&self) -> Shape {
        match self {
            Body::Single(_) => Shape { objects: 1, stripe: u64::MAX, ordered_growth: false, zeroed_growth: false },
            Body::Striped(striped) => Shape {
                objects: striped.layout().objects(),
                stripe: striped.layout().stripe(),
                ordered_growth: true,
                zeroed_growth: striped.zeroes_growth(),
            },
        }
    }

    /// What its requests concern.
    pub(super) fn target(&self) -> RequestTarget {
        match self {
            Body::Single(single) => RequestTarget::Medium(Arc::clone(&single.medium)),
            Body::Striped(striped) => RequestTarget::Striped(Arc::clone(striped) as Arc<dyn StripedMedium>),
        }
    }

    pub(super) fn single(&self) -> Option<&Single> {
        match self {
            Body::Single(single) => Some(single),
            Body::Striped(_) => None,
        }
    }

    /// The system's file with the bytes; `None` for a simulated and for a striped one.
    pub(super) fn os(&self) -> Option<&Arc<OsMedium>> {
        self.single().and_then(|single| single.os.as_ref())
    }

    pub(super) fn layout(&self) -> Option<&Layout> {
        match self {
            Body::Single(_) => None,
            Body::Striped(striped) => Some(striped.layout()),
        }
    }

    /// The objects of a striped file.
    pub(super) fn objects(&self) -> Option<&[File]> {
        match self {
            Body::Single(_) => None,
            Body::Striped(striped) => Some(striped.objects()),
        }
    }

    /// The descriptor to ask the system about the file.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Body::Single(single) => single.os.as_ref().map(|os| os.any()),
            Body::Striped(striped) => striped.head(),
        }
    }

    /// The object of a striped file that holds a byte.
    pub(super) fn holder(&self, position: u64) -> Option<&Path> {
        match self {
            Body::Single(_) => None,
            Body::Striped(striped) => Some(striped.objects()[striped.layout().locate(position).object].path()),
        }
    }

    /// Whether direct I/O was refused, everywhere.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Body::Single(single) => single.refusal.is_some(),
            Body::Striped(striped) => striped.objects().iter().all(|object| object.body.is_refused()),
        }
    }

    /// How reads, or writes, travel now; of a striped file as those of the object that is furthest from direct.
    pub(super) fn class(&self, mode: Mode, kind: OpKind) -> (Class, Option<Reason>) {
        match (self, mode) {
            (_, Mode::Cached) => (Class::Cached, None),
            (_, Mode::Uncached) => (Class::Uncached, None),
            (Body::Single(single), _) if single.refusal.is_some() => (Class::Uncached, single.refusal),
            (Body::Single(single), _) if single.residue.trial(kind).is_buffered() => {
                (Class::Uncached, Some(Reason::KernelBuffers))
            }
            (Body::Single(_), _) => (Class::Direct, None),
            (Body::Striped(striped), _) => {
                let classes = striped.objects().iter().map(|object| object.body.class(mode, kind));
                classes.max_by_key(|(class, _)| *class as usize).expect("there is at least one object")
            }
        }
    }

    /// Whether requests are counted where they are made, and not by objects.
    pub(super) fn counts_requests(&self) -> bool {
        matches!(self, Body::Single(_))
    }

    /// Requests that were counted elsewhere.
    pub(super) fn requests(&self) -> Counters {
        match self {
            Body::Single(_) => Counters::default(),
            Body::Striped(striped) => striped.requests(),
        }
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        match self {
            Body::Single(single) => single.medium.size(),
            Body::Striped(striped) => striped.size(),
        }
    }

    pub(super) fn set_size(&self, size: u64) -> io::Result<()> {
        match self {
            Body::Single(single) => single.medium.set_size(size),
            Body::Striped(striped) => striped.set_size(size),
        }
    }

    pub(super) fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        match self {
            Body::Single(single) => single.medium.allocate(range, extend),
            Body::Striped(striped) => striped.allocate(range, extend),
        }
    }

    pub(super) fn punch(&self, range: Range<u64>) -> io::Result<()> {
        match self {
            Body::Single(single) => single.medium.punch(range),
            Body::Striped(striped) => striped.punch(range),
        }
    }

    /// Makes the file at least so long, because something is about to be written there. A single file does that by itself.
    pub(super) fn reach(&self, size: u64) -> io::Result<()> {
        match self {
            Body::Single(_) => Ok(()),
            Body::Striped(striped) => striped.reach(size),
        }
    }

    /// Whether a write that made the file longer, and failed, may have left bytes that must not become part of it.
    pub(super) fn may_have_surplus(&self) -> bool {
        match self {
            Body::Single(_) => true,
            Body::Striped(striped) => striped.has_surplus().unwrap_or(true),
        }
    }

    /// Before a sync: what [`Body::note_durable`] has to know after it.
    pub(super) fn lengths_to_note(&self) -> Option<Vec<u64>> {
        match self {
            Body::Single(_) => None,
            Body::Striped(striped) => striped.lengths_to_note(),
        }
    }

    pub(super) fn note_durable(&self, lengths: Option<&[u64]>) {
        if let (Body::Striped(striped), Some(lengths)) = (self, lengths) {
            striped.note_durable(lengths);
        }
    }

    /// Has all disks of a striped file write at once what is dirty in the page cache: the kernel runs the syncs of a ring
    /// one after the other, each waiting for its disk.
    pub(super) fn start_write_back(&self) {
        for object in self.objects().unwrap_or_default() {
            if let Some(fd) = object.body.os().and_then(|os| os.descriptor(Route::Buffered).ok()) {
                // Only a beginning: the sync does what this cannot, and reports what fails.
                let _ = dio_sys::start_write_back(fd);
            }
        }
    }

    /// Writes back and drops what passed through the page cache, of all objects, whatever fails; the error is the first.
    pub(super) fn settle(
        &self,
        failed: impl Fn(rustix::io::Errno, Option<&FileError>) -> FileError,
    ) -> Result<(), FileError> {
        match self {
            Body::Single(single) => match &single.os {
                Some(os) => single.residue.settle(os).map_err(|errno| failed(errno, None)),
                None => Ok(()),
            },
            Body::Striped(striped) => {
                let all = striped.objects().iter().map(File::settle).fold(Ok(()), Result::and);
                all.map_err(|error: FileError| failed(error.errno(), Some(&error)))
            }
        }
    }
}
