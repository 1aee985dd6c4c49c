//! The native half of the Python module `dio`. `python/dio` has the other half: file objects of
//! Python's own classes, and what needs other packages.
//!
//! Every call that may wait releases the lock of the interpreter first, and takes it again without
//! a lock of its own.

#[expect(unsafe_code, reason = "memory of Python objects has no safe slice")]
mod buffer;
mod cache;
mod copy;
mod digest;
#[expect(unsafe_code, reason = "DLPack is a structure of addresses that others delete")]
mod dlpack;
mod errors;
mod file;
mod handle;
mod idle;
#[expect(unsafe_code, reason = "PyO3 does not tell which interpreter runs")]
mod interpreter;
mod memory;
mod probe;
mod process;
mod ranges;
mod wal;

/// The native half of the module dio.
#[pyo3::pymodule(gil_used = false)]
mod _dio {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::ranges::{Stop, read, read_into, write};

    #[pymodule_export]
    use crate::cache::Cache;
    #[pymodule_export]
    use crate::copy::{copy, remove, stat};
    #[pymodule_export]
    use crate::digest::{digest, digests, engine};
    #[pymodule_export]
    use crate::probe::{probe, stripe_create, stripe_inspect};
    #[pymodule_export]
    use crate::wal::{Wal, WalRecords};

    /// Runs for each interpreter that imports the module.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Before there is a thread that could fork.
        dio_sys::process_id();
        crate::interpreter::check_main(module.py())
    }

    /// Version of dio.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
