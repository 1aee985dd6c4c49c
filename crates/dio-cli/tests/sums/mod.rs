//! Runs a GNU tool, and dio under that tool's name, in the same directory, and compares output and
//! status.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Output and status of a run.
#[derive(PartialEq, Eq)]
pub struct Outcome {
    pub status: Option<i32>,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, err) = (String::from_utf8_lossy(&self.out), String::from_utf8_lossy(&self.err));
        write!(f, "status {:?}\n{out}--\n{err}", self.status)
    }
}

impl Outcome {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub fn errors(&self) -> &str {
        std::str::from_utf8(&self.err).unwrap()
    }
}

/// A directory with files, and a directory with links to dio under the names of the tools.
pub struct Place {
    files: tempfile::TempDir,
    names: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let base = std::env::var_os("DIO_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
        let dir = |prefix| tempfile::Builder::new().prefix(prefix).tempdir_in(&base).unwrap();
        let (files, names) = (dir("dio-sum-test"), dir("dio-sum-names"));
        for name in [
            "sum",
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "b3sum",
            "cksum",
        ] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dio"), names.path().join(name)).unwrap();
        }
        Self { files, names }
    }

    pub fn path(&self) -> &Path {
        self.files.path()
    }

    pub fn write(&self, name: impl AsRef<OsStr>, contents: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path().join(name.as_ref()), contents).unwrap();
        self
    }

    /// Runs the system's tool.
    pub fn gnu(&self, command: &str, args: &[OsString], stdin: &[u8]) -> Outcome {
        self.execute(Command::new(command), args, stdin)
    }

    /// Runs dio under the tool's name.
    pub fn own(&self, command: &str, args: &[OsString], stdin: &[u8]) -> Outcome {
        self.execute(Command::new(self.names.path().join(command)), args, stdin)
    }

    /// Runs `dio` with a command line, whose arguments are separated by blanks.
    pub fn dio(&self, line: &str) -> Outcome {
        self.execute(Command::new(env!("CARGO_BIN_EXE_dio")), &words(line), b"")
    }

    fn execute(&self, mut command: Command, args: &[OsString], stdin: &[u8]) -> Outcome {
        command
            .args(args)
            .current_dir(self.path())
            .env("LC_ALL", "C.UTF-8")
            .env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // A program that reads no input may end before all of it is written.
            scope.spawn(move || pipe.write_all(stdin));
            child.wait_with_output().unwrap()
        });
        Outcome { status: output.status.code(), out: output.stdout, err: output.stderr }
    }

    /// Compares both programs for a command line, whose first word is the tool.
    pub fn same(&self, line: &str) {
        self.same_with(line, &[], b"");
    }

    /// As [`Place::same`], with more arguments, and bytes on standard input.
    pub fn same_with(&self, line: &str, more: &[&[u8]], stdin: &[u8]) {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut args = words(rest);
        args.extend(more.iter().map(|arg| OsString::from_vec(arg.to_vec())));
        let (gnu, own) = (self.gnu(command, &args, stdin), self.own(command, &args, stdin));
        assert_eq!(own, gnu, "{command} {args:?}");
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(|word| OsStr::from_bytes(word.as_bytes()).to_owned()).collect()
}

/// Bytes without a pattern, the same in every run.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> =
        std::iter::repeat_with(&mut next).take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}
