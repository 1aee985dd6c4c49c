//! Runs `dio cp` as a user does, and examines the result with the system's own tools (fincore,
//! stat, cmp).

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test uses its part")]

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use dio_test::{
    Output, PATIENCE, TestFs, file_systems, random_file, resident_pages, same_bytes, skip, until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub const MIB: u64 = 1 << 20;

/// Returns a `dio cp` command, in the C locale and with no engine forced.
pub fn cp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.arg("cp").env("LC_ALL", "C.UTF-8").env("RUST_BACKTRACE", "0").env_remove("DIO_ENGINE");
    command
}

/// Runs `dio cp` with flags and operands.
#[track_caller]
pub fn run(flags: &str, operands: &[&Path]) -> Output {
    dio_test::run(cp().args(flags.split_whitespace()).args(operands))
}

/// Runs `dio cp`, which must succeed and print nothing.
#[track_caller]
pub fn good(flags: &str, operands: &[&Path]) -> Output {
    let output = run(flags, operands);
    // This line is printed where the page cache is the storage.
    let silent = output.stderr.lines().all(|line| line.contains("verified through the page cache"));
    assert!(output.status.success() && silent, "cp {flags} {operands:?}: {output:?}");
    output
}

/// Runs `dio cp`, which must end with status 1 and print these words on standard error.
#[track_caller]
pub fn bad(flags: &str, operands: &[&Path], words: &str) -> Output {
    let output = run(flags, operands);
    assert_eq!(output.status.code(), Some(1), "cp {flags} {operands:?}: {output:?}");
    assert!(
        output.stderr.contains(words),
        "cp {flags} {operands:?}: `{words}` is not in {output:?}"
    );
    output
}

/// Runs `dio cp` with a receipt, and returns the receipt.
#[track_caller]
pub fn receipt(flags: &str, operands: &[&Path]) -> Value {
    let output = run(&format!("--receipt - {flags}"), operands);
    assert!(output.status.success(), "cp {flags} {operands:?}: {output:?}");
    json(&output.stdout)
}

#[track_caller]
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A number in a receipt, by a path such as `read.direct`.
#[track_caller]
pub fn number(receipt: &Value, path: &str) -> u64 {
    let found = path.split('.').fold(receipt, |value, key| &value[key]);
    found.as_u64().unwrap_or_else(|| panic!("{path} is {found} in {receipt:#}"))
}

/// The entry of a file in a receipt, by role and the end of its path.
#[track_caller]
pub fn line<'a>(receipt: &'a Value, role: &str, name: &str) -> &'a Value {
    let files = receipt["files"].as_array().expect("files is a list");
    let found = files.iter().find(|line| {
        line["role"] == role
            && line["path"].as_str().is_some_and(|path| Path::new(path).ends_with(name))
    });
    found.unwrap_or_else(|| panic!("no {role} {name} in {receipt:#}"))
}

/// Writes a file back and drops its pages.
#[track_caller]
pub fn cold(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Writes a file back and reads all of it into the page cache. Returns its resident pages.
#[track_caller]
pub fn warm(path: &Path) -> u64 {
    File::open(path).unwrap().sync_all().unwrap();
    std::fs::read(path).unwrap();
    let pages = resident_pages(path);
    assert!(pages > 0, "{} does not stay in the cache", path.display());
    pages
}

/// Makes a file of random bytes that is on the disk and not in the cache.
#[track_caller]
pub fn source(dir: &Path, name: &str, len: u64) -> PathBuf {
    let path = dir.join(name);
    random_file(&path, len, len ^ 0x5eed);
    cold(&path);
    path
}

/// Names in a directory, sorted.
#[track_caller]
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Whether the page cache is the storage itself, so that pages cannot be evicted.
pub fn in_memory(fs: &TestFs) -> bool {
    let found = rustix::fs::statfs(&fs.path).unwrap().f_type as u64;
    found == 0x0102_1994
}

/// Whether direct reads and writes bypass the cache here. Returns `true` only for file systems
/// where that is certain.
pub fn is_direct(fs: &TestFs) -> bool {
    matches!(fs.name.as_str(), "ext4" | "xfs")
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A running `dio cp`. It is killed when this is dropped.
pub struct Running(Option<Child>);

impl Running {
    #[track_caller]
    pub fn start(flags: &str, operands: &[&Path]) -> Running {
        Running::spawn(cp().args(flags.split_whitespace()).args(operands))
    }

    #[track_caller]
    pub fn spawn(command: &mut Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().expect("it runs until it is waited for"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn is_over(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Waits until the process ends, and returns its output.
    #[track_caller]
    pub fn end(mut self) -> Output {
        let output = self.0.take().expect("it is waited for once").wait_with_output().unwrap();
        Output {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The signal that ended the process.
pub fn signal_of(output: &Output) -> Option<i32> {
    output.status.signal()
}

/// A signal mask of a process, with one bit for each signal from 1 on (proc_pid_status(5)).
fn signals(pid: Pid, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))
        .unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Waits until the process has a handler for the signal.
#[track_caller]
pub fn until_caught(pid: Pid, signal: Signal) {
    until("the signal is caught", || signals(pid, "SigCgt") & bit(signal) != 0);
}

/// Waits until the process ignores the signal.
#[track_caller]
pub fn until_ignored(pid: Pid, signal: Signal) {
    until("the signal is ignored", || signals(pid, "SigIgn") & bit(signal) != 0);
}

/// Waits until no signal of this kind is pending in the process any more, so that the next signal
/// is delivered as a second one.
#[track_caller]
pub fn until_taken(pid: Pid, signal: Signal) {
    until("the signal is taken", || {
        (signals(pid, "ShdPnd") | signals(pid, "SigPnd")) & bit(signal) == 0
    });
}

/// Waits until the first thread of the process waits for something.
#[track_caller]
pub fn until_asleep(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    until("it waits", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")));
}

/// Bytes in a pipe that have not been read yet. Either end can be passed.
pub fn waiting(pipe: impl std::os::fd::AsFd) -> u64 {
    rustix::io::ioctl_fionread(pipe).unwrap()
}

/// The size of a file, which is the number of bytes written if space is allocated without changing
/// the size.
pub fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Waits until a file that the process has open for writing, whether or not it has a name, holds
/// the last of `bytes` bytes, which are not zeros. Its size does not show that, because space is
/// allocated first.
#[track_caller]
pub fn until_moved(running: &Running, bytes: u64) {
    let process = PathBuf::from(format!("/proc/{}", running.pid().as_raw_nonzero()));
    until("bytes are moved", || {
        let Ok(entries) = std::fs::read_dir(process.join("fd")) else { return false };
        entries.map_while(Result::ok).any(|entry| {
            let info = std::fs::read_to_string(process.join("fdinfo").join(entry.file_name()))
                .unwrap_or_default();
            let flags =
                info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
            // In octal. The lowest two bits are the access mode (open(2)).
            let writes = u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 3 != 0);
            let found = std::fs::metadata(entry.path());
            let mut last = [0; 16];
            let holds = |file: File| {
                file.read_exact_at(&mut last, bytes.saturating_sub(16)).is_ok() && last != [0; 16]
            };
            writes
                && found.is_ok_and(|meta| meta.is_file())
                && File::open(entry.path()).is_ok_and(holds)
        })
    });
}

/// A mount of a file system on a loop image. It is unmounted when this is dropped.
pub struct Mounted {
    pub path: PathBuf,
    pub image: PathBuf,
    dir: tempfile::TempDir,
}

impl Mounted {
    /// Formats an image of `size` bytes and mounts it. Returns `None`, and prints that the test is
    /// skipped, if that is not possible.
    #[track_caller]
    pub fn new(format: &[&str], size: u64) -> Option<Mounted> {
        if !is_root() {
            skip!("mounting {} needs root", format[0]);
            return None;
        }
        Mounted::within(file_systems()[0].dir(), format, size)
    }

    /// As `new`, with the image in this directory; needs root.
    #[track_caller]
    pub fn within(dir: tempfile::TempDir, format: &[&str], size: u64) -> Option<Mounted> {
        let (image, path) = (dir.path().join("image"), dir.path().join("mounted"));
        File::create(&image).unwrap().set_len(size).unwrap();
        std::fs::create_dir(&path).unwrap();
        let made = dio_test::run(Command::new(format[0]).args(&format[1..]).arg(&image));
        assert!(made.status.success(), "{format:?}: {made:?}");
        let mounted = Mounted { path, image, dir };
        match mounted.mount("loop") {
            Ok(()) => Some(mounted),
            Err(error) => {
                skip!("cannot mount {}: {error}", format[0]);
                None
            }
        }
    }

    fn mount(&self, options: &str) -> Result<(), String> {
        let output = dio_test::run(
            Command::new("mount").args(["-o", options]).arg(&self.image).arg(&self.path),
        );
        if output.status.success() { Ok(()) } else { Err(output.stderr) }
    }

    /// Remounts read-only. EBUSY passes: a child that another test is just starting has copies of
    /// this process's descriptors until it executes its program, and one of them may be open for
    /// writing here.
    #[track_caller]
    pub fn remount_read_only(&self) {
        until("it can be remounted", || {
            dio_test::run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.path))
                .status
                .success()
        });
    }

    /// Stops the file system at once, without writing its log, as a power cut does, and mounts it
    /// again.
    #[track_caller]
    pub fn cut_power(&self) {
        self.shut_down();
        self.come_back();
    }

    /// The second part of [`Mounted::cut_power`], after [`Mounted::shut_down`].
    #[track_caller]
    pub fn come_back(&self) {
        until("it can be unmounted", || self.unmount());
        self.mount_again();
    }

    /// Mounts the file system after it was unmounted.
    #[track_caller]
    pub fn mount_again(&self) {
        self.mount("loop").unwrap();
    }

    /// Stops the file system at once. `shutdown` of xfs_io without `-f` is the ioctl with "no log
    /// flush", on ext4 too.
    #[track_caller]
    pub fn shut_down(&self) {
        let output =
            dio_test::run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.path));
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }

    pub fn unmount(&self) -> bool {
        dio_test::run(Command::new("umount").arg(&self.path)).status.success()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for _ in 0..100 {
            if self.unmount() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        dio_test::run(Command::new("umount").arg("--lazy").arg(&self.path));
    }
}

/// Turns an operand that is not a path into a path.
pub fn os(text: &str) -> &Path {
    Path::new(OsStr::new(text))
}
