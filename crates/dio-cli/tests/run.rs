//! `dio run`: the command sees its directories mounted, no other process does, and nothing of the
//! mount stays.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dio_test::{file_systems, random_file, resident_pages, run, skip};

use crate::run_support::*;

#[test]
fn the_command_sees_the_mount_and_nobody_else_does() {
    if !can_mount() {
        return;
    }
    for fs in file_systems() {
        let scratch = Scratch::on(&fs);
        fs::write(scratch.at("d/there"), "before").unwrap();
        let output = scratch
            .script("cat d/there; grep $PWD/ /proc/self/mountinfo; echo new > d/new; stat -c %d d");
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", fs.name);
        let device = fs::metadata(scratch.at("d")).unwrap().dev();
        let mut lines = output.stdout.lines();
        let mount = lines.next().unwrap();
        assert!(
            mount.starts_with("before") && mount.contains(scratch.at("d").to_str().unwrap()),
            "{output:?}"
        );
        assert_ne!(lines.next_back().unwrap(), device.to_string(), "{}", fs.name);
        assert_eq!(lines.next(), None, "{}: one mount: {output:?}", fs.name);
        assert_eq!(fs::read_to_string(scratch.at("d/new")).unwrap(), "new\n");
        assert_eq!(scratch.mounted(), 0, "{}", mounts());
        scratch.no_server_stays();
    }
}

#[test]
fn what_the_command_reads_and_writes_leaves_no_page_behind() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    random_file(scratch.at("d/in"), 3_000_001, 1);
    run(Command::new("dd")
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"])
        .arg(format!("of={}", scratch.at("d/in").display())));
    scratch.well(&["-o", "dio", "--", "cp", "d/in", "d/out"]);
    assert_eq!(resident_pages(scratch.at("d/out")), 0);
    assert_eq!(resident_pages(scratch.at("d/in")), 0);
    dio_test::same_bytes(scratch.at("d/in"), scratch.at("d/out"));
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.at("data"), "no program").unwrap();
    for (words, status) in [
        (&["true"][..], 0),
        (&["--", "sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "exit 125"], 125),
        (&["./data"], 126),
        (&["./d"], 126),
        (&["no-such-program"], 127),
        (&["--dir", "nowhere", "true"], 125),
        (&["--dir", "data", "true"], 125),
        (&["--dir", "/", "true"], 125),
        (&["-o", "no_such_option", "true"], 125),
        (&["--no-such-flag", "true"], 125),
        (&[], 125),
    ] {
        let output = run(&mut scratch.command(words));
        assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
        assert_eq!(
            output.stderr.is_empty(),
            status < 125 || words.contains(&"exit 125"),
            "{words:?}: {output:?}"
        );
    }
    for signal in [1, 2, 3, 6, 9, 15] {
        let output = scratch.script(&format!("kill -{signal} $$"));
        assert_eq!(output.status.signal(), Some(signal), "{output:?}");
    }
    scratch.no_server_stays();
}

#[test]
fn the_command_is_the_process_that_was_started() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    // Limits, mask, ignored signals, priority, group, descriptors and environment must be the same
    // as for a program that is started directly.
    let script = "echo $$; grep -E '^(Sig(Blk|Ign)|Groups|NoNewPrivs|Seccomp)' /proc/self/status; \
                  umask; ulimit -a; env | sort; nice; ps -o pgid=,sid= -p $$; ls /proc/$$/fd; cat \
                  /proc/$$/oom_score_adj; ps -o pid= --ppid $$ | wc -l";
    let mut outer = Command::new("sh");
    let prepare = "umask 027; ulimit -n 777; ulimit -f 100000; trap '' USR1; exec nice -n 5 \"$@\" \
                   3</dev/null";
    outer
        .args(["-c", prepare, "sh", DIO, "run", "--dir", "d", "--", "sh", "-c", script])
        .current_dir(scratch.at(""));
    let child = outer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (pid, with) = (child.id(), child.wait_with_output().unwrap());
    let mut outer = Command::new("sh");
    outer.args(["-c", prepare, "sh", "sh", "-c", script]).current_dir(scratch.at(""));
    let child = outer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (other, without) = (child.id(), child.wait_with_output().unwrap());
    let (with, without) =
        [with, without].map(|output| String::from_utf8(output.stdout).unwrap()).into();
    assert_eq!(with.lines().next(), Some(pid.to_string().as_str()));
    assert_eq!(with.replace(&pid.to_string(), "PID"), without.replace(&other.to_string(), "PID"));
}

#[test]
fn the_working_directory_is_entered_through_the_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.at("d/deep/er")).unwrap();
    let mut command = Command::new(DIO);
    command.args([
        "run",
        "--dir",
        "..",
        "--",
        "sh",
        "-c",
        "pwd; stat -c %d . ..; echo x > here; cat ../er/here",
    ]);
    let output = run(command.current_dir(scratch.at("d/deep/er")));
    let mut lines = output.stdout.lines();
    assert_eq!(lines.next(), scratch.at("d/deep/er").to_str(), "{output:?}");
    let device = fs::metadata(scratch.at("d")).unwrap().dev().to_string();
    let devices: Vec<&str> = lines.by_ref().take(2).collect();
    assert!(devices[0] == devices[1] && devices[0] != device, "{output:?}");
    assert_eq!(lines.next(), Some("x"));
}

#[test]
fn directories_may_be_named_in_any_way() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for name in ["d/below", "other", "space in it,and\\more"] {
        fs::create_dir(scratch.at(name)).unwrap();
    }
    std::os::unix::fs::symlink("other", scratch.at("link")).unwrap();
    let count = "grep -c $PWD/ /proc/self/mountinfo";
    let counted = |directories: &[&str]| {
        let mut words: Vec<&str> =
            directories.iter().flat_map(|directory| ["--dir", directory]).collect();
        words.extend(["--", "sh", "-c", count]);
        scratch.well(&words).trim().parse::<usize>().unwrap()
    };
    assert_eq!(counted(&[]), 1);
    assert_eq!(counted(&["d", "./d/", "d/../d", scratch.at("d").to_str().unwrap()]), 1);
    assert_eq!(counted(&["d/below", "d"]), 1);
    assert_eq!(counted(&["link", "other"]), 2);
    assert_eq!(counted(&["space in it,and\\more", "other"]), 3);
    // A mount point below is another file system, with its own connection. A second path of the
    // same file system shares its connection.
    let script = format!(
        "mkdir t bound && mount -t tmpfs none t && mkdir t/s && mount --bind other bound && mount --bind t d/below &&
         {DIO} run --dir d --dir d/below --dir other --dir bound -- sh -ec '
             echo 1 > other/one; echo 2 >> bound/one; cat bound/one other/one
             test -d d/below/s; echo x > d/below/s/file
             stat -c %d d d/below other bound' &&
         cat t/s/file"
    );
    let output =
        run(Command::new("unshare").args(["-m", "sh", "-ec", &script]).current_dir(scratch.at("")));
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[..4], ["1", "2", "1", "2"], "{output:?}");
    let [d, below, other, bound] = lines[4..8] else { panic!("{output:?}") };
    assert!(d != below && below != other && other == bound, "{output:?}");
    assert_eq!(lines[8], "x");
}

#[test]
fn static_programs_are_served_too() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let source =
        "fn main() { std::fs::write(\"d/out\", std::fs::read(\"d/in\").unwrap()).unwrap(); }";
    fs::write(scratch.at("copy.rs"), source).unwrap();
    fs::write(scratch.at("d/in"), "bytes").unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = run(Command::new(rustc)
        .args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "relocation-model=static",
            "-o",
            "copy",
            "copy.rs",
        ])
        .current_dir(scratch.at("")));
    if !built.status.success() {
        skip!("no static programs can be built here: {}", built.stderr);
        return;
    }
    let dynamic = run(Command::new("ldd").arg(scratch.at("copy")));
    assert!(!dynamic.status.success() || dynamic.stdout.contains("statically"), "{dynamic:?}");
    scratch.well(&["-o", "cio", "./copy"]);
    assert_eq!(fs::read_to_string(scratch.at("d/out")).unwrap(), "bytes");
    // The program itself may be below the directory.
    fs::rename(scratch.at("copy"), scratch.at("d/copy")).unwrap();
    scratch.well(&["d/copy"]);
}

#[test]
fn the_server_is_nobodys_child_and_keeps_nothing_open() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    // The shell waits for all of its children, and the pipe must be closed when the command ends.
    let mut command = scratch.command(&[
        "--",
        "sh",
        "-c",
        "ps -o pid= --ppid $$ | grep -cv \"^ *$!\"; wait; echo end",
    ]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.ends_with("end\n"), "{said}");
    child.wait().unwrap();
}

#[test]
fn a_process_left_behind_keeps_its_mount_and_then_all_is_gone() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    run(Command::new("mkfifo").arg(scratch.at("gate")));
    let output =
        scratch.script("(trap '' HUP; read go; echo late > d/late) > /dev/null 2>&1 < gate & true");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scratch.servers().len(), 1);
    fs::write(scratch.at("gate"), "go\n").unwrap();
    scratch.no_server_stays();
    assert_eq!(fs::read_to_string(scratch.at("d/late")).unwrap(), "late\n");
}

/// Starts a command that runs the script `first`, prints `ready` and runs `script`.
fn started(
    scratch: &Scratch,
    first: &str,
    script: &str,
) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let script = format!("{first}; echo ready; {script}");
    let mut command = scratch.command(&["--", "sh", "-c", &script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    if line != "ready\n" {
        let mut said = String::new();
        let _ = child.stderr.take().unwrap().read_to_string(&mut said);
        panic!("{line}{said}");
    }
    (child, lines)
}

fn kill(signal: &str, pid: u32) {
    let output = run(Command::new("kill").args([signal, &pid.to_string()]));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn nothing_stays_when_the_command_is_killed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mut child, _lines) = started(&scratch, "true", "while :; do echo x >> d/file; done");
    assert_eq!(scratch.servers().len(), 1);
    assert_eq!(scratch.mounted(), 0, "seen from outside:\n{}", mounts());
    kill("-9", child.id());
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    scratch.no_server_stays();
    assert_eq!(scratch.mounted(), 0);
}

#[test]
fn when_the_server_is_killed_the_command_gets_errors() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let script = "read go; echo after >&3; echo $?; cat d/file; echo $?; cd d; echo $?; exit 7";
    let (mut child, mut lines) = started(&scratch, "exec 3> d/file; echo before >&3", script);
    let server = scratch.servers();
    assert_eq!(server.len(), 1);
    kill("-9", server[0]);
    scratch.no_server_stays();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(rest.lines().count() == 3 && rest.lines().all(|status| status != "0"), "{rest}");
    assert_eq!(fs::read_to_string(scratch.at("d/file")).unwrap(), "before\n");
}

#[test]
fn the_server_ends_with_the_command_and_by_no_signal_before() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mut child, mut lines) =
        started(&scratch, "true", "read go; echo last > d/last; cat d/last");
    let server = scratch.servers()[0];
    // As a service manager does when it stops a service, and as happens when a terminal is closed.
    for signal in ["-TERM", "-HUP", "-INT"] {
        kill(signal, server);
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "last\n");
    assert!(child.wait().unwrap().success());
    scratch.no_server_stays();
}

#[test]
fn signals_stop_continue_and_end_the_command() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mut child, mut lines) =
        started(&scratch, "trap 'echo term; exit 9' TERM", "while :; do sleep 0.01; done");
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().chars().next().unwrap()
    };
    // SIGTSTP is not used: it does not stop a process whose terminal has no controlling process.
    kill("-STOP", child.id());
    let patience = Instant::now() + Duration::from_secs(20);
    while state() != 'T' {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
    kill("-CONT", child.id());
    kill("-TERM", child.id());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "term\n");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

/// Runs a script through `dio run` on a terminal of its own (script(1)). The text that is written
/// to the terminal is passed to `answer`, which may type something.
fn on_terminal(
    scratch: &Scratch,
    script: &str,
    mut answer: impl FnMut(&str) -> Option<&'static [u8]>,
) -> (Option<i32>, String) {
    fs::write(scratch.at("script.sh"), script).unwrap();
    let inner = format!("stty -echo cols 97 rows 31; exec {DIO} run --dir d -- sh script.sh");
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &inner, "/dev/null"])
        .current_dir(scratch.at(""))
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    let mut screen = String::new();
    let mut output = child.stdout.take().unwrap();
    let mut part = [0; 512];
    loop {
        let length = output.read(&mut part).unwrap();
        if length == 0 {
            break;
        }
        screen.push_str(&String::from_utf8_lossy(&part[..length]));
        if let Some(typed) = answer(&screen) {
            keyboard.write_all(typed).unwrap();
        }
    }
    (child.wait().unwrap().code(), screen.replace('\r', ""))
}

#[test]
fn the_terminal_is_the_commands() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mut typed = false;
    let script = "tty > d/tty; stty size; trap 'echo interrupted; exit 7' INT; echo ready; while \
                  :; do sleep 0.01; done";
    let (status, screen) = on_terminal(&scratch, script, |screen| {
        let now = !typed && screen.contains("ready");
        typed |= now;
        now.then_some(b"\x03")
    });
    assert_eq!(status, Some(7), "{screen}");
    assert_eq!(screen, "31 97\nready\ninterrupted\n");
    assert!(fs::read_to_string(scratch.at("d/tty")).unwrap().starts_with("/dev/pts/"));
    scratch.no_server_stays();
    // Only a foreground process can read from the terminal.
    let mut typed = false;
    let (status, screen) =
        on_terminal(&scratch, "echo ready; read line; echo got $line", |screen| {
            let now = !typed && screen.contains("ready");
            typed |= now;
            now.then_some(b"words\n")
        });
    assert_eq!((status, screen.as_str()), (Some(0), "ready\ngot words\n"));
}

/// The number of answered requests of an operation, from a report of `dio stat --json`.
pub(crate) fn count(report: &str, operation: &str) -> u64 {
    let report: serde_json::Value =
        serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {report}"));
    report["operations"][operation]["count"].as_u64().unwrap_or(0)
}

#[test]
fn statistics_are_there_inside_and_from_outside() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let inside = format!(
        "echo x > d/file; {DIO} stat --json d; {DIO} mount -v -o remount,cio d 2>&1; {DIO} stat d"
    );
    // The command's namespace has copies of mounts of other tests. When those tests unmount, the
    // copies would seem to be the command's own.
    let others = format!(
        "findmnt -rno TARGET -t fuse.dio | grep -vF {} | xargs -r -n1 umount -l",
        scratch.at("").display()
    );
    let (mut child, mut lines) =
        started(&scratch, &others, &format!("{inside}; echo done; read end"));
    let mut said = Vec::new();
    while said.last().is_none_or(|line| line != "done\n") {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "{said:?}");
        said.push(line);
    }
    assert_eq!((count(&said[0], "create"), count(&said[0], "write")), (1, 1), "{said:?}");
    assert!(said[1].contains("d: mode=concurrent,"), "{said:?}");
    assert!(
        said[2].starts_with(scratch.at("d").to_str().unwrap())
            && said[2].contains("  concurrent  "),
        "{said:?}"
    );
    let pid = child.id().to_string();
    let ask =
        |words: &[&str]| run(Command::new(DIO).arg("stat").args(words).current_dir(scratch.at("")));
    for words in [
        &["--json", "--pid", &pid][..],
        &["--json", "-p", &pid, "d"],
        &["--json", "-p", &pid, "d/file"],
    ] {
        let report = ask(words);
        assert!(report.status.success(), "{words:?}: {report:?}");
        assert_eq!(count(&report.stdout, "write"), 1, "{words:?}");
    }
    for (words, reason) in [
        (&["d"][..], "is not on a dio mount"),
        (&["--pid", &pid, "/"], "is not on a dio mount"),
        (&["--pid", "0"], "a process is a number"),
        (&[], "required"),
    ] {
        let refused = ask(words);
        assert!(
            !refused.status.success() && refused.stderr.contains(reason),
            "{words:?}: {refused:?}"
        );
    }
    child.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert!(child.wait().unwrap().success());
    scratch.no_server_stays();
    assert!(ask(&["--pid", &pid]).stderr.contains("cannot look at the mounts of process"));
}

#[test]
fn of_several_directories_one_is_named() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("e")).unwrap();
    let script = format!(
        "echo x > e/f; {DIO} stat --json d; {DIO} stat --json e; {DIO} stat --pid $$; true"
    );
    let output = run(&mut scratch.command(&["--dir", "e", "--", "sh", "-c", &script]));
    let writes: Vec<u64> = output.stdout.lines().map(|line| count(line, "write")).collect();
    assert_eq!(writes, [0, 1], "{output:?}");
    // The command may see mounts of other tests too.
    let names = ["d", "e"].map(|name| format!("'{}'", scratch.at(name).display()));
    assert!(
        names.iter().all(|name| output.stderr.contains(name)) && output.stderr.contains("several"),
        "{output:?}"
    );
    let refused = run(&mut scratch.command(&["-o", "stats_file=/tmp/none", "--dir", "e", "true"]));
    assert!(
        refused.status.code() == Some(125) && refused.stderr.contains("for one directory"),
        "{refused:?}"
    );
    let file = scratch.at("figures");
    let text = scratch.well(&[
        "-o",
        &format!("stats_file={}", file.display()),
        "--",
        "cat",
        file.to_str().unwrap(),
    ]);
    assert!(text.contains("dio_up"), "{text}");
}
