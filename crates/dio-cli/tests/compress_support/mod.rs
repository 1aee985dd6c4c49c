//! Shared by the tests of `gzip` and `zstd`: links to the program under test, directories with
//! files to work on, and the observable outcome of a run.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dio_test::Rng;
use tempfile::TempDir;

/// Returns a directory of links to the program under test, with all names that these tests use.
pub fn links() -> &'static Path {
    crate::gnu::links(&["gzip", "gunzip", "zcat", "zstd", "unzstd", "zstdcat", "dio"])
}

pub fn scratch() -> TempDir {
    let base = std::env::var_os("DIO_TEST_DIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    tempfile::Builder::new().prefix("dio-compress-").tempdir_in(base).unwrap()
}

/// The programs that a script finds: the system's or dio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    System,
    Ours,
}

/// Returns a command that runs a shell script in `dir`, in the C locale.
pub fn script(whose: Whose, dir: &Path, text: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let path = match whose {
        Whose::System => path,
        Whose::Ours => format!("{}:{path}", links().display()),
    };
    let mut command = Command::new("sh");
    command
        .args(["-c", text])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    command
        .env_remove("GZIP")
        .env_remove("ZSTD_CLEVEL")
        .env_remove("ZSTD_NBTHREADS")
        .env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null());
    command
}

/// Runs a script with dio's programs. It must succeed and print nothing on standard error.
#[track_caller]
pub fn well(dir: &Path, text: &str) -> Vec<u8> {
    let output = script(Whose::Ours, dir, text).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{text}: {} {said}", output.status);
    output.stdout
}

/// The observable outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub status: (Option<i32>, Option<i32>),
    /// Standard output, decompressed if it is compressed.
    pub out: String,
    pub err: String,
    /// By name: file type, permissions and time, and for regular files the contents, decompressed.
    pub files: BTreeMap<String, String>,
}

pub fn seen(mut command: Command, dir: &Path) -> Seen {
    let output = command.output().unwrap();
    let mut files = BTreeMap::new();
    look(dir, dir, &mut files);
    Seen {
        status: (output.status.code(), output.status.signal()),
        out: shown(&plain(output.stdout)),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        files,
    }
}

/// Bytes as text for comparisons and messages. Long or binary contents are replaced by their length
/// and a hash.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() < 5000 => text.to_owned(),
        _ => format!("{} bytes, {:x}", bytes.len(), sum(bytes)),
    }
}

/// The files that differ, a line for each.
pub fn differing(theirs: &Seen, ours: &Seen) -> String {
    let names: std::collections::BTreeSet<&String> =
        theirs.files.keys().chain(ours.files.keys()).collect();
    let pairs = names.into_iter().map(|name| (name, theirs.files.get(name), ours.files.get(name)));
    pairs.filter(|(_, theirs, ours)| theirs != ours).map(|pair| format!("{pair:?}\n")).collect()
}

/// Times from here on (2025-01-01) were set by the run and are not compared.
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

/// Decompresses a file with the system's program, also if it is compressed twice. Returns bytes
/// that cannot be decompressed unchanged.
fn plain(bytes: Vec<u8>) -> Vec<u8> {
    let program = match bytes.get(..4) {
        Some([0x1f, 0x8b, ..]) => "gzip",
        Some([0x28, 0xb5, 0x2f, 0xfd]) => "zstd",
        _ => return bytes,
    };
    let output = piped(program, &["-dc"], &bytes);
    let empty = [&b"\x1f\x8b"[..], &0xfd2f_b528u32.to_le_bytes()]
        .iter()
        .any(|magic| bytes.starts_with(magic));
    if output.is_empty() && !(empty && bytes.len() < 128) { bytes } else { plain(output) }
}

/// Returns the output of a program of the system for this input.
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
        // The program may stop reading before the end.
        threads.spawn(move || std::io::Write::write_all(&mut pipe, input));
        child.wait_with_output().unwrap().stdout
    })
}

pub fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

pub fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Compressible text of at least `bytes` bytes.
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

/// Inputs of all kinds: no bytes, a byte, zeros, noise, text, and the program itself.
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

/// Quotes a text as one word for the shell.
pub fn word(text: &str) -> String {
    format!("'{text}'")
}

/// Random contents of a random kind. Most are small; a few are about as long as a piece.
pub fn contents(rng: &mut Rng) -> Vec<u8> {
    let size = match rng.range(0..40) {
        0 => (2 << 20) + rng.range_usize(0..5) - 2,
        1 => rng.range_usize(0..3_000_000),
        2..6 => 0,
        6..10 => rng.range_usize(1..20),
        10..14 => (64 << 10) + rng.range_usize(0..5) - 2,
        _ => rng.range_usize(0..50_000),
    };
    match rng.range(0..5) {
        0 => vec![0; size],
        1 => rng.bytes(size),
        _ => text(size),
    }
}

/// A compressed file, sometimes with data behind it, sometimes damaged. `member` makes one member
/// or frame.
pub fn compressed(rng: &mut Rng, member: impl Fn(&mut Rng) -> Vec<u8>) -> Vec<u8> {
    let mut all = member(rng);
    match rng.range(0..12) {
        0 => all.extend(member(rng)),
        1 => all.extend(vec![0; rng.range_usize(1..2000)]),
        2 => all.extend(b"garbage"),
        3 => all.truncate(rng.range_usize(0..all.len())),
        4 => {
            let at = rng.range_usize(0..all.len());
            all[at] ^= 1 << rng.range(0..8);
        }
        5 => {
            let count = rng.range_usize(1..10);
            all.extend(rng.bytes(count));
        }
        _ => {}
    }
    all
}

/// A random tree: files with the given names, some of them under other names, links to them, and a
/// FIFO.
pub struct Tree {
    files: Vec<(String, Vec<u8>, u32)>,
    others: String,
    /// The names of the files, and some names that do not exist.
    pub names: Vec<String>,
}

impl Tree {
    /// Makes a tree. `file` returns the contents of the file with the given name.
    pub fn new(
        rng: &mut Rng,
        pool: &[&str],
        mut file: impl FnMut(&mut Rng, &str) -> Vec<u8>,
    ) -> Tree {
        let mut tree = Tree { files: Vec::new(), others: String::new(), names: Vec::new() };
        for name in pool {
            if !rng.bool(0.5) {
                continue;
            }
            let first = word(tree.files.first().map_or("a", |(name, ..)| name));
            let own = word(name);
            match rng.range(0..16) {
                0 => tree.others += &format!("ln {first} {own};"),
                1 => {
                    tree.others += &format!(
                        "ln -s {} {own};",
                        rng.pick(&["a", "nowhere", "d", "b.gz", "b.zst"])
                    )
                }
                2 if *name == "e.z" || *name == "n.zstd" => {
                    tree.others += &format!("mkfifo {own};")
                }
                3 if !name.contains('/') => {
                    tree.others += &format!("mkdir {own}; echo within > {own}/w;")
                }
                _ => {
                    let mode =
                        *rng.pick(&[0o644, 0o644, 0o600, 0o755, 0o444, 0o4755, 0o1644, 0o664]);
                    tree.files.push(((*name).to_owned(), file(rng, name), mode));
                }
            }
            tree.names.push((*name).to_owned());
        }
        tree.names.extend(["nofile", "d", "a"].map(str::to_owned));
        tree
    }

    /// Whether a file with this name is made.
    pub fn has(&self, name: &str) -> bool {
        self.files.iter().any(|(own, ..)| own == name)
    }

    /// Whether the file under this name was written through a link whose target did not exist.
    pub fn is_behind_link(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or_default();
        !self.has(name) && self.others.contains(&format!("ln -s {last} "))
    }

    /// The file that standard input is redirected from.
    pub fn input(&self, rng: &mut Rng) -> String {
        if self.files.is_empty() || rng.bool(0.5) {
            "/dev/null".to_owned()
        } else {
            word(&rng.pick(&self.files).0)
        }
    }

    /// Makes the tree in `dir`.
    pub fn make(&self, dir: &Path) {
        fs::create_dir_all(dir.join("d/e")).unwrap();
        for (name, bytes, mode) in &self.files {
            fs::write(dir.join(name), bytes).unwrap();
            permit(&dir.join(name), *mode);
        }
        let script =
            format!("{} find . -exec touch -h -d 2020-01-01T00:00:00Z {{}} +", self.others);
        // `touch` may fail on a link whose target does not exist.
        Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir)
            .stderr(Stdio::null())
            .status()
            .unwrap();
    }
}
