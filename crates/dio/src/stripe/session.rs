//! Writing sessions: keeps the stamps of all objects in step with the changes of an open file.
//! `stamp.rs` has the rules.
//!
//! A session begins with the first change by a process that has the file open for writing, and ends
//! when the last such process closes it. All writers of a file share one session. It costs one
//! durable write of 512 bytes to each object when it begins, all in parallel; two writes to each
//! when it ends, and a sync of the objects that have grown.
//!
//! Invariants:
//! 1. Stamps are changed only under the lock of a byte of the last object (`fcntl(2)`), by one
//!    thread of the process that holds it.
//! 2. No object is changed before all objects durably have the generation of the session.
//! 3. No `durable` length exceeds what was synced, or what a cut in progress leaves.

use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::device::BOOT_ID;
use super::error::damaged_object_error;
use super::local::is_local;
use super::medium::{Striped, WritingSession};
use super::stamp::{FoundState, ObjectFault, Phase, SessionState, Stamp, compare_stamps};
use super::stamp_io::{of, read_stamp, with_descriptor, write_stamp};
use crate::drive::StripedMedium;
use crate::file::byte_lock::{ByteLock, PATIENCE};
use crate::file::{File, FileError, StripedObjects};
use crate::patience::take_within;

/// The byte that is locked while stamps change. Byte 0 is the lock for appends.
const BYTE: i64 = 1;

/// How long to wait for the lock on file systems where other locks of a writer may conflict with it
/// (NFS).
const PATIENCE_FAR: Duration = Duration::from_secs(2);

const CURE_LOCKED: &str =
    "another program keeps the lock of its stamps; end that program (see 'lslocks')";

/// Least time between two records of durable lengths at syncs.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// Threads that write stamps at a time.
const WRITERS: usize = 16;

/// The right to change stamps.
pub(super) struct StampLock<'a> {
    last_recorded: MutexGuard<'a, Instant>,
    /// `None` if the file system has no such locks.
    _locked: Option<ByteLock<'a>>,
}

impl Striped {
    /// The state of all objects. The caller holds the lock if it will change them.
    fn seen(&self) -> Result<Vec<FoundState>, FileError> {
        let one = |(index, object): (usize, &File)| {
            let read = |bytes: &mut [u8], at| {
                with_descriptor(object, "read the stamp of", |fd| rustix::io::pread(fd, bytes, at))
            };
            let is_local = object.descriptor().is_some_and(is_local);
            Ok(FoundState {
                index,
                stamp: Some(read_stamp(read)?),
                length: object.size()?,
                is_local,
            })
        };
        self.objects().iter().enumerate().map(one).collect()
    }

    /// The state of the session, by the stamps of all objects.
    ///
    /// # Errors
    /// The fault of the first wrong object.
    fn state(
        &self,
        session: &WritingSession,
    ) -> Result<(Vec<FoundState>, SessionState), FileError> {
        let seen = self.seen()?;
        let failed = |faults: Vec<ObjectFault>| {
            damaged_object_error(self.name(), &faults[0], self.objects()[faults[0].index].path())
        };
        let state = compare_stamps(session.id, &seen, &BOOT_ID).map_err(failed)?;
        Ok((seen, state))
    }

    fn lock_stamps<'a>(&'a self, session: &'a WritingSession) -> Result<StampLock<'a>, FileError> {
        let last_recorded = session.last_recorded.lock();
        let last = self.objects().last().expect("a striped file has an object");
        let Some(fd) = last.descriptor() else {
            return Ok(StampLock { last_recorded, _locked: None });
        };
        let is_local = is_local(fd);
        let locked = match ByteLock::take(fd, BYTE, if is_local { PATIENCE } else { PATIENCE_FAR })
        {
            Ok(locked) => locked,
            Err(Errno::AGAIN) if is_local => {
                return Err(of(last, "lock", Errno::AGAIN).with_cure(CURE_LOCKED));
            }
            Err(Errno::BADF) => return Err(of(last, "lock", Errno::BADF)),
            // The lock that all writers share (NFS) conflicts with this one.
            Err(_) => None,
        };
        Ok(StampLock { last_recorded, _locked: locked })
    }

    /// Writes the stamps of all objects, several in parallel.
    fn stamp_all(
        &self,
        session: &WritingSession,
        durably: bool,
        change: impl Fn(usize) -> (u64, Phase, u64, u64) + Sync,
    ) -> Result<(), FileError> {
        let one = |index: usize| {
            let (generation, phase, durable, length) = change(index);
            let stamp = Stamp {
                id: session.id,
                index,
                generation,
                phase,
                durable,
                length,
                boot: BOOT_ID.clone(),
            };
            write_stamp(&self.objects()[index], &stamp, durably)
        };
        for_all(self.objects().len(), durably, one)
    }

    /// Begins or joins the session, before the first change.
    ///
    /// # Errors
    /// The fault of an object; what writing its stamp answers.
    pub(super) fn begin(&self) -> Result<(), FileError> {
        match &self.session {
            Some(session) if !session.begun.load(Ordering::Acquire) => {
                self.begin_as(session, false)
            }
            _ => Ok(()),
        }
    }

    /// As [`Striped::begin`]. `alone` means that nobody else writes, so that an open session was
    /// interrupted.
    fn begin_as(&self, session: &WritingSession, alone: bool) -> Result<(), FileError> {
        let _lock = self.lock_stamps(session)?;
        if session.begun.load(Ordering::Acquire) {
            return Ok(());
        }
        let (seen, state) = self.state(session)?;
        if !state.may_join || alone {
            let start = self.layout().start();
            let durable = |seen: &FoundState| {
                seen.stamp().map_or(start, |stamp| stamp.durable).min(seen.length)
            };
            self.open_generation(
                session,
                state.next,
                &seen.iter().map(durable).collect::<Vec<_>>(),
            )?;
        }
        session.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Opens a generation. `durable` has the durable length of each object.
    fn open_generation(
        &self,
        session: &WritingSession,
        generation: u64,
        durable: &[u64],
    ) -> Result<(), FileError> {
        for (phase, durably) in [(Phase::Opening, true), (Phase::Open, false)] {
            self.stamp_all(session, durably, |index| {
                (generation, phase, durable[index], durable[index])
            })?;
        }
        Ok(())
    }

    /// Begins a new session if one was interrupted. The caller has just opened the file for
    /// writing, and nobody else has.
    ///
    /// # Errors
    /// As [`Striped::begin`].
    pub(super) fn recover(&self) -> Result<(), FileError> {
        let Some(session) = &self.session else { return Ok(()) };
        let (_, state) = self.state(session)?;
        if state.is_open { self.begin_as(session, true) } else { Ok(()) }
    }

    /// Gives all objects stamps of a new generation with their present lengths, whatever their
    /// stamps say.
    ///
    /// # Errors
    /// What syncing the objects or writing their stamps answers.
    pub(super) fn restamp(&self) -> Result<(), FileError> {
        let Some(session) = &self.session else { return Ok(()) };
        let _lock = self.lock_stamps(session)?;
        let seen = self.seen()?;
        let newest = seen.iter().map(FoundState::generation).max().unwrap_or(0);
        self.objects().iter().try_for_each(File::sync_all)?;
        let lengths = self.objects().iter().map(File::size).collect::<Result<Vec<_>, _>>()?;
        self.open_generation(session, newest + 1, &lengths)?;
        session.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Lowers the stamps of objects that will be cut off to `shares`, so that no crash makes the
    /// cut look like damage. The caller completes the cut before it drops the lock.
    ///
    /// # Errors
    /// What writing a stamp answers.
    pub(super) fn lower_stamps(
        &self,
        shares: impl Fn(usize) -> u64,
    ) -> Result<Option<StampLock<'_>>, FileError> {
        let Some(session) = &self.session else { return Ok(None) };
        let lock = self.lock_stamps(session)?;
        let seen = self.seen()?;
        for (index, seen) in seen.iter().enumerate() {
            let Some(stamp) = seen.stamp().filter(|stamp| stamp.durable > shares(index)) else {
                continue;
            };
            let stamp = Stamp {
                durable: shares(index),
                length: shares(index),
                boot: BOOT_ID.clone(),
                ..stamp.clone()
            };
            write_stamp(&self.objects()[index], &stamp, true)?;
        }
        Ok(Some(lock))
    }

    /// Before a sync: the lengths of the objects, if it is time to record them.
    pub(super) fn lengths_if_due(&self) -> Option<Vec<u64>> {
        let session =
            self.session.as_ref().filter(|session| session.begun.load(Ordering::Acquire))?;
        // A thread that holds it is recording them.
        let due = session
            .last_recorded
            .try_lock()
            .is_some_and(|last_recorded| last_recorded.elapsed() >= RECORD_INTERVAL);
        due.then(|| self.objects().iter().map(|object| object.size().ok()).collect())?
    }

    /// After a sync: records the durable length of each object. An error only means that the length
    /// is recorded later.
    pub(super) fn record_lengths(&self, synced: &[u64]) {
        let Some(session) = &self.session else { return };
        let Ok(mut lock) = self.lock_stamps(session) else { return };
        *lock.last_recorded = Instant::now();
        let Ok(seen) = self.seen() else { return };
        for ((object, seen), synced) in self.objects().iter().zip(&seen).zip(synced) {
            let durable = seen.length.min(*synced);
            let Some(stamp) =
                seen.stamp().filter(|stamp| stamp.phase == Phase::Open && stamp.durable < durable)
            else {
                continue;
            };
            let _ = write_stamp(
                object,
                &Stamp { durable, length: durable, boot: BOOT_ID.clone(), ..stamp.clone() },
                false,
            );
        }
    }

    /// Ends the part of this file in the session; the last writer closes the session. Errors are
    /// dropped, because nobody is left to get them; the stamps of a session left open only say
    /// less.
    pub(super) fn end_session(&self) {
        let Some(session) =
            self.session.as_ref().filter(|session| session.begun.load(Ordering::Acquire))
        else {
            return;
        };
        let Ok(seen) = self.seen() else { return };
        let durable =
            seen.iter().map(|seen| seen.stamp().map_or(0, |stamp| stamp.durable)).collect();
        // Synced before other opens are locked out, because these wait only a limited time.
        let Ok(synced) = self.sync_grown(session, durable) else { return };
        if !self.is_last_writer() {
            return;
        }
        let Ok(_lock) = self.lock_stamps(session) else { return };
        let Ok(synced) = self.sync_grown(session, synced) else { return };
        let Ok((seen, state)) = self.state(session) else { return };
        let change = |index: usize, phase| {
            let length = seen[index].length;
            (state.generation, phase, synced[index].min(length), length)
        };
        if state.may_join || !state.is_open {
            let _ = self.stamp_all(session, false, |index| change(index, Phase::Closing)).and_then(
                |()| self.stamp_all(session, false, |index| change(index, Phase::Closed)),
            );
        }
    }

    /// Syncs the objects that have grown beyond their durable length, if the session syncs. Returns
    /// the durable lengths.
    fn sync_grown(
        &self,
        session: &WritingSession,
        durable: Vec<u64>,
    ) -> Result<Vec<u64>, FileError> {
        if !session.syncs {
            return Ok(durable);
        }
        let lengths = self.objects().iter().map(File::size).collect::<Result<Vec<_>, _>>()?;
        let grown: Vec<usize> =
            (0..lengths.len()).filter(|index| lengths[*index] > durable[*index]).collect();
        for_all(grown.len(), true, |number| self.objects()[grown[number]].sync_data())?;
        Ok(durable.iter().zip(&lengths).map(|(durable, length)| *length.max(durable)).collect())
    }

    /// Whether nobody else has the file open for writing. If so, nobody can open it for writing
    /// while this lives.
    fn is_last_writer(&self) -> bool {
        if let Some(device) = self.device(0) {
            return device.is_last_writer();
        }
        let Some(first) = self.objects()[0].descriptor() else { return false };
        // A child process of another thread may hold the descriptor for a moment.
        take_within(Duration::from_millis(1), || {
            flock(first, FlockOperation::NonBlockingLockExclusive)
        })
        .is_ok()
    }
}

/// Calls `work` for each of `count` objects, in parallel if it waits for disks. Returns the first
/// error.
fn for_all(
    count: usize,
    at_once: bool,
    work: impl Fn(usize) -> Result<(), FileError> + Sync,
) -> Result<(), FileError> {
    if !at_once || count < 2 {
        return (0..count).try_for_each(work);
    }
    let work = &work;
    let all: Vec<usize> = (0..count).collect();
    let mut outcome = Ok(());
    for some in all.chunks(WRITERS) {
        let one = std::thread::scope(|scope| {
            let spawn = |index: &usize| {
                let index = *index;
                std::thread::Builder::new()
                    .spawn_scoped(scope, move || work(index))
                    .map_err(|_| index)
            };
            let (first, others) = some.split_first().expect("a chunk is not empty");
            let threads: Vec<_> = others.iter().map(spawn).collect();
            let joined = |thread: Result<ScopedJoinHandle<'_, _>, usize>| match thread {
                Ok(thread) => thread.join().expect("writing a stamp does not panic"),
                // No more threads can be started.
                Err(index) => work(index),
            };
            threads.into_iter().map(joined).fold(work(*first), Result::and)
        });
        outcome = outcome.and(one);
    }
    outcome
}
