//! The tests of the Python module: a virtual environment below `target/python` with what they call,
//! the wheel built and installed there, and pytest on every file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::suite::Suite;
use crate::tally::Tally;
use crate::tool::{quiet, root, tool};

/// Runs the tests with further arguments for pytest, and prints the count as the last line. Returns
/// whether nothing failed.
pub(crate) fn python(args: &[String]) -> bool {
    let suite = Suite::prepare();
    suite.ended(counted(&suite, args, |line| println!("{line}")))
}

/// Builds the module and counts its tests. A failure before the first test counts as one.
pub(crate) fn counted(suite: &Suite, args: &[String], mut show: impl FnMut(&str)) -> Tally {
    match install() {
        Ok(()) => suite.counted_inside("python", args, show),
        Err(error) => {
            show(&format!("xtask: the Python module cannot be tested: {error}"));
            Tally { failed: 1, ..Tally::default() }
        }
    }
}

/// The command that runs pytest in the environment that `dio-test` documents.
pub(crate) fn pytest(args: &[String]) -> Command {
    let mut command = tool(environment().join("bin/python"));
    // A test that hangs ends all of them, with the stacks of its threads.
    command.args([
        "-m",
        "pytest",
        "--timeout=120",
        "--timeout-method=thread",
        "-p",
        "no:cacheprovider",
    ]);
    command.args(args).current_dir(source()).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Where its sources are.
pub(crate) fn source() -> PathBuf {
    root().join("bindings/python")
}

/// Where the module is built, and the environment kept between runs.
pub(crate) fn built() -> PathBuf {
    root().join("target/python")
}

fn environment() -> PathBuf {
    built().join("environment")
}

/// The program that builds the module, in the environment.
pub(crate) fn maturin() -> Result<PathBuf, Error> {
    provide()?;
    Ok(environment().join("bin/maturin"))
}

/// Makes the environment if what belongs into it has changed.
fn provide() -> Result<(), Error> {
    fs::create_dir_all(built())?;
    let wanted = fs::read_to_string(source().join("requirements-test.txt"))?;
    let stamp = environment().join("installed.txt");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        println!("setup: the Python packages of bindings/python/requirements-test.txt");
        quiet(tool("python3").args(["-m", "venv", "--clear"]).arg(environment()))?;
        quiet(
            pip()
                .args(["install", "--quiet", "--requirement"])
                .arg(source().join("requirements-test.txt")),
        )?;
        fs::write(&stamp, wanted)?;
    }
    Ok(())
}

/// Installs the module in the environment.
fn install() -> Result<(), Error> {
    provide()?;
    let wheels = built().join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    build(&wheels)?;
    let wheel = fs::read_dir(&wheels)?.next().ok_or("maturin built no wheel")??.path();
    // The version is the same each time, so pip would keep the wheel that it has.
    quiet(pip().args(["install", "--quiet", "--no-deps", "--force-reinstall"]).arg(wheel))
}

fn pip() -> Command {
    let mut command = tool(environment().join("bin/python"));
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

fn build(wheels: &Path) -> Result<(), Error> {
    let mut command = tool("nice");
    command.args(["-n", "10"]).arg(environment().join("bin/maturin"));
    command.args(["build", "--quiet", "--profile", "dev", "--locked", "--out"]).arg(wheels);
    command.arg("--interpreter").arg(environment().join("bin/python"));
    command.current_dir(source()).env("CARGO_TARGET_DIR", built());
    quiet(&mut command)
}
