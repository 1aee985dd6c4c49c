//! DLPack: memory as a capsule that frameworks for tensors take without copying
//! (<https://dmlc.github.io/dlpack/latest/>, `dlpack.h`).

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::memory::{Memory, pointer};

/// The processor's memory, as type and number of a device.
pub(crate) const CPU: (i32, i32) = (1, 0);

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedVersioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// The structure that a capsule refers to. The tensor is the first field, so that its address is
/// that of the whole.
#[repr(C)]
struct Exported<T> {
    managed: T,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _owner: Py<Memory>,
}

/// A capsule with the memory, whose items have this code and these bits.
pub(crate) fn export<'py>(
    memory: &Bound<'py, Memory>,
    (code, bits): (u8, u8),
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut shape: Box<[i64]> = memory.get().shape().iter().map(|extent| *extent as i64).collect();
    let mut strides: Box<[i64]> = memory.get().item_strides().collect();
    let tensor = Tensor {
        data: pointer(memory.get().address()),
        device: CPU,
        ndim: shape.len() as i32,
        code,
        bits,
        lanes: 1,
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let (py, owner) = (memory.py(), memory.clone().unbind());
    if versioned {
        let managed = ManagedVersioned {
            version: (1, 0),
            context: null_mut(),
            deleter: Some(delete_versioned),
            flags: 0,
            tensor,
        };
        let exported = Box::new(Exported { managed, shape, strides, _owner: owner });
        capsule(py, Box::into_raw(exported).cast(), VERSIONED)
    } else {
        let managed = Managed { tensor, context: null_mut(), deleter: Some(delete_legacy) };
        let exported = Box::new(Exported { managed, shape, strides, _owner: owner });
        capsule(py, Box::into_raw(exported).cast(), LEGACY)
    }
}

fn capsule<'py>(
    py: Python<'py>,
    exported: *mut c_void,
    name: &'static CStr,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the name is static, and `drop_capsule` matches what the capsule refers to. On failure
    // the answer is null with an exception set, which becomes the error; what was exported leaks.
    unsafe {
        let made = ffi::PyCapsule_New(exported, name.as_ptr(), Some(drop_capsule));
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Drops what a capsule refers to, unless a consumer has taken it over: then the capsule has
/// another name.
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter passes the capsule that is being destroyed. A capsule that has one of
    // these names was made by `export` and has not been taken over, so that it refers to what was
    // exported under that name, which nobody else drops.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut Managed) {
    // SAFETY: `export` made it with this address, and a tensor is deleted once. The owner may be
    // dropped in any thread: PyO3 puts the release off until the interpreter is there.
    drop(unsafe { Box::from_raw(managed.cast::<Exported<Managed>>()) });
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete_legacy`.
    drop(unsafe { Box::from_raw(managed.cast::<Exported<ManagedVersioned>>()) });
}
