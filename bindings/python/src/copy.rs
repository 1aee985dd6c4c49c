//! `dio.copy`: the library's copy loop into a file that takes its name when it is complete.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::names::{self, UnfinishedFile};
use dio::stream::Writer;
use dio::transfer::{Contents, Copier, NoWatch, Sparse, blocks_for};
use dio::{File, Io, OpenOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::fs::Mode as Permissions;
use rustix::io::Errno;

use crate::errors::Failure;
use crate::file::{mode_of, receipt_of};
use crate::handle::check_signals;
use crate::process::Process;

/// Size of a block and number of blocks, as `dio cp` has them.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: usize = 16;
/// Most memory if files are striped.
const BYTES_MAX: usize = 64 << 20;
/// Bytes between two looks at the signals. Nothing is in flight then, which costs a millisecond.
const BYTES_BETWEEN_LOOKS: u64 = 256 << 20;

/// Copies a file. Returns bytes, holes and the receipts of both files. The copy has the permissions
/// of the source less the umask, or exactly `permissions`.
#[pyfunction]
#[pyo3(signature = (source, target, direct, durable, permissions=None))]
pub(crate) fn copy<'py>(
    py: Python<'py>,
    source: PathBuf,
    target: PathBuf,
    direct: &Bound<'_, PyAny>,
    durable: bool,
    permissions: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let ((mode, need), io) = (mode_of(direct)?, Process::current().io()?);
    let mut options = OpenOptions::new();
    options.mode(mode).need(need).io(&io);
    let copied =
        py.detach(|| copy_file(&io, &options, (&source, &target), durable, permissions))?;
    let answer = PyDict::new(py);
    answer.set_item("bytes", copied.size)?;
    answer.set_item("holes", copied.holes)?;
    answer.set_item("source", receipt_of(py, &copied.counters.0)?)?;
    answer.set_item("target", receipt_of(py, &copied.counters.1)?)?;
    Ok(answer)
}

struct CopiedFile {
    size: u64,
    holes: u64,
    counters: (dio::Counters, dio::Counters),
}

fn copy_file(
    io: &Io,
    options: &OpenOptions,
    (from, to): (&Path, &Path),
    durable: bool,
    permissions: Option<u32>,
) -> Result<CopiedFile, Failure> {
    let source = options.clone().read(true).open(from)?;
    let metadata = fs::metadata(from).map_err(Failure::stream("ask about", from))?;
    let mut options = options.clone();
    // A file with exact permissions gets them when it is complete.
    let initial = permissions.map_or(metadata.permissions().mode() & 0o777, |_| 0o600);
    options.permissions(initial);
    let (mut unfinished, target) = UnfinishedFile::create(&options, to)?;
    let target = Arc::new(target);
    let (size, holes) = if source.layout().is_none() && is_made_when_read(&source, source.size()?) {
        (copy_stream(from, &target)?, 0)
    } else {
        copy_contents(io, &source, &target)?
    };
    if let (Some(mode), Some(descriptor)) = (permissions, target.descriptor()) {
        rustix::fs::fchmod(descriptor, Permissions::from_raw_mode(mode))
            .map_err(|errno| Failure::system("set the permissions of", to, &errno.into()))?;
    }
    if durable {
        target.sync_all()?;
    } else {
        target.settle()?;
    }
    let counters = (source.counters(), target.counters());
    drop(target);
    unfinished.replace().map_err(|errno| Failure::system("name", to, &errno.into()))?;
    if durable {
        rustix::fs::fsync(unfinished.directory())
            .map_err(|errno| Failure::system("sync the directory of", to, &errno.into()))?;
    }
    Ok(CopiedFile { size, holes, counters })
}

/// Copies what a file gives until it ends. Returns the bytes.
fn copy_stream(from: &Path, target: &Arc<File>) -> Result<u64, Failure> {
    let failed = Failure::stream("read", from);
    let mut source = fs::File::open(from).map_err(&failed)?;
    let mut writer =
        Writer::new(Arc::clone(target)).map_err(Failure::stream("write", target.path()))?;
    let (mut buffer, mut size) = (vec![0; 64 << 10], 0);
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            read => read.map_err(&failed)?,
        };
        writer.write_all(&buffer[..count]).map_err(Failure::stream("write", target.path()))?;
        size += count as u64;
        check_signals(true)?;
    }
    writer.flush().map_err(Failure::stream("write", target.path()))?;
    Ok(size)
}

/// Whether the size that a file reports says nothing about its contents: files that the kernel
/// makes when they are read have size 0, or that of a page.
fn is_made_when_read(source: &File, size: u64) -> bool {
    const PROC: u32 = 0x9fa0;
    const SYSFS: u32 = 0x6265_6572;
    const CGROUP2: u32 = 0x6367_7270;
    const SECURITYFS: u32 = 0x7363_6673;
    const DEBUGFS: u32 = 0x6462_6720;
    const TRACEFS: u32 = 0x7472_6163;
    const EFIVARFS: u32 = 0xde5e_81e4;
    const MADE: [u32; 7] = [PROC, SYSFS, CGROUP2, SECURITYFS, DEBUGFS, TRACEFS, EFIVARFS];
    let kind = source.descriptor().and_then(|descriptor| rustix::fs::fstatfs(descriptor).ok());
    size == 0 || kind.is_some_and(|kind| MADE.iter().any(|made| i64::from(*made) == kind.f_type))
}

fn copy_contents(io: &Io, source: &File, target: &File) -> Result<(u64, u64), Failure> {
    let size = source.size()?;
    let (sparse, failed) = (Sparse::Auto, |error| Failure::transfer(source.path(), error));
    let contents = Contents { source, target, size, start: 0, sparse, pace: None };
    let blocks = blocks_for(source, Some(target), BLOCK_BYTES, BLOCKS, BYTES_MAX);
    let mut copier = Copier::new(io, BLOCK_BYTES, blocks).map_err(failed)?;
    let copied = contents.prepare().map_err(failed)?;
    for ranges in groups(&copied.ranges, BYTES_BETWEEN_LOOKS) {
        copier.run(&contents.job(&ranges), &mut NoWatch).map_err(failed)?;
        check_signals(true)?;
    }
    contents.check_size().map_err(failed)?;
    Ok((size, copied.holes))
}

/// The ranges in groups of at most so many bytes. Long ranges are cut at multiples of that.
fn groups(ranges: &[Range<u64>], bytes: u64) -> Vec<Vec<Range<u64>>> {
    let (mut groups, mut group, mut left) = (Vec::new(), Vec::new(), bytes);
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min((start + left) / 4096 * 4096).max(start + 1);
            let end = if end < range.end && end - start < 4096 {
                range.end.min(start + bytes)
            } else {
                end
            };
            group.push(start..end);
            left = left.saturating_sub(end - start);
            start = end;
            if left < 4096 {
                groups.push(std::mem::take(&mut group));
                left = bytes;
            }
        }
    }
    groups.push(group);
    groups.retain(|group| !group.is_empty());
    groups
}

/// The size of a file's contents in bytes, whether it is a directory, and the time of the last
/// change in nanoseconds.
#[pyfunction]
pub(crate) fn stat(py: Python<'_>, path: PathBuf) -> PyResult<(u64, bool, i128)> {
    let found = py.detach(|| -> Result<_, Failure> {
        let failed = |errno: Errno| Failure::system("ask about", &path, &errno.into());
        let stat = names::stat(&path).map_err(failed)?;
        let metadata = fs::metadata(&path).map_err(Failure::stream("ask about", &path))?;
        let nanoseconds = i128::from(metadata.mtime()) * 1_000_000_000;
        let changed = nanoseconds + i128::from(metadata.mtime_nsec());
        Ok((u64::try_from(stat.st_size).unwrap_or(0), metadata.is_dir(), changed))
    })?;
    Ok(found)
}

/// Removes a file, of a striped one also its objects.
#[pyfunction]
pub(crate) fn remove(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let removed = py.detach(|| names::unlink(&path));
    Ok(removed.map_err(|errno| Failure::system("remove", &path, &io::Error::from(errno)))?)
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn groups_cover_the_ranges_in_order() {
        let ranges = [0..10_000, 20_480..20_481, 40_960..100_000, 204_800..204_900];
        for bytes in [4096, 8192, 16_384, 1 << 20] {
            let groups = groups(&ranges, bytes);
            let mut joined: Vec<std::ops::Range<u64>> = Vec::new();
            for range in groups.concat() {
                match joined.last_mut() {
                    Some(last) if last.end == range.start => {
                        assert_eq!(range.start % 4096, 0, "cut within a block");
                        last.end = range.end;
                    }
                    _ => joined.push(range),
                }
            }
            assert_eq!(joined, ranges);
            for group in groups {
                let all: u64 = group.iter().map(|range| range.end - range.start).sum();
                assert!(all <= bytes + 4096, "{group:?}");
            }
        }
    }
}
