//! Set-id bits and file capabilities, which a file must lose when it is changed by somebody who
//! could not give them.
//!
//! With `FUSE_HANDLE_KILLPRIV_V2` (`include/uapi/linux/fuse.h`) this is left to the server, and the
//! kernel does not ask for `security.capability` before each write. Who takes what away then:
//!
//! | change | set-user-id, set-group-id | capabilities |
//! |---|---|---|
//! | write, by request | the server, told by `FUSE_WRITE_KILL_SUIDGID` | the file system below, whoever writes |
//! | write, passed through | the server, told by an attribute request without attributes; the file system below, see [`unable_to_keep`] | the file system below |
//! | allocation, copy of a range | the server, told in that way, or of who is not root | the file system below |
//! | truncation | the server, told by `FATTR_KILL_SUIDGID` or `FUSE_OPEN_KILL_SUIDGID` | the file system below |
//! | change of owner or group | the file system below, of whoever changes it | likewise |
//!
//! What the kernel believes of a mode would be wrong after the first two, so modes with such bits
//! are not to be believed ([`are_in`]): an execution asks for them.

use std::io;

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::{Errno, Result};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The permissions that a regular file is left with, if it has bits to lose
/// (`setattr_should_drop_suidgid` of `fs/attr.c`): set-user-id always, set-group-id if the group
/// may execute it; without that it is no such bit but the old mark of mandatory locks.
pub(crate) fn without(stat: &Stat) -> Option<Mode> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let mut lost = mode & Mode::SUID;
    if mode.contains(Mode::SGID | Mode::XGRP) {
        lost |= Mode::SGID;
    }
    (!lost.is_empty()).then_some(mode - lost)
}

/// Whether there are bits that a write may take away without the kernel knowing.
pub(crate) fn are_in(stat: &Stat) -> bool {
    without(stat).is_some()
}

/// What comes of taking bits away. A server that may not change the mode, of somebody else's file,
/// need not: it cannot keep the bits either, so its write or truncation takes them.
pub(crate) fn taken(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Errno::PERM) if !capabilities(None)?.effective.contains(CapabilitySet::FSETID) => Ok(()),
        other => other,
    }
}

/// Hands a file to the kernel such that the file system below takes the bits away at each write
/// that is passed through.
///
/// Such writes are done with the credentials of the thread that handed the file over
/// (`fs/backing-file.c`), and those with `CAP_FSETID` would keep the bits, whoever writes.
///
/// # Errors
/// Those of `action` and of `capset(2)`; nothing is handed over then.
pub(crate) fn unable_to_keep<T>(action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = capabilities(None)?;
    let fewer = CapabilitySets { effective: own.effective - CapabilitySet::FSETID, ..own };
    let _back = Back(own);
    set_capabilities(None, fewer)?;
    action()
}

/// The capabilities to which the thread returns.
struct Back(CapabilitySets);

impl Drop for Back {
    fn drop(&mut self) {
        if set_capabilities(None, self.0).is_err() {
            // A thread that goes on with less would take bits away that are to stay.
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_the_kernel() {
        let file = tempfile::tempfile().unwrap();
        let mut stat = rustix::fs::fstat(&file).unwrap();
        let mut left = |mode| {
            stat.st_mode = mode;
            without(&stat).map(|mode| mode.as_raw_mode())
        };
        assert_eq!(left(0o106_777), Some(0o777));
        assert_eq!(left(0o104_600), Some(0o600));
        assert_eq!(left(0o102_010), Some(0o010));
        assert_eq!(left(0o102_767), None);
        assert_eq!(left(0o106_767), Some(0o2767));
        assert_eq!(left(0o101_777), None);
        assert_eq!(left(0o042_777), None);
        assert_eq!(left(0o024_666), None);
    }

    #[test]
    fn a_thread_has_its_capabilities_back_after_a_panic() {
        let own = || capabilities(None).unwrap();
        let before = own();
        let during = unable_to_keep(|| Ok(own())).unwrap();
        assert!(!during.effective.contains(CapabilitySet::FSETID));
        assert_eq!(during.permitted, before.permitted);
        let panicked = std::panic::catch_unwind(|| unable_to_keep::<()>(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!((own().effective, own().permitted), (before.effective, before.permitted));
    }
}
