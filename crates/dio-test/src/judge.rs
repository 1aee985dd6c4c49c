//! Programs by other authors that test file systems ("judges"), and the choice of what they test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fs::{TestFs, file_systems};

/// The modes of a mount, as `-o` names them.
pub const MODES: [&str; 4] = ["dio", "cio", "cached", "auto"];

/// Whether everything is to be judged at full length (`DIO_JUDGES=full`): each mode on each file
/// system.
#[must_use]
pub fn judge_fully() -> bool {
    std::env::var_os("DIO_JUDGES").is_some_and(|value| value == "full")
}

/// The combinations of file system and mode to judge: each mode once, on different file systems, or
/// each mode on each file system if that is requested.
#[must_use]
pub fn judged() -> Vec<(TestFs, &'static str)> {
    let all: Vec<TestFs> = file_systems();
    if judge_fully() {
        return all.iter().flat_map(|fs| MODES.map(|mode| (fs.clone(), mode))).collect();
    }
    let named = |name: &str| all.iter().find(|fs| fs.name == name).unwrap_or(&all[0]).clone();
    // Direct mode where the kernel's own lock would serialise extending writes, concurrent mode
    // where it would not.
    MODES
        .iter()
        .zip(["ext4", "xfs", "btrfs", "tmpfs"])
        .map(|(mode, fs)| (named(fs), *mode))
        .collect()
}

/// The option that selects how a mount on this file system gets its requests: by io_uring on half
/// of the file systems, if the kernel supports it, so that both variants are judged.
#[must_use]
pub fn way(fs: &TestFs) -> &'static str {
    let switch = Path::new("/sys/module/fuse/parameters/enable_uring");
    // A mount by root turns it on.
    let can = std::fs::OpenOptions::new().write(true).open(switch).is_ok();
    if can && ["xfs", "tmpfs"].contains(&fs.name.as_str()) { "io_uring" } else { "no_io_uring" }
}

/// The path of a judge that `cargo xtask setup` builds from crates.io, if it exists.
#[must_use]
pub fn judge(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates lie two levels deep");
    let path = root.join("target/judges/bin").join(name);
    path.is_file().then_some(path)
}

/// A command that runs a program as another user with that user's groups. Needs root.
pub fn as_user(user: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    let group = crate::run(Command::new("id").args(["-g", user])).stdout;
    command.args(["--reuid", user, "--regid", group.trim(), "--init-groups", "--"]).arg(program);
    command
}

/// Debian's directory of the programs of the newest version of PostgreSQL.
#[must_use]
pub fn postgresql_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.flatten().map(|entry| entry.path().join("bin"));
    programs.filter(|bin| bin.join("initdb").is_file()).max()
}

/// Whether the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    crate::run(Command::new("id").arg("-u")).stdout.trim() == "0"
}
