//! Runs shell scripts with the system's `cat` and `tee` and with dio's, called by links with those
//! names, and compares the output, the status, and every file that is left.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::gnu::Seen;
pub use dio_test::{Rng, Seed, TestFs, file_systems};

pub const MIB: usize = 1 << 20;

/// A directory with links to dio, one for each tool.
pub fn links() -> &'static Path {
    crate::gnu::links(&["cat", "tee", "uniq"])
}

/// Returns a command that runs a tool of dio by its link.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(links().join(name));
    command.env("LC_ALL", "C.UTF-8").env_remove("DIO_ENGINE");
    command
}

/// The search path for the system's tools, or for dio's.
fn path(ours: bool) -> OsString {
    let mut path = OsString::new();
    if ours {
        path.push(links());
        path.push(":");
    }
    path.push(std::env::var_os("PATH").unwrap());
    path
}

/// Runs a script of bash in a new directory of `fs` that `setup` has filled.
pub fn run(fs: &TestFs, setup: &dyn Fn(&Path), script: &str, ours: bool) -> Seen {
    let dir = fs.dir();
    setup(dir.path());
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).env("PATH", path(ours)).env("LC_ALL", "C.UTF-8");
    bash.env_remove("DIO_ENGINE").stdin(Stdio::null());
    Seen::of(&mut bash, dir.path(), None)
}

/// Runs a script with both sets of tools on one file system, and checks that the outcomes are the
/// same.
#[track_caller]
pub fn same_on(fs: &TestFs, setup: &dyn Fn(&Path), script: &str) {
    let gnu = run(fs, setup, script, false);
    let dio = run(fs, setup, script, true);
    assert!(gnu == dio, "on {}: {script}\n{}", fs.name, gnu.differences(&dio));
}

/// Runs a script with both sets of tools, and checks that the outcomes are the same.
#[track_caller]
pub fn same(setup: &dyn Fn(&Path), script: &str) {
    same_on(&file_systems()[0], setup, script);
}

/// Text with many of the bytes that matter to `cat`.
pub fn text(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 200);
    while text.len() < length {
        match rng.range(0..10) {
            0..=2 => text.extend_from_slice(&b"\n\n\n"[..rng.range_usize(1..4)]),
            3 => text.extend_from_slice(b"\r\n"),
            4 => text.push(*rng.pick(b"\r\t\0\x7f\x80\xff\xa0\x1f ")),
            5 => text.push(rng.next_u64() as u8),
            6 => text.extend_from_slice("größer\t".as_bytes()),
            _ => text.extend(std::iter::repeat_n(b'x', rng.range_usize(0..100))),
        }
    }
    text.truncate(length);
    text
}

/// Starts a tool with pipes as all standard streams.
pub fn start(command: &mut Command) -> Started {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Started(command.spawn().unwrap())
}

/// A running tool. It is killed when this is dropped.
pub struct Started(pub Child);

impl Started {
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The tool may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
