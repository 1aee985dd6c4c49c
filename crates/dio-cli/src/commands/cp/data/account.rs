//! The part of the receipt that belongs to one file.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};

use dio::file::{Class, Counters, Reason};
use dio::names::resident_pages;

use super::super::open::{Contents, OpenTarget};
use crate::receipt::{ClassAndReason, FileLine, Ledger, Role, dominant_class};

/// Collects the account of one file while it is copied. Does nothing costly if no receipt is
/// wanted.
pub(super) struct Account<'a> {
    ledger: &'a Ledger,
    contents: &'a Contents<'a>,
    source_pages: Option<u64>,
    source: Cell<ClassAndReason>,
    target: Cell<ClassAndReason>,
    target_pages: Cell<Option<u64>>,
}

impl<'a> Account<'a> {
    /// Opens the account of a source. Call it before anything is read from the source.
    pub(super) fn open(
        ledger: &'a Ledger,
        contents: &'a Contents<'a>,
        source: &OwnedFd,
    ) -> Account<'a> {
        let source_pages = pages(ledger, source);
        let nothing = Cell::new(("none", None));
        Account {
            ledger,
            contents,
            source_pages,
            source: nothing.clone(),
            target: nothing,
            target_pages: Cell::new(None),
        }
    }

    /// Counts the target's cached pages. Call it before the target is read or written.
    pub(super) fn opened_target(&self, target: &OpenTarget) {
        self.target_pages.set(pages(self.ledger, &target.fd));
    }

    /// Records that the file was cloned.
    pub(super) fn reflinked(&self, bytes: u64) {
        self.ledger.count_reflinked(bytes);
        self.source.set(("reflinked", None));
        self.target.set(("reflinked", None));
    }

    /// Records bytes that were moved through the library's files.
    pub(super) fn moved(&self, source: &Counters, target: &Counters, holes: u64) {
        self.ledger.count(source);
        self.ledger.count(target);
        self.ledger.count_holes(holes);
        self.source.set(dominant_class(&source.read, source));
        self.target.set(dominant_class(&target.written, target));
    }

    /// Records bytes that were moved by plain reads and writes, as for small files and files
    /// without a size.
    pub(super) fn moved_plainly(
        &self,
        bytes: u64,
        requests: u64,
        class: Class,
        reason: Option<Reason>,
    ) {
        if !self.ledger.wanted() {
            return;
        }
        let mut counters =
            Counters { read_requests: requests, write_requests: requests, ..Counters::default() };
        counters.read.add(class, bytes);
        counters.written.add(class, bytes);
        self.ledger.count(&counters);
        self.source.set((class.name(), reason.map(Reason::text)));
        self.target.set((class.name(), reason.map(Reason::text)));
    }

    /// Closes the account. By then the file is complete and its pages have been evicted, unless a
    /// whole tree is synced at the end.
    pub(super) fn close(&self, source: &OwnedFd, target: &OpenTarget) {
        if !self.ledger.wanted() {
            return;
        }
        let line = |path, role, (mode, reason): ClassAndReason, pages_before, pages_after| {
            FileLine { path, role, mode, reason, pages_before, pages_after }
        };
        self.ledger.list(|| {
            let after = pages(self.ledger, source);
            line(
                self.contents.source_path(),
                Role::Source,
                self.source.get(),
                self.source_pages,
                after,
            )
        });
        self.ledger.list(|| {
            let after = pages(self.ledger, &target.fd);
            line(
                self.contents.target_path(),
                Role::Target,
                self.target.get(),
                self.target_pages.get(),
                after,
            )
        });
    }
}

fn pages(ledger: &Ledger, fd: impl AsFd) -> Option<u64> {
    if ledger.wanted() { resident_pages(fd).ok() } else { None }
}
