//! Directories mounted by the program under test.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest time that a mount or an unmount may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that is mounted by `dio mount` in the foreground. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    mountpoint: TempDir,
    server: Option<Child>,
    options: String,
}

impl Mounted {
    /// Mounts `source` by the program `dio` with these `-o` options, on a directory beside it that
    /// all users may enter.
    ///
    /// # Panics
    /// If it is not mounted within a minute. The message contains the program's output.
    #[track_caller]
    #[must_use]
    pub fn new(dio: impl AsRef<Path>, source: impl AsRef<Path>, options: &str) -> Mounted {
        let parent = source.as_ref().parent().expect("a source has a directory above it");
        Mounted::within(parent, dio, &source, options)
    }

    /// As [`Mounted::new`], on a directory within `place`, for a source whose file system will
    /// fail.
    ///
    /// # Panics
    /// As [`Mounted::new`].
    #[track_caller]
    #[must_use]
    pub fn within(
        place: &Path,
        dio: impl AsRef<Path>,
        source: impl AsRef<Path>,
        options: &str,
    ) -> Mounted {
        let source = source.as_ref();
        let mountpoint = tempfile::Builder::new()
            .prefix("mnt-")
            .tempdir_in(place)
            .expect("a place for the mount point");
        fs::set_permissions(mountpoint.path(), fs::Permissions::from_mode(0o755))
            .expect("a directory of our own");
        let server = Command::new(dio.as_ref())
            .args(["mount", "-f", "-o", options])
            .args([source, mountpoint.path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", dio.as_ref().display()));
        let mut mounted = Mounted { mountpoint, server: Some(server), options: options.to_owned() };
        let patience = Instant::now() + PATIENCE;
        while mount_type(mounted.path()).as_deref() != Some("fuse.dio") {
            if let Some(status) = mounted.ended() {
                panic!("dio mount -o {options}: {status}: {}", mounted.said());
            }
            assert!(
                Instant::now() < patience,
                "dio mount -o {options}: not mounted after {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        mounted
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mountpoint.path()
    }

    /// The process ID of the server.
    #[must_use]
    pub fn server(&self) -> u32 {
        self.server.as_ref().map_or(0, Child::id)
    }

    /// Kills the server (SIGKILL) and waits until it is gone. The mount stays without a server.
    ///
    /// # Panics
    /// If the server had ended before.
    #[track_caller]
    pub fn kill(&mut self) {
        assert!(self.ended().is_none(), "-o {}: the server had ended", self.options);
        let mut server = self.server.take().expect("it is killed once");
        server.kill().expect("a child of ours");
        server.wait().expect("a child of ours");
    }

    /// Unmounts with umount(8) and waits for the server.
    ///
    /// # Panics
    /// If the mount is busy for a minute, or the server fails.
    #[track_caller]
    pub fn unmount(mut self) {
        let patience = Instant::now() + PATIENCE;
        loop {
            let output = crate::run(Command::new("umount").arg(self.path()));
            if output.status.success() {
                break;
            }
            // Processes that a judge left behind may need a moment to end.
            assert!(Instant::now() < patience, "-o {}: {}", self.options, output.stderr);
            std::thread::sleep(Duration::from_millis(20));
        }
        while self.ended().is_none() {
            assert!(
                Instant::now() < patience,
                "-o {}: the server goes on after the unmount",
                self.options
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.ended().expect("it ended");
        let said = self.said();
        assert!(status.success(), "-o {}: the server: {status}: {said}", self.options);
        self.server = None;
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.server.as_mut().and_then(|server| server.try_wait().expect("a child of ours"))
    }

    /// Standard error of the server, which has ended.
    fn said(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut stderr) = self.server.as_mut().and_then(|server| server.stderr.take()) {
            let _ = stderr.read_to_string(&mut said);
        }
        said
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if mount_type(self.path()).is_some() {
            let lazily = |path: &Path| crate::run(Command::new("umount").arg("--lazy").arg(path));
            let _ = lazily(self.path());
        }
        if let Some(mut server) = self.server.take() {
            // A failed test must not wait for files that it left open.
            if std::thread::panicking() {
                let _ = server.kill();
            }
            let _ = server.wait();
        }
    }
}

/// The type of the file system that is mounted on `path`, if there is one.
#[must_use]
pub fn mount_type(path: &Path) -> Option<String> {
    let path: PathBuf =
        path.parent().and_then(|parent| parent.canonicalize().ok())?.join(path.file_name()?);
    // `36 35 98:0 /root /at options tag:1 - type source options`; scratch directories need no
    // escapes.
    let table = fs::read_to_string("/proc/self/mountinfo").expect("proc is mounted");
    let of = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let here = before.split(' ').nth(4)? == path.to_str()?;
        here.then(|| after.split(' ').next().map(str::to_owned)).flatten()
    };
    table.lines().rev().find_map(of)
}
