//! Simulated files as engines use them.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;

use super::disk::DiskState;
use super::file::{SimFile, SyncSnapshot, WriteInFlight};
use super::image::{Image, PAGE_BYTES, SECTOR_BYTES, pages_of};
use super::{Fault, SimAction, SimDisk, SplitMix64, TraceEntry};
use crate::engine::{Medium, Op, OpFlags, OpKind, Route};

/// An open file of a [`SimDisk`]. Cloning it gives another handle of the same file.
///
/// Any engine but `uring` runs operations on it. Only [`SimEngine`](super::SimEngine) keeps several
/// in flight in virtual time. Under other engines an operation takes its time at once: the clock
/// moves. So do changes of size and the like.
#[derive(Clone)]
pub struct SimMedium {
    disk: SimDisk,
    number: usize,
}

impl std::fmt::Debug for SimMedium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimMedium(file {} of {:?})", self.number, self.disk)
    }
}

impl SimDisk {
    /// Makes a file with these contents, durable at once.
    pub fn file(&self, contents: &[u8]) -> SimMedium {
        let mut image = Image::default();
        image.store(0, contents, 0);
        image.size = contents.len() as u64;
        self.add(SimFile::new(image, false))
    }

    /// Makes a file of `size` bytes of [`pattern`](super::pattern) data, which takes no memory.
    pub fn pattern_file(&self, size: u64, seed: u64) -> SimMedium {
        self.add(SimFile::new(Image::of_pattern(size, seed), false))
    }

    /// Makes a block device of `size` bytes. Its size is fixed, it has no holes, and bytes that
    /// were never written are garbage.
    pub fn device(&self, size: u64) -> SimMedium {
        let seed = SplitMix64::for_use(self.seed(), size).next_u64();
        self.add(SimFile::new(Image::of_pattern(size, seed), true))
    }

    fn add(&self, file: SimFile) -> SimMedium {
        let mut state = self.lock();
        state.files.push(file);
        SimMedium::new(self.clone(), state.files.len() - 1)
    }

    /// The file with this number. Files are numbered in the order of making.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn medium(&self, number: usize) -> SimMedium {
        assert!(number < self.lock().files.len(), "{self:?} has no file {number}");
        SimMedium::new(self.clone(), number)
    }
}

/// An operation that the disk has received and not completed.
#[derive(Debug)]
pub(super) struct PendingOp {
    number: u64,
    action: SimAction,
    route: Option<Route>,
    flags: OpFlags,
    offset: u64,
    len: u64,
    fault: Option<Fault>,
    /// The error of an operation that is refused before it reaches the disk.
    refused: Option<Errno>,
    /// Most bytes that the operation can transfer.
    limit: usize,
    /// Randomness for this operation alone.
    random: SplitMix64,
    snapshot: Option<SyncSnapshot>,
    pub(super) issued: Duration,
}

/// The error that [`Medium::descriptor`] returns for a simulated file. A simulated engine
/// recognises the file by it.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} has no descriptor")]
struct Simulated(SimMedium);

impl PendingOp {
    /// True if the operation fails before it moves anything.
    fn fails_first(&self) -> bool {
        match self.fault {
            Some(Fault::Torn | Fault::SyncFails) | None => false,
            Some(fault) => fault.errno().is_some(),
        }
    }
}

impl SimMedium {
    pub(super) fn new(disk: SimDisk, number: usize) -> SimMedium {
        SimMedium { disk, number }
    }

    /// The simulated file behind a medium, if it is one.
    pub(super) fn of(medium: &dyn Medium) -> Option<SimMedium> {
        let refusal = medium.descriptor(Route::Buffered).err()?;
        Some(refusal.get_ref()?.downcast_ref::<Simulated>()?.0.clone())
    }

    /// The disk that the file is on.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// What reads return. It counts as no operation; judges of tests call it.
    pub fn contents(&self) -> Vec<u8> {
        let state = self.disk.lock();
        let image = &state.files[self.number].live;
        let mut bytes = vec![0; image.size as usize];
        image.copy_out(0, &mut bytes);
        bytes
    }

    /// What survives every power cut. It counts as no operation; judges of tests call it.
    pub fn durable_contents(&self) -> Vec<u8> {
        let state = self.disk.lock();
        let image = &state.files[self.number].durable;
        let mut bytes = vec![0; image.size as usize];
        image.copy_out(0, &mut bytes);
        bytes
    }

    /// The file as a power cut at this moment would leave it, on a disk of its own. The seed
    /// follows from the disk's seed and the number of operations so far. See
    /// [`SimDisk::power_cut`].
    #[must_use]
    pub fn power_cut(&self) -> SimMedium {
        let seed = SplitMix64::for_use(self.disk.seed(), self.disk.operations()).next_u64();
        self.power_cut_with(seed)
    }

    /// As [`SimMedium::power_cut`], with a given seed.
    #[must_use]
    pub fn power_cut_with(&self, seed: u64) -> SimMedium {
        self.disk.power_cut(seed).medium(self.number)
    }

    /// Hands an operation to the disk.
    pub(super) fn begin(&self, op: &Op) -> PendingOp {
        let action = SimAction::Transfer(op.kind);
        let mut pending = self.pending(action, op.position(), op.remaining() as u64, op.flags);
        pending.route = Some(op.route);
        pending.refused = self.refusal(op);
        if pending.refused.is_some() {
            pending.fault = None;
            return pending;
        }
        self.limit(op, &mut pending);
        let mut state = self.disk.lock();
        if op.kind == OpKind::Write {
            let fails_first = pending.fails_first();
            let limit =
                if fails_first { 0 } else { self.space(&state, pending.offset, pending.limit) };
            let writes_in_flight =
                WriteInFlight { offset: pending.offset, bytes: bytes_to_write(op), limit };
            state.files[self.number].writes_in_flight.insert(pending.number, writes_in_flight);
        }
        if action.is_sync() {
            pending.snapshot = Some(state.files[self.number].snapshot());
        }
        pending
    }

    fn pending(&self, action: SimAction, offset: u64, len: u64, flags: OpFlags) -> PendingOp {
        let mut state = self.disk.lock();
        let number = state.operations;
        state.operations += 1;
        let mut random = SplitMix64::for_use(self.disk.seed(), number);
        let fault = state.faults.decide(number, action, flags.dsync, &mut random);
        PendingOp {
            number,
            action,
            route: None,
            flags,
            offset,
            len,
            fault,
            refused: None,
            limit: usize::MAX,
            random,
            snapshot: None,
            issued: self.disk.shared.clock.now(),
        }
    }

    /// The error with which the kernel refuses an operation before it asks a disk.
    fn refusal(&self, op: &Op) -> Option<Errno> {
        let model = self.disk.model();
        let Some(mem) = op.mem.as_ref() else {
            return matches!(op.kind, OpKind::Read | OpKind::Write).then_some(Errno::INVAL);
        };
        if !matches!(op.kind, OpKind::Read | OpKind::Write) {
            return None;
        }
        if op.flags.dontcache && !model.dontcache {
            return Some(Errno::OPNOTSUPP);
        }
        let aligned = |(start, len): (*mut u8, usize)| {
            start.addr().is_multiple_of(model.mem_align) && len.is_multiple_of(model.offset_align)
        };
        let fits = op.position().is_multiple_of(model.offset_align as u64)
            && mem.segment_ranges(op.skip).all(aligned);
        (op.route == Route::Direct && !fits).then_some(Errno::INVAL)
    }

    /// How many bytes a fault leaves to transfer. An operation too small for a short transfer has
    /// none.
    fn limit(&self, op: &Op, pending: &mut PendingOp) {
        let (len, align) = (op.remaining(), self.disk.model().offset_align);
        let random = &mut pending.random;
        pending.limit = len;
        match pending.fault {
            Some(Fault::ShortAligned) if len > align => {
                pending.limit = align * (1 + random.below(((len - 1) / align) as u64) as usize);
            }
            Some(Fault::ShortUnaligned) if len > 1 && align > 1 => {
                let count = 1 + random.below(len as u64 - 1) as usize;
                pending.limit = if count.is_multiple_of(align) { count - 1 } else { count };
            }
            Some(Fault::ShortAligned | Fault::ShortUnaligned) => pending.fault = None,
            Some(Fault::Torn) => {
                pending.limit =
                    SECTOR_BYTES * random.below(len.div_ceil(SECTOR_BYTES).max(1) as u64) as usize
            }
            Some(_) | None => {}
        }
    }

    /// The service time, and the time on the link.
    pub(super) fn cost(&self, pending: &PendingOp) -> (Duration, Duration) {
        let model = self.disk.model();
        if pending.refused.is_some() {
            return (Duration::ZERO, Duration::ZERO);
        }
        let syncs = pending.action.is_sync()
            || pending.flags.dsync && pending.action == SimAction::Transfer(OpKind::Write);
        let service = if syncs { model.service + model.sync } else { model.service };
        let (bytes, bandwidth) = match pending.action {
            SimAction::Transfer(OpKind::Read) => {
                let size = self.disk.lock().files[self.number].live.size;
                (
                    size.saturating_sub(pending.offset).min(pending.limit as u64),
                    model.read_bandwidth,
                )
            }
            SimAction::Transfer(OpKind::Write) => (pending.limit as u64, model.write_bandwidth),
            _ => (0, 1),
        };
        if pending.fails_first() {
            return (service, Duration::ZERO);
        }
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth);
        (service, Duration::from_nanos(nanoseconds as u64))
    }

    /// Ends an operation: applies its effects, sets its result and adds it to the trace.
    ///
    /// # Panics
    /// When the memory of a write has changed in flight.
    pub(super) fn complete(
        &self,
        op: &mut Op,
        mut pending: PendingOp,
        start: Duration,
        end: Duration,
    ) -> Result<usize, Errno> {
        let mut state = self.disk.lock();
        if let Some(write) = state.files[self.number].writes_in_flight.remove(&pending.number) {
            let (seed, number) = (self.disk.seed(), pending.number);
            assert!(
                write.bytes == bytes_to_write(op),
                "memory of write {number} changed in flight (disk seed {seed})"
            );
        }
        let result = match pending.refused {
            Some(errno) => Err(errno),
            None => match op.kind {
                OpKind::Read => self.read(&state, op, &mut pending),
                OpKind::Write => self.write(&mut state, op, &mut pending),
                OpKind::SyncData | OpKind::SyncAll => self.sync(&mut state, &mut pending),
            },
        };
        self.record(&mut state, &pending, result, start, end);
        result
    }

    fn record(
        &self,
        state: &mut DiskState,
        pending: &PendingOp,
        result: Result<usize, Errno>,
        start: Duration,
        end: Duration,
    ) {
        let PendingOp { number, action, route, flags, offset, len, fault, issued, .. } = *pending;
        let file = self.number;
        let entry = TraceEntry {
            number,
            file,
            action,
            route,
            offset,
            len,
            flags,
            result,
            fault,
            issued,
            start,
            end,
        };
        state.trace.entries.push(entry);
    }

    fn read(
        &self,
        state: &DiskState,
        op: &mut Op,
        pending: &mut PendingOp,
    ) -> Result<usize, Errno> {
        let (done, len, model) = (op.skip, op.remaining(), self.disk.model());
        let image = &state.files[self.number].live;
        let to_end =
            usize::try_from(image.size.saturating_sub(pending.offset)).unwrap_or(usize::MAX);
        let failed = pending.fault.and_then(Fault::errno);
        let count = if failed.is_some() { 0 } else { pending.limit.min(to_end) };
        let scribbled_to = match failed {
            _ if !model.scribble || op.route == Route::Buffered => count,
            Some(Errno::IO) => len,
            Some(_) => 0,
            None => to_end.min(len).next_multiple_of(model.offset_align).min(len),
        };
        let mut at = 0;
        for slice in op.mem.as_mut().map(|mem| mem.slices_mut(done)).unwrap_or_default().iter_mut()
        {
            let wanted = count.saturating_sub(at).min(slice.len());
            image.copy_out(pending.offset + at as u64, &mut slice[..wanted]);
            let scribbled = scribbled_to.saturating_sub(at).clamp(wanted, slice.len());
            pending.random.fill(&mut slice[wanted..scribbled]);
            at += slice.len();
        }
        failed.map_or(Ok(count), Err)
    }

    fn write(
        &self,
        state: &mut DiskState,
        op: &Op,
        pending: &mut PendingOp,
    ) -> Result<usize, Errno> {
        let errno = pending.fault.and_then(Fault::errno);
        if let (Some(errno), true) = (errno, pending.fails_first()) {
            return Err(errno);
        }
        let space = self.space(state, pending.offset, pending.limit);
        if space == 0 && pending.limit > 0 {
            return Err(errno.unwrap_or(Errno::NOSPC));
        }
        let file = &mut state.files[self.number];
        let mut at = 0;
        for slice in op.mem.as_ref().map(|mem| mem.slices(op.skip)).unwrap_or_default() {
            let wanted = space.saturating_sub(at).min(slice.len());
            file.write(pending.offset + at as u64, &slice[..wanted]);
            at += wanted;
        }
        if pending.flags.dsync && pending.fault != Some(Fault::Torn) {
            let fails = pending.fault == Some(Fault::SyncFails);
            let range = pending.offset..pending.offset + space as u64;
            file.sync_range(range, fails.then_some(&mut pending.random));
        }
        errno.map_or(Ok(space), Err)
    }

    /// How many of `len` bytes at `offset` there is space for. The kernel writes as many as fit and
    /// fails only if not one does (`write(2)`).
    fn space(&self, state: &DiskState, offset: u64, len: usize) -> usize {
        let file = &state.files[self.number];
        let end = offset + len as u64;
        if file.device {
            return file.live.size.saturating_sub(offset).min(len as u64) as usize;
        }
        let Some(capacity) = self.disk.model().capacity else { return len };
        let mut free = capacity.saturating_sub(state.used()) / PAGE_BYTES as u64;
        for index in pages_of(offset..end) {
            if file.live.occupied(index) {
                continue;
            }
            if free == 0 {
                return (index * PAGE_BYTES as u64).saturating_sub(offset) as usize;
            }
            free -= 1;
        }
        len
    }

    fn sync(&self, state: &mut DiskState, pending: &mut PendingOp) -> Result<usize, Errno> {
        let Some(snapshot) = pending.snapshot.take() else { return Err(Errno::INVAL) };
        let file = &mut state.files[self.number];
        match pending.fault {
            Some(Fault::Interrupted) => Err(Errno::INTR),
            Some(fault) => {
                file.sync_fails(&snapshot, &mut pending.random);
                Err(fault.errno().unwrap_or(Errno::IO))
            }
            None => {
                file.sync(&snapshot);
                Ok(0)
            }
        }
    }

    /// Runs an operation on the file itself. It takes one service time, at once.
    fn run_now<R>(
        &self,
        action: SimAction,
        offset: u64,
        len: u64,
        work: impl FnOnce(&mut DiskState) -> Result<R, Errno>,
    ) -> io::Result<R> {
        let pending = self.pending(action, offset, len, OpFlags::default());
        let start = pending.issued;
        let end = start
            + if action == SimAction::Size { Duration::ZERO } else { self.disk.model().service };
        self.disk.shared.clock.advance_to(end);
        let mut state = self.disk.lock();
        let result = match pending.fault.and_then(Fault::errno) {
            Some(errno) => Err(errno),
            None => work(&mut state),
        };
        let traced = result.as_ref().map(|_| 0).map_err(|errno| *errno);
        self.record(&mut state, &pending, traced, start, end);
        Ok(result?)
    }
}

/// A copy of the bytes that a write is to write.
fn bytes_to_write(op: &Op) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(op.remaining());
    for slice in op.mem.as_ref().map(|mem| mem.slices(op.skip)).unwrap_or_default() {
        bytes.extend_from_slice(&slice);
    }
    bytes
}

impl Medium for SimMedium {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        let pending = self.begin(op);
        let (start, (service, on_link)) = (pending.issued, self.cost(&pending));
        let end = self.disk.schedule(start, service, on_link);
        self.disk.shared.clock.advance_to(end);
        self.complete(op, pending, start, end)
    }

    fn descriptor(&self, _route: Route) -> io::Result<BorrowedFd<'_>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, Simulated(self.clone())))
    }

    fn size(&self) -> io::Result<u64> {
        self.run_now(SimAction::Size, 0, 0, |state| Ok(state.files[self.number].live.size))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.run_now(SimAction::SetSize, size, 0, |state| {
            let file = &mut state.files[self.number];
            if file.device {
                return Err(Errno::INVAL);
            }
            file.set_size(size);
            Ok(())
        })
    }

    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        self.run_now(
            SimAction::Allocate,
            range.start,
            range.end.saturating_sub(range.start),
            |state| {
                if range.is_empty() {
                    return Err(Errno::INVAL);
                }
                if state.files[self.number].device {
                    return Err(Errno::OPNOTSUPP);
                }
                let len = usize::try_from(range.end - range.start).map_err(|_| Errno::FBIG)?;
                if self.space(state, range.start, len) < len {
                    return Err(Errno::NOSPC);
                }
                state.files[self.number].allocate(range.clone(), extend);
                Ok(())
            },
        )
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.run_now(
            SimAction::Punch,
            range.start,
            range.end.saturating_sub(range.start),
            |state| {
                if range.is_empty() {
                    return Err(Errno::INVAL);
                }
                state.files[self.number].punch(range.clone());
                Ok(())
            },
        )
    }
}
