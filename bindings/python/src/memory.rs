//! Aligned memory that goes straight to the device, lent to others by the buffer protocol,
//! `__array_interface__` and DLPack.

use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;

use dio::block::{Block, Pool};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack;

/// Aligned memory with a shape, filled with zeros.
///
/// Invariants: `address` is that of the block's first byte, the block has `len` bytes, and `shape`
/// and `strides` describe them without gaps. None of these change.
#[pyclass(frozen, weakref, module = "dio._dio")]
pub(crate) struct Memory {
    _block: Block,
    address: usize,
    len: usize,
    itemsize: usize,
    format: CString,
    typestr: String,
    /// Code and bits of an item in DLPack; `None` if DLPack has no such item.
    dlpack: Option<(u8, u8)>,
    shape: Box<[isize]>,
    strides: Box<[isize]>,
}

impl Memory {
    pub(crate) fn shape(&self) -> &[isize] {
        &self.shape
    }

    /// Distances between items, in items.
    pub(crate) fn item_strides(&self) -> impl Iterator<Item = i64> {
        let itemsize = self.itemsize as i64;
        self.strides.iter().map(move |stride| *stride as i64 / itemsize)
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

#[pymethods]
impl Memory {
    #[new]
    #[pyo3(signature = (shape, itemsize=1, format="B", typestr="|u1", dlpack=Some((1, 8))))]
    fn new(
        shape: Vec<usize>,
        itemsize: usize,
        format: &str,
        typestr: &str,
        dlpack: Option<(u8, u8)>,
    ) -> PyResult<Memory> {
        let items = shape.iter().try_fold(1usize, |items, extent| items.checked_mul(*extent));
        let len = items.and_then(|items| items.checked_mul(itemsize));
        let len = len.filter(|len| isize::try_from(*len).is_ok());
        let len = len.ok_or_else(|| PyValueError::new_err("so many bytes have no addresses"))?;
        let no_memory = |error| PyMemoryError::new_err(format!("{len} bytes: {error}"));
        let pool = Pool::new(len.max(1), 1).map_err(no_memory)?;
        let mut block = pool.try_take().expect("a new pool has its block");
        let address = block.bytes_mut().as_mut_ptr().expose_provenance();
        let shape: Box<[isize]> = shape.into_iter().map(usize::cast_signed).collect();
        let mut strides: Box<[isize]> = shape.clone();
        let mut stride = itemsize.cast_signed();
        for (place, extent) in strides.iter_mut().zip(&shape).rev() {
            *place = stride;
            stride *= (*extent).max(1);
        }
        Ok(Memory {
            _block: block,
            address,
            len,
            itemsize,
            format: CString::new(format)?,
            typestr: typestr.to_owned(),
            dlpack,
            shape,
            strides,
        })
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.len
    }

    #[getter]
    fn itemsize(&self) -> usize {
        self.itemsize
    }

    #[getter(shape)]
    fn shape_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    /// Address of the first byte.
    #[getter]
    fn ptr(&self) -> usize {
        self.address
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.shape.first().copied();
        first.map(isize::cast_unsigned).ok_or_else(|| PyTypeError::new_err("it has no extent"))
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        format!("<dio.Memory shape=({}{comma}) typestr={:?}>", shape.join(", "), self.typestr)
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape_tuple(py)?)?;
        interface.set_item("typestr", &self.typestr)?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    #[expect(unsafe_code, reason = "the buffer protocol is a structure of addresses")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let memory = slf.get();
        let described = |flag: c_int| flags & flag == flag;
        // SAFETY: the interpreter passes a view that may be written. The addresses stay valid: they
        // are those of fields that never change, in an object that the view keeps alive (`obj`).
        unsafe {
            (*view).buf = std::ptr::with_exposed_provenance_mut(memory.address);
            (*view).len = memory.len.cast_signed();
            (*view).itemsize = memory.itemsize.cast_signed();
            (*view).readonly = 0;
            (*view).ndim = 1;
            (*view).format = null_mut();
            (*view).shape = null_mut();
            (*view).strides = null_mut();
            (*view).suboffsets = null_mut();
            (*view).internal = null_mut();
            if described(ffi::PyBUF_FORMAT) {
                (*view).format = memory.format.as_ptr().cast_mut();
            }
            if described(ffi::PyBUF_ND) {
                (*view).ndim = memory.shape.len() as c_int;
                (*view).shape = memory.shape.as_ptr().cast_mut();
            }
            if described(ffi::PyBUF_STRIDES) {
                (*view).strides = memory.strides.as_ptr().cast_mut();
            }
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() || dl_device.is_some_and(|device| device != dlpack::CPU) {
            return Err(PyBufferError::new_err("this memory is the processor's, device (1, 0)"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("no copy is made here (copy what you get)"));
        }
        let item = slf.get().dlpack;
        let item = item.ok_or_else(|| {
            let typestr = &slf.get().typestr;
            PyBufferError::new_err(format!("DLPack has no items like {typestr}"))
        })?;
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        dlpack::export(&slf, item, versioned)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("aligned memory cannot be pickled (pickle bytes of it)"))
    }
}

/// A pointer as the C interface takes it.
pub(crate) fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}
