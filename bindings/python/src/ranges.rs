//! Many ranges of many files in one call.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dio::block::with_pages;
use dio::file::{RangesError, ReadRange, WriteRange, read_ranges, write_ranges};
use pyo3::exceptions::{PyAttributeError, PyInterruptedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::buffer::{ReadBuffer, WriteBuffer, memory_within};
use crate::errors::Failure;
use crate::file::File;
use crate::handle::{BYTES_BETWEEN_SIGNALS, Handle};

/// Time between two looks at the signals that have arrived.
const LOOK: Duration = Duration::from_millis(50);

/// Ends calls that run in another thread, for a task that was cancelled.
#[pyclass(frozen, module = "dio._dio")]
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }

    /// Ends the call: it begins nothing more, waits for what is in flight and raises
    /// `InterruptedError`.
    fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The files of several ranges, each once.
#[derive(Default)]
struct Files {
    handles: Vec<Arc<Handle>>,
    known: HashMap<usize, usize>,
    /// Keeps the addresses in `known` from being used again.
    objects: Vec<Py<PyAny>>,
}

impl Files {
    /// The number of the file that a range names.
    fn number(&mut self, object: &Bound<'_, PyAny>) -> PyResult<usize> {
        let address = object.as_ptr().addr();
        if let Some(number) = self.known.get(&address) {
            return Ok(*number);
        }
        let handle = match object.cast::<File>() {
            Ok(file) => file.get().handle()?,
            Err(_) => {
                let kind = object.get_type().name()?;
                let current = object.call_method0("_current").map_err(|error| {
                    let text = format!("a range needs a file that dio.open returned, not {kind}");
                    let other = error.is_instance_of::<PyAttributeError>(object.py());
                    if other { PyTypeError::new_err(text) } else { error }
                })?;
                current.cast::<File>()?.get().handle()?
            }
        };
        self.handles.push(handle);
        self.objects.push(object.clone().unbind());
        self.known.insert(address, self.handles.len() - 1);
        Ok(self.handles.len() - 1)
    }

    /// The files, with everything written so far in them.
    fn positioned(&self) -> Result<Vec<&dio::File>, Failure> {
        self.handles.iter().map(|handle| Ok(handle.positioned()?.as_ref())).collect()
    }
}

/// One range that the caller named, `(file, offset, third)`.
fn named<'py>(
    item: &Bound<'py, PyAny>,
    files: &mut Files,
) -> PyResult<(usize, u64, Option<Bound<'py, PyAny>>)> {
    let tuple = item.cast::<PyTuple>().map_err(|_| wrong_range())?;
    if !(2..=3).contains(&tuple.len()) {
        return Err(wrong_range());
    }
    let offset = tuple.get_item(1)?.extract::<u64>()?;
    let third = if tuple.len() == 3 { Some(tuple.get_item(2)?) } else { None };
    Ok((files.number(&tuple.get_item(0)?)?, offset, third))
}

fn wrong_range() -> PyErr {
    PyTypeError::new_err("a range is a tuple (file, offset, length) or (file, offset, buffer)")
}

/// Reads each `(file, offset, buffer)` into its buffer, with `depth` requests in flight. Returns
/// the bytes read of each.
#[pyfunction(name = "read_ranges")]
#[pyo3(signature = (ranges, depth, stop=None))]
pub(crate) fn read(
    py: Python<'_>,
    ranges: &Bound<'_, PyAny>,
    depth: usize,
    stop: Option<Py<Stop>>,
) -> PyResult<Vec<usize>> {
    let (mut files, mut wanted, mut buffers) = (Files::default(), Vec::new(), Vec::new());
    for item in ranges.try_iter()? {
        let (file, offset, buffer) = named(&item?, &mut files)?;
        buffers.push(WriteBuffer::of(&buffer.ok_or_else(wrong_range)?)?);
        wanted.push((file, offset));
    }
    refuse_overlaps(&buffers)?;
    let counts = py.detach(|| {
        let parts = buffers.iter_mut().map(WriteBuffer::bytes_mut);
        read_all(&files, &wanted, parts.collect(), depth, stop.as_ref())
    });
    Ok(counts?)
}

/// As `read_ranges`, for `(file, offset, length)` into one buffer, in which each range begins at a
/// multiple of `align` behind the one before.
#[pyfunction(name = "read_ranges_into")]
#[pyo3(signature = (ranges, buffer, align, depth, stop=None))]
pub(crate) fn read_into(
    py: Python<'_>,
    ranges: &Bound<'_, PyAny>,
    buffer: &Bound<'_, PyAny>,
    align: usize,
    depth: usize,
    stop: Option<Py<Stop>>,
) -> PyResult<Vec<usize>> {
    let (mut files, mut wanted, mut lengths) = (Files::default(), Vec::new(), Vec::new());
    for item in ranges.try_iter()? {
        let (file, offset, length) = named(&item?, &mut files)?;
        lengths.push(length.ok_or_else(wrong_range)?.extract::<usize>()?);
        wanted.push((file, offset));
    }
    let mut buffer = WriteBuffer::of(buffer)?;
    let (mut rest, mut parts) = (buffer.bytes_mut(), Vec::with_capacity(lengths.len()));
    for (index, length) in lengths.into_iter().enumerate() {
        if length > rest.len() {
            let text = format!("the buffer ends before range {index} does");
            return Err(PyValueError::new_err(text));
        }
        let (part, behind) = rest.split_at_mut(length);
        parts.push(part);
        let skipped = (length.next_multiple_of(align) - length).min(behind.len());
        rest = &mut behind[skipped..];
    }
    Ok(py.detach(|| read_all(&files, &wanted, parts, depth, stop.as_ref()))?)
}

/// Writes each `(file, offset, buffer)`, with `depth` requests in flight.
#[pyfunction(name = "write_ranges")]
#[pyo3(signature = (ranges, depth, stop=None))]
pub(crate) fn write(
    py: Python<'_>,
    ranges: &Bound<'_, PyAny>,
    depth: usize,
    stop: Option<Py<Stop>>,
) -> PyResult<()> {
    let (mut files, mut wanted, mut buffers) = (Files::default(), Vec::new(), Vec::new());
    for item in ranges.try_iter()? {
        let (file, offset, buffer) = named(&item?, &mut files)?;
        buffers.push(ReadBuffer::of(&buffer.ok_or_else(wrong_range)?)?);
        wanted.push((file, offset));
    }
    let written = py.detach(|| {
        let bytes: Vec<&[u8]> = buffers.iter().map(ReadBuffer::bytes).collect();
        let written = write_all(&files, &wanted, &bytes, depth, stop.as_ref());
        files.handles.iter().for_each(|handle| handle.mark_changed());
        written
    });
    Ok(written?)
}

/// Two buffers that overlap would be filled at the same time.
fn refuse_overlaps(buffers: &[WriteBuffer]) -> PyResult<()> {
    let mut places: Vec<_> = buffers.iter().map(WriteBuffer::range).collect();
    places.retain(|place| !place.is_empty());
    places.sort_unstable_by_key(|place| place.start);
    if places.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(PyValueError::new_err("the buffers of two ranges overlap"));
    }
    Ok(())
}

/// Reads all parts. Large ones are cut, so that signals are looked at in between.
fn read_all(
    files: &Files,
    wanted: &[(usize, u64)],
    parts: Vec<&mut [u8]>,
    depth: usize,
    stop: Option<&Py<Stop>>,
) -> Result<Vec<usize>, Failure> {
    let opened = files.positioned()?;
    let sizes =
        opened.iter().map(|file| Ok(file.size()?)).collect::<Result<Vec<u64>, Failure>>()?;
    let (mut ranges, mut numbers) = (Vec::with_capacity(wanted.len()), Vec::new());
    let mut memory = Vec::with_capacity(wanted.len());
    for (number, ((file, offset), part)) in wanted.iter().zip(parts).enumerate() {
        memory.push(memory_within(sizes[*file], *offset, part));
        for (index, buffer) in part.chunks_mut(BYTES_BETWEEN_SIGNALS).enumerate() {
            let offset = offset.saturating_add((index * BYTES_BETWEEN_SIGNALS) as u64);
            ranges.push(ReadRange { file: opened[*file], offset, buffer });
            numbers.push(number);
        }
    }
    with_pages(&memory, || read_until_done(ranges, numbers, wanted.len(), depth, stop))
}

/// Reads all ranges, and looks at the signals in between. `numbers` says to which of the `wanted`
/// ranges of the caller each belongs. Returns the bytes read of each of these.
fn read_until_done(
    mut ranges: Vec<ReadRange<'_>>,
    mut numbers: Vec<usize>,
    wanted: usize,
    depth: usize,
    stop: Option<&Py<Stop>>,
) -> Result<Vec<usize>, Failure> {
    let mut counts = vec![0; wanted];
    loop {
        let done = match read_ranges(&mut ranges, depth, &mut look(stop)) {
            Ok(read) => {
                numbers.iter().zip(read).for_each(|(number, count)| counts[*number] += count);
                return Ok(counts);
            }
            Err(RangesError::Stopped { done }) => done,
            Err(error) => return Err(failure(error, &numbers)),
        };
        go_on(stop)?;
        for (number, count) in numbers.iter().zip(&done) {
            counts[*number] += count.unwrap_or(0);
        }
        (ranges, numbers) = (left(ranges, &done), left(numbers, &done));
    }
}

/// The items that are not done.
fn left<T>(items: Vec<T>, done: &[Option<usize>]) -> Vec<T> {
    items.into_iter().zip(done).filter(|(_, done)| done.is_none()).map(|(item, _)| item).collect()
}

fn write_all(
    files: &Files,
    wanted: &[(usize, u64)],
    parts: &[&[u8]],
    depth: usize,
    stop: Option<&Py<Stop>>,
) -> Result<(), Failure> {
    let opened = files.positioned()?;
    let (mut ranges, mut numbers) = (Vec::with_capacity(wanted.len()), Vec::new());
    for (number, ((file, offset), part)) in wanted.iter().zip(parts).enumerate() {
        files.handles[*file].refuse_if_appending(*offset)?;
        for (index, bytes) in part.chunks(BYTES_BETWEEN_SIGNALS).enumerate() {
            let offset = offset.saturating_add((index * BYTES_BETWEEN_SIGNALS) as u64);
            ranges.push(WriteRange { file: opened[*file], offset, bytes });
            numbers.push(number);
        }
    }
    loop {
        let done = match write_ranges(&ranges, depth, &mut look(stop)) {
            Ok(()) => return Ok(()),
            Err(RangesError::Stopped { done }) => done,
            Err(error) => return Err(failure(error, &numbers)),
        };
        go_on(stop)?;
        (ranges, numbers) = (left(ranges, &done), left(numbers, &done));
    }
}

fn failure(error: RangesError, numbers: &[usize]) -> Failure {
    match error {
        RangesError::Failed { index, error } => Failure::Range { index: numbers[index], error },
        other => Failure::Python(PyInterruptedError::new_err(other.to_string())),
    }
}

/// True when it is time to look at the signals, for which nothing may be in flight: a handler may
/// use the same files.
fn look(stop: Option<&Py<Stop>>) -> impl FnMut() -> bool {
    let started = Instant::now();
    move || started.elapsed() >= LOOK || is_stopped(stop)
}

fn is_stopped(stop: Option<&Py<Stop>>) -> bool {
    stop.is_some_and(|stop| stop.get().0.load(Ordering::Acquire))
}

/// Runs the handlers of signals that have arrived.
fn go_on(stop: Option<&Py<Stop>>) -> Result<(), Failure> {
    if is_stopped(stop) {
        return Err(Failure::Python(PyInterruptedError::new_err("the call was stopped")));
    }
    Ok(Python::attach(|py| py.check_signals())?)
}
