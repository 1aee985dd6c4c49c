//! `dio.Wal`: the durable log.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use dio_wal::{Log, Lsn, Method, Options, Reader, WalError};
use parking_lot::{Mutex, RwLock};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rustix::io::Errno;

use crate::buffer::ReadBuffer;
use crate::errors::{errno_of, os_error};

/// A write-ahead log in a directory: records that are durable after a commit.
#[pyclass(frozen, module = "dio")]
pub(crate) struct Wal {
    log: RwLock<Option<Log>>,
    process: u32,
    path: PathBuf,
}

thread_local! {
    /// Number of callbacks of logs that this thread is in.
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a callback as long as it runs.
struct CallbackScope;

impl CallbackScope {
    fn enter() -> CallbackScope {
        CALLBACKS.set(CALLBACKS.get() + 1);
        CallbackScope
    }

    /// Whether this thread is in a callback.
    fn is_entered() -> bool {
        CALLBACKS.get() > 0
    }
}

impl Drop for CallbackScope {
    fn drop(&mut self) {
        CALLBACKS.set(CALLBACKS.get() - 1);
    }
}

/// An iterator over records, as pairs of LSN and bytes.
#[pyclass(frozen, module = "dio")]
pub(crate) struct WalRecords {
    reader: Arc<Mutex<Option<Reader>>>,
    path: PathBuf,
}

/// The exception for an error of a log.
fn raised(path: &std::path::Path, error: &WalError) -> PyErr {
    if let WalError::NotAppended { .. } | WalError::Truncated { .. } | WalError::Options(_) = error
    {
        return PyValueError::new_err(error.to_string());
    }
    let (errno, offset) = place_of(error);
    let text = format!("log {}: {error}", dio::quote::quoted(path));
    let attribute = Python::try_attach(|py| offset.into_py_any(py).ok()).flatten();
    os_error(errno, text, path.as_os_str().to_owned(), &[("offset", attribute)])
}

/// Number and offset of the error that a log met first.
fn place_of(error: &WalError) -> (Errno, Option<u64>) {
    match error {
        WalError::Io { source, offset, .. } => {
            let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<WalError>());
            let errno = inner.map_or_else(|| errno_of(source), |inner| place_of(inner).0);
            (errno, *offset)
        }
        WalError::Failed { cause, .. } => place_of(cause),
        WalError::Damaged { offset, .. } | WalError::Missing { offset, .. } => {
            (Errno::BADMSG, Some(*offset))
        }
        WalError::Header { fault, .. } => (Errno::BADMSG, Some(fault.offset())),
        WalError::TooLong(_) => (Errno::MSGSIZE, None),
        WalError::InUse => (Errno::BUSY, None),
        _ => (Errno::IO, None),
    }
}

impl Wal {
    /// Does something with the log, without the lock of the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Log) -> Result<T, WalError> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let done = py.detach(|| {
            // A thread that commits may have the lock already when it calls back. A recursive lock
            // does not wait for a thread that closes, which waits for the first one.
            let is_callback = CallbackScope::is_entered();
            let log = if is_callback { self.log.read_recursive() } else { self.log.read() };
            log.as_ref().map(work)
        });
        let done = done.ok_or_else(|| PyValueError::new_err("the log is closed"))?;
        done.map_err(|error| raised(&self.path, &error))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == dio_sys::process_id() {
            return Ok(());
        }
        let text = "the log was opened before this process was forked (open it in one process)";
        Err(PyOSError::new_err((
            Errno::BADF.raw_os_error(),
            text,
            self.path.as_os_str().to_owned(),
        )))
    }
}

#[pymethods]
impl Wal {
    #[new]
    #[pyo3(signature = (directory, *, direct=true, method="fdatasync", segment=None, create=true))]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        direct: bool,
        method: &str,
        segment: Option<u64>,
        create: bool,
    ) -> PyResult<Wal> {
        let known = Method::ALL.into_iter().find(|known| known.name() == method);
        let method = known.ok_or_else(|| {
            let names = Method::ALL.map(Method::name).join(", ");
            PyValueError::new_err(format!("method must be one of {names}, not {method:?}"))
        })?;
        let mut options = Options::new();
        options.direct(direct).method(method);
        if let Some(segment) = segment {
            options.segment(segment);
        }
        let opened = py.detach(|| {
            if create {
                // What stands in the way is reported when the log is opened.
                let _ = std::fs::create_dir(&directory);
            }
            Log::open(&directory, &options)
        });
        let log = opened.map_err(|error| raised(&directory, &error))?;
        Ok(Wal { log: RwLock::new(Some(log)), process: dio_sys::process_id(), path: directory })
    }

    /// Appends a record. Returns its LSN. It is durable after a commit of this or a later LSN.
    fn append(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<u64> {
        let record = ReadBuffer::of(record)?;
        self.with(py, |log| log.append(record.bytes())).map(|lsn| lsn.0)
    }

    /// Returns when the record at `lsn`, by default the last one, and all before it are durable.
    #[pyo3(signature = (lsn=None))]
    fn commit(&self, py: Python<'_>, lsn: Option<u64>) -> PyResult<()> {
        self.with(py, |log| match lsn.or_else(|| log.end().0.checked_sub(1)) {
            Some(lsn) => log.commit(Lsn(lsn)),
            None => Ok(()),
        })
    }

    /// Calls `callback` with None when the record at `lsn` and all before it are durable, or with
    /// the exception if they never will be. It is called in a thread of the log or in one that
    /// commits, at the latest while the log is closed or forgotten. It should be short. It may use
    /// the log, which is closed (`ValueError`) once `close` has begun, but not close it
    /// (`RuntimeError`), nor wait for a thread that uses it.
    fn commit_later(&self, py: Python<'_>, lsn: u64, callback: Py<PyAny>) -> PyResult<()> {
        let path = self.path.clone();
        let called = move |outcome: Result<(), WalError>| {
            // At the end of the program there is nobody left to call.
            Python::try_attach(|py| {
                let _scope = CallbackScope::enter();
                let error = outcome.err().map(|error| raised(&path, &error).into_value(py));
                if let Err(error) = callback.call1(py, (error,)) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        };
        self.with(py, |log| log.commit_later(Lsn(lsn), called))
    }

    /// The records from `start` on, by default from the first one, that are durable now.
    #[pyo3(signature = (start=None))]
    fn records(&self, py: Python<'_>, start: Option<u64>) -> PyResult<WalRecords> {
        let reader = self.with(py, |log| log.reader(start.map_or(log.start(), Lsn)))?;
        Ok(WalRecords { reader: Arc::new(Mutex::new(Some(reader))), path: self.path.clone() })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<WalRecords> {
        self.records(py, None)
    }

    /// Gives up all records below `lsn`, durably.
    fn truncate_before(&self, py: Python<'_>, lsn: u64) -> PyResult<()> {
        self.with(py, |log| log.truncate_before(Lsn(lsn)))
    }

    /// LSN below which all records are durable.
    #[getter]
    fn flushed(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |log| Ok(log.flushed().0))
    }

    /// LSN where the last record ends.
    #[getter]
    fn end(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |log| Ok(log.end().0))
    }

    /// LSN below which all records were truncated.
    #[getter]
    fn start(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |log| Ok(log.start().0))
    }

    /// The state of the log when it was opened.
    #[getter]
    fn recovery<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.with(py, |log| Ok(*log.recovery()))?;
        let facts = PyDict::new(py);
        facts.set_item("start", found.start.0)?;
        facts.set_item("end", found.end.0)?;
        facts.set_item("records", found.records)?;
        facts.set_item("bytes", found.bytes)?;
        facts.set_item("known_durable", found.known_durable.0)?;
        facts.set_item("ended", found.ended)?;
        Ok(facts)
    }

    /// Makes everything durable and ends the log with a mark that says so. Calls of other threads
    /// are waited for. Not from a callback of `commit_later`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        if CallbackScope::is_entered() {
            let text = "a callback of a log cannot close it (close it in another thread)";
            return Err(PyRuntimeError::new_err(text));
        }
        let closed = py.detach(|| {
            // Closing calls back, and the callbacks may use the log: the lock must be free by then.
            let log = self.log.write().take();
            log.map_or(Ok(()), Log::close)
        });
        closed.map_err(|error| raised(&self.path, &error))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_how))]
    fn __exit__(&self, py: Python<'_>, _how: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        let log = self.log.get_mut().take();
        if self.process != dio_sys::process_id() {
            // Its threads are the parent's.
            std::mem::forget(log);
        } else if log.is_some() {
            // A thread of the log may be about to call back, for which it needs the interpreter. If
            // that has ended, nobody is called.
            let mut log = log;
            Python::try_attach(|py| py.detach(|| drop(log.take())));
        }
    }
}

#[pymethods]
impl WalRecords {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyBytes>)>> {
        let record = py.detach(|| {
            let mut reader = self.reader.lock();
            let next = reader.as_mut().map(|reader| match reader.next() {
                Ok(record) => Ok(record.map(|record| (record.lsn.0, record.data.to_vec()))),
                Err(error) => Err(error),
            });
            next.transpose()
        });
        let record = record.map_err(|error| raised(&self.path, &error))?.flatten();
        Ok(record.map(|(lsn, data)| (lsn, PyBytes::new(py, &data))))
    }
}
