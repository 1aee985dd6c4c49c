//! An open striped file: its objects as one medium.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{Timespec, Timestamps};
use rustix::io::Errno;

use super::device::DeviceObject;
use super::session::Session;
use crate::block::Mem;
use crate::drive::{Finished, Request, StripedMedium};
use crate::engine::{OpKind, OsMedium};
use crate::file::{Counters, File, FileError, StripedObjects};
use crate::geometry::{Geometry, GeometryError};
use crate::layout::Layout;

/// Several files, the objects, as one.
///
/// The size is what all of them reach ([`Layout::size`]); nothing else records it, so nothing has to be kept in step with
/// it. What extends the file is in the file when the last of its parts has arrived, and what some of the objects hold
/// beyond that is not: a crash, or a failed write, ends the file where the first byte is missing.
pub(super) struct Striped {
    name: PathBuf,
    layout: Layout,
    /// Opened as the whole is, each with locks of its own, which only its own housekeeping uses: the locks of the file
    /// are those of the whole.
    objects: Vec<File>,
    /// Those of them that are devices; empty where none is.
    devices: Vec<Option<Arc<DeviceObject>>>,
    geometry: Geometry,
    /// The descriptor; `None` for a file of the tests.
    head: Option<OsMedium>,
    /// Of a writer, where the objects have stamps.
    pub(super) session: Option<Session>,
    /// Requests that opening needed.
    before: Counters,
    /// When it was opened, and when the descriptor was last given the time of a write, in milliseconds from then; 0 for never.
    opened: Instant,
    touched: AtomicU64,
}

/// How old the time of the last write may be in the descriptor of a file on devices, in milliseconds. The kernel's own is older.
const TOUCH: u64 = 4;

impl fmt::Debug for Striped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Striped({:?}, {:?})", self.layout, self.objects)
    }
}

impl Drop for Striped {
    fn drop(&mut self) {
        self.end();
    }
}

/// Errors of calls that return those of the standard library; the name of the object comes along.
fn named(error: FileError) -> io::Error {
    io::Error::other(error)
}

impl Striped {
    /// # Errors
    /// The alignments of the objects and the layout do not fit together: in words.
    pub(super) fn new(
        name: &Path,
        layout: Layout,
        objects: Vec<File>,
        devices: Vec<Option<Arc<DeviceObject>>>,
        head: Option<OsMedium>,
    ) -> Result<Striped, &'static str> {
        if objects.len() != layout.objects() {
            return Err("the number of objects is not that of the layout");
        }
        let each: Vec<&Geometry> = objects.iter().map(File::geometry).collect();
        let joined = |_: GeometryError| "the objects demand alignments that do not fit together";
        let geometry = Geometry::joined(&each, layout.row()).map_err(joined)?;
        let align = geometry.offset_align().max(geometry.read_offset_align());
        if (layout.stripe() | layout.start()) % align != 0 {
            return Err("the stripe size is no multiple of the alignment that a target demands");
        }
        let (before, opened, touched) = (Counters::default(), Instant::now(), AtomicU64::new(0));
        let (name, session) = (name.to_owned(), None);
        let mut striped = Striped { name, layout, objects, devices, geometry, head, session, before, opened, touched };
        striped.before = striped.requests_so_far();
        Ok(striped)
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The object as a device, if it is one.
    pub(super) fn device(&self, object: usize) -> Option<&DeviceObject> {
        self.devices.get(object).and_then(Option::as_deref)
    }

    /// Whether growing writes zeros, and a full object is a device.
    pub(super) fn has_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Something was changed: files that hold bytes remember when, devices do not, so the descriptor does.
    fn touch(&self) {
        if !self.has_devices() {
            return;
        }
        let (now, last) = (self.opened.elapsed().as_millis() as u64 + 1, self.touched.load(Ordering::Relaxed));
        if last != 0 && now - last.min(now) < TOUCH {
            return;
        }
        self.touched.store(now, Ordering::Relaxed);
        let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        let times =
            Timestamps { last_access: time(rustix::fs::UTIME_OMIT), last_modification: time(rustix::fs::UTIME_NOW) };
        if let Some(head) = self.named_file() {
            // Whoever may write the bytes may do this; where it fails, only a time is old.
            let _ = rustix::fs::futimens(head, &times);
        }
    }

    /// What the file was opened by.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Requests to the objects, those of opening them too.
    fn requests_so_far(&self) -> Counters {
        let mut all = Counters::default();
        for object in &self.objects {
            let one = object.counters();
            all.read_requests += one.read_requests;
            all.write_requests += one.write_requests;
        }
        all
    }

    /// Whether the devices have room for a file of this size; found out before one of them grows.
    fn check_capacity(&self, size: u64) -> io::Result<()> {
        for index in 0..self.devices.len() {
            if let Some(device) = self.device(index) {
                let fits = device.check_capacity(self.layout.object_size(index, size));
                fits.map_err(|errno| named(FileError::new("extend", self.objects[index].path(), errno)))?;
            }
        }
        Ok(())
    }

    fn sizes(&self) -> io::Result<Vec<u64>> {
        self.objects.iter().map(|object| object.size().map_err(named)).collect()
    }

    /// Cuts the objects off to what they hold of `size` bytes. First the one whose turn it would be behind, durably: from
    /// then on the file has that size and no other, wherever a crash comes. What the others lose must be durable too before
    /// they can grow again, or a crash could bring it back.
    fn cut(&self, size: u64, held: &[u64]) -> io::Result<()> {
        let first = self.layout.locate(size).object;
        let surplus = |index: &usize| held[*index] > self.layout.object_size(*index, size);
        let shorten = |index: usize| self.objects[index].cut_off(self.layout.object_size(index, size)).map_err(named);
        if surplus(&first) {
            shorten(first)?;
            self.objects[first].sync_all().map_err(named)?;
        }
        let others: Vec<usize> = (0..self.objects.len()).filter(|index| *index != first).filter(surplus).collect();
        others.iter().try_for_each(|index| shorten(*index))?;
        others.iter().try_for_each(|index| self.objects[*index].sync_all().map_err(named))
    }
}

impl StripedMedium for Striped {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn prepare(&self, kind: OpKind) -> Result<(), Errno> {
        if kind == OpKind::Write { self.begin().map_err(|error| error.errno()) } else { Ok(()) }
    }

    fn part_request(&self, object: usize, whole: &Request, offset: u64, mem: Option<Mem>) -> Request {
        let part = self.objects[object].block_io().part_request(whole, offset, mem);
        match self.device(object) {
            Some(device) => Request { tag: device.mark(part.kind), ..part },
            None => part,
        }
    }

    fn finish_part(&self, object: usize, over: Finished) -> Finished {
        if over.request.kind == OpKind::Write {
            self.touch();
        }
        let over = self.objects[object].block_io().finish_part(over);
        match self.device(object) {
            Some(device) => device.part_done(over),
            None => over,
        }
    }
}

impl StripedObjects for Striped {
    fn objects(&self) -> &[File] {
        &self.objects
    }

    fn named_file(&self) -> Option<BorrowedFd<'_>> {
        self.head.as_ref().map(OsMedium::any)
    }

    fn zeroes_growth(&self) -> bool {
        self.has_devices()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.layout.size(self.sizes()?))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.begin().map_err(named)?;
        self.check_capacity(size)?;
        self.touch();
        let held = self.sizes()?;
        // What is beyond the end now must not come to light when the file grows.
        let keep = self.layout.size(held.iter().copied()).min(size);
        let lowered = self.lower(|index| self.layout.object_size(index, keep)).map_err(named)?;
        self.cut(keep, &held)?;
        drop(lowered);
        let grown = (0..self.objects.len()).try_for_each(|index| {
            let share = self.layout.object_size(index, size);
            let shorter = held[index].min(self.layout.object_size(index, keep)) < share;
            if shorter { self.objects[index].set_size(share).map_err(named) } else { Ok(()) }
        });
        grown.inspect_err(|_| {
            // What some objects have gained must not come to light later; the error that is told is the first.
            let _ = self.sizes().and_then(|held| self.cut(keep, &held));
        })
    }

    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        self.begin().map_err(named)?;
        // All space is there before any size changes, so that a full target leaves the file as it was.
        for (index, object) in self.objects.iter().enumerate() {
            let slice = self.layout.object_range(index, &range);
            if !slice.is_empty() {
                object.allocate(slice, false).map_err(named)?;
            }
        }
        if extend { self.extend_to(range.end) } else { Ok(()) }
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.begin().map_err(named)?;
        self.touch();
        for (index, object) in self.objects.iter().enumerate() {
            let slice = self.layout.object_range(index, &range);
            if !slice.is_empty() {
                object.punch(slice).map_err(named)?;
            }
        }
        Ok(())
    }

    fn extend_to(&self, size: u64) -> io::Result<()> {
        self.begin().map_err(named)?;
        self.check_capacity(size)?;
        for (index, object) in self.objects.iter().enumerate() {
            let share = self.layout.object_size(index, size);
            if object.size().map_err(named)? >= share {
                continue;
            }
            // Another process may be making it longer at this moment: what is allocated never makes it shorter.
            match object.allocate(share - 1..share, true) {
                // Nor does a byte. Nobody else in this process writes to the file meanwhile; of another one it is the byte that
                // can be lost, where setting the size would lose all that it has just written.
                Err(error) if matches!(error.errno(), Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => {
                    if object.size().map_err(named)? < share {
                        object.write_at(&[0], share - 1).map_err(named)?;
                    }
                }
                other => other.map_err(named)?,
            }
            object.sync_if_durable().map_err(named)?;
        }
        Ok(())
    }

    fn requests(&self) -> Counters {
        let mut all = self.requests_so_far();
        all.read_requests -= self.before.read_requests.min(all.read_requests);
        all.write_requests -= self.before.write_requests.min(all.write_requests);
        all
    }

    fn has_surplus(&self) -> io::Result<bool> {
        let sizes = self.sizes()?;
        let size = self.layout.size(sizes.iter().copied());
        Ok(sizes.iter().enumerate().any(|(index, held)| *held > self.layout.object_size(index, size)))
    }

    fn lengths_before_sync(&self) -> Option<Vec<u64>> {
        self.lengths_if_due()
    }

    fn record_durable(&self, lengths: &[u64]) {
        self.note_lengths(lengths);
    }
}
