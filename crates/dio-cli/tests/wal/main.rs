//! `dio wal` as a user runs it: on logs that are sound, damaged or being written, and without a
//! log.

mod damage;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dio_test::{Output, Rng};
use dio_wal::{Log, Lsn, Options};
use serde_json::Value;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.arg("wal").env("LC_ALL", "C.UTF-8").env("RUST_BACKTRACE", "0");
    command
}

fn wal(words: &str, paths: &[&Path]) -> Output {
    dio_test::run(command().args(words.split_whitespace()).args(paths))
}

#[track_caller]
fn status(output: &Output, status: i32) -> &Output {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    output
}

fn options() -> Options {
    let mut options = Options::new();
    options.segment(64 << 10).buffer(16 << 10).block(512).idle_mark(None);
    options
}

fn record(number: u64) -> Vec<u8> {
    let mut random = Rng::new(number);
    let length = random.range_usize(0..5000);
    let mut bytes = format!("record {number} ").into_bytes();
    bytes.extend(random.bytes(length));
    bytes
}

/// Appends records with these numbers, and commits each one.
fn fill(path: &Path, numbers: std::ops::Range<u64>) -> Vec<Lsn> {
    let log = Log::open(path, &options()).unwrap();
    let lsns = numbers.map(|number| {
        log.append(&record(number)).inspect(|lsn| log.commit(*lsn).unwrap()).unwrap()
    });
    let lsns = lsns.collect();
    log.close().unwrap();
    lsns
}

fn lines(output: &Output) -> Vec<Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Changes a byte of a record.
fn damage(path: &Path, lsn: Lsn) -> String {
    let layout = dio_wal::Layout::new(512, 64 << 10).unwrap();
    let (number, offset) = layout.locate(lsn.0 + 30);
    let name = dio_wal::format::segment_name(number);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path.join(&name)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
    name
}

#[test]
fn dump_shows_what_it_is_asked_for() {
    let dir = dio_test::file_systems()[0].dir();
    let lsns = fill(dir.path(), 0..60);
    let all = wal("dump --json", &[dir.path()]);
    let found: Vec<u64> =
        lines(status(&all, 0)).iter().map(|line| line["lsn"].as_u64().unwrap()).collect();
    assert_eq!(found, lsns.iter().map(|lsn| lsn.0).collect::<Vec<_>>());
    let some =
        wal(&format!("dump --json --hex --from {} --to {}", lsns[20], lsns[23]), &[dir.path()]);
    let some = lines(status(&some, 0));
    assert_eq!(some.len(), 3);
    for (line, number) in some.iter().zip(20..) {
        let digits: String = record(number).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (line["data"].as_str(), line["checksum"].as_str()),
            (Some(&digits[..]), Some("good"))
        );
    }
    let raw = command().args(["dump", "--raw", "-n", "5"]).arg(dir.path()).output().unwrap();
    assert!(raw.stdout == (0..5).flat_map(record).collect::<Vec<u8>>());
    let marks = wal("dump --json --marks -n 3", &[dir.path()]);
    assert!(lines(&marks).iter().any(|line| line["type"] == "mark" && line["durable"] == 0));
    let text = wal("dump -n 1 --hex", &[dir.path()]);
    assert!(text.stdout.starts_with("           LSN  segment"), "{text:?}");
    assert!(text.stdout.contains("72 65 63 6f 72 64 20 30"), "{text:?}");
}

#[test]
fn verify_tells_sound_from_damaged_and_from_no_log() {
    let dir = dio_test::file_systems()[0].dir();
    let lsns = fill(dir.path(), 0..60);
    let sound = wal("verify", &[dir.path()]);
    assert!(status(&sound, 0).stdout.ends_with("verdict   sound\n"), "{sound:?}");
    assert!(
        sound.stdout.contains("durable   all: the log ends with a mark that says so"),
        "{sound:?}"
    );
    let name = damage(dir.path(), lsns[30]);
    let bad = wal("verify --json", &[dir.path()]);
    let found: Value = serde_json::from_str(&status(&bad, 1).stdout).unwrap();
    assert_eq!((&found["sound"], &found["records"]), (&Value::from(false), &Value::from(30)));
    let words = found["damage"].as_str().unwrap();
    assert!(words.contains(&format!("{}/{name}' at byte ", dir.path().display())), "{words}");
    assert!(words.contains(&format!("LSN {} cannot be read", lsns[30])), "{words}");
    let quiet = wal("verify -q", &[dir.path()]);
    assert_eq!((status(&quiet, 1).stdout.as_str(), quiet.stderr.as_str()), ("", ""));

    let dump = wal("dump --json", &[dir.path()]);
    let dumped = lines(status(&dump, 1));
    let gap = dumped.iter().find(|line| line["type"] == "damage").unwrap();
    assert_eq!((&gap["lsn"], dumped.len()), (&Value::from(lsns[30].0), 60));
    assert!(gap["reason"].as_str().unwrap().starts_with("a record whose checksum is"), "{gap}");

    let empty = dio_test::file_systems()[0].dir();
    let none = wal("verify", &[empty.path()]);
    assert!(
        status(&none, 2).stderr.contains("holds no log: there are no segments in it"),
        "{none:?}"
    );
    let nowhere = wal("verify", &[&empty.path().join("x")]);
    assert!(status(&nowhere, 2).stderr.ends_with("x': No such file or directory\n"), "{nowhere:?}");
}

#[test]
fn a_missing_segment_is_named_and_the_sound_ones_on_both_sides_are_shown() {
    let dir = dio_test::file_systems()[0].dir();
    let lsns = fill(dir.path(), 0..300);
    let layout = dio_wal::Layout::new(512, 64 << 10).unwrap();
    let name = dio_wal::format::segment_name(5);
    std::fs::remove_file(dir.path().join(&name)).unwrap();
    let named = format!("{}/{name}", dir.path().display());
    for words in ["verify", "dump", "tail --from 0", "tail -n 400"] {
        let output = wal(words, &[dir.path()]);
        assert!(
            format!("{}{}", status(&output, 1).stdout, output.stderr).contains(&named),
            "{words}: {output:?}"
        );
    }
    let shown = |words: &str| -> Vec<u64> {
        let output = wal(words, &[dir.path()]);
        lines(&output)
            .iter()
            .filter(|line| line["type"] == "record")
            .map(|line| line["lsn"].as_u64().unwrap())
            .collect()
    };
    let dumped = shown("dump --json");
    let (start, end) = (Lsn(layout.segment_start(5)), Lsn(layout.segment_start(6)));
    // The last record before the gap may reach into it.
    let before = lsns.partition_point(|lsn| *lsn < start) - 1;
    assert_eq!(dumped[..before], lsns[..before].iter().map(|lsn| lsn.0).collect::<Vec<_>>());
    assert_eq!(dumped.last(), lsns.last().map(|lsn| &lsn.0));
    assert!(dumped.iter().all(|lsn| *lsn < start.0 || *lsn >= end.0));
    assert_eq!(
        shown("tail --from 0 --json"),
        dumped.iter().copied().filter(|lsn| *lsn < start.0).collect::<Vec<_>>()
    );
    // Commands that read only the end, or only records behind the gap, do not notice the gap.
    status(&wal("tail -n 2", &[dir.path()]), 0);
    let behind = wal(&format!("dump --json --from {}", lsns[280]), &[dir.path()]);
    assert_eq!(lines(status(&behind, 0)).len(), 20);
    let copies = dio_test::file_systems()[0].dir();
    let archived = wal("archive", &[dir.path(), copies.path()]);
    assert!(status(&archived, 1).stderr.contains(&named), "{archived:?}");
    assert!(copies.path().join(dio_wal::format::segment_name(3)).exists());
}

/// Any user who may write to the directory of copies can have created the name before and have it
/// open.
#[test]
fn what_has_the_name_of_a_copy_is_not_written_into() {
    let (dir, copies) = (dio_test::file_systems()[0].dir(), dio_test::file_systems()[0].dir());
    fill(dir.path(), 0..60);
    let first = dio_wal::format::segment_name(0);
    let planted = std::fs::File::create(copies.path().join(format!("{first}.part"))).unwrap();
    status(&wal("archive", &[dir.path(), copies.path()]), 0);
    assert_eq!(planted.metadata().unwrap().len(), 0);
    assert!(std::fs::metadata(copies.path().join(first)).unwrap().len() > 0);
}

#[test]
fn segments_that_were_truncated_before_they_were_archived_are_named() {
    let (dir, copies) = (dio_test::file_systems()[0].dir(), dio_test::file_systems()[0].dir());
    fill(dir.path(), 0..60);
    status(&wal("archive", &[dir.path(), copies.path()]), 0);
    let lsns = fill(dir.path(), 60..400);
    let log = Log::open(dir.path(), &options()).unwrap();
    log.truncate_before(lsns[300]).unwrap();
    log.close().unwrap();
    let late = wal("archive --json", &[dir.path(), copies.path()]);
    let told = lines(status(&late, 1));
    let missed = told.last().unwrap()["missed"].as_array().unwrap().clone();
    let [first, last] = [missed.first(), missed.last()].map(|name| name.unwrap().as_str().unwrap());
    assert!(
        late.stderr.contains(&format!("the segments '{first}' to '{last}' are missing")),
        "{late:?}"
    );
    let numbers: Vec<u64> = missed
        .iter()
        .map(|name| {
            u64::from_str_radix(name.as_str().unwrap().trim_end_matches(".wal"), 16).unwrap()
        })
        .collect();
    assert!(
        numbers.len() > 3 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{missed:?}"
    );
    let next = numbers.last().unwrap() + 1;
    assert!(copies.path().join(dio_wal::format::segment_name(next)).exists());
    status(&wal("archive", &[dir.path(), copies.path()]), 0);
}

#[test]
fn salvage_takes_all_but_what_is_damaged() {
    let dir = dio_test::file_systems()[0].dir();
    let lsns = fill(dir.path(), 0..60);
    let (new, map) = (dir.path().join("new"), dir.path().join("map"));
    let sound = wal("salvage --dry-run", &[dir.path()]);
    assert!(status(&sound, 0).stdout.starts_with("60 records of "), "{sound:?}");
    damage(dir.path(), lsns[30]);
    let words = ["salvage", "--json", "--map"];
    let output = dio_test::run(command().args(words).arg(&map).args([dir.path(), &new]));
    let told: Value = serde_json::from_str(&status(&output, 1).stdout).unwrap();
    assert_eq!(
        (&told["records"], &told["lost"][0]["from"]),
        (&Value::from(59), &Value::from(lsns[30].0))
    );
    assert!(output.stderr.contains(&format!("lost: LSN {} to ", lsns[30])), "{output:?}");
    assert_eq!(std::fs::read_to_string(map).unwrap().lines().count(), 59);
    status(&wal("verify", &[&new]), 0);
    let raw = command().args(["dump", "--raw"]).arg(&new).output().unwrap().stdout;
    let expected: Vec<u8> = (0..60).filter(|number| *number != 30).flat_map(record).collect();
    assert!(raw == expected);
    let raw = command().args(["salvage", "--raw"]).arg(dir.path()).output().unwrap();
    assert!(raw.stdout == expected && raw.status.code() == Some(1));
    let again = wal("salvage", &[dir.path(), &new]);
    assert!(status(&again, 2).stderr.contains("is not empty"), "{again:?}");
}

/// Changes a byte of the header of segment `number`.
fn damage_header(path: &Path, number: u64) {
    let name = dio_wal::format::segment_name(number);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path.join(name)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 30).unwrap();
    file.write_all_at(&[!byte[0]], 30).unwrap();
}

#[test]
fn a_damaged_header_is_passed_over_and_told() {
    for place in [0, 1, 2] {
        let dir = dio_test::file_systems()[0].dir();
        let lsns = fill(dir.path(), 0..60);
        let layout = dio_wal::Layout::new(512, 64 << 10).unwrap();
        let number = [0, 1, layout.locate(lsns[59].0).0][place];
        damage_header(dir.path(), number);
        let path = dir.path().join(dio_wal::format::segment_name(number));
        let told = format!(
            "dio: '{}' is not a segment of this log: the checksum of its header is wrong",
            path.display()
        );
        let dump = wal("dump --json", &[dir.path()]);
        let lines = lines(status(&dump, 1));
        assert!(
            dump.stderr.starts_with(&told) && dump.stderr.contains("dio wal salvage"),
            "{dump:?}"
        );
        assert_eq!(lines.len(), 61);
        let at = lines.iter().position(|line| line["type"] == "damage").unwrap();
        assert_eq!(lines[at]["lsn"], layout.segment_start(number));
        assert_eq!(lines[at]["reason"], "the checksum of its header is wrong");
        assert!(at == 0 || lines[at - 1]["lsn"].as_u64().unwrap() < layout.segment_start(number));
        let tail = wal("tail --raw -n 1000", &[dir.path()]);
        assert!(status(&tail, 1).stderr.starts_with(&told), "{tail:?}");
        let verify = wal("verify --json", &[dir.path()]);
        let found: Value = serde_json::from_str(&status(&verify, 1).stdout).unwrap();
        assert_eq!(found["records"], 60);
        assert!(found["damage"].as_str().unwrap().contains("header is wrong"), "{found}");
        let new = dir.path().join("new");
        let salvage = wal("salvage --json", &[dir.path(), &new]);
        let found: Value = serde_json::from_str(&status(&salvage, 1).stdout).unwrap();
        assert_eq!((&found["records"], &found["lost"]), (&Value::from(60), &Value::Array(vec![])));
        assert_eq!(found["headers"][0]["first_lsn"], layout.segment_start(number));
        assert_eq!(lsns.len(), fill_count(&new));
    }
    let empty = dio_test::file_systems()[0].dir();
    let none = wal("salvage --dry-run", &[empty.path()]);
    assert!(status(&none, 2).stderr.contains("holds no log"), "{none:?}");
}

/// If the last segment was cut short, no record and no mark behind the cut is left.
#[test]
fn a_last_segment_that_was_cut_short_is_told_by_all() {
    for left in [0, 512, 20_000, 65_024] {
        let dir = dio_test::file_systems()[0].dir();
        let lsns = fill(dir.path(), 0..60);
        let layout = dio_wal::Layout::new(512, 64 << 10).unwrap();
        let path = dir.path().join(dio_wal::format::segment_name(layout.locate(lsns[59].0).0));
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        let verify = wal("verify", &[dir.path()]);
        assert!(status(&verify, 1).stdout.contains("DAMAGED"), "{verify:?}");
        let fault = if left == 0 {
            "shorter than a segment header"
        } else {
            "which is not the size of a segment"
        };
        for words in ["salvage --dry-run", "dump --json", "tail -n 2", "archive"] {
            let to = dir.path().join("to");
            let _ = std::fs::create_dir(&to);
            let paths = [dir.path(), &to];
            let told = wal(words, if words == "archive" { &paths } else { &paths[..1] });
            assert!(status(&told, 1).stderr.contains(fault), "{words} {left}: {told:?}");
            assert!(!told.stdout.contains("nothing is lost"), "{words}: {told:?}");
        }
    }
}

/// The names of everything that salvage makes are durable: their directories are synced afterwards.
#[test]
fn salvage_syncs_the_directories_of_what_it_makes() {
    let dir = dio_test::file_systems()[0].dir();
    fill(dir.path(), 0..3);
    let (new, map, trace) =
        (dir.path().join("to/new"), dir.path().join("maps/map"), dir.path().join("trace"));
    std::fs::create_dir(dir.path().join("to")).unwrap();
    std::fs::create_dir(dir.path().join("maps")).unwrap();
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-e", "trace=mkdir,openat,fsync", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_dio"));
    let output =
        dio_test::run(strace.args(["wal", "salvage", "--map"]).arg(&map).args([dir.path(), &new]));
    status(&output, 0);
    let trace = std::fs::read_to_string(trace).unwrap();
    for (made, parent) in [(&new, dir.path().join("to")), (&map, dir.path().join("maps"))] {
        let wants = |line: &&str| {
            line.contains(made.to_str().unwrap())
                && (line.contains("mkdir") || line.contains("O_CREAT"))
        };
        let mut lines = trace.lines().skip_while(|line| !wants(line));
        assert!(lines.next().is_some(), "{} is not made in {trace}", made.display());
        // strace may cut a call in two, so the closing parenthesis need not follow.
        let synced = format!("<{}>", std::fs::canonicalize(parent).unwrap().display());
        assert!(
            lines.any(|line| line.contains("fsync(") && line.contains(&synced)),
            "{synced}: {trace}"
        );
    }
}

fn fill_count(path: &Path) -> usize {
    lines(status(&wal("dump --json", &[path]), 0)).len()
}

/// A command that runs until this is dropped.
struct Running(Child);

impl Running {
    fn start(words: &str, paths: &[&Path]) -> Running {
        let mut command = command();
        command
            .args(words.split_whitespace())
            .args(paths)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    fn lines(&mut self) -> impl Iterator<Item = Value> + use<> {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last read of `tail` looks for records behind the end; it fails.
#[test]
fn an_end_that_cannot_be_read_is_an_error() {
    let dir = dio_test::file_systems()[0].dir();
    let (log, trace) = (dir.path().join("log"), dir.path().join("trace"));
    std::fs::create_dir(&log).unwrap();
    fill(&log, 0..5);
    let tail = |rule: &str| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", rule, "-o"]).arg(&trace).arg(env!("CARGO_BIN_EXE_dio"));
        dio_test::run(strace.args(["wal", "tail", "-n", "2"]).arg(&log).env("LC_ALL", "C.UTF-8"))
    };
    status(&tail("trace=preadv2"), 0);
    let reads = std::fs::read_to_string(&trace).unwrap().matches("preadv2(").count();
    let failed = tail(&format!("inject=preadv2:error=EIO:when={reads}"));
    let told = format!("cannot read '{}", log.display());
    assert!(status(&failed, 2).stderr.contains(&told), "{failed:?}");
}

/// `tail` waits for the reader of its output while the log is truncated far beyond it.
#[test]
fn tail_that_is_overtaken_goes_on_with_what_is_there_and_tells() {
    let dir = dio_test::file_systems()[0].dir();
    let lsns = fill(dir.path(), 0..1200);
    let mut tail = command()
        .args(["tail", "--json", "--hex", "--from", "0"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(tail.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    let log = Log::open(dir.path(), &options()).unwrap();
    log.truncate_before(lsns[1100]).unwrap();
    log.close().unwrap();
    let printed: Vec<u64> = std::iter::once(first)
        .chain(output.lines().map(Result::unwrap))
        .map(|line| serde_json::from_str::<Value>(&line).unwrap()["lsn"].as_u64().unwrap())
        .collect();
    let ended = tail.wait_with_output().unwrap();
    let words = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), words.contains("overtaken")), (Some(1), true), "{words}");
    assert!(printed.len() < lsns.len() && printed.is_sorted(), "{} records", printed.len());
    let left: Vec<u64> = lsns[1100..].iter().map(|lsn| lsn.0).collect();
    assert!(printed.ends_with(&left), "{} records", printed.len());
}

#[test]
fn tail_follows_a_log_that_is_being_written() {
    let dir = dio_test::file_systems()[0].dir();
    let before = fill(dir.path(), 0..30);
    let last = wal("tail -n 3 --json", &[dir.path()]);
    let found: Vec<u64> =
        lines(status(&last, 0)).iter().map(|line| line["lsn"].as_u64().unwrap()).collect();
    assert_eq!(found, before[27..].iter().map(|lsn| lsn.0).collect::<Vec<_>>());
    assert_eq!(lines(&wal("tail -n 1000 --json", &[dir.path()])).len(), 30);

    let mut tail = Running::start("tail -f -n 1 --json --rate 200", &[dir.path()]);
    let mut told = tail.lines();
    assert_eq!(told.next().unwrap()["lsn"], before[29].0);
    let log = Log::open(dir.path(), &options()).unwrap();
    for number in 30..130 {
        let lsn = log.append(&record(number)).unwrap();
        log.commit(lsn).unwrap();
        if number % 10 == 0 {
            // Each record is printed while the writer continues.
            while told.next().unwrap()["lsn"] != lsn.0 {}
        }
    }
}

/// A command that does not follow the log ends, even if the writer is faster than the reader.
#[test]
fn what_does_not_follow_ends_on_a_log_that_grows() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let fs = &dio_test::file_systems()[0];
    for (words, to) in
        [("tail -n 2", None), ("dump --json", None), ("verify", None), ("salvage --dry-run", None)]
            .into_iter()
            .chain([("archive", Some("to")), ("salvage --json", Some("new"))])
    {
        let dir = fs.dir();
        let path = dir.path().join("log");
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(dir.path().join("to")).unwrap();
        let log = Log::open(&path, Options::new().segment(1 << 20).idle_mark(None)).unwrap();
        let over = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    // Small records: appending them takes less time than printing them.
                    let mut last = Lsn(0);
                    for _ in 0..20_000 {
                        last = log.append(b"small").unwrap();
                    }
                    log.commit(last).unwrap();
                }
            });
            while log.flushed() < Lsn(1 << 20) {
                std::thread::yield_now();
            }
            let mut command = Command::new("timeout");
            command
                .args(["20", env!("CARGO_BIN_EXE_dio"), "wal"])
                .args(words.split_whitespace())
                .arg(&path);
            command.args(to.map(|to| dir.path().join(to)));
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            over.store(true, Relaxed);
            status.unwrap()
        });
        assert_eq!(ended.code(), Some(0), "{words}");
    }
}

#[test]
fn archive_copies_finished_segments_for_good() {
    let dir = dio_test::file_systems()[0].dir();
    let (log, to) = (dir.path().join("log"), dir.path().join("archive"));
    std::fs::create_dir(&log).unwrap();
    std::fs::create_dir(&to).unwrap();
    let lsns = fill(&log, 0..120);
    let finished = lsns[119].0 / (63 << 10 | 512);
    let first = wal("archive --json", &[&log, &to]);
    let told = lines(status(&first, 0));
    assert_eq!(told.len() as u64, finished + 1);
    assert_eq!(told[finished as usize]["copied"], finished);
    let again = wal("archive --json", &[&log, &to]);
    assert_eq!(lines(status(&again, 0))[0]["copied"], 0);
    // An interrupted copy is started again.
    let name = dio_wal::format::segment_name(2);
    std::fs::rename(to.join(&name), to.join(format!("{name}.part"))).unwrap();
    for number in 3..finished {
        std::fs::remove_file(to.join(dio_wal::format::segment_name(number))).unwrap();
    }
    std::fs::write(to.join(format!("{name}.part")), b"half").unwrap();
    status(&wal("archive", &[&log, &to]), 0);
    for number in 0..finished {
        let name = dio_wal::format::segment_name(number);
        dio_test::same_bytes(log.join(&name), to.join(&name));
    }
    assert_eq!(std::fs::read_dir(&to).unwrap().count() as u64, finished);
    // The copies are a log by themselves, as far as they go.
    status(&wal("verify", &[&to]), 0);

    // A copy of a damaged segment does not get its final name.
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let name = damage(&log, lsns[60]);
    let bad = wal("archive", &[&log, &other]);
    assert!(status(&bad, 1).stderr.contains(&format!("{name}' at byte ")), "{bad:?}");
    assert!(!other.join(&name).exists());
    // Copies of two logs are not mixed.
    let third = dir.path().join("third");
    std::fs::create_dir(&third).unwrap();
    fill(&third, 0..60);
    let mixed = wal("archive", &[&third, &to]);
    assert!(status(&mixed, 2).stderr.contains("archive it elsewhere"), "{mixed:?}");
}

#[test]
fn archive_follows_a_writer_and_may_be_killed() {
    let dir = dio_test::file_systems()[0].dir();
    let (path, to) = (dir.path().join("log"), dir.path().join("archive"));
    std::fs::create_dir(&path).unwrap();
    std::fs::create_dir(&to).unwrap();
    let log = Log::open(&path, options().spares(2)).unwrap();
    log.commit(log.append(b"first").unwrap()).unwrap();
    let (mut next, mut archived) = (0, 0);
    for _ in 0..4 {
        let mut archiver = Running::start("archive --follow --json --rate 500", &[&path, &to]);
        let mut told = archiver.lines();
        for _ in 0..3 {
            let lsn = loop {
                let lsn = log.append(&record(next)).unwrap();
                log.commit(lsn).unwrap();
                next += 1;
                if lsn.0 > archived + (200 << 10) {
                    break lsn;
                }
            };
            // The copies follow each other while the log grows and truncates what is archived.
            archived = told.next().unwrap()["to"].as_u64().unwrap();
            assert!(archived <= lsn.0);
            log.truncate_before(Lsn(archived - (10 << 10))).unwrap();
        }
        drop(archiver);
    }
    log.close().unwrap();
    status(&wal("archive", &[&path, &to]), 0);
    let whole = wal("verify --json", &[&to]);
    let whole: Value = serde_json::from_str(&status(&whole, 0).stdout).unwrap();
    assert_eq!(whole["segments"][0]["number"], 0);
    assert!(
        whole["segments"].as_array().unwrap().iter().all(|segment| segment["bytes"] == 64 << 10)
    );
    assert!(whole["records"].as_u64().unwrap() > 100, "{whole}");
}
