//! Where a file ends, and what space it has.

use std::io;
use std::ops::Range;

use rustix::io::Errno;

use super::{File, FileError};
use crate::geometry::align_down;
use crate::lock::LockClass;

pub(super) fn size(file: &File) -> Result<u64, FileError> {
    patiently(|| file.body.size()).map_err(|error| file.refused("ask the size of", &error))
}

pub(super) fn set_size(file: &File, size: u64) -> Result<(), FileError> {
    file.latch.check()?;
    let _guard = file.locks.whole(LockClass::Resize);
    resize(file, size)
}

pub(super) fn cut_off(file: &File, size: u64) -> Result<(), FileError> {
    let _guard = file.locks.whole(LockClass::Resize);
    let old = file.size()?;
    // Objects of a striped file may hold more than what the file ends with.
    if old <= size && !file.shape.ordered_growth { Ok(()) } else { resize(file, size.min(old)) }
}

/// Sets the size; the caller is alone with the file.
fn resize(file: &File, size: u64) -> Result<(), FileError> {
    let old = before_zeroing(file)?;
    patiently(|| file.body.set_size(size)).map_err(|error| file.refused("resize", &error).at(size))?;
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
    patiently(|| file.body.allocate(range.clone(), extend))
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
    patiently(|| file.body.punch(range.clone())).map_err(|error| file.refused("punch a hole into", &error).at(at))?;
    after_zeroing(file, &[range.start, range.end])
}

/// Makes a striped file reach to where something is about to be written; any other does that by itself.
pub(super) fn reach(file: &File, size: u64) -> Result<(), FileError> {
    file.body.reach(size).map_err(|error| {
        let error = file.refused("extend", &error).at(size);
        // What is too large for an object that nothing was changed for leaves the file as it was. What has made others
        // longer must not become part of it; who opens it next cuts that off.
        if error.errno() == Errno::FBIG && !file.body.may_have_surplus() { error } else { file.latch.set(error) }
    })
}

/// Before something that makes the kernel zero a part of a block, which it does in the page cache whatever the mode.
/// Returns the size.
pub(super) fn before_zeroing(file: &File) -> Result<u64, FileError> {
    match file.body.single() {
        Some(single) if !file.is_cached() && single.os.is_some() => {
            single.os.iter().for_each(|os| single.residue.prepare(os));
            file.size()
        }
        _ => Ok(0),
    }
}

/// After it: `edges` are the places within whose blocks bytes may have been zeroed.
pub(super) fn after_zeroing(file: &File, edges: &[u64]) -> Result<(), FileError> {
    let Some(single) = file.body.single().filter(|single| single.os.is_some() && !file.is_cached()) else {
        return Ok(());
    };
    let block = file.geometry.block().max(rustix::param::page_size() as u64);
    let mut enough = false;
    for edge in edges.iter().filter(|edge| **edge % block != 0) {
        enough |= single.residue.touch(align_down(*edge, block)..edge + 1, true);
    }
    if enough { file.settle_now() } else { Ok(()) }
}

/// Runs a call again that a signal interrupted before it did anything, as `fallocate(2)` on a large range.
fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
