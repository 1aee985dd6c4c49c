//! What the judges of the mount share: a source on one file system, mounted in one mode.

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
    /// For messages: mode and file system.
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

    /// On a source that lies elsewhere, with everything else in a scratch directory; mounted with
    /// `options` for all users.
    pub fn over(source: PathBuf, scratch: TempDir, name: String, options: &str) -> Stage {
        for path in [scratch.path(), &source] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let options = format!("{options},allow_other");
        let mounted = Mounted::within(scratch.path(), DIO, &source, &options);
        Stage { name, mounted, options, source, scratch }
    }

    /// Mounts the source once more, elsewhere, after its server was killed and the dead mount was
    /// taken away.
    pub fn mount_again(&mut self) {
        assert_eq!(dio_test::mount_type(self.mounted.path()), None, "{}", self.name);
        self.mounted = Mounted::within(self.scratch.path(), DIO, &self.source, &self.options);
    }

    /// A path through the mount.
    pub fn at(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }

    /// The same file below the mount.
    pub fn below(&self, name: &str) -> PathBuf {
        self.source.join(name)
    }

    /// A directory beside source and mount.
    pub fn beside(&self, name: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A directory through the mount that belongs to a user.
    pub fn directory_of(&self, user: &str, name: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir(&path).unwrap();
        succeeds(Command::new("chown").arg(format!("{user}:")).arg(&path), &self.name);
        path
    }

    /// Unmounts; what is below is then judged without dio. The scratch directory goes with the
    /// value that is returned.
    pub fn unmount(self) -> Below {
        self.mounted.unmount();
        Below { name: self.name, source: self.source, _scratch: self.scratch }
    }
}

/// What a mount left behind.
pub struct Below {
    pub name: String,
    pub source: PathBuf,
    _scratch: TempDir,
}

/// Judges each mode on its file system; says so where there is nobody who may mount.
pub fn each_mode(judge: impl Fn(Stage)) {
    if !is_root() {
        skip!("the judges need root");
        return;
    }
    for (fs, mode) in judged() {
        judge(Stage::new(&fs, mode));
    }
}

/// A judge of crates.io, or a skip said aloud.
pub fn built(name: &str) -> Option<PathBuf> {
    let found = dio_test::judge(name);
    if found.is_none() {
        skip!("{name} is not built: cargo xtask setup");
    }
    found
}

/// What a command printed; it must succeed.
#[track_caller]
pub fn succeeds(command: &mut Command, name: &str) -> String {
    let output = dio_test::run(command);
    let end = |text: &str| text.chars().skip(text.chars().count().saturating_sub(6000)).collect::<String>();
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

/// A command whose input is a text.
pub fn fed(command: &mut Command, text: &str) -> std::process::Child {
    fed_as_it_is(command.stdout(Stdio::piped()).stderr(Stdio::piped()), text)
}

/// The same with the outputs that the command has.
pub fn fed_as_it_is(command: &mut Command, text: &str) -> std::process::Child {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let (mut stdin, text) = (child.stdin.take().unwrap(), text.to_owned());
    // Beside it, as it may print more than a pipe holds before it has read everything.
    std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    child
}
