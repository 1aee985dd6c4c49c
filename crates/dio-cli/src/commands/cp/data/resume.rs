//! `--resume`: a note beside the target names the source and says how much of the copy is durable.
//! A copy that was interrupted by a signal, an error or a power failure continues from there.

use std::ops::Range;
use std::path::PathBuf;

use dio::transfer::Contents as Whole;
use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::OpenTarget;
use super::digests::Digests;
use super::path::{DataPath, Task};
use crate::tool::errno_of;
use crate::tool::target::own_file::{read_own, replace_by};

/// Maximum number of bytes between two notes, which is the most that a crash may cost. Each note
/// waits for the requests in flight and flushes the device.
const STEP: u64 = 256 << 20;

/// Minimum number of bytes between two notes. A slow copy writes one each second.
const LEAST_STEP: u64 = 1 << 20;

/// Maximum size of a note in bytes.
const NOTE_MAX: u64 = 4096;

/// Contents of the note. A source whose time of modification or change differs counts as another
/// source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    device: u64,
    inode: u64,
    size: u64,
    modified_seconds: i64,
    modified_nanoseconds: i64,
    changed_seconds: i64,
    changed_nanoseconds: i64,
    /// The target. Another file under its name does not match, even if it got the same inode
    /// number.
    target_device: (u32, u32),
    target_inode: u64,
    target_born: (i64, u32),
    /// Number of bytes from the start that are durable in the target.
    complete: u64,
}

impl Note {
    /// Parses a note; returns `None` if the text is not one.
    fn parse(text: &[u8]) -> Option<Note> {
        serde_json::from_slice(text).ok()
    }

    fn of(task: &Task<'_>, target: &OpenTarget) -> Result<Note, CopyError> {
        let stat = task.contents.stat;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let made = statx(&target.fd, c"", AtFlags::EMPTY_PATH, wanted);
        let made = made.at(FailedOperation::Stat, || task.contents.target_path())?;
        Ok(Note {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified_seconds: stat.st_mtime,
            modified_nanoseconds: stat.st_mtime_nsec as i64,
            changed_seconds: stat.st_ctime,
            changed_nanoseconds: stat.st_ctime_nsec as i64,
            target_device: (made.stx_dev_major, made.stx_dev_minor),
            target_inode: made.stx_ino,
            target_born: (made.stx_btime.tv_sec, made.stx_btime.tv_nsec),
            complete: 0,
        })
    }
}

impl DataPath {
    /// Continues a copy where an earlier attempt ended. Returns the number of bytes in holes.
    pub(super) fn copy_resumably(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        whole: &Whole<'_>,
        digests: &mut Option<Digests>,
    ) -> Result<u64, CopyError> {
        let path = note_path(&task.contents.target_path());
        let mut note = Note::of(task, target)?;
        let earlier = read_own(&path, NOTE_MAX).and_then(|text| Note::parse(&text));
        let kept = whole.target.size()?;
        match earlier.filter(|earlier| {
            Note { complete: 0, ..earlier.clone() } == note && earlier.complete <= kept
        }) {
            Some(earlier) => {
                note.complete = earlier.complete;
                // The beginning was not read in this run, so verification has to read both files.
                *digests = None;
            }
            None => self.empty(task, target)?,
        }
        let whole = Whole { start: note.complete, ..*whole };
        let copied = whole.prepare()?;
        let step = self
            .transfer
            .limit
            .map_or(STEP, |rate| rate.clamp(LEAST_STEP, STEP) / LEAST_STEP * LEAST_STEP);
        for step in steps(&copied.ranges, step) {
            let outcome = self.run_job(&whole.job(&step), digests.as_mut());
            let complete = match &outcome {
                Ok(complete) | Err((_, complete)) => *complete,
            };
            let more = complete > note.complete;
            // After a failed write this sync fails too. The earlier note then stays valid.
            let synced = if more { whole.target.sync_data() } else { Ok(()) };
            if more && synced.is_ok() {
                note.complete = complete;
                write_note(&path, &note).at(FailedOperation::Write, || path.clone())?;
            }
            if let Err((error, _)) = outcome {
                // The first error is reported. If this call fails, the excess space stays
                // allocated.
                let _ = whole.target.cut_off(note.complete);
                return Err(error);
            }
            synced?;
        }
        whole.check_size()?;
        if let Some(digests) = digests {
            digests.ranges = copied.ranges;
        }
        Ok(copied.holes)
    }

    /// Removes the note: the copy is complete and durable, so there is nothing to resume.
    pub(super) fn forget_note(&self, task: &Task<'_>) {
        if self.transfer.resume {
            // A small file has no note. The file for the next note exists only if an earlier copy
            // was killed while it wrote it.
            let path = note_path(&task.contents.target_path());
            let _ = std::fs::remove_file(new_note(&path));
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Path of the note of a target.
fn note_path(target: &std::path::Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".dio-resume");
    target.with_file_name(name)
}

/// Path of the next note until it is durable.
fn new_note(path: &std::path::Path) -> PathBuf {
    path.with_extension("dio-resume-new")
}

/// Replaces the note durably. An interrupted write leaves the old one.
fn write_note(path: &std::path::Path, note: &Note) -> Result<(), rustix::io::Errno> {
    let text = serde_json::to_vec(note).map_err(std::io::Error::from);
    let written = text.and_then(|text| replace_by(path, &new_note(path), &text, 0o600));
    written.map_err(|error| errno_of(&error))
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_note(text: &[u8]) -> Option<Vec<u8>> {
    let note = Note::parse(text)?;
    let again = serde_json::to_vec(&note).expect("numbers have a form in JSON");
    assert_eq!(Note::parse(&again).as_ref(), Some(&note));
    Some(again)
}

/// Splits ranges into groups of at most `most` bytes.
fn steps(ranges: &[Range<u64>], most: u64) -> Vec<Vec<Range<u64>>> {
    let (mut steps, mut step, mut room) = (Vec::new(), Vec::new(), most);
    for range in ranges {
        let mut rest = range.clone();
        while !rest.is_empty() {
            let end = rest.end.min(rest.start + room);
            step.push(rest.start..end);
            room -= end - rest.start;
            rest.start = end;
            if room == 0 {
                steps.push(std::mem::take(&mut step));
                room = most;
            }
        }
    }
    if !step.is_empty() {
        steps.push(step);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cover_the_ranges() {
        let ranges = [0..STEP / 2, STEP..3 * STEP];
        let steps = steps(&ranges, STEP);
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[0], [0..STEP / 2, STEP..STEP * 3 / 2]);
        assert_eq!(
            steps.concat().iter().map(|r| r.end - r.start).sum::<u64>(),
            STEP / 2 + 2 * STEP
        );
    }

    #[test]
    fn the_note_is_hidden_beside_the_target() {
        assert_eq!(
            note_path(std::path::Path::new("a/b.img")),
            std::path::Path::new("a/.b.img.dio-resume")
        );
    }
}
