//! Every command ends, with the right bytes or with a clear error, when its user may have few
//! threads or only one (`ulimit -u`). Neither dio's threads nor the kernel's worker threads of a
//! ring can be created then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use dio_test::{file_systems, skip};
use tempfile::TempDir;

/// Seconds after which a command counts as hanging. No command takes more than a few seconds.
const BOUND: &str = "60";

/// ID of a new user without processes. The limit counts all processes of a user.
fn nobody_yet() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    0x4000_0000 + std::process::id() * 1024 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A directory with all permissions for all users, and a program in it that every user may run.
struct Place {
    dir: TempDir,
    program: PathBuf,
}

/// The outcome of a command.
struct Ended {
    status: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl Place {
    fn new() -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            skip!("becoming a user of few threads needs root");
            return None;
        }
        let dir = file_systems()[0].dir();
        let program = dir.path().join("dio");
        dio_test::copy_program(env!("CARGO_BIN_EXE_dio"), &program);
        let place = Place { dir, program };
        place.open_to_all();
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn open_to_all(&self) {
        let status =
            Command::new("chmod").args(["-R", "a+rwX"]).arg(self.dir.path()).status().unwrap();
        assert!(status.success());
        fs::set_permissions(&self.program, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Runs `dio` with these arguments, as a user who may have `threads` threads.
    #[track_caller]
    fn run(&self, threads: usize, words: &str, input: Option<&str>) -> Ended {
        let user = nobody_yet();
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", BOUND, "setpriv", "--clear-groups"]);
        command.args([format!("--reuid={user}"), format!("--regid={user}")]);
        command
            .args(["prlimit", &format!("--nproc={threads}")])
            .arg(&self.program)
            .args(words.split_whitespace());
        command.current_dir(self.dir.path()).env("LC_ALL", "C").env_remove("DIO_ENGINE");
        // The temporary directory of the user who runs the tests may be closed to this user.
        command.env("TMPDIR", self.dir.path());
        let input =
            input.map_or(Stdio::null(), |name| fs::File::open(self.path(name)).unwrap().into());
        let output = command.stdin(input).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let hangs = output.status.signal() == Some(9) || output.status.code() == Some(137);
        assert!(!hangs, "with {threads} threads, dio {words} is not over after {BOUND} s: {err}");
        assert!(!err.contains("panicked"), "with {threads} threads, dio {words}: {err}");
        Ended { status: output.status.code(), out: output.stdout, err }
    }

    /// As [`Place::run`]. The command must succeed without a message. Returns its output.
    #[track_caller]
    fn good(&self, threads: usize, words: &str, input: Option<&str>) -> Vec<u8> {
        let ended = self.run(threads, words, input);
        assert!(
            ended.status == Some(0) && ended.err.is_empty(),
            "with {threads}, dio {words}: {}",
            ended.err
        );
        ended.out
    }

    /// Returns the output of a script that uses the system's tools.
    #[track_caller]
    fn system(&self, script: &str) -> Vec<u8> {
        let mut command = Command::new("bash");
        command.args(["-ec", script]).current_dir(self.dir.path()).env("LC_ALL", "C");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        output.stdout
    }
}

/// The fewest threads that a process can have, one more for a worker of a ring, and somewhat more.
const THREADS: [usize; 5] = [1, 2, 3, 5, 8];

/// Unordered lines, some of them repeated.
fn lines(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 32);
    let mut state = 1u64;
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = format!("{:x}\n", state >> 40);
        text.extend_from_slice(line.as_bytes());
        if state >> 62 == 0 {
            text.extend_from_slice(line.as_bytes());
        }
    }
    text
}

fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path);
    let _ = fs::remove_file(path);
}

#[test]
fn files_are_copied_and_cut() {
    let Some(place) = Place::new() else { return };
    let text = lines(5 << 20);
    place.write("in", &text);
    fs::create_dir_all(place.path("tree/sub")).unwrap();
    for number in 1..60 {
        place.write(&format!("tree/sub/{number}"), &text[..number * 900]);
    }
    place.write("tree/large", &text);
    place.open_to_all();
    for threads in THREADS {
        for words in
            ["cp in out", "cp --atomic --verify in out", "dd if=in of=out bs=64k status=none"]
        {
            place.good(threads, words, None);
            assert!(place.read("out") == text, "with {threads}, {words}");
            remove(&place.path("out"));
        }
        place.good(threads, "cp -r tree out", None);
        place.system("diff -r tree out");
        remove(&place.path("out"));
        assert!(place.good(threads, "cat in", None) == text);
        assert!(place.good(threads, "tee out", Some("in")) == text && place.read("out") == text);
        remove(&place.path("out"));
        for words in ["split -b 1M in part.", "split -n l/7 in part."] {
            place.good(threads, words, None);
            assert!(place.system("cat part.*; rm part.*") == text, "with {threads}, {words}");
        }
    }
}

#[test]
fn lines_and_digests_are_the_system_s() {
    let Some(place) = Place::new() else { return };
    let text = lines(3 << 20);
    place.write("in", &text);
    place.open_to_all();
    let sorted = place.system("sort in");
    place.write("sorted", &sorted);
    let unique = place.system("uniq sorted");
    place.open_to_all();
    for threads in THREADS {
        for words in ["sort in -o out", "sort -S 1M in -o out", "sort -S 1M --parallel=4 in -o out"]
        {
            place.good(threads, words, None);
            assert!(place.read("out") == sorted, "with {threads}, {words}");
            remove(&place.path("out"));
        }
        let both = place.good(threads, "sort -m sorted sorted", None);
        assert!(both == place.system("sort -m sorted sorted"), "with {threads}");
        place.good(threads, "uniq sorted out", None);
        assert!(place.read("out") == unique, "with {threads}");
        remove(&place.path("out"));
        for words in ["md5sum in", "sha256sum in sorted", "cksum in"] {
            assert_eq!(
                place.good(threads, words, None),
                place.system(words),
                "with {threads}, {words}"
            );
        }
    }
}

#[test]
fn compressed_files_come_back() {
    let Some(place) = Place::new() else { return };
    let text = lines(3 << 20);
    place.write("in", &text);
    place.open_to_all();
    for threads in THREADS {
        for (tool, name) in [("gzip", "in.gz"), ("zstd -q", "in.zst")] {
            place.good(threads, &format!("{tool} -k in"), None);
            assert!(place.system(&format!("{tool} -dc {name}")) == text, "with {threads}, {tool}");
            assert!(
                place.good(threads, &format!("{tool} -dc {name}"), None) == text,
                "with {threads}, {tool} -d"
            );
            remove(&place.path(name));
        }
    }
}

/// An archive is compressed in a second thread while it is made. If there is no second thread, an
/// error says so.
#[test]
fn archives_are_whole_or_the_lack_of_threads_is_told() {
    let Some(place) = Place::new() else { return };
    let text = lines(2 << 20);
    fs::create_dir_all(place.path("tree/sub")).unwrap();
    for number in 1..60 {
        place.write(&format!("tree/sub/{number}"), &text[..number * 900]);
    }
    place.write("tree/large", &text);
    for (flag, name) in [("", "a.tar"), ("-z", "a.tgz"), ("--zstd", "a.tzst")] {
        place.system(&format!("tar {flag} -cf {name} tree; mkdir -p x"));
    }
    place.open_to_all();
    for threads in THREADS {
        for (flag, name) in
            [("", "a.tar"), ("-z", "a.tgz"), ("--zstd", "a.tzst"), ("-I gzip", "a.tgz")]
        {
            let clear = |ended: &Ended| {
                let told = ended.err.contains("Resource temporarily unavailable");
                let words = ["Cannot start a thread", "Cannot exec"]
                    .iter()
                    .any(|words| ended.err.contains(words));
                assert!(
                    ended.status == Some(2) && told && words,
                    "with {threads}, tar {flag}: {}",
                    ended.err
                );
                assert!(
                    !flag.is_empty() && threads < 5,
                    "with {threads}, tar {flag}: {}",
                    ended.err
                );
            };
            let made = place.run(threads, &format!("tar {flag} -cf new tree"), None);
            match made.status {
                Some(0) => drop(place.system(&format!("tar {flag} -df new"))),
                _ => clear(&made),
            }
            remove(&place.path("new"));
            let came = place.run(threads, &format!("tar {flag} -xf {name} -C x"), None);
            match came.status {
                Some(0) => drop(place.system("diff -r tree x/tree")),
                _ => clear(&came),
            }
            place.system("rm -rf x/*");
        }
    }
}

/// The properties of a path are reported as far as they can be determined. A comparison that needs
/// concurrent writers is left out.
#[test]
fn probing_ends_and_names_the_limit() {
    let Some(place) = Place::new() else { return };
    for threads in THREADS {
        let ended = place.run(threads, "probe .", None);
        assert_eq!(ended.status, Some(0), "with {threads}: {}", ended.err);
        let told = String::from_utf8(ended.out).unwrap();
        if threads == 1 {
            assert!(
                told.contains("RLIMIT_NPROC (ulimit -u) is 1") || told.contains("io_uring: no"),
                "{told}"
            );
            assert!(told.contains("Resource temporarily unavailable"), "{told}");
        }
    }
}

/// The limit is lowered while a copy runs, as other processes of the user would do. The copy still
/// ends.
#[test]
fn a_limit_that_is_met_later_stops_nothing() {
    let Some(place) = Place::new() else { return };
    let text = lines(8 << 20);
    place.write("in", &text);
    place.open_to_all();
    let user = nobody_yet();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", BOUND, "setpriv", "--clear-groups"]);
    command.args([format!("--reuid={user}"), format!("--regid={user}")]);
    // Prints a line just before it becomes dio, so that the limit is lowered while dio starts or
    // runs.
    command
        .args(["sh", "-c", "echo $$; exec \"$0\" dd of=out bs=64k status=none"])
        .arg(&place.program);
    command.current_dir(place.dir.path()).env("LC_ALL", "C").env_remove("DIO_ENGINE");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut pid,
    )
    .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let (first, rest) = text.split_at(1 << 20);
    std::io::Write::write_all(&mut pipe, first).unwrap();
    let mut limit = Command::new("prlimit");
    let limited =
        limit.args(["--nproc=1", "--pid", pid.trim()]).uid(user).gid(user).status().unwrap();
    assert!(limited.success());
    std::io::Write::write_all(&mut pipe, rest).unwrap();
    drop(pipe);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status:?}");
    assert!(place.read("out") == text);
}
