//! `dio record` and `dio advise sizes`: counts as strace(1) has them, what missed the cache as the
//! sizes of files have it, and commands that fail, are stopped or cannot be watched.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dio_advise::trace::{Call, Event};
use dio_test::until;
use serde_json::Value;
use tempfile::TempDir;

use crate::own::{Running, cold, is_root, random_file, skip, source, warm};

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

pub(crate) fn dio(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.args(arguments).current_dir(dir).env("LC_ALL", "C.UTF-8");
    command
}

pub(crate) fn run(dir: &Path, arguments: &[&str]) -> Output {
    dio(dir, arguments).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether commands can be watched here. Where a kernel has no BPF, a test says so and ends.
pub(crate) fn is_watchable(dir: &Path) -> bool {
    run(dir, &["advise", "sizes", "true"]).status.success()
}

/// The report of a shell script, with its exit status.
pub(crate) fn report(dir: &Path, script: &str) -> (Option<i32>, Value) {
    let output = run(dir, &["advise", "sizes", "--json", "-o", "report", "sh", "-c", script]);
    let report = fs::read(dir.join("report")).unwrap_or_else(|_| panic!("{}", said(&output)));
    (output.status.code(), serde_json::from_slice(&report).unwrap())
}

/// Calls and bytes by file name and call, of files in `dir`.
type Counts = BTreeMap<(String, String), (u64, u64, u64)>;

const CALLS: &str = "read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,fsync,\
                     fdatasync,ftruncate,fallocate";

fn counts(dir: &Path, report: &Value) -> Counts {
    let mut counts = Counts::new();
    for file in report["files"].as_array().unwrap() {
        let Ok(name) = Path::new(file["path"].as_str().unwrap()).strip_prefix(dir) else {
            continue;
        };
        for calls in file["calls"].as_array().unwrap() {
            let call = calls["call"].as_str().unwrap();
            if !CALLS.replace("64", "").split(',').any(|known| known == call) {
                continue;
            }
            let number = |name: &str| calls[name].as_u64().unwrap();
            let key = (name.to_str().unwrap().to_owned(), call.to_owned());
            let sum = counts.entry(key).or_default();
            let (count, bytes, errors) = (number("count"), number("bytes"), number("errors"));
            *sum = (sum.0 + count, sum.1 + bytes, sum.2 + errors);
        }
    }
    counts
}

/// The same of strace, whose lines are `read(3</path>, ""..., 4096) = 4096`.
fn strace_counts(dir: &Path, traces: &Path) -> Counts {
    let mut counts = Counts::new();
    for entry in fs::read_dir(traces).unwrap() {
        let text = fs::read(entry.unwrap().path()).unwrap();
        for line in String::from_utf8_lossy(&text).lines() {
            let parsed = (|| {
                let (call, rest) = line.split_once('(')?;
                let (path, rest) = rest.split_once('<')?.1.split_once('>')?;
                let name = Path::new(path).strip_prefix(dir).ok()?;
                let result = rest.rsplit_once(" = ")?.1.split(' ').next()?;
                Some((name.to_str()?.to_owned(), call, result.parse::<i64>().ok()?))
            })();
            let Some((name, call, result)) = parsed else { continue };
            let call = call.replace("64", "").replace("preadv2", "preadv");
            let moves = call.contains("read") || call.contains("write");
            let sum = counts.entry((name, call)).or_default();
            sum.0 += 1;
            sum.1 += if moves { u64::try_from(result).unwrap_or(0) } else { 0 };
            sum.2 += u64::from(result < 0);
        }
    }
    counts
}

pub(crate) fn has_strace() -> bool {
    let status = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    status.is_ok_and(|status| status.success())
}

/// Who owns a file or directory.
fn user_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|found| found.uid()).ok()
}

#[test]
fn calls_are_counted_as_strace_counts_them() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    if !has_strace() {
        return skip!("strace is not there, or may not trace");
    }
    let home = fs::canonicalize(dir.path()).unwrap();
    compare_with_strace(&home, |script| report(&home, script), || Command::new("strace"));
}

/// Runs scripts in a directory, once watched by `report` and once by strace, and compares.
pub(crate) fn compare_with_strace(
    home: &Path,
    report: impl Fn(&str) -> (Option<i32>, Value),
    strace: impl Fn() -> Command,
) {
    random_file(home.join("a"), 3_000_001, 1);
    random_file(home.join("b"), 70_000, 2);
    fs::create_dir(home.join("out")).unwrap();
    std::os::unix::fs::chown(home.join("out"), user_of(home), None).unwrap();
    for name in ["a", "b"] {
        std::os::unix::fs::chown(home.join(name), user_of(home), None).unwrap();
    }
    for script in [
        "cat a b > out/both; sha256sum a < b",
        "dd if=a of=out/copy bs=777 conv=fsync status=none; dd if=a bs=64k skip=3 of=out/copy seek=9 \
         oflag=direct iflag=direct count=20 status=none; true",
        "tar cf out/archive a b; tar xf out/archive -C out; cp a out/c; sort -o out/sorted b",
        "ls a b a b | xargs -P 4 -n 1 cksum; (cat a; cat b) | tail -c 100 > out/tail",
        "truncate -s 5000 out/cut; fallocate -l 90000 out/more; dd if=/dev/full of=out/c bs=1 count=9 \
         status=none; dd if=a of=/dev/full bs=4k count=3; sync out/cut",
        "exec 3< a; head -c 10 <&3; head -c 100000 <&3 > out/part; python3 -c 'import os; \
         f=os.open(\"a\", os.O_RDWR); os.preadv(f, [bytearray(10), bytearray(90)], 7); os.pwrite(f, \
         b\"x\" * 5000, 100); os.writev(f, [b\"abc\", b\"de\"]); os.fdatasync(f); os.read(f, 1 << 20)'",
    ] {
        let (status, report) = report(script);
        assert_eq!(status, Some(0), "{script}");
        assert_eq!(report["lost"], 0);
        let ours = counts(home, &report);
        let traces = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(traces.path(), user_of(home), None).unwrap();
        let traced = strace()
            .args(["-ff", "-y", "-s", "0", "-qq", "-e", "signal=none"])
            .arg(format!("--trace={CALLS}"))
            .arg("-o")
            .arg(traces.path().join("t"))
            .args(["sh", "-c", script])
            .current_dir(home)
            .output()
            .unwrap();
        assert!(traced.status.success(), "{script}: {}", said(&traced));
        let theirs = strace_counts(home, traces.path());
        assert!(!theirs.is_empty(), "{script}: {theirs:?}");
        assert_eq!(ours, theirs, "{script}");
    }
}

#[test]
fn what_was_not_in_the_cache_is_told() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    let file = source(dir.path(), "file", 8 << 20);
    let of = |report: &Value, call: &str| {
        let files = report["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"].as_str().unwrap().ends_with("/file"));
        let calls = file.unwrap_or_else(|| panic!("{report:#}"))["calls"].as_array().unwrap();
        let found = calls.iter().find(|calls| calls["call"] == call);
        let number = |name: &str| found.map_or(0, |calls| calls[name].as_u64().unwrap());
        (number("bytes"), number("cached"))
    };
    let read = "cat file > /dev/null";
    assert_eq!(of(&report(dir.path(), read).1, "read"), (8 << 20, 8 << 20));
    assert_eq!(of(&report(dir.path(), read).1, "read"), (8 << 20, 0));
    let direct = "dd if=file of=/dev/null bs=1M iflag=direct status=none";
    cold(&file);
    assert_eq!(of(&report(dir.path(), direct).1, "read"), (8 << 20, 0));
    // What is read in mapped memory brings pages in too. The kernel maps several at a time.
    let mapped = "python3 -c 'import mmap; f = open(\"file\"); m = mmap.mmap(f.fileno(), 0, prot=1); \
                  print(sum(m[i] for i in range(0, 8 << 20, 4096)))'";
    cold(&file);
    let (touched, cached) = of(&report(dir.path(), mapped).1, "fault");
    assert!(touched > 0 && cached == 8 << 20, "{touched} {cached}");
    warm(&file);
    assert_eq!(of(&report(dir.path(), mapped).1, "fault").1, 0);
}

#[test]
fn what_is_written_in_mapped_memory_is_recorded() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    let file = source(dir.path(), "file", (4 << 20) + 100);
    warm(&file);
    // A mapping of a child, too; and a private one, whose changes stay in memory.
    let script = "import mmap, os\nf = open('file', 'r+b')\nm = mmap.mmap(f.fileno(), 0)\n\
                  p = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)\n\
                  for i in range(0, 2 << 20, 1 << 16): m[i] = 1\n\
                  m.flush()\n\
                  if os.fork() == 0:\n  m[(4 << 20) + 50] = 1\n  m.flush()\n  os._exit(0)\n\
                  os.wait()\np[3 << 20] = 1\n";
    fs::write(dir.path().join("script"), script).unwrap();
    let output = run(dir.path(), &["record", "-o", "trace", "python3", "script"]);
    assert!(output.status.success(), "{}", said(&output));
    let (mut numbers, mut written, mut syncs) = (Vec::new(), Vec::new(), 0);
    let trace = fs::read(dir.path().join("trace")).unwrap();
    dio_advise::trace::read(&trace[..], |event| match event {
        Event::File(file) => numbers.push(file.path.ends_with(b"/file")),
        Event::Request(request) if numbers[request.file as usize] => match request.call {
            Call::WriteFault => written.push((request.offset, request.done as u64)),
            Call::Msync => syncs += 1,
            Call::Write | Call::Pwrite => panic!("{request:?}"),
            _ => {}
        },
        _ => {}
    })
    .unwrap();
    let has = |place: u64| written.iter().any(|(at, bytes)| (*at..*at + *bytes).contains(&place));
    assert!((0..2 << 20).step_by(1 << 16).all(has) && has((4 << 20) + 50), "{written:?}");
    assert!(!has(3 << 20) && written.iter().all(|(at, bytes)| at + bytes <= (4 << 20) + 100));
    assert_eq!(syncs, 2);
    let output = run(dir.path(), &["advise", "sizes", "--trace", "trace", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = report["files"].as_array().unwrap();
    let named = |file: &&Value| file["path"].as_str().is_some_and(|path| path.ends_with("/file"));
    let calls = files.iter().find(named).unwrap()["calls"].to_string();
    assert!(calls.contains("\"write_fault\"") && calls.contains("\"msync\""), "{calls}");
    // A replay writes the same pages, and leaves the file alone.
    let before = fs::read(&file).unwrap();
    let output = run(dir.path(), &["replay", "trace"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn the_command_runs_as_it_does_alone() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    for command in [&["record", "-o", "trace"][..], &["advise", "sizes", "-o", "report"]] {
        let run = |words: &[&str]| run(dir.path(), &[command, words].concat());
        let output = run(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"out\n"[..]));
        assert_eq!(said(&output), "err\n");
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
        let missing = run(&["/no/such/program"]);
        assert_eq!(missing.status.code(), Some(127), "{}", said(&missing));
        assert!(said(&missing).contains("cannot run '/no/such/program': No such file"));
        assert_eq!(run(&["/etc/passwd"]).status.code(), Some(126));
    }
    let mut command = dio(dir.path(), &["advise", "sizes", "cat"]);
    let output = command.stdin(fs::File::open("/etc/passwd").unwrap()).output().unwrap();
    assert_eq!(output.stdout, fs::read("/etc/passwd").unwrap());
    assert!(said(&output).contains("/etc/passwd"), "{}", said(&output));
}

#[test]
fn a_trace_can_be_read_while_it_grows_and_when_its_writer_was_killed() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    random_file(dir.path().join("file"), 100_000, 1);
    let script = "cat file > /dev/null; while ! test -e stop; do sleep 0.05; done";
    let mut command = dio(dir.path(), &["record", "-o", "trace", "sh", "-c", script]);
    let running = Running::spawn(&mut command);
    let looked = || run(dir.path(), &["advise", "sizes", "--trace", "trace"]);
    until("the trace has the file", || {
        String::from_utf8_lossy(&looked().stdout).contains("/file (98 KiB)")
    });
    running.signal(rustix::process::Signal::KILL);
    // The command goes on, and has the other end of the pipe.
    fs::write(dir.path().join("stop"), "").unwrap();
    assert_eq!(running.end().status.signal(), Some(9));
    let output = looked();
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("the trace ends before the command did"), "{text}");

    // Cut in the middle of a frame, damaged, of a later version, and none.
    let trace = fs::read(dir.path().join("trace")).unwrap();
    let look = |bytes: &[u8]| {
        fs::write(dir.path().join("other"), bytes).unwrap();
        run(dir.path(), &["advise", "sizes", "--trace", "other"])
    };
    let cut = look(&trace[..trace.len() - 1]);
    assert!(cut.status.success() && said(&cut).contains("was cut, or still grows"), "{cut:?}");
    let mut damaged = trace.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let damaged = look(&damaged);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(said(&damaged).contains("damaged at byte"), "{damaged:?}");
    let later = look(&[&trace[..8], &[9, 0, 0, 0]].concat());
    assert!(said(&later).contains("a trace of version 9"), "{later:?}");
    let foreign = look(b"something else");
    assert_eq!(foreign.status.code(), Some(1));
    assert!(said(&foreign).contains("no trace"), "{foreign:?}");
}

/// The files that [`SERVER`] reads, below the directory that it starts in.
fn home_of(dir: &Path) -> PathBuf {
    let home = fs::canonicalize(dir).unwrap().join("home");
    fs::create_dir_all(home.join("below")).unwrap();
    random_file(home.join("held"), 100_000, 1);
    random_file(home.join("below/one"), 1000, 2);
    home
}

/// A program that runs already, with two threads, files that it has open, and a directory.
const SERVER: &str = "import os, threading, time\n\
                      os.chdir('home')\n\
                      held = os.open('held', os.O_RDWR)\n\
                      place = os.open('below', os.O_RDONLY)\n\
                      def serve():\n  \
                        while True:\n    \
                          os.pread(held, 4096, 8192)\n    \
                          one = os.open('one', os.O_RDONLY, dir_fd=place)\n    \
                          os.read(one, 100)\n    \
                          os.close(one)\n    \
                          time.sleep(0.01)\n\
                      threading.Thread(target=serve, daemon=True).start()\n\
                      open('ready', 'w').close()\n\
                      serve()\n";

#[test]
fn a_process_that_runs_is_watched_with_all_its_threads() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    let home = home_of(dir.path());
    let start = || {
        let _ = fs::remove_file(home.join("ready"));
        let mut command = Command::new("python3");
        let server = Running::spawn(command.args(["-c", SERVER]).current_dir(dir.path()));
        until("the server runs", || home.join("ready").exists());
        server
    };
    let mut server = start();
    let watch = |pid: &str, time: &str| {
        let arguments = ["advise", "sizes", "--json", "-o", "report", "--pid", pid, "--for", time];
        let output = run(dir.path(), &arguments);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice::<Value>(&fs::read(dir.path().join("report")).unwrap()).unwrap()
    };
    // On a busy machine the server may make no request for seconds, or be gone.
    let mut seen = None;
    for time in ["2s", "4s", "8s", "8s"] {
        let report = watch(&server.pid().as_raw_nonzero().to_string(), time);
        let counts = counts(&home, &report);
        let of = |name: &str, call: &str| counts.get(&(name.into(), call.into())).copied();
        let both = of("held", "pread").zip(of("below/one", "read"));
        seen = both.filter(|(held, one)| held.0 > 3 && one.0 > 3).map(|both| (both, report));
        if seen.is_some() {
            break;
        }
        eprintln!("not seen in {time}: {counts:?}; has ended: {}", server.is_over());
        server = start();
    }
    let pid = server.pid().as_raw_nonzero().to_string();
    let ((held, one), report) = seen.expect("both threads are seen");
    assert_eq!(held.1, held.0 * 4096);
    assert_eq!(one.1, one.0 * 100);
    let name = report["command"][0].as_str().unwrap();
    assert!(name.starts_with(&format!("process {pid} (")) && name.contains("python3"), "{name}");
    run(dir.path(), &["record", "-o", "trace", "--pid", &pid, "--for", "0.5"]);
    let mut threads = 0;
    dio_advise::trace::read(&fs::read(dir.path().join("trace")).unwrap()[..], |event| {
        threads += usize::from(matches!(event, dio_advise::trace::Event::Thread { .. }));
    })
    .unwrap();
    assert_eq!(threads, 2);

    // It goes on. When it ends, so does the watching; and then there is nothing to watch.
    let mut long = dio(dir.path(), &["record", "-o", "long", "--pid", &pid]);
    let watching = Running::spawn(&mut long);
    until("it is watched", || {
        fs::metadata(dir.path().join("long")).is_ok_and(|file| file.len() > 500)
    });
    server.signal(rustix::process::Signal::TERM);
    server.end();
    assert!(watching.end().status.success());
    let gone = run(dir.path(), &["record", "-o", "trace", "--pid", &pid]);
    assert_eq!(gone.status.code(), Some(125), "{gone:?}");
    assert!(
        said(&gone).contains(&format!("cannot watch process {pid}: No such process")),
        "{gone:?}"
    );
}

/// In a container, processes have other numbers for the kernel than for `/proc`.
#[test]
fn a_process_is_watched_from_its_own_namespace() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    let home = home_of(dir.path());
    fs::write(dir.path().join("server"), SERVER).unwrap();
    let script = "python3 server & until test -e home/ready; do sleep 0.05; done
                  \"$0\" advise sizes --json -o report --pid $! --for \"$1\"; kill $!";
    let unshare = "unshare --mount --pid --fork --kill-child --mount-proc";
    // One namespace, and one within another.
    for command in [unshare.to_owned(), format!("{unshare} {unshare}")] {
        let is_seen = ["1s", "4s", "8s"].iter().any(|time| {
            let _ = fs::remove_file(home.join("ready"));
            let output = Command::new("env")
                .args(command.split(' '))
                .args(["sh", "-c", script, env!("CARGO_BIN_EXE_dio"), time])
                .current_dir(dir.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", said(&output));
            let report = fs::read(dir.path().join("report")).unwrap();
            let counts = counts(&home, &serde_json::from_slice(&report).unwrap());
            eprintln!("in {time}: {counts:?}");
            [("held", "pread"), ("below/one", "read")]
                .iter()
                .all(|(name, call)| counts.contains_key(&((*name).into(), (*call).into())))
        });
        assert!(is_seen);
    }
}

#[test]
fn who_uses_a_directory_is_watched_and_nothing_else() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    let home = home_of(dir.path());
    random_file(dir.path().join("elsewhere"), 100_000, 3);
    random_file(home.join("late"), 100_000, 4);
    // One has a file open before, another opens one when it is watched for. Both use others, too.
    let script = "import os, time\nheld = os.open('home/held', os.O_RDONLY)\n\
                  open('home/ready', 'w').close()\nwhile True:\n  os.pread(held, 4096, 0)\n  \
                  open('elsewhere', 'rb').read()\n  time.sleep(0.01)\n";
    let mut early = Command::new("python3");
    let early = Running::spawn(early.args(["-c", script]).current_dir(dir.path()));
    until("the first program runs", || home.join("ready").exists());
    let script = "import os, time\nwhile True:\n  late = os.open('home/late', os.O_RDONLY)\n  for n in \
                  range(20):\n    os.read(late, 1000)\n    time.sleep(0.01)\n  os.close(late)\n";
    let mut late = Command::new("python3");
    let late = Running::spawn(late.args(["-c", script]).current_dir(dir.path()));
    let seen = ["2s", "4s", "8s"].iter().find_map(|time| {
        let words = ["advise", "sizes", "--json", "-o", "report", "--dir", "home", "--for", time];
        let output = run(dir.path(), &words);
        assert!(output.status.success(), "{}", said(&output));
        let report: Value =
            serde_json::from_slice(&fs::read(dir.path().join("report")).unwrap()).unwrap();
        let counts = counts(&home, &report);
        eprintln!("in {time}: {counts:?}");
        let of = |name: &str, call: &str| counts.get(&(name.into(), call.into())).copied();
        let both = of("held", "pread").zip(of("late", "read"));
        both.filter(|(held, late)| held.0 > 3 && late.0 > 3).map(|_| report)
    });
    let report = seen.expect("both are seen");
    for file in report["files"].as_array().unwrap() {
        assert!(file["path"].as_str().unwrap().starts_with(home.to_str().unwrap()), "{file}");
    }
    assert!(report["command"][0].as_str().unwrap().starts_with("users of "));
    early.signal(rustix::process::Signal::TERM);
    late.signal(rustix::process::Signal::TERM);
    early.end();
    late.end();
    let output = run(dir.path(), &["record", "-o", "trace", "--dir", "absent", "--for", "1"]);
    assert_eq!(output.status.code(), Some(125));
    let told = "cannot watch who uses 'absent': No such file or directory\n";
    assert!(said(&output).contains(told), "{output:?}");
}

#[test]
fn a_file_that_is_no_trace_is_not_overwritten() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    fs::write(dir.path().join("precious"), "precious").unwrap();
    let output = run(dir.path(), &["record", "-o", "precious", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("it exists, and is no trace"), "{}", said(&output));
    assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"precious");
    for _ in 0..2 {
        assert!(run(dir.path(), &["record", "-o", "trace", "true"]).status.success());
    }
    let full = run(dir.path(), &["record", "-o", "/dev/full", "touch", "ran"]);
    assert_eq!(full.status.code(), Some(125), "{full:?}");
    assert!(said(&full).contains("cannot write the trace: No space left on device\n"), "{full:?}");
    assert!(!dir.path().join("ran").exists());
}

#[test]
fn a_disk_that_fills_up_does_not_stop_the_command() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    // A limit on the size of files stands for the full disk.
    let script = "ulimit -f 8; trap '' XFSZ; exec dio record -o trace sh -c 'dd if=/dev/zero \
                  of=/dev/null bs=1 count=100000 status=none; echo ran'";
    let programs = Path::new(env!("CARGO_BIN_EXE_dio")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", script])
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(125), &b"ran\n"[..]),
        "{output:?}"
    );
    assert!(said(&output).contains("cannot write the trace: File too large"), "{output:?}");
    let looked = run(dir.path(), &["advise", "sizes", "--trace", "trace"]);
    assert!(looked.status.success() && said(&looked).contains("was cut"), "{looked:?}");
}

#[test]
fn who_may_not_watch_is_told_what_it_needs() {
    if !is_root() {
        return skip!("only root can become somebody else");
    }
    let dir = scratch();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_dio")])
        .args(["advise", "sizes", "--watch", "bpf", "touch", "ran"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(said(&output).contains("watching needs root, or the capabilities"), "{output:?}");
    assert!(!dir.path().join("ran").exists());
}

#[test]
fn looks_at_open_files_and_names_are_recorded() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    let at = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir(at.join("sub")).unwrap();
    random_file(at.join("sub/there"), 1000, 1);
    let script = "import os\nf = os.open('sub/there', os.O_RDONLY)\nos.read(f, 10)\n\
                  for n in range(7): os.fstat(f)\nfor n in range(5): os.path.exists('sub/absent')\n\
                  for n in range(9): os.stat('sub/there')\n\
                  import fcntl\nfor n in range(11): fcntl.fcntl(f, fcntl.F_GETFL)\n";
    let arguments = ["advise", "sizes", "--json", "-o", "report", "python3", "-c", script];
    let output = run(&at, &arguments);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&fs::read(at.join("report")).unwrap()).unwrap();
    let looks = |path: &Path| {
        let files = report["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == path.to_str().unwrap());
        let calls = file.map(|file| file["calls"].as_array().unwrap().clone()).unwrap_or_default();
        calls.iter().find(|calls| calls["call"] == "stat").map(|calls| calls["count"].clone())
    };
    assert_eq!(looks(&at.join("sub/there")), Some(7.into()), "{report}");
    assert_eq!(looks(&at.join("sub")), Some((5 + 9).into()), "{report}");
}
