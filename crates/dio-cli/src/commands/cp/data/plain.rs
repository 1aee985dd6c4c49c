//! What has no size: devices, pipes and terminals on either side. Read and written plainly, to the end.

use rustix::io::{Errno, read, write};

use dio::file::Class;

use super::super::error::{At, CopyError, Doing};
use super::super::open::OpenTarget;
use super::{DataPath, Lane, Task};

/// Bytes read at once: the largest a pipe can be set to without privileges (`pipe(7)`).
const BUFFER: usize = 1 << 20;

impl DataPath {
    /// Copies until the source ends.
    pub(super) fn copy_plain(&self, lane: &mut Lane, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        self.empty(task, target)?;
        lane.buffer.resize(BUFFER.max(lane.buffer.len()), 0);
        let (mut total, mut requests) = (0, 0);
        loop {
            if self.stopped() {
                return Err(CopyError::Interrupted);
            }
            match read(&task.source, &mut lane.buffer[..]) {
                Ok(0) => break,
                Ok(count) => {
                    write_all(task, target, &lane.buffer[..count])?;
                    total += count as u64;
                    requests += 1;
                    self.progress.add(count as u64);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).at(Doing::Read, || task.contents.source_path()),
            }
        }
        task.account.moved_plainly(total, requests, Class::Cached, None);
        Ok(())
    }
}

fn write_all(task: &Task<'_>, target: &OpenTarget, mut rest: &[u8]) -> Result<(), CopyError> {
    while !rest.is_empty() {
        match write(&target.fd, rest) {
            Ok(0) => return Err(Errno::NOSPC).at(Doing::Write, || task.contents.target_path()),
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).at(Doing::Write, || task.contents.target_path()),
        }
    }
    Ok(())
}
