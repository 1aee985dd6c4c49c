//! The class below Python's file objects.

use std::path::PathBuf;
use std::sync::Arc;

use dio::block::with_pages;
use dio::file::{Class, Reason};
use dio::{Counters, FileError, Mode, Need, OpenOptions, SyncMethod};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rustix::io::Errno;

use crate::buffer::{ReadBuffer, WriteBuffer, memory_within};
use crate::errors::Failure;
use crate::handle::{BYTES_BETWEEN_SIGNALS, Handle, Usage, check_signals};
use crate::process::Process;

/// An open file. `dio.open` wraps it into a file object.
#[pyclass(frozen, module = "dio._dio")]
pub(crate) struct File {
    handle: Mutex<Option<Arc<Handle>>>,
    path: PathBuf,
}

impl File {
    /// The handle of a file that is not closed.
    pub(crate) fn handle(&self) -> PyResult<Arc<Handle>> {
        let handle = self.handle.lock().clone();
        handle.ok_or_else(|| PyValueError::new_err("I/O operation on closed file"))
    }
}

/// How a file is to be opened, by the value of `direct`.
pub(crate) fn mode_of(direct: &Bound<'_, PyAny>) -> PyResult<(Mode, Need)> {
    if let Ok(required) = direct.extract::<bool>() {
        let cached = (Mode::Cached, Need::Preferred);
        return Ok(if required { (Mode::Direct, Need::Required) } else { cached });
    }
    match direct.extract::<String>().as_deref() {
        Ok("auto") => Ok((Mode::Direct, Need::Preferred)),
        Ok("concurrent") => Ok((Mode::Concurrent, Need::Preferred)),
        Ok("uncached") => Ok((Mode::Uncached, Need::Preferred)),
        _ => Err(PyValueError::new_err(
            "direct must be \"auto\", True, False, \"concurrent\" or \"uncached\"",
        )),
    }
}

#[pymethods]
impl File {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python passes them, and names each")]
    #[expect(clippy::fn_params_excessive_bools, reason = "as above")]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        read: bool,
        write: bool,
        create: bool,
        new: bool,
        truncate: bool,
        append: bool,
        streams: bool,
        direct: &Bound<'_, PyAny>,
        durable: bool,
    ) -> PyResult<File> {
        let ((mode, need), io) = (mode_of(direct)?, Process::current().io()?);
        let mut options = OpenOptions::new();
        options.read(read).write(write).create(create && !new).create_new(new).truncate(truncate);
        options.append_only(append).mode(mode).need(need).io(&io);
        options.sync_method(if durable { SyncMethod::Dsync } else { SyncMethod::Explicit });
        let opened = py.detach(|| {
            let file = options.open(&path)?;
            if file.layout().is_none() {
                return Ok(file);
            }
            // A write to a striped file names an offset, also where it is appended to.
            options.append_only(false).create_new(false).truncate(false).open(&path)
        });
        let file = opened.map_err(|error| match error {
            // Python has a class for that.
            _ if path.is_dir() => Failure::File(FileError::new("open", &path, Errno::ISDIR)),
            error => Failure::File(error),
        })?;
        let handle = Handle::new(file, Usage { streams, appends: append });
        Ok(File { handle: Mutex::new(Some(Arc::new(handle))), path })
    }

    /// Reads into `buffer` from the position on.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (handle, mut buffer) = (self.handle()?, WriteBuffer::of(buffer)?);
        Ok(py.detach(|| handle.read(buffer.bytes_mut()))?)
    }

    /// Reads at most `size` bytes from the position on.
    fn read<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let handle = self.handle()?;
        exact_bytes(py, size, |buffer| handle.read(buffer))
    }

    /// Writes all of `buffer` at the position.
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let (handle, buffer) = (self.handle()?, ReadBuffer::of(buffer)?);
        Ok(py.detach(|| handle.write(buffer.bytes()))?)
    }

    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        if !(0..=2).contains(&whence) {
            return Err(PyValueError::new_err(format!("whence must be 0, 1 or 2, not {whence}")));
        }
        let handle = self.handle()?;
        Ok(py.detach(|| handle.seek(offset, whence))?)
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        let handle = self.handle()?;
        Ok(py.detach(|| handle.position())?)
    }

    #[pyo3(signature = (size=None))]
    fn truncate(&self, py: Python<'_>, size: Option<i64>) -> PyResult<u64> {
        let handle = self.handle()?;
        Ok(py.detach(|| handle.truncate(size))?)
    }

    /// Whether the file was opened before this process was forked. It is of no use here.
    #[getter]
    fn is_foreign(&self) -> bool {
        self.handle.lock().as_ref().is_some_and(|handle| handle.is_foreign())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle()?;
        Ok(py.detach(|| handle.flush())?)
    }

    #[pyo3(signature = (all=false))]
    fn sync(&self, py: Python<'_>, all: bool) -> PyResult<()> {
        let handle = self.handle()?;
        Ok(py.detach(|| handle.sync(all))?)
    }

    /// Size in bytes, with everything written so far.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        let handle = self.handle()?;
        Ok(py.detach(|| -> Result<u64, Failure> { Ok(handle.positioned()?.size()?) })?)
    }

    /// Allocates blocks for a range, so that writing it cannot fail for lack of space.
    #[pyo3(signature = (offset, length, extend=true))]
    fn allocate(&self, py: Python<'_>, offset: u64, length: u64, extend: bool) -> PyResult<()> {
        let handle = self.handle()?;
        let range = offset..offset.saturating_add(length);
        Ok(py.detach(|| -> Result<(), Failure> {
            Ok(handle.positioned()?.allocate(range, extend)?)
        })?)
    }

    /// Reads into `buffer` from `offset` on. The position stays.
    fn readinto_at(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: u64,
    ) -> PyResult<usize> {
        let (handle, mut buffer) = (self.handle()?, WriteBuffer::of(buffer)?);
        Ok(py.detach(|| read_at(&handle, buffer.bytes_mut(), offset))?)
    }

    /// Reads at most `size` bytes from `offset` on. The position stays.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let handle = self.handle()?;
        exact_bytes(py, size, |buffer| read_at(&handle, buffer, offset))
    }

    /// Writes all of `buffer` at `offset`. The position stays.
    fn write_at(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let (handle, buffer) = (self.handle()?, ReadBuffer::of(buffer)?);
        Ok(py.detach(|| write_at(&handle, buffer.bytes(), offset))?)
    }

    /// The receipt: which bytes went direct, and which did not and why.
    fn receipt<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let handle = self.handle()?;
        py.detach(|| handle.flush())?;
        let file = handle.file().map_err(Failure::from)?;
        let (counters, receipt) = (file.counters(), receipt_of(py, &file.counters())?);
        let (read_class, read_reason) = file.read_class();
        let (write_class, write_reason) = file.write_class();
        receipt.set_item("path", self.path.as_os_str())?;
        receipt.set_item("mode", file.mode().name())?;
        receipt.set_item("engine", file.io().engine_name())?;
        receipt.set_item("reads_go", read_class.name())?;
        receipt.set_item("writes_go", write_class.name())?;
        let standing = read_reason.or(write_reason).or(counters.main_reason());
        receipt.set_item("reason", standing.map(Reason::text))?;
        let pages = file.descriptor().and_then(|fd| dio::residency::resident_pages(fd).ok());
        receipt.set_item("resident_pages", pages.filter(|_| file.layout().is_none()))?;
        Ok(receipt)
    }

    /// Alignments and sizes of the file in bytes, and how it is striped.
    fn geometry<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let handle = self.handle()?;
        let file = handle.file().map_err(Failure::from)?;
        let (geometry, facts) = (file.geometry(), PyDict::new(py));
        facts.set_item("memory_align", geometry.mem_align())?;
        facts.set_item("write_align", geometry.offset_align())?;
        facts.set_item("read_align", geometry.read_offset_align())?;
        facts.set_item("block", geometry.block())?;
        facts.set_item("stripe", file.layout().map(dio::layout::Layout::stripe))?;
        facts.set_item("objects", file.objects().len())?;
        Ok(facts)
    }

    /// Closes the file. What could not be written is an error, and the file is closed all the same.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(handle) = self.handle.lock().take() else { return Ok(()) };
        Ok(py.detach(move || handle.finish())?)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.handle.lock().is_none()
    }

    #[getter]
    fn path(&self) -> &std::ffi::OsStr {
        self.path.as_os_str()
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "an open file cannot be pickled (send its name, and open it on the other side)",
        ))
    }
}

/// Makes a bytes object of what `fill` puts into `size` bytes of memory.
fn exact_bytes<'py>(
    py: Python<'py>,
    size: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<usize, Failure> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    if isize::try_from(size).is_err() {
        return Err(PyOverflowError::new_err(format!(
            "{size} bytes are more than memory can have"
        )));
    }
    let mut count = 0;
    let bytes = PyBytes::new_with(py, size, |buffer| {
        count = py.detach(|| fill(buffer))?;
        Ok(())
    })?;
    Ok(if count == size { bytes } else { PyBytes::new(py, &bytes.as_bytes()[..count]) })
}

/// Reads at an offset. Each 64 MiB are one read, which is whole or an error.
fn read_at(handle: &Handle, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
    let (file, len) = (handle.positioned()?, buffer.len());
    if len <= BYTES_BETWEEN_SIGNALS {
        return Ok(file.read_at(buffer, offset)?);
    }
    with_pages(&[memory_within(file.size()?, offset, buffer)], || {
        let mut done = 0;
        for part in buffer.chunks_mut(BYTES_BETWEEN_SIGNALS) {
            let count = file.read_at(part, offset.saturating_add(done as u64))?;
            done += count;
            if count < part.len() {
                break;
            }
            check_signals(done < len)?;
        }
        Ok(done)
    })
}

fn write_at(handle: &Handle, bytes: &[u8], offset: u64) -> Result<usize, Failure> {
    handle.refuse_if_appending(offset)?;
    let (file, mut done) = (handle.positioned()?, 0);
    for part in bytes.chunks(BYTES_BETWEEN_SIGNALS) {
        let written = file.write_at(part, offset.saturating_add(done as u64));
        handle.mark_changed();
        written?;
        done += part.len();
        check_signals(done < bytes.len())?;
    }
    Ok(done)
}

/// The counters as nested dictionaries.
pub(crate) fn receipt_of<'py>(
    py: Python<'py>,
    counters: &Counters,
) -> PyResult<Bound<'py, PyDict>> {
    let (receipt, reasons, requests) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
    for (name, bytes) in [("read", &counters.read), ("write", &counters.written)] {
        let classes = PyDict::new(py);
        for class in Class::ALL.into_iter().filter(|class| *class != Class::Piped) {
            classes.set_item(class.name(), bytes.get(class))?;
        }
        receipt.set_item(name, classes)?;
    }
    for reason in Reason::ALL.into_iter().filter(|reason| counters.reason(*reason) > 0) {
        reasons.set_item(reason.text(), counters.reason(reason))?;
    }
    requests.set_item("read", counters.read_requests)?;
    requests.set_item("write", counters.write_requests)?;
    requests.set_item("sync", counters.syncs)?;
    receipt.set_item("reasons", reasons)?;
    receipt.set_item("requests", requests)?;
    Ok(receipt)
}
