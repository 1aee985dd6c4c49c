//! Commands that are watched by `ptrace(2)`, as an ordinary user, too: the counts are those of
//! strace(1), the command runs as it does alone, and nothing of it stays traced.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use dio_test::until;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::advise::{compare_with_strace, dio, has_strace, run, said};
use crate::advise_names::compare_names;
use crate::own::{Running, cold, is_root, random_file, skip, source, warm};

const NOBODY: u32 = 65534;

/// A command that runs as somebody who has no privileges.
fn as_nobody(dir: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
    command.args(arguments).current_dir(dir).env("LC_ALL", "C.UTF-8").env("HOME", dir);
    command
}

fn dio_as_nobody(dir: &Path, arguments: &[&str]) -> Command {
    as_nobody(dir, env!("CARGO_BIN_EXE_dio"), arguments)
}

/// A directory of nobody; `None`, with the reason, where tests cannot become nobody, or nobody may
/// trace.
fn scratch() -> Result<TempDir, &'static str> {
    if !is_root() {
        return Err("only root can become somebody else");
    }
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    chown(dir.path(), Some(NOBODY), None).unwrap();
    let output = dio_as_nobody(dir.path(), &["advise", "sizes", "true"]).output().unwrap();
    match output.status.success() {
        true => Ok(dir),
        false => Err("commands cannot be traced here"),
    }
}

/// The same for tests that need no other user.
fn own_scratch() -> Option<TempDir> {
    let dir = crate::advise::scratch();
    let output = run(dir.path(), &["advise", "sizes", "--watch", "ptrace", "true"]);
    output.status.success().then_some(dir)
}

#[test]
fn calls_that_list_and_change_names_are_counted() {
    if own_scratch().is_none() {
        return skip!("commands cannot be traced here");
    }
    if !has_strace() {
        return skip!("strace is not there, or may not trace");
    }
    compare_names(report);
}

const SIZES: [&str; 6] = ["advise", "sizes", "--watch", "ptrace", "--json", "-o"];

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The report of a script, with its exit status.
fn report(dir: &Path, script: &str) -> (Option<i32>, Value) {
    let line = [&SIZES[..], &["report", "sh", "-c", script]].concat();
    let output = run(dir, &line);
    assert!(dir.join("report").exists(), "{}", said(&output));
    (output.status.code(), json(&dir.join("report")))
}

#[test]
fn nobody_counts_calls_as_strace_counts_them() {
    let dir = match scratch() {
        Ok(dir) => dir,
        Err(reason) => return skip!("{reason}"),
    };
    if !has_strace() {
        return skip!("strace is not there, or may not trace");
    }
    let home = fs::canonicalize(dir.path()).unwrap();
    let report = |script: &str| {
        let line = ["advise", "sizes", "--json", "-o", "report", "sh", "-c", script];
        let output = dio_as_nobody(&home, &line).output().unwrap();
        assert!(said(&output).contains("watched by ptrace"), "{}", said(&output));
        (output.status.code(), json(&home.join("report")))
    };
    compare_with_strace(&home, report, || as_nobody(&home, "strace", &[]));
}

#[test]
fn a_traced_command_runs_as_it_does_alone() {
    let Some(dir) = own_scratch() else { return skip!("commands cannot be traced here") };
    for command in [
        &["record", "--watch", "ptrace", "-o", "trace"][..],
        &["advise", "sizes", "--watch", "ptrace", "-o", "report"],
    ] {
        let run = |words: &[&str]| run(dir.path(), &[command, words].concat());
        let output = run(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"out\n"[..]));
        let text = said(&output);
        let first = "dio: watched by ptrace, each call takes longer; not seen: mapped memory";
        assert!(text.starts_with(first) && text.ends_with("\nerr\n"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
        let missing = run(&["/no/such/program"]);
        assert_eq!(missing.status.code(), Some(127), "{}", said(&missing));
        assert_eq!(run(&["/etc/passwd"]).status.code(), Some(126));
    }
}

/// Threads, processes made by fork, vfork and posix_spawn, programs executed by a thread that is
/// not the first, and signals, of which some have no names.
const MANY: &str = r#"
import os, signal, subprocess, sys, threading
got = []
for number in (signal.SIGUSR1, signal.SIGRTMIN + 3, signal.SIGCHLD):
    signal.signal(number, lambda number, frame: got.append(number))
def read(name):
    with open(name, 'rb') as file:
        while file.read(1000): pass
threads = [threading.Thread(target=read, args=('file',)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGRTMIN + 3)
child = os.fork()
if child == 0:
    read('file')
    # A thread executes another program, and is the only one then.
    threading.Thread(target=lambda: os.execv('/bin/sh', ['sh', '-c', 'exit 5'])).start()
    signal.pause()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert subprocess.run(['sh', '-c', 'cat file | wc -c']).returncode == 0
stopped = subprocess.Popen(['sh', '-c', 'kill -STOP $$; exit 4'])
pid, status = os.waitpid(stopped.pid, os.WUNTRACED)
assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGSTOP, status
os.kill(stopped.pid, signal.SIGCONT)
assert os.waitstatus_to_exitcode(os.waitpid(stopped.pid, 0)[1]) == 4
assert {signal.SIGUSR1, signal.SIGRTMIN + 3, signal.SIGCHLD} <= set(got), got
os.kill(os.getpid(), signal.SIGTERM)
"#;

#[test]
fn threads_processes_and_signals_are_those_of_the_command() {
    let Some(dir) = own_scratch() else { return skip!("commands cannot be traced here") };
    random_file(dir.path().join("file"), 100_000, 1);
    let alone = Command::new("python3").args(["-c", MANY]).current_dir(dir.path()).output();
    let alone = alone.unwrap();
    assert_eq!(alone.status.signal(), Some(15), "{}", said(&alone));
    let line = [&SIZES[..], &["report", "python3", "-c", MANY]].concat();
    let output = run(dir.path(), &line);
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    assert_eq!(output.stdout, alone.stdout);
    let report = json(&dir.path().join("report"));
    let file = fs::canonicalize(dir.path()).unwrap().join("file");
    let files = report["files"].as_array().unwrap();
    let file = files.iter().find(|one| one["path"] == file.to_str().unwrap()).unwrap();
    let of = |program: &str| {
        let calls = file["calls"].as_array().unwrap().iter();
        let reads = calls.filter(|call| call["call"] == "read" && call["program"] == program);
        reads.map(|call| call["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    // Eight threads and a child.
    assert_eq!((of("python3"), of("cat")), (900_000, 100_000), "{file:#}");
    assert_eq!(report["lost"], 0);
}

#[test]
fn a_signal_ends_the_traced_command_and_what_it_did_is_reported() {
    let Some(dir) = own_scratch() else { return skip!("commands cannot be traced here") };
    random_file(dir.path().join("file"), 100_000, 1);
    let script = "cat file > copy; exec sleep 1000";
    let line = ["advise", "sizes", "--watch", "ptrace", "sh", "-c", script];
    let running = Running::spawn(&mut dio(dir.path(), &line));
    until("the copy is made", || {
        fs::metadata(dir.path().join("copy")).is_ok_and(|copy| copy.len() == 100_000)
    });
    running.signal(Signal::TERM);
    let output = running.end();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert!(output.stderr.contains("/copy ("), "{output:?}");

    // A signal to the group reaches both, and the command decides what becomes of it. dio cannot
    // tell that from one for itself alone, and passes it on, so that it may come twice.
    let script = "trap 'trap \"\" INT; echo caught; exit 7' INT; echo $PPID > new; mv new ready; \
                  while :; do sleep 0.01; done";
    let line = ["record", "--watch", "ptrace", "-o", "trace", "sh", "-c", script];
    let mut command = Command::new("setsid");
    command.args(["--wait", env!("CARGO_BIN_EXE_dio")]).args(line).current_dir(dir.path());
    let running = Running::spawn(&mut command);
    until("the command runs", || dir.path().join("ready").exists());
    // dio leads a group of its own, in which the command is, too.
    let leader = fs::read_to_string(dir.path().join("ready")).unwrap();
    let leader = leader.trim();
    let killed = Command::new("kill").args(["-INT", "--", &format!("-{leader}")]).status();
    assert!(killed.unwrap().success());
    let output = running.end();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(7), "caught\n"), "{output:?}");
}

/// A process that goes on when the command has ended.
const DAEMON: &str = "setsid sh -c 'while ! test -e stop; do cat file > copied; sleep 0.02; done; \
                      grep TracerPid /proc/$$/status > status' > /dev/null 2>&1 < /dev/null &";

#[test]
fn what_outlives_the_command_goes_on_and_is_traced_no_longer() {
    let Some(dir) = own_scratch() else { return skip!("commands cannot be traced here") };
    random_file(dir.path().join("file"), 100_000, 1);
    let script = format!("{DAEMON} until test -s copied; do sleep 0.01; done; exit 6");
    let (status, _) = report(dir.path(), &script);
    assert_eq!(status, Some(6));
    for _ in 0..2 {
        fs::remove_file(dir.path().join("copied")).unwrap();
        until("it goes on", || {
            fs::metadata(dir.path().join("copied")).is_ok_and(|copy| copy.len() == 100_000)
        });
    }
    fs::write(dir.path().join("stop"), "").unwrap();
    let status = || fs::read_to_string(dir.path().join("status")).unwrap_or_default();
    until("it has ended", || status().ends_with('\n'));
    assert_eq!(status(), "TracerPid:\t0\n");
}

#[test]
fn the_traced_command_goes_on_when_its_recorder_is_killed() {
    let Some(dir) = own_scratch() else { return skip!("commands cannot be traced here") };
    random_file(dir.path().join("file"), 100_000, 1);
    let script = "cat file > /dev/null; while ! test -e stop; do sleep 0.01; done; cat file > end; \
                  grep TracerPid /proc/$$/status > status";
    let line = ["record", "--watch", "ptrace", "-o", "trace", "sh", "-c", script];
    let running = Running::spawn(&mut dio(dir.path(), &line));
    let looked = || run(dir.path(), &["advise", "sizes", "--trace", "trace"]);
    until("the trace has the file", || {
        String::from_utf8_lossy(&looked().stdout).contains("/file (98 KiB)")
    });
    running.signal(Signal::KILL);
    fs::write(dir.path().join("stop"), "").unwrap();
    assert_eq!(running.end().status.signal(), Some(9));
    let status = || fs::read_to_string(dir.path().join("status")).unwrap_or_default();
    until("the command has ended", || status().ends_with('\n'));
    assert_eq!(status(), "TracerPid:\t0\n");
    assert_eq!(fs::metadata(dir.path().join("end")).unwrap().len(), 100_000);
    assert!(looked().status.success());
}

#[test]
fn a_tracer_tells_cold_files_from_warm_ones() {
    let dir = match scratch() {
        Ok(dir) => dir,
        Err(reason) => return skip!("{reason}"),
    };
    let file = source(dir.path(), "file", 8 << 20);
    chown(&file, Some(NOBODY), None).unwrap();
    let new = |script: &str| {
        let line = ["advise", "sizes", "--json", "-o", "report", "sh", "-c", script];
        let output = dio_as_nobody(dir.path(), &line).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let report = json(&dir.path().join("report"));
        let files = report["files"].as_array().unwrap().clone();
        let one = files.iter().find(|one| one["path"].as_str().unwrap().ends_with("/file"));
        let calls = one.unwrap()["calls"].as_array().unwrap().clone();
        let sum = |name: &str| calls.iter().map(|call| call[name].as_u64().unwrap()).sum::<u64>();
        (sum("bytes"), sum("cached"))
    };
    // A machine that is short of memory takes some pages away meanwhile, and then they are read
    // again.
    let is_cold = |(bytes, new): (u64, u64)| bytes == 8 << 20 && new >= 7 << 20;
    let is_warm = |(bytes, new): (u64, u64)| bytes == 8 << 20 && new < 1 << 20;
    let first = new("cat file > /dev/null");
    assert!(is_cold(first), "{first:?}");
    let second = new("cat file > /dev/null");
    assert!(is_warm(second), "{second:?}");
    for read in ["dd if=file of=/dev/null bs=5000", "sha256sum < file", "head -c 8388608 file | wc"]
    {
        cold(&file);
        let first = new(read);
        assert!(is_cold(first), "{read}: {first:?}");
        warm(&file);
        let second = new(read);
        assert!(is_warm(second), "{read}: {second:?}");
    }
    cold(&file);
    let direct = "dd if=file of=/dev/null bs=1M iflag=direct status=none";
    assert_eq!(new(direct), (8 << 20, 0));
    // Of a file of somebody else, this is not told.
    chown(&file, Some(0), None).unwrap();
    warm(&file);
    let line = ["advise", "sizes", "cat", "file"];
    let output = dio_as_nobody(dir.path(), &line).output().unwrap();
    assert!(said(&output).contains("what was new to the page cache, of "), "{}", said(&output));
}

/// What is known of the file `big` in a verdict.
fn verdict(dir: &Path, way: &str) -> Value {
    cold(&dir.join("big"));
    let line =
        ["advise", "--device", "profile", "--json", "-o", "verdict", "--watch", way, "--", "cp"];
    let output = run(dir, &[&line[..], &["big", "copy"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    fs::remove_file(dir.join("copy")).unwrap();
    json(&dir.join("verdict"))
}

#[test]
fn a_copy_of_a_cold_file_is_judged_alike() {
    let Some(dir) = own_scratch() else { return skip!("commands cannot be traced here") };
    let at = dir.path();
    if !run(at, &["advise", "sizes", "--watch", "bpf", "true"]).status.success() {
        return skip!("commands cannot be watched by BPF here");
    }
    let probed = ["probe", "--speed", "--speed-part", "64", "-o", "profile", "."];
    assert!(run(at, &probed).status.success());
    random_file(at.join("big"), 64 << 20, 1);
    let (bpf, ptrace) = (verdict(at, "bpf"), verdict(at, "ptrace"));
    // What the command took differs from run to run, and with that the verdict; what each other way
    // would take follows from the requests.
    let seconds = |verdict: &Value| {
        let ways = verdict["ways"].as_array().unwrap()[1..].to_vec();
        let of = |way: &Value| {
            let seconds = way["predicted_seconds"].as_f64().unwrap();
            (way["way"].as_str().unwrap().to_owned(), seconds)
        };
        ways.iter().map(of).filter(|(way, _)| way != "mixed").collect::<Vec<_>>()
    };
    for ((way, bpf), (same, ptrace)) in seconds(&bpf).into_iter().zip(seconds(&ptrace)) {
        assert_eq!(way, same);
        assert!((0.6..1.7).contains(&(ptrace / bpf)), "{way}: {bpf} s and {ptrace} s");
    }
    let new_of = |verdict: &Value| {
        let groups = verdict["groups"].as_array().unwrap();
        let lines = groups.iter().flat_map(|one| one["evidence"].as_array().unwrap());
        lines.into_iter().any(|line| line.as_str().unwrap().contains("new to the page cache"))
    };
    assert!(new_of(&bpf) && new_of(&ptrace), "{bpf:#}\n{ptrace:#}");
    let missing = ptrace["missing"].as_array().unwrap();
    assert!(missing.iter().any(|line| line.as_str().unwrap().contains("mapped")), "{ptrace:#}");
}

/// Runs a command in which a system call is refused, as container runtimes do.
fn without(call: i64, mut command: Command) -> Output {
    let refused = std::thread::spawn(move || {
        dio_sys::refuse_system_call(call, rustix::io::Errno::PERM).unwrap();
        command.output().unwrap()
    });
    refused.join().unwrap()
}

/// `ptrace(2)`
const PTRACE: i64 = 101;

#[test]
fn where_nothing_can_be_watched_the_reasons_are_told() {
    let dir = match scratch() {
        Ok(dir) => dir,
        Err(reason) => return skip!("{reason}"),
    };
    let at = dir.path();
    let output = without(PTRACE, dio_as_nobody(at, &["record", "-o", "trace", "touch", "ran"]));
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let text = said(&output);
    assert!(text.contains("does not allow to trace a process: Operation not permitted"), "{text}");
    assert!(text.contains("BPF") && text.contains("watching needs root, or"), "{text}");
    assert!(!at.join("ran").exists());
    let pid = std::process::id().to_string();
    let running = ["record", "--watch", "ptrace", "-o", "trace", "--pid", &pid];
    let output = run(at, &running);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(said(&output).contains("what runs already is watched by BPF, not by ptrace"));
}

#[test]
fn a_program_that_would_have_other_rights_is_named() {
    let dir = match scratch() {
        Ok(dir) => dir,
        Err(reason) => return skip!("{reason}"),
    };
    let program = dir.path().join("id");
    fs::copy("/usr/bin/id", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let line = ["record", "-o", "trace", "./id", "-u"];
    let output = dio_as_nobody(dir.path(), &line).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "65534\n", "{output:?}");
    let text = said(&output);
    assert!(text.contains("/id' ran without the rights of its owner"), "{text}");
}
