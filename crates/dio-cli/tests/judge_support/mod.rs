//! Shared by the tests that judge the mount with other programs: a source on one file system,
//! mounted in one mode.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod postgres;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dio_test::{Mounted, TestFs, is_root, judged, skip, way};
use tempfile::TempDir;

pub const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// A directory on a file system, mounted in a mode for all users.
pub struct Stage {
    /// Name for messages: mode and file system.
    pub name: String,
    pub mounted: Mounted,
    options: String,
    source: PathBuf,
    scratch: TempDir,
}

impl Stage {
    pub fn new(fs: &TestFs, mode: &str) -> Stage {
        let scratch = fs.dir();
        let source = scratch.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let options = format!("{mode},{}", way(fs));
        Stage::over(source, scratch, format!("{options} on {}", fs.name), &options)
    }

    /// As `new`, with a source that is outside the scratch directory, mounted with `options` for
    /// all users.
    pub fn over(source: PathBuf, scratch: TempDir, name: String, options: &str) -> Stage {
        for path in [scratch.path(), &source] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let options = format!("{options},allow_other");
        let mounted = Mounted::within(scratch.path(), DIO, &source, &options);
        Stage { name, mounted, options, source, scratch }
    }

    /// Mounts the source again at a new mount point, after its server was killed and the dead mount
    /// was removed.
    pub fn mount_again(&mut self) {
        assert_eq!(dio_test::mount_type(self.mounted.path()), None, "{}", self.name);
        self.mounted = Mounted::within(self.scratch.path(), DIO, &self.source, &self.options);
    }

    /// The path of a file through the mount.
    pub fn at(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }

    /// The path of the same file below the mount.
    pub fn below(&self, name: &str) -> PathBuf {
        self.source.join(name)
    }

    /// Makes a directory outside of the source and the mount.
    pub fn beside(&self, name: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Makes a directory through the mount that belongs to a user.
    pub fn directory_of(&self, user: &str, name: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir(&path).unwrap();
        succeeds(Command::new("chown").arg(format!("{user}:")).arg(&path), &self.name);
        path
    }

    /// Unmounts, so that the source can be checked without dio. The scratch directory is removed
    /// when the returned value is dropped.
    pub fn unmount(self) -> Below {
        self.mounted.unmount();
        Below { name: self.name, source: self.source, _scratch: self.scratch }
    }
}

/// The source of a mount after unmounting.
pub struct Below {
    pub name: String,
    pub source: PathBuf,
    _scratch: TempDir,
}

/// Runs `judge` for each mode on its file system. If the test may not mount, prints that it is
/// skipped.
pub fn each_mode(judge: impl Fn(Stage)) {
    if !is_root() {
        skip!("the judges need root");
        return;
    }
    for (fs, mode) in judged() {
        judge(Stage::new(&fs, mode));
    }
}

/// Returns the path of a judge from crates.io. If it is not built, prints that the test is skipped.
pub fn built(name: &str) -> Option<PathBuf> {
    let found = dio_test::judge(name);
    if found.is_none() {
        skip!("{name} is not built: cargo xtask setup");
    }
    found
}

/// Runs a command, which must succeed, and returns its output.
#[track_caller]
pub fn succeeds(command: &mut Command, name: &str) -> String {
    let output = dio_test::run(command);
    let end = |text: &str| {
        text.chars().skip(text.chars().count().saturating_sub(6000)).collect::<String>()
    };
    assert!(
        output.status.success(),
        "{name}: {command:?}: {}\n{}\n{}",
        output.status,
        end(&output.stdout),
        end(&output.stderr)
    );
    output.stdout
}

/// Runs a shell script in a directory; it must succeed.
#[track_caller]
pub fn shell(directory: &Path, script: &str, name: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(directory).env("DIO", DIO).env("LC_ALL", "C");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", directory);
    succeeds(&mut command, name)
}

/// Starts a command with a text as its input.
pub fn fed(command: &mut Command, text: &str) -> std::process::Child {
    fed_as_it_is(command.stdout(Stdio::piped()).stderr(Stdio::piped()), text)
}

/// As `fed`, but keeps the outputs of the command.
pub fn fed_as_it_is(command: &mut Command, text: &str) -> std::process::Child {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let (mut stdin, text) = (child.stdin.take().unwrap(), text.to_owned());
    // The text is written by another thread, because the command may print more than a pipe holds
    // before it has read everything.
    std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    child
}
