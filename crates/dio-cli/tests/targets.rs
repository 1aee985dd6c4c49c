//! An existing target stays complete until its replacement is complete, in every tool that replaces
//! one, whatever ends the run. A receipt replaces only receipts.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use dio_test::{Rng, Soak, TestFs, file_systems, skip};
use rustix::fs::XattrFlags;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// Commands that replace `old` by something longer, made from `big` or from `old` itself, with the
/// name of the tool.
const REPLACING: [(&str, &str); 5] = [
    ("sort", "dio sort -o old old big"),
    ("sort", "dio sort -m -o old old big"),
    ("uniq", "dio uniq big old"),
    ("tar", "dio tar -cf old big"),
    ("tar", "dio tar -czf old big noise"),
];

/// Runs a bash script in `dir`, in which `dio` is the program under test.
fn bash(dir: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    let path = format!(
        "{}:{}",
        Path::new(DIO).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    command
        .args(["-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

fn run(dir: &Path, script: &str) -> Output {
    bash(dir, script).output().unwrap()
}

#[track_caller]
fn well(dir: &Path, script: &str) -> String {
    let output = run(dir, script);
    assert!(output.status.success(), "{script}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with the files that the commands need. `old` is sorted.
fn filled(fs: &TestFs) -> TempDir {
    let dir = fs.dir();
    well(
        dir.path(),
        "seq -w 400000 >big; head -c 2000000 /dev/urandom >noise; seq -w 5000 | tee old >first",
    );
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_target_that_cannot_be_written_stays_as_it_was() {
    for fs in file_systems() {
        let dir = filled(&fs);
        for (tool, script) in REPLACING {
            // A write beyond the limit kills the process by a signal, or is an error if that signal
            // is ignored.
            for (trap, status) in [("", None), ("trap '' XFSZ;", Some(()))] {
                let before = fs::metadata(dir.path().join("old")).unwrap();
                let output = run(dir.path(), &format!("{trap} ulimit -f 100; exec {script}"));
                assert!(!output.status.success(), "{}: {script}", fs.name);
                // If one of the kernel's workers makes the write for a ring, it fails without a
                // signal.
                assert!(
                    output.status.code().is_some() || status.is_none(),
                    "{}: {script}: {output:?}",
                    fs.name
                );
                assert!(
                    fs::read(dir.path().join("old")).unwrap()
                        == fs::read(dir.path().join("first")).unwrap(),
                    "{tool}"
                );
                let after = fs::metadata(dir.path().join("old")).unwrap();
                assert_eq!(
                    (before.ino(), before.mtime_nsec()),
                    (after.ino(), after.mtime_nsec()),
                    "{tool}"
                );
                let left = names(dir.path());
                let hidden = |name: &&String| name.starts_with(".dio") && trap.is_empty();
                let whole: Vec<_> = left.iter().filter(|name| !hidden(name)).collect();
                assert_eq!(whole, ["big", "first", "noise", "old"], "{}: {script}", fs.name);
            }
        }
    }
}

#[test]
fn pieces_that_exist_are_whole_until_their_successors_are() {
    let dir = filled(&file_systems()[0]);
    for command in
        ["dio split -b 300000 big x", "dio split -n r/4 big x", "dio split -l 90000 big x"]
    {
        well(dir.path(), "for f in xaa xab xac xad; do cp first $f; done");
        let output = run(dir.path(), &format!("ulimit -f 100; exec {command}"));
        assert!(!output.status.success(), "{command}");
        for piece in ["xaa", "xab", "xac", "xad"] {
            let is = fs::read(dir.path().join(piece)).unwrap();
            assert!(
                is == fs::read(dir.path().join("first")).unwrap(),
                "{command}: {piece} has {} bytes",
                is.len()
            );
        }
        well(dir.path(), "chmod 604 xaa; ln xab other; ln -sf first xac");
        let seen = well(
            dir.path(),
            &format!(
                "{command}; cat x* | sort | cmp - big; stat -c %a xaa; cmp xab other; readlink xac"
            ),
        );
        assert_eq!(seen, "604\nfirst\n", "{command}");
        well(dir.path(), "rm x* other; seq -w 5000 >first");
    }
}

#[test]
fn what_else_a_replaced_file_had_stays() {
    for fs in file_systems() {
        for (_, script) in REPLACING {
            let dir = filled(&fs);
            let path = dir.path().join("old");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
            let owned = rustix::process::geteuid().is_root()
                && std::os::unix::fs::chown(&path, Some(1234), Some(4321)).is_ok();
            let attribute =
                rustix::fs::setxattr(&path, "user.kept", b"yes", XattrFlags::empty()).is_ok();
            well(dir.path(), "mkdir sub; ln -s ../old sub/link");
            let script = script.replace(" old", " sub/link");
            well(dir.path(), &script);
            let after = fs::symlink_metadata(&path).unwrap();
            assert_eq!(after.mode() & 0o7777, 0o640, "{}: {script}", fs.name);
            assert!(after.len() != fs::metadata(dir.path().join("first")).unwrap().len());
            assert!(!owned || (after.uid(), after.gid()) == (1234, 4321), "{}: {script}", fs.name);
            if attribute {
                let mut value = [0; 8];
                let length = rustix::fs::getxattr(&path, "user.kept", &mut value[..]);
                assert_eq!(
                    length.map(|length| value[..length].to_vec()),
                    Ok(b"yes".to_vec()),
                    "{}: {script}",
                    fs.name
                );
            }
            assert!(fs::symlink_metadata(dir.path().join("sub/link")).unwrap().is_symlink());
            let left = names(dir.path());
            assert!(
                left.iter().all(|name| !name.starts_with('.')),
                "{}: {script}: {left:?}",
                fs.name
            );
        }
    }
}

#[test]
fn a_file_with_other_names_keeps_them() {
    for fs in file_systems() {
        for (_, script) in REPLACING {
            let dir = filled(&fs);
            well(dir.path(), &format!("ln old hard; {script}; cmp old hard"));
            let (old, hard) = (dir.path().join("old"), dir.path().join("hard"));
            assert_eq!(
                fs::metadata(&old).unwrap().ino(),
                fs::metadata(&hard).unwrap().ino(),
                "{}: {script}",
                fs.name
            );
            let output = run(
                dir.path(),
                &format!(
                    "cp --remove-destination first old; ln -f old hard; ulimit -f 100; exec \
                     {script}"
                ),
            );
            assert!(
                !output.status.success()
                    && fs::read(&hard).unwrap() == fs::read(dir.path().join("first")).unwrap()
            );
            assert_eq!(
                names(dir.path()).iter().filter(|name| !name.starts_with('.')).count(),
                5,
                "{}: {script}",
                fs.name
            );
        }
    }
}

#[test]
fn a_full_disk_keeps_the_old_and_says_what_can_be_done() {
    let script = "mkdir d && mount -t tmpfs -o size=4m dio-test d && cd d && seq -w 300000 >old && cp old ../first &&
        dio sort -r -o old old; echo $?; cmp old ../first && dio sort -r --in-place -o old old && head -n 1 old && ls -A";
    let dir = file_systems()[0].dir();
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "bash", "-c", script])
        .current_dir(dir.path())
        .env(
            "PATH",
            format!(
                "{}:{}",
                Path::new(DIO).parent().unwrap().display(),
                std::env::var("PATH").unwrap()
            ),
        )
        .output()
        .unwrap();
    if said(&output).contains("unshare:") || said(&output).contains("mount:") {
        return skip!("no mounts of one's own: {}", said(&output));
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n300000\nold\n", "{output:?}");
    let words = said(&output);
    assert!(words.contains("No space left") && words.contains("--in-place"), "{words}");
}

#[test]
fn a_descriptor_of_the_process_keeps_its_file() {
    let dir = filled(&file_systems()[0]);
    // As with GNU sort, which opens the file again: the shell writes at the offset of its own
    // descriptor.
    well(
        dir.path(),
        "(dio sort -o /dev/stdout big; echo end) >old; test \"$(head -n 1 old)\" = end",
    );
    assert_eq!(
        well(
            dir.path(),
            "dio sort -o /dev/fd/3 first 3>third; cmp third first; dio uniq first /dev/null"
        ),
        ""
    );
}

#[test]
fn a_receipt_replaces_nothing_but_a_receipt() {
    let setup = "printf 'one\\n' >s1; printf 'two\\n' >s2; printf 'three\\n' >s3; cp s2 link; ln \
                 -f s2 hard; ln -sf s2 sym";
    let dir = file_systems()[0].dir();
    for (script, status) in [
        ("dio cp --receipt s2 s2 s3", 1),
        ("dio cp --receipt s1 s2 s3", 1),
        ("dio cp --receipt hard s2 s3", 1),
        ("dio cp --receipt sym s1 s3", 1),
        ("dio cp --receipt new s1 new", 1),
        ("dio cat --receipt s1 s2 >/dev/null", 1),
        ("dio cat --receipt s3 s2 >s3", 1),
        ("dio cat --receipt s2 <s2 >/dev/null", 1),
        ("dio dd --receipt s1 if=s1 of=s3 status=none", 1),
        ("dio dd --receipt new if=s1 of=new status=none", 1),
        ("dio tee --receipt s3 s3 <s1 >/dev/null", 1),
        ("dio sort --receipt s1 s1 -o s3", 2),
        ("dio sort --receipt new s1 -o new", 2),
        ("dio uniq --receipt s3 s1 s3", 1),
        ("dio split --receipt s1 -b 1 s1 p", 1),
        ("dio sum --receipt s2 s1 s2", 1),
        ("dio sha256sum --receipt s1 s2", 1),
        ("dio tar --receipt s3 -cf s3 s1", 2),
        ("dio gzip --receipt s1 s2", 1),
        ("dio zstd --receipt s1 s2", 1),
        ("dio cat --receipt no/where s1 >/dev/null", 1),
    ] {
        well(dir.path(), setup);
        let before = names(dir.path());
        let output = run(dir.path(), script);
        assert_eq!(output.status.code(), Some(status), "{script}: {output:?}");
        assert!(said(&output).contains("receipt"), "{script}: {output:?}");
        assert_eq!(names(dir.path()), before, "{script}");
        let shell = if script.contains(">s3") { "" } else { "three\n" };
        assert_eq!(
            well(dir.path(), "cat s1 s2 s3; rm -f s3"),
            format!("one\ntwo\n{shell}"),
            "{script}"
        );
    }
}

#[test]
fn a_receipt_that_a_tree_holds_or_makes_replaces_no_file_of_it() {
    let dir = file_systems()[0].dir();
    // A copy that was made under the name of the receipt stays; so does an older receipt that was
    // archived.
    for (script, status) in [
        ("mkdir t; echo x >t/f; dio cp -r --receipt u/f t u", 1),
        ("mkdir -p u/t; dio cp -r --receipt u/t/f t u; r=$?; cat u/t/f; exit $r", 1),
        ("dio cp --receipt r t/f g; cp r t/r; dio tar --receipt t/r -cf a.tar t", 2),
        ("dio cp --receipt r t/f g && dio cp --receipt r t/f g && grep -q command r", 0),
    ] {
        let output = run(dir.path(), script);
        assert_eq!(output.status.code(), Some(status), "{script}: {output:?}");
        assert_eq!(status != 0, said(&output).contains("receipt"), "{script}: {output:?}");
    }
    assert_eq!(well(dir.path(), "cat u/t/f; tar -tf a.tar"), "x\nt/\nt/f\nt/r\n");
}

/// The name of a copy with `--parents` is determined before anything is copied.
#[test]
fn a_receipt_is_no_target_below_its_parents() {
    let dir = file_systems()[0].dir();
    let output =
        run(dir.path(), "mkdir -p a d/a; echo x >a/b; dio cp --parents --receipt d/a/b a/b d");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("receipt"), "{output:?}");
    assert!(!dir.path().join("d/a/b").exists(), "it was copied first");
}

#[test]
fn a_name_that_is_no_text_does_not_lose_the_receipt() {
    let dir = file_systems()[0].dir();
    let name = std::ffi::OsStr::from_bytes(b"f\xff");
    fs::write(dir.path().join(name), "x").unwrap();
    for script in
        ["dio cp --receipt r f* g", "dio cat --receipt r f* >g", "dio sha256sum --receipt r f* >g"]
    {
        let text = well(dir.path(), &format!("{script} && cat r; rm r"));
        assert!(text.contains("f\u{fffd}\""), "{script}: {text}");
    }
}

#[test]
fn a_link_of_a_name_speaks_under_it_at_run_time() {
    let dir = file_systems()[0].dir();
    let failing = [
        ("cp", "none x"),
        ("cat", "none"),
        ("dd", "if=none"),
        ("tar", "-xf none"),
        ("tee", "no/ne"),
        ("split", "none"),
        ("sort", "none"),
        ("uniq", "none"),
        ("sha256sum", "none"),
        ("cksum", "none"),
        ("gzip", "none"),
        ("gunzip", "none"),
        ("zstd", "none"),
    ];
    for (name, args) in failing {
        let output = run(dir.path(), &format!("ln -s {DIO} {name}; ./{name} {args} </dev/null"));
        let own = match name {
            "gunzip" => "gzip",
            own => own,
        };
        assert!(
            !output.status.success() && said(&output).starts_with(&format!("{own}: ")),
            "{output:?}"
        );
        assert!(!said(&output).contains("dio"), "{output:?}");
    }
    let asked = run(dir.path(), "touch a b; ./cp -iv a b <<<n; ./cp a; ./cp -r . sub");
    assert!(said(&asked).contains("cp: overwrite") && !said(&asked).contains("dio"), "{asked:?}");
}

#[test]
fn few_descriptors_are_enough_to_sort() {
    let dir = file_systems()[0].dir();
    well(
        dir.path(),
        "seq 200000 | sort -R --random-source=/dev/zero >big; sort big >sorted; cp big old",
    );
    well(dir.path(), "for i in $(seq 31); do sed -n \"$i~31p\" sorted >m$i; done");
    for (limit, script) in [
        (16, "dio sort -S 1M -T . big >out"),
        (20, "dio sort -S 1M -T . -o out big"),
        (20, "dio sort -S 1M -T . -o old old && mv old out"),
        (16, "dio sort -m --batch-size=8 m? m?? >out"),
        (20, "dio sort -m --batch-size=8 -o out m? m??"),
        (100, "dio sort -S 1M -T . big >out"),
        (110, "dio sort -S 1M -T . big >out"),
    ] {
        assert_eq!(
            well(dir.path(), &format!("(ulimit -n {limit}; {script}) && cmp out sorted; rm out")),
            "",
            "{script}"
        );
    }
}

#[test]
fn cp_takes_beginnings_of_words_and_follows_posix() {
    let dir = file_systems()[0].dir();
    let setup =
        "rm -rf t && mkdir t && cd t && echo x >f && ln f g && mkdir d && ln -s away dangling";
    for line in [
        "cp --preserve=link f g d",
        "cp --preserve=m,o,ti f d",
        "cp --no-preserve=mod f d",
        "cp --sparse=al f d",
        "cp --reflink=au f d",
        "POSIXLY_CORRECT=1 cp f dangling",
        "cp f dangling",
        "POSIXLY_CORRECT=1 cp -r d dangling",
    ] {
        let look = "echo $?; find . -printf '%P %y %m %n %l %s\\n' | sort";
        let seen = |tool: &str| {
            let script = format!("{setup}; {} 2>&1; {look}", line.replace("cp ", tool));
            well(dir.path(), &script).replace("dio cp:", "cp:")
        };
        assert_eq!(seen("dio cp "), seen("cp "), "{line}");
    }
}

/// Ends a process at a random moment of its run.
fn end_somewhere(child: &mut Child, rng: &mut Rng, millis: u64) -> Option<i32> {
    std::thread::sleep(Duration::from_micros(rng.range(0..millis * 1000)));
    let signal = *rng.pick(&[Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP]);
    // The process may have ended by itself.
    let _ = kill_process(Pid::from_child(child), signal);
    child.wait().unwrap().signal()
}

#[test]
fn soak_a_run_that_is_ended_anywhere_leaves_the_old_or_the_new() {
    let all = file_systems();
    for seed in Soak::of(25) {
        let mut rng = seed.rng();
        let fs = rng.pick(&all);
        let (tool, script) = *rng.pick(&REPLACING);
        let dir = fs.dir();
        well(
            dir.path(),
            "seq -w 60000 >big; head -c 300000 /dev/urandom >noise; seq -w 5000 | tee old >first",
        );
        let links = rng.bool(0.3) && {
            well(dir.path(), "ln old hard");
            true
        };
        // The expected new contents. An archive has the same bytes in each run, except one that
        // several threads compress.
        well(dir.path(), &format!("cp -p old keep; {script}; cp old new; cp keep old; rm keep"));
        let before = names(dir.path());
        let mut child =
            bash(dir.path(), &format!("exec {script}")).stderr(Stdio::null()).spawn().unwrap();
        let signal = end_somewhere(&mut child, &mut rng, 120);
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let is = read("old");
        let whole = is == read("first") || is == read("new");
        // If the target has other names, it is copied into, and SIGKILL, which cannot be delayed,
        // may leave it torn.
        let torn = links && signal == Some(9);
        assert!(whole || torn, "{}: {tool} ended by {signal:?} left {} bytes", fs.name, is.len());
        assert!(!links || read("hard") == is);
        let mut left = names(dir.path());
        if signal == Some(9) {
            // A kill between two system calls, or on a file system without unnamed files, leaves a
            // temporary name.
            left.retain(|name| !name.starts_with(".dio-"));
        }
        assert_eq!(left, before, "{}: {tool} ended by {signal:?}", fs.name);
    }
}

/// A command line on the files of [`soak_lines`] that GNU's tools accept as well.
fn random_line(rng: &mut Rng) -> String {
    let target = *rng.pick(&["old", "new", "hard", "sym", "dangling", "ro", "sub/f"]);
    let source = *rng.pick(&["big", "old", "hard", "sym", "empty", "sub/g"]);
    match rng.range(0..6) {
        0 | 1 => {
            let flags = *rng.pick(&["", "-r", "-u", "-n", "-S 64k", "-k1.2", "-z"]);
            format!("sort {flags} -o {target} {source}")
        }
        2 => {
            format!("sort -m {} -o {target} old {source}", rng.pick(&["", "-u", "--batch-size=2"]))
        }
        3 if source != target => {
            format!("uniq {} big {target}", rng.pick(&["", "-c", "-d", "-u", "-w1"]))
        }
        4 => format!(
            "split {} {source} ol",
            rng.pick(&["-n 3", "-n l/3", "-n r/3", "-l 500", "-b 7000"])
        ),
        _ => format!(
            "cp {} {source} {target}",
            rng.pick(&["", "-p", "-f", "-a", "-d", "--preserve=link", "-l", "-u", "-v"])
        ),
    }
}

#[test]
fn soak_lines_leave_what_the_system_s_tools_leave() {
    let setup = "seq 2000 | sed 's/\\(.\\)$/\\1\\n\\1/' >big; seq -w 300 >old; ln old hard; ln -s old sym; ln -s away dangling
        printf 'b\\na\\n' >ro; chmod 444 ro; : >empty; mkdir sub; seq 50 >sub/f; seq 40 >sub/g
        seq 9 >olab; ln -s ../big olac
        touch -d 2010-01-01 big old ro empty sub/f sub/g olab";
    let look = "find . ! -name bin -printf '%P %y %m %n %l\\n' | sort; find . -type f ! -path \
                './bin/*' | sort | xargs md5sum";
    let fs = &file_systems()[0];
    for seed in Soak::of(30) {
        let mut rng = seed.rng();
        let lines: Vec<String> = (0..rng.range(1..4)).map(|_| random_line(&mut rng)).collect();
        let script = lines
            .iter()
            .map(|line| format!("{line} </dev/null 2>&1; echo $?; "))
            .collect::<String>();
        let seen = |prefix: &str| {
            let dir = fs.dir();
            let script = if prefix.is_empty() {
                script.clone()
            } else {
                script
                    .replace("sort ", "dio sort ")
                    .replace("uniq ", "dio uniq ")
                    .replace("split ", "dio split ")
                    .replace("cp ", "dio cp ")
            };
            let text = well(
                dir.path(),
                &format!(
                    "{setup}; {{ {script} }} >../$$.said; {look}; cat ../$$.said; rm ../$$.said"
                ),
            );
            text.replace("dio ", "")
        };
        assert_eq!(seen("dio"), seen(""), "{script}");
    }
}
