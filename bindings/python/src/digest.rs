//! `dio.digest`: checksums of files that pass no page cache, several files at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dio::stream::{ReadAhead, Reader};
use dio::{Io, OpenOptions};
use dio_digest::{Algorithm, Hasher};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::file::mode_of;
use crate::process::Process;

/// Time between two looks at the signals that have arrived.
const LOOK: Duration = Duration::from_millis(50);

/// The digests there are. Sums of 16 bits and those that only a tool prints are left out.
const ALGORITHMS: [Algorithm; 10] = [
    Algorithm::Md5,
    Algorithm::Sha1,
    Algorithm::Sha224,
    Algorithm::Sha256,
    Algorithm::Sha384,
    Algorithm::Sha512,
    Algorithm::Blake2b,
    Algorithm::Blake3,
    Algorithm::Crc32c,
    Algorithm::Xxh3,
];

/// The digests of each file by each algorithm, in the order given.
#[pyfunction]
pub(crate) fn digest(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    algorithms: Vec<String>,
    direct: &Bound<'_, PyAny>,
) -> PyResult<Vec<Vec<String>>> {
    let named = algorithms.iter().map(|name| {
        let found = ALGORITHMS.into_iter().find(|algorithm| algorithm.name() == name);
        found.ok_or_else(|| {
            let names = digests().join(", ");
            PyValueError::new_err(format!("no such digest: {name:?} (one of {names})"))
        })
    });
    let algorithms = named.collect::<PyResult<Vec<Algorithm>>>()?;
    let ((mode, need), io) = (mode_of(direct)?, Process::current().io()?);
    let mut options = OpenOptions::new();
    options.read(true).mode(mode).need(need).io(&io);
    Ok(py.detach(|| of_all(&options, &paths, &algorithms))?)
}

/// Reads several files at a time, one on each processor.
fn of_all(
    options: &OpenOptions,
    paths: &[PathBuf],
    algorithms: &[Algorithm],
) -> Result<Vec<Vec<String>>, Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(paths.len());
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, results) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..threads {
            let (send, next, stop) = (send.clone(), &next, &stop);
            let worker = thread::Builder::new().spawn_scoped(scope, move || {
                while let Some((index, path)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    paths.get(index).map(|path| (index, path))
                } {
                    let digests = of_file(options, path, algorithms, stop);
                    if send.send((index, digests)).is_err() {
                        break;
                    }
                }
            });
            match worker {
                Ok(_) => {}
                // With fewer threads it takes longer.
                Err(_) if number > 0 => break,
                Err(error) => {
                    return Err(Failure::system("start a thread for", &paths[0], &error));
                }
            }
        }
        drop(send);
        let mut all = vec![Vec::new(); paths.len()];
        let outcome = loop {
            match results.recv_timeout(LOOK) {
                Ok((index, Ok(Some(digests)))) => all[index] = digests,
                Ok((_, Ok(None))) => {}
                Ok((_, Err(failure))) => break Err(failure),
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = Python::attach(|py| py.check_signals()) {
                        break Err(error.into());
                    }
                }
            }
        };
        if outcome.is_err() {
            stop.store(true, Ordering::Relaxed);
            next.store(paths.len(), Ordering::Relaxed);
        }
        outcome.map(|()| all)
    })
}

/// The digests of one file; `None` if it was stopped.
fn of_file(
    options: &OpenOptions,
    path: &Path,
    algorithms: &[Algorithm],
    stop: &AtomicBool,
) -> Result<Option<Vec<String>>, Failure> {
    let mut hashers: Vec<Hasher> =
        algorithms.iter().map(|algorithm| Hasher::new((*algorithm).into())).collect();
    let file = Arc::new(options.open(path)?);
    let failed = Failure::stream("read", path);
    let ahead = ReadAhead { lent: 1, ..ReadAhead::for_file(&file) };
    let mut reader = Reader::with_read_ahead(file, ahead).map_err(&failed)?;
    while let Some(chunk) = reader.next_chunk().map_err(&failed)? {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        hashers.iter_mut().for_each(|hasher| hasher.update(&chunk));
    }
    Ok(Some(hashers.into_iter().map(|hasher| hasher.finish().digits()).collect()))
}

/// The names of the algorithms that `digest` has.
#[pyfunction]
pub(crate) fn digests() -> Vec<&'static str> {
    ALGORITHMS.map(Algorithm::name).to_vec()
}

/// The engine that moves bytes, and why it is not io_uring if it is not.
#[pyfunction]
pub(crate) fn engine() -> PyResult<(&'static str, Option<String>)> {
    let io: Io = Process::current().io()?;
    Ok((io.engine_name(), io.engine_reason().map(str::to_owned)))
}
