//! Counters of one file or of all files; they only increase.

use dio::file::Reason;
use dio::lock::{LockClass, LockStats};
use dio::{Class, Counters};
use serde::{Deserialize, Serialize};

use super::named::{Live, Tally};
use super::{Event, RequestKind, Wait};

/// Counters since a file was first opened, or since the mount began, or for an interval.
///
/// *Requests* are made by programs; *transfers* are made by the server to the file system below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Requests that succeeded.
    pub requests: Tally<RequestKind>,
    /// Requests that failed.
    pub errors: Tally<RequestKind>,
    /// Bytes that programs read or wrote.
    pub bytes: Tally<RequestKind>,
    /// Time from arrival to answer, in nanoseconds, summed over requests.
    pub nanos: Tally<RequestKind>,
    /// Read requests by the class of most of their bytes.
    pub read_requests: Tally<Class>,
    /// Write requests by the class of most of their bytes.
    pub write_requests: Tally<Class>,
    /// Bytes read from the file system below, by class; including read-ahead.
    pub read_bytes: Tally<Class>,
    /// Bytes written to the file system below, by class.
    pub write_bytes: Tally<Class>,
    /// Bytes that were not transferred by direct I/O although the mode asks for it.
    pub reasons: Tally<Reason>,
    /// Requests to the file system below.
    pub transfers: Tally<RequestKind>,
    /// Number of times that a request was blocked, by the object it waited for.
    pub waits: Tally<Wait>,
    /// Time that requests were blocked, in nanoseconds.
    pub waited: Tally<Wait>,
    /// Locks granted, by the type of operation.
    pub locks: Tally<LockClass>,
    /// Number of locks that were not granted at once.
    pub lock_waits: Tally<LockClass>,
    /// Time waited for locks, in nanoseconds.
    pub lock_waited: Tally<LockClass>,
    /// Number of events.
    pub events: Tally<Event>,
    /// Bytes that the events concerned.
    pub event_bytes: Tally<Event>,
}

/// Calls a method on each counter of two readings.
macro_rules! each {
    ($one:expr, $other:expr, $action:ident) => {
        each!(@ $one, $other, $action, requests errors bytes nanos read_requests write_requests
            read_bytes write_bytes reasons transfers waits waited locks lock_waits lock_waited
            events event_bytes)
    };
    (@ $one:expr, $other:expr, $action:ident, $($field:ident)*) => {
        [$($one.$field.$action(&$other.$field)),*]
    };
}

impl Figures {
    /// Adds another reading.
    pub fn plus(&mut self, other: &Figures) {
        each!(self, other, plus);
    }

    /// Subtracts an earlier reading; no result is negative.
    pub fn minus(&mut self, earlier: &Figures) {
        each!(self, earlier, minus);
    }

    /// Whether no counter is lower than in the other reading. That holds for a later reading of the
    /// same file.
    pub fn at_least(&self, other: &Figures) -> bool {
        each!(self, other, at_least).into_iter().all(|holds| holds)
    }

    /// Adds the difference of two readings of a [`dio::File`]'s counters.
    pub(super) fn add_counters(&mut self, now: &Counters, before: &Counters) {
        for class in Class::ALL {
            self.read_bytes.add(class, now.read.get(class).saturating_sub(before.read.get(class)));
            self.write_bytes
                .add(class, now.written.get(class).saturating_sub(before.written.get(class)));
        }
        for reason in Reason::ALL {
            self.reasons.add(reason, now.reason(reason).saturating_sub(before.reason(reason)));
        }
        self.transfers
            .add(RequestKind::Read, now.read_requests.saturating_sub(before.read_requests));
        self.transfers
            .add(RequestKind::Write, now.write_requests.saturating_sub(before.write_requests));
        self.transfers.add(RequestKind::Sync, now.syncs.saturating_sub(before.syncs));
    }

    /// Adds the difference of two readings of a file's lock counters; `lock` is the lock that reads
    /// and writes wait for.
    pub(super) fn add_locks(&mut self, now: &LockStats, before: &LockStats, lock: Wait) {
        for class in LockClass::ALL {
            let (now, before) = (now.get(class), before.get(class));
            let wait = match class {
                LockClass::Read | LockClass::Write => lock,
                LockClass::Resize | LockClass::Misaligned => Wait::File,
            };
            let waits = now.waits.saturating_sub(before.waits);
            let waited = now.wait_nanos.saturating_sub(before.wait_nanos);
            self.locks.add(class, now.acquisitions.saturating_sub(before.acquisitions));
            self.lock_waits.add(class, waits);
            self.lock_waited.add(class, waited);
            self.waits.add(wait, waits);
            self.waited.add(wait, waited);
        }
    }
}

/// The counters of one file to which threads add, without the counters of its
/// [`Source`](super::Source)s.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    pub(super) requests: Live<RequestKind>,
    pub(super) errors: Live<RequestKind>,
    pub(super) bytes: Live<RequestKind>,
    pub(super) nanos: Live<RequestKind>,
    pub(super) read_requests: Live<Class>,
    pub(super) write_requests: Live<Class>,
    pub(super) waits: Live<Wait>,
    pub(super) waited: Live<Wait>,
    pub(super) events: Live<Event>,
    pub(super) event_bytes: Live<Event>,
}

impl RequestCounts {
    /// Adds the current values to `sum`.
    pub(super) fn add_to(&self, sum: &mut Figures) {
        self.requests.add_to(&mut sum.requests);
        self.errors.add_to(&mut sum.errors);
        self.bytes.add_to(&mut sum.bytes);
        self.nanos.add_to(&mut sum.nanos);
        self.read_requests.add_to(&mut sum.read_requests);
        self.write_requests.add_to(&mut sum.write_requests);
        self.waits.add_to(&mut sum.waits);
        self.waited.add_to(&mut sum.waited);
        self.events.add_to(&mut sum.events);
        self.event_bytes.add_to(&mut sum.event_bytes);
    }
}
