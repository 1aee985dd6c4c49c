//! Finding and calling other programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// A command that starts in the root of the workspace without standard input. It also finds system
/// administration programs, which are not in every user's search path.
pub(crate) fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path()).stdin(Stdio::null()).current_dir(root());
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    tool(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Arguments that have `cargo build` build `dio` as it is in tests: those of its dependencies that
/// also dio-test asks for have the same features, and are not built again.
pub(crate) const TESTED_DIO: [&str; 6] =
    ["--package", "dio-cli", "--package", "dio-test", "--bin", "dio"];

fn search_path() -> OsString {
    let mut dirs: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    for dir in ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    std::env::join_paths(dirs).expect("parts of a search path join to one")
}

/// Whether a program of this name can be found.
pub(crate) fn has(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|dir| dir.join(program).is_file())
}

/// Runs a command to its end without showing its output. An error contains the output.
pub(crate) fn quiet(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().display().to_string();
    let out = command.output().map_err(|e| format!("{name}: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    Err(format!("{name}: {}: {}", out.status, said.join("; ")).into())
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    // The second number of the line `Uid:` is the effective user.
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            == Some("0")
    })
}

/// Whether everything must run and nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|v| v == "true")
}
