//! How many bytes and requests a file has moved, and how. Receipts and benchmarks print these
//! numbers.

use crate::engine::OpKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// How bytes travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Between the device and the caller's memory.
    Direct,
    /// Between the device and aligned memory of this crate, copied once.
    Bounced,
    /// Through the page cache, from which they are dropped.
    Uncached,
    /// Through the page cache, where they stay.
    Cached,
    /// Through a pipe, terminal or socket, which has no pages.
    Piped,
}

impl Class {
    /// All classes, in the order of the tables.
    pub const ALL: [Class; 5] =
        [Class::Direct, Class::Bounced, Class::Uncached, Class::Cached, Class::Piped];

    /// The name in receipts.
    pub fn name(self) -> &'static str {
        match self {
            Class::Direct => "direct",
            Class::Bounced => "bounced",
            Class::Uncached => "uncached",
            Class::Cached => "cached",
            Class::Piped => "piped",
        }
    }
}

/// Why bytes did not go direct although the mode asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The first or last bytes of a request do not fill a block of the file.
    MisalignedRequest,
    /// The caller's memory is not aligned.
    MisalignedMemory,
    /// The end of the file lies within the last block: a direct write would leave bytes behind the
    /// end.
    EndOfFile,
    /// The file system has no direct I/O for this file.
    NoDirectIo,
    /// The file system accepts direct I/O but was found to use the page cache.
    KernelBuffers,
    /// The caller chose it, because direct I/O costs more: for a small file, or for a request below
    /// the threshold ([`OpenOptions::direct_from`]).
    ///
    /// [`OpenOptions::direct_from`]: super::OpenOptions::direct_from
    Small,
}

impl Reason {
    /// All reasons, in the order of the tables.
    pub const ALL: [Reason; 6] = [
        Reason::MisalignedRequest,
        Reason::MisalignedMemory,
        Reason::EndOfFile,
        Reason::NoDirectIo,
        Reason::KernelBuffers,
        Reason::Small,
    ];

    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Reason::MisalignedRequest => "request not aligned to blocks",
            Reason::MisalignedMemory => "memory not aligned",
            Reason::EndOfFile => "end of file within a block",
            Reason::NoDirectIo => "file system has no direct I/O",
            Reason::KernelBuffers => "file system buffers direct I/O",
            Reason::Small => "small file or request",
        }
    }
}

/// Bytes by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesByClass([u64; Class::ALL.len()]);

impl BytesByClass {
    /// Bytes of one class.
    pub fn get(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Bytes of all classes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds bytes to a class.
    pub fn add(&mut self, class: Class, bytes: u64) {
        self.0[class as usize] += bytes;
    }
}

/// The counters of one file at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes read for the caller.
    pub read: BytesByClass,
    /// Bytes written for the caller.
    pub written: BytesByClass,
    /// Read requests to the kernel.
    pub read_requests: u64,
    /// Write requests to the kernel.
    pub write_requests: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Bytes that did not go direct, by [`Reason`], in the order of [`Reason::ALL`].
    pub reasons: [u64; 6],
}

impl Counters {
    /// Bytes that did not go direct for this reason.
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// The reason for most bytes that did not go direct; `None` if all did.
    pub fn main_reason(&self) -> Option<Reason> {
        let largest = Reason::ALL.into_iter().max_by_key(|reason| self.reason(*reason))?;
        (self.reason(largest) > 0).then_some(largest)
    }

    /// Adds the counters of another file or moment.
    pub fn add(&mut self, other: &Counters) {
        for class in Class::ALL {
            self.read.add(class, other.read.get(class));
            self.written.add(class, other.written.get(class));
        }
        self.read_requests += other.read_requests;
        self.write_requests += other.write_requests;
        self.syncs += other.syncs;
        for (sum, more) in self.reasons.iter_mut().zip(other.reasons) {
            *sum += more;
        }
    }
}

/// The live counters of one file. They are statistics: no order between them is promised.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    read: [AtomicU64; Class::ALL.len()],
    written: [AtomicU64; Class::ALL.len()],
    pub(crate) read_requests: AtomicU64,
    pub(crate) write_requests: AtomicU64,
    pub(crate) syncs: AtomicU64,
    reasons: [AtomicU64; 6],
}

impl Meter {
    pub(crate) fn count_requests(&self, kind: OpKind, count: u64) {
        let counter = if kind == OpKind::Read { &self.read_requests } else { &self.write_requests };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts bytes of a read or of a write, with the reason why they did not go direct.
    pub(crate) fn count(&self, kind: OpKind, bytes: u64, (class, reason): (Class, Option<Reason>)) {
        let counters = if kind == OpKind::Read { &self.read } else { &self.written };
        counters[class as usize].fetch_add(bytes, Ordering::Relaxed);
        if let Some(reason) = reason {
            self.reasons[reason as usize].fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> Counters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            read: BytesByClass(self.read.each_ref().map(load)),
            written: BytesByClass(self.written.each_ref().map(load)),
            read_requests: load(&self.read_requests),
            write_requests: load(&self.write_requests),
            syncs: load(&self.syncs),
            reasons: self.reasons.each_ref().map(load),
        }
    }
}
