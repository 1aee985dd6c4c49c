//! Appends of a handle. They go to wherever the file ends when they reach the source, even if other
//! programs append there too.
//!
//! The kernel sends an offset with an append: the end of the file according to the size that it has
//! cached. The file may have grown beside the mount, and acknowledged bytes may still be pending.
//! So the offset serves only to detect that the kernel's size is wrong.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dio::{Class, Mode as IoMode, SyncMethod};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::behind::{LazyTarget, SMALL};
use super::descriptors::{Descriptors, file_of, sync_method};
use super::interface::WriteProperties;
use super::shared::{Handle, OpenInode, Routes};
use crate::stats::Event;

/// Whether the bytes go to the end of the file, wherever that is.
pub(super) fn appends(how: WriteProperties) -> bool {
    !how.cache && how.flags.contains(OFlags::APPEND)
}

impl Handle {
    /// Appends all of `bytes`, for which the kernel has sent `offset`. Returns the class of most of
    /// the bytes, and whether they waited for the device.
    pub(super) fn append(
        &self,
        routes: &Routes,
        descriptors: &Arc<Descriptors>,
        offset: u64,
        bytes: &[u8],
        how: WriteProperties,
    ) -> Result<(Class, bool)> {
        if descriptors.is_striped() {
            return self.append_at_once(routes, descriptors, offset, bytes, how);
        }
        let (shared, len) = (&self.shared, bytes.len() as u64);
        // Bytes reach the source in the order in which they were acknowledged.
        shared.ordered.settle();
        let start = match shared.appended.expected_end() {
            Some(end) => end,
            None => descriptors.size()?,
        };
        let end = end_of(start, len)?;
        shared.tell_of_end(offset, start);
        let mode = self.io_mode(routes, descriptors, &(start..end), true);
        self.run.continues(start, end);
        shared.about.figures.count(Event::Extend, len);
        shared.known_end.fetch_max(end, Ordering::Relaxed);
        let explicit = sync_method(how.flags) == SyncMethod::Explicit;
        let soon_synced = self.commits.wrote();
        if explicit && !soon_synced && mode != IoMode::Cached && self.may_be_behind(routes) {
            let aim = LazyTarget { mode, descriptors: Arc::clone(descriptors) };
            if end > SMALL {
                // Opened before the bytes are acknowledged, so that the file is open when they are
                // written.
                aim.file()?;
            }
            if shared.appended.take(&aim, bytes, shared.common.live.get().write_behind) {
                return Ok((Class::Bounced, false));
            }
        }
        shared.appended.settle();
        let file = file_of(descriptors, mode, how.flags)?;
        let _change = shared.changes.begin(descriptors.size()?.min(start)..u64::MAX);
        let class = file
            .append(&[IoSlice::new(bytes)])
            .map_err(|error| descriptors.failed(&file, &error))?;
        shared.own_end.fetch_max(descriptors.size()?, Ordering::AcqRel);
        Ok((class, class == Class::Direct))
    }

    /// Appends to a striped file, whose end the server finds itself. No other writer may be about
    /// to write there, through the mount or beside it; so the end is locked, and the bytes are in
    /// the source when this returns.
    fn append_at_once(
        &self,
        routes: &Routes,
        descriptors: &Descriptors,
        offset: u64,
        bytes: &[u8],
        how: WriteProperties,
    ) -> Result<(Class, bool)> {
        let (shared, len) = (&self.shared, bytes.len() as u64);
        shared.ordered.settle();
        let mode = self.io_mode(routes, descriptors, &(offset..offset.saturating_add(len)), true);
        let file = file_of(descriptors, mode, how.flags)?;
        let _lock = file.lock_end().map_err(|error| error.errno())?;
        let start = shared.end(descriptors)?;
        shared.tell_of_end(offset, start);
        let end = end_of(start, len)?;
        self.run.continues(start, end);
        let from = shared.note_end(descriptors, start, end);
        shared.scattered.wait_for(&(start..end));
        let _change = shared.changes.begin(from..end);
        file.write_at(bytes, start).map_err(|error| {
            // Only some objects may hold their part of the bytes. It must not become visible when
            // later appends extend the file.
            let _ = file.cut_off(u64::MAX);
            descriptors.failed(&file, &error)
        })?;
        Ok(if mode == IoMode::Cached {
            (Class::Cached, false)
        } else {
            (file.write_class().0, true)
        })
    }
}

/// Returns the end of a write; FBIG if that is after the largest offset that the kernel supports.
pub(super) fn end_of(start: u64, len: u64) -> Result<u64> {
    start.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(Errno::FBIG)
}

impl OpenInode {
    /// Compares the kernel's offset of an append with the actual end of the file. If they differ,
    /// the file has changed beside the mount, and the pages and the size that the kernel has cached
    /// are wrong. The kernel updates the size only when it requests attributes, and nothing makes
    /// it do so before the next append. So its cache is dropped, once for each such change.
    fn tell_of_end(&self, offset: u64, end: u64) {
        let displaced = end.wrapping_sub(offset);
        if self.displaced.swap(displaced, Ordering::Relaxed) != displaced && displaced != 0 {
            self.common.kernel.drop_pages(self.ino, 0..0);
        }
    }
}
