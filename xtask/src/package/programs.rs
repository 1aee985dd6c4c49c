//! Builds the programs that packages contain: dio with and without the commands that measure.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Making, metadata};
use crate::Error;
use crate::tool::{TESTED_DIO, cargo, quiet, root, tool};

/// The profile of packages.
pub(super) const DIST: &str = "dist";

/// The largest `/usr/bin/dio`, bytes.
const SIZE_MAX: u64 = 15_000_000;

/// The programs, without debugging information.
pub(super) struct Programs {
    /// `/usr/bin/dio`, without the feature `bench`.
    pub(super) lean: PathBuf,
    /// `/usr/lib/dio/dio-bench`, with all commands.
    pub(super) full: PathBuf,
}

/// Builds the programs. With the profile `dev`, both are the one of the tests, since building
/// another one takes as long as all of this.
pub(super) fn build(making: &Making) -> Result<Programs, Error> {
    let directory = making.stage.join("programs");
    fs::create_dir_all(&directory)?;
    let (lean, full) = (directory.join("dio"), directory.join("dio-bench"));
    let copy = |program: &Path, to: &Path| strip(making, program, to);
    if making.profile == "dev" {
        copy(&build_one(making, &[])?, &lean)?;
        fs::hard_link(&lean, &full)?;
    } else {
        copy(&build_one(making, &["--no-default-features"])?, &lean)?;
        copy(&build_one(making, &[])?, &full)?;
    }
    Ok(Programs { lean, full })
}

/// Builds the program. Returns where cargo has put it, until it is built again.
fn build_one(making: &Making, features: &[&str]) -> Result<PathBuf, Error> {
    let mut command = cargo();
    command
        .args(["build", "--locked"])
        .args(["--profile", &making.profile, "--message-format", "json-render-diagnostics"])
        .args(features)
        .stderr(std::process::Stdio::inherit());
    if making.profile == "dev" {
        command.args(TESTED_DIO);
    } else {
        command.args(["--package", "dio-cli", "--bin", "dio"]).envs(without_paths()?);
    }
    let out = command.output()?;
    let messages = String::from_utf8(out.stdout)?;
    let artifact = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let program = message["executable"].as_str()?;
        Some(PathBuf::from(program))
    };
    let program = messages.lines().rev().find_map(artifact);
    program.filter(|_| out.status.success()).ok_or_else(|| "dio could not be built".into())
}

/// Variables by which no path of this machine gets into a program: those of the checkout, of
/// registries' sources, and, where the sources of the standard library are installed, of these.
pub(super) fn without_paths() -> Result<Vec<(&'static str, OsString)>, Error> {
    let mut map: Vec<(PathBuf, String)> = metadata::registries(&metadata::crates()?)
        .into_iter()
        .map(|registry| (registry, "/registry".to_owned()))
        .collect();
    map.extend(standard_library()?);
    // Of several that fit, rustc takes the last one: a registry or a toolchain within the checkout
    // comes after it.
    map.insert(0, (root().to_owned(), "/dio".to_owned()));
    let (mut rust, mut c) = (Vec::new(), std::env::var_os("CFLAGS").unwrap_or_default());
    for (from, to) in map {
        let from = from.to_str().filter(|from| !from.contains('\''));
        let from = from.ok_or("a path has a quotation mark, or is not UTF-8")?;
        rust.push(format!("--remap-path-prefix={from}={to}"));
        c.push(format!(" '-ffile-prefix-map={from}={to}'"));
    }
    Ok(vec![
        ("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}").into()),
        ("CFLAGS", c),
        // The crate cc takes quotation marks for what they are.
        ("CC_SHELL_ESCAPED_FLAGS", "1".into()),
    ])
}

/// Where the sources of the standard library are, if they are installed, and the name that they
/// have in a program if they are not.
fn standard_library() -> Result<Option<(PathBuf, String)>, Error> {
    let said = |args: &[&str]| -> Result<String, Error> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        Ok(String::from_utf8(tool(rustc).args(args).output()?.stdout)?)
    };
    let version = said(&["--version", "--verbose"])?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    let place = Path::new(said(&["--print", "sysroot"])?.trim()).join("lib/rustlib/src/rust");
    Ok(commit.map(|commit| (place, format!("/rustc/{commit}"))))
}

/// Copies a program without its debugging information.
pub(super) fn strip(making: &Making, program: &Path, to: &Path) -> Result<(), Error> {
    quiet(making.command("strip").arg("--strip-all").arg("-o").arg(to).arg(program))
}

/// Prints the sizes of the programs, and refuses a `/usr/bin/dio` that is too large for a package.
pub(super) fn check_size(making: &Making, programs: &Programs) -> Result<(), Error> {
    let size = |program: &Path| -> Result<u64, Error> {
        let size = fs::metadata(program)?.len();
        println!("package: {size:>12} bytes  the program {}", program.display());
        Ok(size)
    };
    size(&programs.full)?;
    if size(&programs.lean)? > SIZE_MAX && making.profile == DIST {
        return Err(format!("/usr/bin/dio is larger than {SIZE_MAX} bytes").into());
    }
    Ok(())
}
