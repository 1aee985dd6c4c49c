//! The memory of Python objects as slices.
//!
//! An exported buffer cannot be resized or freed. Its bytes can still be read and written by other
//! threads of the program, which is the program's error as it is with `io.FileIO.readinto`,
//! `socket` and all others that release the lock of the interpreter while the kernel fills memory:
//! the bytes are then unspecified. Nothing here depends on what they are.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Memory of an object that may be read.
pub(crate) struct ReadBuffer(PyUntypedBuffer);

/// Memory of an object that may be written.
pub(crate) struct WriteBuffer(PyUntypedBuffer);

impl ReadBuffer {
    /// The memory of `object`, whatever its items are.
    ///
    /// # Errors
    /// `TypeError` for an object without memory, `BufferError` for scattered memory.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<ReadBuffer> {
        Ok(ReadBuffer(contiguous(object)?))
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps the memory where it is, and `contiguous` checked that it has
        // `len` bytes without gaps, until the buffer is released, which borrows of `self` prevent.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.len()) }
    }
}

impl WriteBuffer {
    /// The memory of `object`, whatever its items are.
    ///
    /// # Errors
    /// As [`ReadBuffer::of`]; `TypeError` for memory that is read-only.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<WriteBuffer> {
        let buffer = contiguous(object)?;
        if buffer.readonly() {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a writable buffer is needed, and this {kind} is read-only (use a bytearray, a \
                 numpy array or dio.alloc)"
            )));
        }
        Ok(WriteBuffer(buffer))
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// The address of the first byte and the number of bytes.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        let start = self.0.buf_ptr().addr();
        start..start + self.len()
    }

    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `ReadBuffer::bytes`, and the exporter said that it may be written.
        // `&mut self` keeps this buffer from being lent twice; that no two buffers overlap is
        // checked where several are in use at a time (`ranges`).
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.len()) }
    }
}

/// The addresses of the memory that a read at `offset` will fill. They end where a file of `size`
/// bytes does: memory behind that needs no pages.
pub(crate) fn memory_within(size: u64, offset: u64, buffer: &[u8]) -> std::ops::Range<usize> {
    let start = buffer.as_ptr().addr();
    let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    start..start + buffer.len().min(left)
}

fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object).or_else(|error| {
        // PyO3 refuses memory without dimensions, as an array of numpy with one number has it.
        let bytes = PyMemoryView::from(object).and_then(|view| view.call_method1("cast", ("B",)));
        bytes.and_then(|bytes| PyUntypedBuffer::get(&bytes)).map_err(|_| error)
    })?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "the memory is scattered (copy it into one piece, as numpy.ascontiguousarray does)",
        ));
    }
    Ok(buffer)
}
