//! Support for the tests beside the mount: servers, which run this test program in another process,
//! and programs that map files.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use dio::lock::LockPolicy;
use dio_mount::session::MountTarget;
use dio_mount::{IdlePolling, Mode, MountOptions, Rings, Rules, Settings};
use dio_test::{Mounted, file_systems, is_root, run, skip};
use rustix::fs::OFlags;
use tempfile::TempDir;

/// The environment variable that makes the test program a server: options, source and mount point.
const SERVE: &str = "DIO_TEST_SERVE";

/// A source, and a program that serves it with the options after `-o`.
pub struct Scene {
    pub dir: TempDir,
    pub source: PathBuf,
    program: PathBuf,
}

impl Scene {
    /// Makes a scene; `None`, with a message, where this process cannot mount.
    pub fn new() -> Option<Scene> {
        if !is_root() || File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skip!("mounting needs root and /dev/fuse");
            return None;
        }
        Scene::within(file_systems()[0].dir())
    }

    /// As [`Scene::new`], on a file system that uses the page cache even for direct I/O.
    pub fn in_memory() -> Option<Scene> {
        Scene::new()?;
        match tempfile::Builder::new().prefix("dio-test-").tempdir_in("/dev/shm") {
            Ok(dir) => Scene::within(dir),
            Err(error) => {
                skip!("nothing can be created in /dev/shm ({error})");
                None
            }
        }
    }

    fn within(dir: TempDir) -> Option<Scene> {
        let (source, program) = (dir.path().join("source"), dir.path().join("serve"));
        fs::create_dir(&source).unwrap();
        for path in [dir.path(), &source] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let this = std::env::current_exe().unwrap();
        // The script is called as `dio mount -f -o OPTIONS SOURCE MOUNTPOINT`.
        let script = format!(
            "#!/bin/sh\nexec env {SERVE}=\"$4 $5 $6\" {} --exact --nocapture serves >/dev/null\n",
            this.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Some(Scene { dir, source, program })
    }

    pub fn mount(&self, options: &str) -> Mounted {
        self.mount_of(&self.source, options)
    }

    pub fn mount_of(&self, source: &Path, options: &str) -> Mounted {
        Mounted::within(self.dir.path(), &self.program, source, options)
    }
}

/// Serves, if this process was started as a server.
pub fn serve() {
    let Ok(what) = std::env::var(SERVE) else { return };
    let [options, source, at] = what.split(' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
    let place = MountTarget::open(Path::new(source), Path::new(at)).unwrap();
    let mounted = dio_mount::mount(&place, &options_of(options)).unwrap();
    mounted.session.wait().unwrap();
}

fn options_of(text: &str) -> MountOptions {
    let rules = Rules { rules: Vec::new(), default: Mode::Direct };
    let mut options = MountOptions {
        settings: Settings {
            rules,
            read_ahead: (256 << 10, 8 << 20),
            write_behind: 16 << 20,
            direct_from: 256 << 10,
            limit: 64 << 20,
            gather: true,
            native: false,
            throttle: Default::default(),
        },
        lock: LockPolicy::Range,
        read_only: false,
        allow_other: true,
        default_permissions: false,
        threads: 4,
        rings: Rings::Never,
        idle_polling: IdlePolling::Never,
        remember: Duration::from_secs(1),
        suid_and_dev: false,
        flags: Vec::new(),
        source_name: "source".to_owned(),
    };
    for option in text.split(',') {
        match option {
            "gather" => options.settings.gather = true,
            "nogather" => options.settings.gather = false,
            _ => match option.strip_prefix("remember=") {
                Some(seconds) => options.remember = Duration::from_secs(seconds.parse().unwrap()),
                None => {
                    let mode = Mode::ALL.into_iter().find(|mode| mode.name() == option);
                    options.settings.rules.default = mode.unwrap_or_else(|| panic!("{option}"));
                }
            },
        }
    }
    options
}

/// Maps a file and replies to each offset with the byte there. If a byte and a count follow the
/// offset, it stores them there first.
const MAPS: &str = r#"
import mmap, sys
writable = sys.argv[2] == "w"
with open(sys.argv[1], "r+b" if writable else "rb") as file:
    map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
for line in sys.stdin:
    at, *store = [int(word) for word in line.split()]
    if store:
        map[at:at + store[1]] = bytes([store[0]]) * store[1]
    print(map[at], flush=True)
"#;

/// A program that maps a whole file.
pub struct Mapper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Mapper {
    /// Starts the program; `None`, with a message, if python3 is missing. It is a process of its
    /// own, because a server that accesses its own mount would wait for itself.
    pub fn new(path: &Path, writable: bool) -> Option<Mapper> {
        let mut command = Command::new("python3");
        command.args(["-c", MAPS]).arg(path).arg(if writable { "w" } else { "r" });
        let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            skip!("python3, which maps files, is not installed");
            return None;
        };
        let (input, output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Some(Mapper { child, input, output })
    }

    fn ask(&mut self, line: &str) -> u8 {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim().parse().unwrap_or_else(|_| panic!("{line}: {answer}"))
    }

    /// Reads the byte at an offset through the mapping.
    pub fn byte(&mut self, at: u64) -> u8 {
        self.ask(&at.to_string())
    }

    /// Stores bytes through the mapping.
    pub fn store(&mut self, at: u64, byte: u8, length: u64) {
        assert_eq!(self.ask(&format!("{at} {byte} {length}")), byte);
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a mapped file over another file with one system call. Only the first half of the mapped
/// file is in memory when the call begins.
const WRITES: &str = r#"
import mmap, os, sys
with open(sys.argv[1], "rb") as file:
    map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
map.madvise(mmap.MADV_RANDOM)
sum(map[at] for at in range(0, len(map) // 2, 4096))
target = os.open(sys.argv[2], os.O_WRONLY)
print("ready", flush=True)
sys.stdin.readline()
assert os.write(target, map) == len(map)
print("done", flush=True)
"#;

/// A program that writes to a file with one system call, which cannot end before the server of the
/// mapped file continues.
pub struct SlowWrite {
    child: Child,
    output: BufReader<ChildStdout>,
    server: String,
}

impl SlowWrite {
    /// Begins the write; `None`, with a message, if python3 is missing.
    pub fn begin(bytes: &Path, server: u32, target: &Path) -> Option<SlowWrite> {
        let mut command = Command::new("python3");
        command
            .args(["-c", WRITES])
            .args([bytes, target])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            skip!("python3, which writes slowly, is not installed");
            return None;
        };
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut made = SlowWrite { child, output, server: server.to_string() };
        made.hears("ready");
        made.signals("-STOP");
        // A thread of the server that has not stopped yet might still supply pages.
        while !made.is_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The end of its input makes the program begin.
        drop(input);
        Some(made)
    }

    fn hears(&mut self, what: &str) {
        let mut said = String::new();
        self.output.read_line(&mut said).unwrap();
        assert_eq!(said.trim(), what);
    }

    fn signals(&self, which: &str) {
        assert!(run(Command::new("kill").args([which, &self.server])).status.success());
    }

    /// Whether all threads of the server have stopped (`proc_pid_stat(5)`).
    fn is_stopped(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.server)).unwrap();
        tasks
            .map(|task| fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default())
            .all(|stat| {
                let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
                state.starts_with('T')
            })
    }

    /// Lets the system call end.
    pub fn end(mut self) {
        self.signals("-CONT");
        self.hears("done");
    }
}

impl Drop for SlowWrite {
    fn drop(&mut self) {
        self.signals("-CONT");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that makes asynchronous requests to an open file.
pub struct Asynchronous {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Asynchronous {
    /// Starts the program; `None`, with a message, if python3 is missing or the kernel refuses.
    pub fn new() -> Option<Asynchronous> {
        let mut command = Command::new("python3");
        command.args(["-c", include_str!("ring.py")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            skip!("python3, which makes asynchronous requests, is not installed");
            return None;
        };
        let (input, output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut made = Asynchronous { child, input, output };
        let mut ready = String::new();
        made.output.read_line(&mut ready).unwrap();
        if ready.trim() != "ready" || cfg!(not(target_arch = "x86_64")) {
            skip!("io_uring or asynchronous I/O cannot be had here, or their numbers are others");
            return None;
        }
        Some(made)
    }

    fn ask(&mut self, line: &str) -> Vec<i64> {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        let words = answer.split_whitespace().map(|word| word.parse().unwrap());
        Some(words.collect())
            .filter(|words: &Vec<i64>| !words.is_empty())
            .unwrap_or_else(|| panic!("{line}: {answer}"))
    }

    pub fn open(&mut self, path: &Path, flags: OFlags) {
        self.ask(&format!("open {} {}", path.display(), flags.bits()));
    }

    /// Writes a page of `byte` through io_uring; an offset of -1 means the file position.
    pub fn write(&mut self, byte: u8, offset: i64) {
        assert_eq!(self.ask(&format!("write ring {byte} 4096 {offset}")), [4096]);
    }

    /// Reads a page through `ring` or `aio`; returns the first byte, if there is one.
    pub fn read(&mut self, engine: &str, offset: i64) -> Option<u8> {
        self.ask(&format!("read {engine} 4096 {offset}")).get(1).map(|byte| *byte as u8)
    }
}

impl Drop for Asynchronous {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
