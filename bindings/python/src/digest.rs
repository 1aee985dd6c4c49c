//! `dio.digest`: checksums of files that pass no page cache, several files at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dio::stream::{ReadAhead, Reader};
use dio::{Io, OpenOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sha2::Digest as _;
use xxhash_rust::xxh3::Xxh3;

use crate::errors::Failure;
use crate::file::mode_of;
use crate::process::Process;

/// Time between two looks at the signals that have arrived.
const LOOK: Duration = Duration::from_millis(50);

/// The names of the algorithms.
const NAMES: [&str; 10] =
    ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake3", "crc32c", "xxh3"];

/// A digest that is being computed.
enum Hasher {
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha224(sha2::Sha224),
    Sha256(sha2::Sha256),
    Sha384(sha2::Sha384),
    Sha512(sha2::Sha512),
    Blake2b(Box<blake2b_simd::State>),
    Blake3(Box<blake3::Hasher>),
    Crc32c(u32),
    Xxh3(Box<Xxh3>),
}

impl Hasher {
    /// `None` for an unknown algorithm.
    fn named(name: &str) -> Option<Hasher> {
        Some(match name {
            "md5" => Hasher::Md5(md5::Md5::new()),
            "sha1" => Hasher::Sha1(sha1::Sha1::new()),
            "sha224" => Hasher::Sha224(sha2::Sha224::new()),
            "sha256" => Hasher::Sha256(sha2::Sha256::new()),
            "sha384" => Hasher::Sha384(sha2::Sha384::new()),
            "sha512" => Hasher::Sha512(sha2::Sha512::new()),
            "blake2b" => Hasher::Blake2b(Box::new(blake2b_simd::State::new())),
            "blake3" => Hasher::Blake3(Box::default()),
            "crc32c" => Hasher::Crc32c(0),
            "xxh3" => Hasher::Xxh3(Box::default()),
            _ => return None,
        })
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Md5(state) => state.update(bytes),
            Hasher::Sha1(state) => state.update(bytes),
            Hasher::Sha224(state) => state.update(bytes),
            Hasher::Sha256(state) => state.update(bytes),
            Hasher::Sha384(state) => state.update(bytes),
            Hasher::Sha512(state) => state.update(bytes),
            Hasher::Blake2b(state) => drop(state.update(bytes)),
            Hasher::Blake3(state) => drop(state.update(bytes)),
            Hasher::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Hasher::Xxh3(state) => state.update(bytes),
        }
    }

    /// The digest, as hexadecimal digits.
    fn finish(self) -> String {
        let bytes = match self {
            Hasher::Md5(state) => state.finalize().to_vec(),
            Hasher::Sha1(state) => state.finalize().to_vec(),
            Hasher::Sha224(state) => state.finalize().to_vec(),
            Hasher::Sha256(state) => state.finalize().to_vec(),
            Hasher::Sha384(state) => state.finalize().to_vec(),
            Hasher::Sha512(state) => state.finalize().to_vec(),
            Hasher::Blake2b(state) => state.finalize().as_bytes().to_vec(),
            Hasher::Blake3(state) => state.finalize().as_bytes().to_vec(),
            Hasher::Crc32c(sum) => sum.to_be_bytes().to_vec(),
            Hasher::Xxh3(state) => state.digest().to_be_bytes().to_vec(),
        };
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The digests of each file by each algorithm, in the order given.
#[pyfunction]
pub(crate) fn digest(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    algorithms: Vec<String>,
    direct: &Bound<'_, PyAny>,
) -> PyResult<Vec<Vec<String>>> {
    for name in &algorithms {
        if Hasher::named(name).is_none() {
            let text = format!("no such digest: {name:?} (one of {})", NAMES.join(", "));
            return Err(PyValueError::new_err(text));
        }
    }
    let ((mode, need), io) = (mode_of(direct)?, Process::current().io()?);
    let mut options = OpenOptions::new();
    options.read(true).mode(mode).need(need).io(&io);
    Ok(py.detach(|| of_all(&options, &paths, &algorithms))?)
}

/// Reads several files at a time, one on each processor.
fn of_all(
    options: &OpenOptions,
    paths: &[PathBuf],
    algorithms: &[String],
) -> Result<Vec<Vec<String>>, Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(paths.len());
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (send, next, stop) = (send.clone(), &next, &stop);
            scope.spawn(move || {
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
    algorithms: &[String],
    stop: &AtomicBool,
) -> Result<Option<Vec<String>>, Failure> {
    let mut hashers: Vec<Hasher> =
        algorithms.iter().filter_map(|name| Hasher::named(name)).collect();
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
    Ok(Some(hashers.into_iter().map(Hasher::finish).collect()))
}

/// The names of the algorithms that `digest` has.
#[pyfunction]
pub(crate) fn digests() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// The engine that moves bytes, and why it is not io_uring if it is not.
#[pyfunction]
pub(crate) fn engine() -> PyResult<(&'static str, Option<String>)> {
    let io: Io = Process::current().io()?;
    Ok((io.engine_name(), io.engine_reason().map(str::to_owned)))
}
