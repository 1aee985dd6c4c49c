//! Large files when too few descriptors are free for the copy loop. They are copied extent by
//! extent through the page cache, whose pages are then dropped, with no more descriptors than
//! source and target.

use std::ops::Range;

use dio::file::Class;
use rustix::fs::{FileType, SeekFrom, fstat, ftruncate, seek};
use rustix::io::Errno;

use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::OpenTarget;
use super::path::{DataPath, Task, WorkerBuffer};
use super::small::BUFFER;
use crate::tool::{Mode, When};

/// Size and alignment in bytes of the blocks of zeros that become holes with `--sparse=always`.
const HOLE_BYTES: usize = 4096;

impl DataPath {
    /// Copies a regular file to another one. Fails with EMFILE if the options or the files need the
    /// copy loop.
    pub(super) fn copy_with_few_descriptors(
        &self,
        lane: &mut WorkerBuffer,
        task: &Task<'_>,
        target: &OpenTarget,
    ) -> Result<(), CopyError> {
        let transfer = &self.transfer;
        let needs_more = task.striped || transfer.strict || transfer.verify || transfer.resume;
        let stat = fstat(&target.fd).at(FailedOperation::Stat, || task.contents.target_path())?;
        let both = [task.contents.stat.st_mode, stat.st_mode].map(FileType::from_raw_mode);
        if needs_more || both != [FileType::RegularFile; 2] {
            return Err(Errno::MFILE)
                .at(FailedOperation::OpenSource, || task.contents.source_path());
        }
        task.plain.set(true);
        self.empty(task, target)?;
        lane.buffer.resize(lane.buffer.len().max(BUFFER), 0);
        let size = task.contents.stat.st_size as u64;
        let (mut at, mut bytes, mut requests, mut before) = (0, 0, 0, None);
        while let Some(extent) = self.next_extent(task, at..size)? {
            at = extent.start;
            while at < extent.end {
                if self.stopped() {
                    return Err(CopyError::Interrupted);
                }
                let most = usize::try_from(extent.end - at).map_or(BUFFER, |left| left.min(BUFFER));
                let count = self.read_some(task, &mut lane.buffer[..most], at, &mut before)?;
                if count == 0 {
                    self.refuse_shrunk(task, at)?;
                    break;
                }
                self.write_data(task, target, &lane.buffer[..count], at)?;
                at += count as u64;
                (bytes, requests) = (bytes + count as u64, requests + 1);
                self.progress.add(count as u64);
                self.keep_pace(count as u64)?;
            }
            at = extent.end;
        }
        ftruncate(&target.fd, size).at(FailedOperation::Extend, || task.contents.target_path())?;
        if let Some(Some(before)) = before {
            // An error is harmless: pages that stay only use memory.
            let _ = before.drop_new(&task.source, 0..size);
        }
        let class = if transfer.mode == Mode::Cached { Class::Cached } else { Class::Uncached };
        task.account.moved_plainly(bytes, requests, class, None);
        Ok(())
    }

    /// Returns the next part of the source that is not a hole.
    fn next_extent(
        &self,
        task: &Task<'_>,
        rest: Range<u64>,
    ) -> Result<Option<Range<u64>>, CopyError> {
        if rest.is_empty() {
            return Ok(None);
        }
        let whole = self.transfer.sparse == When::Never;
        let start = match seek(&task.source, SeekFrom::Data(rest.start)) {
            Ok(start) if !whole => start,
            Err(Errno::NXIO) if !whole => return Ok(None),
            // This covers `--sparse=never`, and file systems that cannot report holes.
            _ => return Ok(Some(rest)),
        };
        let end = seek(&task.source, SeekFrom::Hole(start)).unwrap_or(rest.end);
        Ok((start < rest.end).then(|| start..end.min(rest.end)))
    }

    /// Writes the bytes read at `offset`. With `--sparse=always`, skips blocks of zeros.
    fn write_data(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        data: &[u8],
        offset: u64,
    ) -> Result<(), CopyError> {
        if self.transfer.sparse != When::Always {
            return self.write_all(task, target, data, offset);
        }
        for (index, piece) in data.chunks(HOLE_BYTES).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                self.write_all(task, target, piece, offset + (index * HOLE_BYTES) as u64)?;
            }
        }
        Ok(())
    }
}
