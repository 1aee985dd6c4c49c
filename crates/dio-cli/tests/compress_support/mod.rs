//! What the tests of `gzip` and `zstd` share: links to the program under test, directories with files to work on, and what
//! can be seen of a run.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

#[path = "../gnu/mod.rs"]
mod gnu;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A directory of links to the program under test, by the names that it has here.
pub fn links() -> &'static Path {
    gnu::links(&["gzip", "gunzip", "zcat", "zstd", "unzstd", "zstdcat", "dio"])
}

pub fn scratch() -> TempDir {
    let base = std::env::var_os("DIO_TEST_DIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    tempfile::Builder::new().prefix("dio-compress-").tempdir_in(base).unwrap()
}

/// Whose programs a script finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    System,
    Ours,
}

/// A shell script in `dir`, in the C locale.
pub fn script(whose: Whose, dir: &Path, text: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let path = match whose {
        Whose::System => path,
        Whose::Ours => format!("{}:{path}", links().display()),
    };
    let mut command = Command::new("sh");
    command.args(["-c", text]).current_dir(dir).env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC");
    command.env_remove("GZIP").env_remove("ZSTD_CLEVEL").env_remove("ZSTD_NBTHREADS").env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null());
    command
}

/// Runs a script with our programs; it must succeed and say nothing on standard error.
#[track_caller]
pub fn well(dir: &Path, text: &str) -> Vec<u8> {
    let output = script(Whose::Ours, dir, text).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{text}: {} {said}", output.status);
    output.stdout
}

/// What can be seen of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub status: (Option<i32>, Option<i32>),
    pub out: String,
    pub err: String,
    /// By name: what it is, its permissions and its time, and for files the contents, decompressed.
    pub files: BTreeMap<String, String>,
}

pub fn seen(mut command: Command, dir: &Path) -> Seen {
    let output = command.output().unwrap();
    let mut files = BTreeMap::new();
    look(dir, dir, &mut files);
    Seen {
        status: (output.status.code(), output.status.signal()),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        files,
    }
}

/// Times from here on are those of the run (2025-01-01).
const NOW: i64 = 1_735_689_600;

fn look(root: &Path, dir: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let time = if meta.mtime() < NOW { meta.mtime().to_string() } else { "now".into() };
        let mut what = format!("{:o} {time}", meta.mode());
        if meta.is_dir() {
            what.truncate(5);
            look(root, &path, files);
        } else if meta.is_file() {
            let bytes = plain(fs::read(&path).unwrap());
            what = format!("{what} {} bytes, {:x}", bytes.len(), sum(&bytes));
        }
        files.insert(name, what);
    }
}

/// What is compressed, decompressed by the system's program; what cannot be is as it is.
fn plain(bytes: Vec<u8>) -> Vec<u8> {
    let program = match bytes.get(..4) {
        Some([0x1f, 0x8b, ..]) => "gzip",
        Some([0x28, 0xb5, 0x2f, 0xfd]) => "zstd",
        _ => return bytes,
    };
    let output = piped(program, &["-dc"], &bytes);
    let empty = [&b"\x1f\x8b"[..], &0xfd2f_b528u32.to_le_bytes()].iter().any(|magic| bytes.starts_with(magic));
    if output.is_empty() && !(empty && bytes.len() < 64) { bytes } else { output }
}

/// What a program of the system makes of its input.
pub fn piped(program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|threads| {
        // It may stop reading.
        threads.spawn(move || std::io::Write::write_all(&mut pipe, input));
        child.wait_with_output().unwrap().stdout
    })
}

pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

pub fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Text that can be compressed, of so many bytes.
pub fn text(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 20);
    let mut number: u64 = 1;
    while text.len() < bytes {
        text.extend_from_slice(number.to_string().as_bytes());
        text.push(b'\n');
        number = number.wrapping_mul(6_364_136_223_846_793_005) % 1_000_003;
        number += 1;
    }
    text.truncate(bytes);
    text
}

/// Inputs of all kinds: nothing, a byte, zeros, noise, text, and the program itself.
pub fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let mut rng = dio_test::Seed::new().rng();
    let program = fs::read(env!("CARGO_BIN_EXE_dio")).unwrap();
    vec![
        ("nothing", Vec::new()),
        ("byte", vec![b'x']),
        ("zero", vec![0]),
        ("zeros", vec![0; 5_000_001]),
        ("noise", rng.bytes(1_500_000)),
        ("text", text(2_500_000)),
        ("block", text(1 << 20)),
        ("program", program[..program.len().min(3 << 20)].to_vec()),
    ]
}
