//! An open striped file: its objects, used as one medium.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::fs::{Timespec, Timestamps};
use rustix::io::Errno;

use super::cures::CURE_DEVICE;
use super::device::DeviceObject;
use super::format::Id;
use crate::block::Mem;
use crate::drive::{Finished, Request, StripedMedium};
use crate::engine::{OpKind, OsMedium};
use crate::file::{Counters, File, FileError, StripedObjects};
use crate::geometry::{Geometry, GeometryError};
use crate::layout::Layout;

/// An open striped file.
///
/// The size follows from the sizes of the objects ([`Layout::size`]). It is not recorded, so no
/// record has to be kept in step with it. Bytes that extend the file count when the last of their
/// parts has arrived. After a crash or a failed write the file ends where the first byte is
/// missing, and bytes that some objects hold behind that do not count.
pub(super) struct Striped {
    name: PathBuf,
    layout: Layout,
    /// The objects, opened with the options of the striped file. The locks of each object only
    /// protect its own bookkeeping; requests are locked in the striped file.
    objects: Vec<File>,
    /// The objects that are devices; empty if none is.
    devices: Vec<Option<Arc<DeviceObject>>>,
    geometry: Geometry,
    /// The descriptor file; `None` for a file of the tests.
    head: Option<OsMedium>,
    /// The writing session, if the file is open for writing and the objects have stamps.
    pub(super) session: Option<WritingSession>,
    /// Requests that opening the objects needed.
    opening_requests: Counters,
    /// When the file was opened, and when the time of the descriptor file was last updated, in
    /// milliseconds since then; 0 for never.
    opened: Instant,
    mtime_updated: AtomicU64,
}

/// The part of one open file in the session.
#[derive(Debug)]
pub(super) struct WritingSession {
    pub(super) id: Id,
    /// Whether closing the file syncs objects that have grown.
    pub(super) syncs: bool,
    pub(super) begun: AtomicBool,
    /// When durable lengths were last recorded. Held by the thread that changes stamps.
    pub(super) last_recorded: Mutex<Instant>,
}

impl WritingSession {
    pub(super) fn new(id: Id, syncs: bool) -> WritingSession {
        WritingSession {
            id,
            syncs,
            begun: AtomicBool::new(false),
            last_recorded: Mutex::new(Instant::now()),
        }
    }
}

/// How much the modification time of a file on devices may lag behind its last write, in
/// milliseconds. The kernel's own times lag by more.
const MTIME_LAG_MS_MAX: u64 = 4;

impl fmt::Debug for Striped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Striped({:?}, {:?})", self.layout, self.objects)
    }
}

impl Drop for Striped {
    fn drop(&mut self) {
        self.end_session();
    }
}

/// Wraps an error for calls that return errors of the standard library, with the name of the
/// object.
fn named(error: FileError) -> io::Error {
    io::Error::other(error)
}

impl Striped {
    /// # Errors
    /// In words: the alignments of the objects and the layout do not fit together.
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
        let (opening_requests, opened, mtime_updated) =
            (Counters::default(), Instant::now(), AtomicU64::new(0));
        let (name, session) = (name.to_owned(), None);
        let mut striped = Striped {
            name,
            layout,
            objects,
            devices,
            geometry,
            head,
            session,
            opening_requests,
            opened,
            mtime_updated,
        };
        striped.opening_requests = striped.requests_so_far();
        Ok(striped)
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The device of an object, if it is one.
    pub(super) fn device(&self, object: usize) -> Option<&DeviceObject> {
        self.devices.get(object).and_then(Option::as_deref)
    }

    /// Whether some objects are devices.
    pub(super) fn has_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Updates the modification time of the descriptor file after a change, if objects are devices:
    /// these have no times of their own.
    fn update_mtime(&self) {
        if !self.has_devices() {
            return;
        }
        let (now, last) = (
            self.opened.elapsed().as_millis() as u64 + 1,
            self.mtime_updated.load(Ordering::Relaxed),
        );
        if last != 0 && now - last.min(now) < MTIME_LAG_MS_MAX {
            return;
        }
        self.mtime_updated.store(now, Ordering::Relaxed);
        let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        let times = Timestamps {
            last_access: time(rustix::fs::UTIME_OMIT),
            last_modification: time(rustix::fs::UTIME_NOW),
        };
        if let Some(head) = self.named_file() {
            // Every writer may set the time to now. If that fails, only the time is old.
            let _ = rustix::fs::futimens(head, &times);
        }
    }

    /// The path by which the file was opened.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Requests to the objects, including those that opened them.
    fn requests_so_far(&self) -> Counters {
        let mut all = Counters::default();
        for object in &self.objects {
            let one = object.counters();
            all.read_requests += one.read_requests;
            all.write_requests += one.write_requests;
        }
        all
    }

    /// Checks that the devices have room for a file of this size, before any of them grows.
    fn check_capacity(&self, size: u64) -> io::Result<()> {
        for index in 0..self.devices.len() {
            if let Some(device) = self.device(index) {
                let fits = device.check_capacity(self.layout.object_size(index, size));
                fits.map_err(|errno| {
                    named(FileError::new("extend", self.objects[index].path(), errno))
                })?;
            }
        }
        Ok(())
    }

    fn sizes(&self) -> io::Result<Vec<u64>> {
        self.objects.iter().map(|object| object.size().map_err(named)).collect()
    }

    /// Cuts the objects off to their shares of `size` bytes. The object that would hold the next
    /// byte is cut first, durably: from then on the file has this size, wherever a crash comes. The
    /// cuts of the others must be durable too before these can grow again, or a crash could bring
    /// old bytes back.
    fn cut(&self, size: u64, held: &[u64]) -> io::Result<()> {
        let first = self.layout.locate(size).object;
        let surplus = |index: &usize| held[*index] > self.layout.object_size(*index, size);
        let shorten = |index: usize| {
            self.objects[index].cut_off(self.layout.object_size(index, size)).map_err(named)
        };
        if surplus(&first) {
            shorten(first)?;
            self.objects[first].sync_all().map_err(named)?;
        }
        let others: Vec<usize> =
            (0..self.objects.len()).filter(|index| *index != first).filter(surplus).collect();
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

    fn part_request(
        &self,
        object: usize,
        whole: &Request,
        offset: u64,
        mem: Option<Mem>,
    ) -> Request {
        let part = self.objects[object].block_io().part_request(whole, offset, mem);
        match self.device(object) {
            Some(device) => Request { tag: device.tag(part.kind), ..part },
            None => part,
        }
    }

    fn finish_part(&self, object: usize, over: Finished) -> Finished {
        if over.request.kind == OpKind::Write {
            self.update_mtime();
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

    fn space_cure(&self) -> Option<&'static str> {
        self.has_devices().then_some(CURE_DEVICE)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.layout.size(self.sizes()?))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.begin().map_err(named)?;
        self.check_capacity(size)?;
        self.update_mtime();
        let held = self.sizes()?;
        // Bytes behind the present end must not reappear when the file grows.
        let keep = self.layout.size(held.iter().copied()).min(size);
        let lowered =
            self.lower_stamps(|index| self.layout.object_size(index, keep)).map_err(named)?;
        self.cut(keep, &held)?;
        drop(lowered);
        let grown = (0..self.objects.len()).try_for_each(|index| {
            let share = self.layout.object_size(index, size);
            let shorter = held[index].min(self.layout.object_size(index, keep)) < share;
            if shorter { self.objects[index].set_size(share).map_err(named) } else { Ok(()) }
        });
        grown.inspect_err(|_| {
            // The growth of some objects must not reappear later. The first error is returned.
            let _ = self.sizes().and_then(|held| self.cut(keep, &held));
        })
    }

    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        self.begin().map_err(named)?;
        // All space is allocated before any size changes, so that a full target leaves the file as
        // it was.
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
        self.update_mtime();
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
            // Another process may be extending the object at this moment: allocating never makes it
            // shorter.
            match object.allocate(share - 1..share, true) {
                // Nor does writing a byte. No other thread of this process writes to the file
                // meanwhile. A concurrent write of another process can lose this one byte, whereas
                // setting the size could cut off everything that it has just written.
                Err(error)
                    if matches!(error.errno(), Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) =>
                {
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
        all.read_requests -= self.opening_requests.read_requests.min(all.read_requests);
        all.write_requests -= self.opening_requests.write_requests.min(all.write_requests);
        all
    }

    fn has_surplus(&self) -> io::Result<bool> {
        let sizes = self.sizes()?;
        let size = self.layout.size(sizes.iter().copied());
        Ok(sizes
            .iter()
            .enumerate()
            .any(|(index, held)| *held > self.layout.object_size(index, size)))
    }

    fn lengths_before_sync(&self) -> Option<Vec<u64>> {
        self.lengths_if_due()
    }

    fn record_durable(&self, lengths: &[u64]) {
        self.record_lengths(lengths);
    }
}
