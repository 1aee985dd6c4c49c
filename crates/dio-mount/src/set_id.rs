//! Set-id bits and file capabilities, which a file must lose when it is changed by a user without
//! the right to set them.
//!
//! With `FUSE_HANDLE_KILLPRIV_V2` (`include/uapi/linux/fuse.h`) this is left to the server, and the
//! kernel does not ask for `security.capability` before each write. The bits and capabilities are
//! cleared as follows:
//!
//! | change | set-user-id, set-group-id | capabilities |
//! |---|---|---|
//! | write, by request | by the server, upon `FUSE_WRITE_KILL_SUIDGID` | by the file system below, for every writer |
//! | write, passed through | by the server, upon an attribute request without attributes; by the file system below, see [`unable_to_keep`] | by the file system below |
//! | allocation, copy of a range | by the server, upon the same request, or if the caller is not root | by the file system below |
//! | truncation | by the server, upon `FATTR_KILL_SUIDGID` or `FUSE_OPEN_KILL_SUIDGID` | by the file system below |
//! | change of owner or group | by the file system below, for every caller | likewise |
//!
//! The kernel's cached mode would be wrong after the first two, so modes with such bits must not be
//! cached ([`are_in`]): at an execution the kernel then asks for them.

use std::io;

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::{Errno, Result};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Returns the permissions of a regular file after its set-id bits are cleared; `None` if it has no
/// bits to clear (`setattr_should_drop_suidgid` of `fs/attr.c`). Set-user-id is always cleared,
/// set-group-id if the group may execute the file. Without that permission the bit is the
/// historical mark of mandatory locks.
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

/// Whether the file has bits that a write can clear without the kernel's notice.
pub(crate) fn are_in(stat: &Stat) -> bool {
    without(stat).is_some()
}

/// Converts the result of clearing the bits. A server without `CAP_FSETID` may not change the mode
/// of another user's file. That is no error: for lack of that capability, its write or truncation
/// clears the bits anyway.
pub(crate) fn taken(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Errno::PERM) if !capabilities(None)?.effective.contains(CapabilitySet::FSETID) => {
            Ok(())
        }
        other => other,
    }
}

/// Passes a file to the kernel in such a manner that the file system below clears the bits at each
/// write that is passed through.
///
/// The kernel makes such writes with the credentials of the thread that passed the file
/// (`fs/backing-file.c`). With `CAP_FSETID`, they would keep the bits for every writer.
///
/// # Errors
/// Those of `action` and of `capset(2)`; nothing is passed then.
pub(crate) fn unable_to_keep<T>(action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = capabilities(None)?;
    let fewer = CapabilitySets { effective: own.effective - CapabilitySet::FSETID, ..own };
    let _back = Back(own);
    set_capabilities(None, fewer)?;
    action()
}

/// The capabilities to restore for the thread.
struct Back(CapabilitySets);

impl Drop for Back {
    fn drop(&mut self) {
        if set_capabilities(None, self.0).is_err() {
            // A thread that continued without the capability would clear bits that must stay.
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
