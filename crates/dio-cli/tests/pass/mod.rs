//! Runs shell scripts with the system's `cat` and `tee` and with dio's, called by links of those names, and compares what
//! was printed, the status, and every file that was left.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use dio_test::{Rng, Seed, TestFs, file_systems};

pub const MIB: usize = 1 << 20;

/// A directory with links to dio, one for each tool.
pub fn links() -> &'static Path {
    static LINKS: OnceLock<PathBuf> = OnceLock::new();
    LINKS.get_or_init(|| {
        let links = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("links-{}", env!("CARGO_CRATE_NAME")));
        std::fs::create_dir_all(&links).unwrap();
        for name in ["cat", "tee", "uniq"] {
            let link = links.join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dio"), &link).unwrap();
        }
        links
    })
}

/// A tool of dio by its link.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(links().join(name));
    command.env("LC_ALL", "C.UTF-8").env_remove("DIO_ENGINE");
    command
}

/// The search path under which the tools are the system's, or dio's.
fn path(ours: bool) -> OsString {
    let mut path = OsString::new();
    if ours {
        path.push(links());
        path.push(":");
    }
    path.push(std::env::var_os("PATH").unwrap());
    path
}

/// What a run left behind.
#[derive(PartialEq, Eq)]
pub struct Seen {
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub files: BTreeMap<OsString, Vec<u8>>,
}

impl Seen {
    pub fn show(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|(name, bytes)| format!("{name:?} {}", brief(bytes))).collect();
        let (out, err) = (brief(&self.out), brief(&self.err));
        format!("status {:?} {:?}\n  out {out}\n  err {err}\n  {}", self.status, self.signal, files.join("\n  "))
    }
}

fn brief(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, b| (sum ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("{} bytes, sum {sum:x}: {}", bytes.len(), bytes[..bytes.len().min(400)].escape_ascii())
}

/// Runs a script of bash in a new directory of `fs` that `setup` has filled.
pub fn run(fs: &TestFs, setup: &dyn Fn(&Path), script: &str, ours: bool) -> Seen {
    let dir = fs.dir();
    setup(dir.path());
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(dir.path()).env("PATH", path(ours)).env("LC_ALL", "C.UTF-8");
    bash.env_remove("DIO_ENGINE").stdin(Stdio::null());
    let output = bash.output().unwrap();
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            files.insert(entry.file_name(), std::fs::read(entry.path()).unwrap());
        }
    }
    let (status, signal) = (output.status.code(), output.status.signal());
    Seen { status, signal, out: output.stdout, err: output.stderr, files }
}

/// Runs a script both ways on one file system and expects no difference.
#[track_caller]
pub fn same_on(fs: &TestFs, setup: &dyn Fn(&Path), script: &str) {
    let gnu = run(fs, setup, script, false);
    let dio = run(fs, setup, script, true);
    assert!(gnu == dio, "on {}: {script}\nGNU: {}\ndio: {}", fs.name, gnu.show(), dio.show());
}

/// Runs a script both ways and expects no difference.
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

/// Starts a tool with pipes at all ends.
pub fn start(command: &mut Command) -> Started {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Started(command.spawn().unwrap())
}

/// A running tool; killed when dropped.
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
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Long enough for a machine that does everything a hundred times slower for a while: what is waited for never comes
/// otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so, at most so long, and returns how long it took.
#[track_caller]
pub fn within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < limit, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// Whether the page cache is the storage itself, so that nothing can leave it.
pub fn in_memory(fs: &TestFs) -> bool {
    rustix::fs::statfs(&fs.path).unwrap().f_type as u64 == 0x0102_1994
}

/// Writes a file back and drops its pages.
#[track_caller]
pub fn cold(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}
