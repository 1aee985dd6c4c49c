//! The native half of the Python module `dio`. `python/dio` has the other half: file objects of
//! Python's own classes, and what needs other packages.
//!
//! Every call that may wait releases the lock of the interpreter first, and takes it again without
//! a lock of its own.

#[expect(unsafe_code, reason = "memory of Python objects has no safe slice")]
mod buffer;
#[expect(unsafe_code, reason = "DLPack is a structure of addresses that others delete")]
mod dlpack;
mod errors;
mod file;
mod handle;
mod idle;
mod memory;
mod process;
mod ranges;

use pyo3::prelude::*;

/// The native half of the module dio.
#[pymodule(gil_used = false)]
mod _dio {
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::ranges::{Stop, read, read_into, write};

    /// Version of dio.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
