//! The Python module as a wheel and as a source distribution.

use super::Making;
use crate::Error;
use crate::python;
use crate::tool::quiet;

/// Makes both by maturin.
pub(super) fn make(making: &Making) -> Result<(), Error> {
    let maturin = python::maturin()?;
    let mut wheel = making.command(&maturin);
    wheel
        .args(["build", "--quiet", "--locked", "--profile", &making.profile, "--out"])
        .arg(&making.out)
        .current_dir(python::source())
        .env("CARGO_TARGET_DIR", python::built())
        .envs(super::programs::without_paths()?);
    quiet(&mut wheel)?;
    let mut source = making.command(&maturin);
    source.args(["sdist", "--out"]).arg(&making.out).current_dir(python::source());
    quiet(&mut source)
}
