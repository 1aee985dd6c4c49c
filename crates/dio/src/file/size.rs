//! The size of a file, and the space allocated to it.

use std::ops::Range;

use dio_sys::uninterrupted;
use rustix::io::Errno;

use super::error::FileError;
use super::handle::File;
use crate::geometry::align_down;
use crate::lock::LockClass;

pub(super) fn size(file: &File) -> Result<u64, FileError> {
    uninterrupted(|| file.backing.size()).map_err(|error| file.refused("ask the size of", &error))
}

pub(super) fn set_size(file: &File, size: u64) -> Result<(), FileError> {
    file.latch.check()?;
    let _guard = file.locks.whole(LockClass::Resize);
    resize(file, size)
}

pub(super) fn cut_off(file: &File, size: u64) -> Result<(), FileError> {
    let _guard = file.locks.whole(LockClass::Resize);
    let old = file.size()?;
    // Objects of a striped file may hold bytes behind its end.
    if old <= size && !file.traits.ordered_growth { Ok(()) } else { resize(file, size.min(old)) }
}

/// Sets the size. The caller holds the whole file alone.
fn resize(file: &File, size: u64) -> Result<(), FileError> {
    let old = before_zeroing(file)?;
    uninterrupted(|| file.backing.set_size(size))
        .map_err(|error| file.refused("resize", &error).at(size))?;
    after_zeroing(file, &[old, size])
}

pub(super) fn allocate(file: &File, range: Range<u64>, extend: bool) -> Result<(), FileError> {
    file.latch.check()?;
    let at = range.start;
    if range.is_empty() {
        return Err(file.failed("allocate space for", Errno::INVAL).at(at));
    }
    let _guard = extend.then(|| file.locks.whole(LockClass::Resize));
    let old = before_zeroing(file)?;
    uninterrupted(|| file.backing.allocate(range.clone(), extend))
        .map_err(|error| file.refused("allocate space for", &error).at(at))?;
    after_zeroing(file, &[old])
}

pub(super) fn punch(file: &File, range: Range<u64>) -> Result<(), FileError> {
    file.latch.check()?;
    let at = range.start;
    if range.is_empty() {
        return Err(file.failed("punch a hole into", Errno::INVAL).at(at));
    }
    let _guard = file.locks.pages(range.clone(), LockClass::Write);
    before_zeroing(file)?;
    uninterrupted(|| file.backing.punch(range.clone()))
        .map_err(|error| file.refused("punch a hole into", &error).at(at))?;
    after_zeroing(file, &[range.start, range.end])
}

/// Extends a striped file to where something is about to be written. Other files need no extending
/// first.
pub(super) fn extend_to(file: &File, size: u64) -> Result<(), FileError> {
    file.backing.extend_to(size).map_err(|error| {
        let error = file.refused("extend", &error).at(size);
        // If an object is too large before any was changed, the file is as it was. If other objects
        // have grown, their bytes must not become part of the file; the next open cuts them off.
        if error.errno() == Errno::FBIG && !file.backing.may_have_surplus() {
            error
        } else {
            file.latch.set(error)
        }
    })
}

/// Must be called before anything that makes the kernel zero a part of a block. The kernel does
/// that in the page cache, whatever the mode. Returns the size.
pub(super) fn before_zeroing(file: &File) -> Result<u64, FileError> {
    match file.backing.single() {
        Some(single) if !file.is_cached() && single.os.is_some() => {
            single.os.iter().for_each(|os| single.residue.take_snapshot(os));
            file.size()
        }
        _ => Ok(0),
    }
}

/// Must be called after it. `edges` are the offsets in whose blocks bytes may have been zeroed.
pub(super) fn after_zeroing(file: &File, edges: &[u64]) -> Result<(), FileError> {
    let Some(single) =
        file.backing.single().filter(|single| single.os.is_some() && !file.is_cached())
    else {
        return Ok(());
    };
    let block = file.geometry.block().max(rustix::param::page_size() as u64);
    let mut enough = false;
    for edge in edges.iter().filter(|edge| **edge % block != 0) {
        enough |= single.residue.touch(align_down(*edge, block)..edge + 1, true);
    }
    if enough { file.settle_now() } else { Ok(()) }
}
