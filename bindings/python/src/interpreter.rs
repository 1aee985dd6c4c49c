//! Refuses subinterpreters. Classes and streams of dio are shared by all who use them in a process,
//! and Python objects must not pass from one interpreter to another.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Number of the interpreter with which a process begins.
const MAIN: i64 = 0;

/// An error unless the main interpreter runs.
pub(crate) fn check_main(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: a thread that is attached has a current interpreter, which lives as long as the
    // thread is attached. Both calls only read.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if number == MAIN {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "dio does not support subinterpreters, and this is number {number} (use threads, which dio \
         does not lock out, or processes)"
    )))
}
