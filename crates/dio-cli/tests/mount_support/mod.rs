//! Shared by the tests of `dio mount`: a source and a mount point, servers, and the table of
//! mounts.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test uses its part")]

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use dio_test::{Output, file_systems, run, skip};
pub use dio_test::{PATIENCE, until};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// A source with a file, and a mount point beside it. When this is dropped, anything mounted there
/// is detached.
pub struct Scene {
    pub dir: TempDir,
    pub source: PathBuf,
    pub at: PathBuf,
}

impl Scene {
    /// Returns `None`, and prints that the test is skipped, if nothing can be mounted.
    pub fn new() -> Option<Scene> {
        if !geteuid().is_root() || File::options().read(true).write(true).open("/dev/fuse").is_err()
        {
            skip!("mounting needs root and /dev/fuse");
            return None;
        }
        let dir = file_systems()[0].dir();
        let (source, at) = (dir.path().join("source"), dir.path().join("at"));
        fs::create_dir_all(source.join("deep")).unwrap();
        fs::create_dir(&at).unwrap();
        fs::write(source.join("file"), "from the source\n").unwrap();
        fs::write(source.join("deep/file"), "from below\n").unwrap();
        Some(Scene { dir, source, at })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a `dio mount` command with flags, on this scene's source and mount point.
    pub fn mount(&self, flags: &str) -> Command {
        let mut command = dio("mount", flags);
        command.args([&self.source, &self.at]);
        command
    }

    /// Starts the server in the foreground and waits until it reports that it is ready. Until then
    /// the server itself asks the mount for its attributes, so an unmount would find the mount in
    /// use.
    #[track_caller]
    pub fn foreground(&self, command: &mut Command) -> Server {
        let own =
            command.get_envs().all(|(name, value)| name != "NOTIFY_SOCKET" || value.is_none());
        let manager = own.then(|| {
            static SOCKETS: AtomicUsize = AtomicUsize::new(0);
            let path = self.path(&format!("ready-{}", SOCKETS.fetch_add(1, Ordering::Relaxed)));
            let manager = UnixDatagram::bind(&path).unwrap();
            manager.set_nonblocking(true).unwrap();
            command.env("NOTIFY_SOCKET", path);
            manager
        });
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut server, mut is_ready) = (Server(Some(child)), false);
        until("it is mounted", || {
            assert!(!server.is_over(), "{:?}", server.take());
            is_ready = is_ready
                || manager.as_ref().is_none_or(|manager| manager.recv(&mut [0; 1024]).is_ok());
            is_ready && is_mounted(&self.at) && self.at.join("file").exists()
        });
        server
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let ours = |path: &PathBuf| path.starts_with(self.dir.path());
        for path in mounts().into_iter().map(|(path, _)| path).filter(ours).rev() {
            let _ = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// A server that a test has started. It is killed when this is dropped.
pub struct Server(pub Option<Child>);

impl Server {
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().expect("it was not waited for"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn is_over(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Waits until the server ends, and returns its output.
    #[track_caller]
    pub fn take(&mut self) -> Output {
        let output = self.0.take().expect("it was not waited for").wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Output { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn dio(command: &str, flags: &str) -> Command {
    let mut dio = Command::new(env!("CARGO_BIN_EXE_dio"));
    dio.arg(command)
        .args(flags.split_whitespace())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NOTIFY_SOCKET");
    dio
}

/// Mount points and types, in the order of the table. Names with escapes are not decoded, because
/// no test uses them.
pub fn mounts() -> Vec<(PathBuf, String)> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        Some((PathBuf::from(front.split(' ').nth(4)?), back.split(' ').next()?.to_owned()))
    };
    table.lines().filter_map(line).collect()
}

pub fn is_mounted(at: &Path) -> bool {
    mounts().iter().any(|(path, kind)| path == at && kind == "fuse.dio")
}

/// The process that serves a mount point in the background.
#[track_caller]
pub fn server_of(at: &Path) -> Pid {
    let serves = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&b"--started".as_slice())
            && words.contains(&at.as_os_str().as_encoded_bytes())
    };
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let found: Vec<i32> = processes.filter(serves).collect();
    assert_eq!(found.len(), 1, "servers of {}: {found:?}", at.display());
    Pid::from_raw(found[0]).unwrap()
}

/// Whether a process, given by its directory in /proc, is gone or is a zombie.
pub fn has_ended(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[track_caller]
pub fn good(command: &mut Command) {
    let output = run(command);
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{command:?}: {output:?}"
    );
}

#[track_caller]
pub fn bad(command: &mut Command, status: i32, words: &[&str]) {
    let output = run(command);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {output:?}");
    for word in words {
        assert!(output.stderr.contains(word), "{command:?}: `{word}` is not in {output:?}");
    }
}
