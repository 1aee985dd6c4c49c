//! `dio synctest --witness`: a writer that is killed, a disk that ignores flushes, one that does
//! not, and a witness that is unreachable for a while.
//!
//! The power cut is the shutdown ioctl of ext4 and xfs without a flush of the log, which loses
//! exactly what was not durable. strace(1) simulates the disk that ignores flushes: it answers the
//! writer's `fdatasync` with 0 and does not pass it to the kernel.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::own::{
    MIB, Mounted as Volume, Output, Running, file_systems, json, names, number, until,
};
use crate::synctest_strangers::begin;
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// A witness on this machine. It is killed when this is dropped.
pub(crate) struct Witness {
    pub(crate) child: Child,
    /// Its output behind the first line.
    said: Arc<Mutex<Vec<u8>>>,
    pub(crate) address: String,
    place: PathBuf,
}

impl Witness {
    #[track_caller]
    pub(crate) fn start(address: &str, place: &Path) -> Witness {
        Witness::start_with(address, place, &[])
    }

    #[track_caller]
    pub(crate) fn start_with(address: &str, place: &Path, more: &[&str]) -> Witness {
        let mut command = Command::new(DIO);
        command
            .args(["synctest", "--serve", address])
            .args(more)
            .arg(place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("the witness says {line:?}")).to_owned();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while said.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                lines.lock().append(&mut line);
            }
        });
        Witness { child, said: printed, address, place: place.to_owned() }
    }

    /// Returns its output, once `enough` accepts it.
    #[track_caller]
    pub(crate) fn said(&self, enough: impl Fn(&str) -> bool) -> String {
        let text = || String::from_utf8(self.said.lock().clone()).unwrap();
        until("the witness has printed it", || enough(&text()));
        text()
    }

    /// A connection, and the words of the greeting.
    pub(crate) fn connect(&self) -> (TcpStream, Vec<String>) {
        let stream = TcpStream::connect(&self.address).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        (stream, line.split_whitespace().map(str::to_owned).collect())
    }

    /// The file of the only session.
    fn record(&self) -> Option<PathBuf> {
        let mut names = names(&self.place);
        names.retain(|name| name.ends_with(".session"));
        assert!(names.len() < 2, "{names:?}");
        names.pop().map(|name| self.place.join(name))
    }

    /// The highest number that the witness has recorded.
    fn highest(&self) -> u64 {
        let text = self.record().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let done = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("done ").or(line.strip_prefix("end ")));
        done.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    #[track_caller]
    pub(crate) fn until_kept(&self, enough: u64) {
        until("the witness has kept enough", || self.highest() >= enough);
    }

    pub(crate) fn check(&self, more: &[&str], path: &Path) -> (Option<i32>, Value, Output) {
        let mut command = Command::new(DIO);
        command.args(["synctest", "--check", "--json", "--timeout", "20"]).args(more);
        if !more.contains(&"--record") {
            command.args(["--witness", &self.address]);
        }
        let output = dio_test::run(command.arg(path));
        let found = if output.stdout.is_empty() { Value::Null } else { json(&output.stdout) };
        (output.status.code(), found, output)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn writer(
    command: &mut Command,
    witness: &Witness,
    flags: &str,
    path: &Path,
) -> Running {
    let flags = format!("--json --file-size 1M {flags}");
    Running::spawn(
        command
            .args(["synctest", "--witness", &witness.address])
            .args(flags.split_whitespace())
            .arg(path),
    )
}

pub(crate) fn scratch() -> TempDir {
    file_systems()[0].dir()
}

#[test]
fn a_killed_writer_has_lost_nothing_and_damage_is_found() {
    let ways = [
        "",
        "--method open_datasync",
        "--method rwf_dsync --pattern append --direct off",
        "--method fsync --size 512",
    ];
    for (fs, way) in file_systems().iter().zip(ways.iter().cycle()) {
        let (dir, kept) = (fs.dir(), scratch());
        let witness = Witness::start("127.0.0.1:0", kept.path());
        let path = dir.path().join("blocks");
        // Direct I/O is turned off, because it may not be possible in blocks of 512 bytes.
        let way =
            if way.contains("512") { format!("{way} --direct off") } else { (*way).to_owned() };
        let running = writer(&mut Command::new(DIO), &witness, &way, &path);
        witness.until_kept(40);
        running.signal(Signal::KILL);
        running.end();

        let (status, found, output) = witness.check(&[], &path);
        assert_eq!(status, Some(0), "{}: {output:?}", fs.name);
        let acknowledged = number(&found, "acknowledged");
        assert!(
            acknowledged >= 40 && number(&found, "contiguous") == acknowledged,
            "{}: {found}",
            fs.name
        );
        assert!(
            number(&found, "highest") >= acknowledged && found["lost"] == 0,
            "{}: {found}",
            fs.name
        );
        // The machine was not restarted.
        assert_eq!(found["restarted"], false);
        let record = witness.record().unwrap();
        let (status, again, _) = witness.check(&["--record", record.to_str().unwrap()], &path);
        assert_eq!((status, again), (Some(0), found.clone()), "{}", fs.name);

        damage(&witness, &path, &found);
    }
}

/// Damages data that must be there, in several ways, and checks that each is found.
#[track_caller]
fn damage(witness: &Witness, path: &Path, found: &Value) {
    let acknowledged = number(found, "acknowledged");
    let header = fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&header[..200]).into_owned();
    let words: Vec<u64> =
        text.split(' ').skip(2).take(2).map(|word| word.parse().unwrap()).collect();
    let (size, slots) = (words[0], words[1]);
    let offset = 4096 + (acknowledged - 1) % slots * size;
    let file = File::options().write(true).open(path).unwrap();
    // One byte of the last acknowledged block.
    file.write_all_at(&[!header[offset as usize + 100]], offset + 100).unwrap();
    let (status, found, output) = witness.check(&[], path);
    assert_eq!(status, Some(3), "{output:?}");
    assert_eq!(
        (&found["lost"], number(&found, "contiguous")),
        (&1.into(), acknowledged - 1),
        "{found}"
    );
    assert_eq!(
        (&found["losses"][0]["number"], &found["losses"][0]["offset"]),
        (&acknowledged.into(), &offset.into())
    );
    // The header is damaged too: the session is found by the path, or by its name.
    file.write_all_at(&[0; 64], 0).unwrap();
    for more in [&[][..], &["--session", found["session"].as_str().unwrap()]] {
        assert_eq!(witness.check(more, path).0, Some(3), "{more:?}");
    }
    // The whole file is removed.
    file.set_len(0).unwrap();
    fs::remove_file(path).unwrap();
    let (status, found, output) = witness.check(&[], path);
    assert_eq!(
        (status, &found["file_found"], &found["highest"]),
        (Some(3), &false.into(), &0.into()),
        "{output:?}"
    );
}

/// If the file is not where it was written, no loss is reported: another file system is mounted
/// there, or none, or the file has another name.
#[test]
fn what_is_elsewhere_is_not_lost() {
    for volume in volumes() {
        let (dir, kept) = (scratch(), scratch());
        let witness = Witness::start("127.0.0.1:0", kept.path());
        let path = volume.path.join("blocks");
        let running = writer(&mut Command::new(DIO), &witness, "", &path);
        witness.until_kept(5);
        running.signal(Signal::KILL);
        running.end();
        let record = witness.record().unwrap();
        let more = ["--record", record.to_str().unwrap()];
        assert_eq!(witness.check(&more, &path).0, Some(0));
        let other = dir.path().join("blocks");
        fs::write(dir.path().join("text"), "neither header nor blocks").unwrap();
        fs::create_dir(volume.path.join("below")).unwrap();
        fs::write(volume.path.join("text"), [7; 10_000]).unwrap();
        for (wrong, words) in [
            (other.clone(), "the file system"),
            (dir.path().join("text"), "the file system"),
            (dir.path().join("none/blocks"), "is its file system mounted?"),
            (volume.path.join("block"), "is the name right?"),
            (volume.path.join("text"), "is the name right?"),
            (volume.path.join("below/blocks"), "is the name right?"),
        ] {
            let (status, _, output) = witness.check(&more, &wrong);
            assert!(
                status == Some(1) && output.stderr.contains(words),
                "{}: {output:?}",
                wrong.display()
            );
        }
        // A copy counts like the file itself.
        fs::copy(&path, &other).unwrap();
        assert_eq!(witness.check(&more, &other).0, Some(0));
        // A file that another session has written since belongs to that session.
        let (dir, kept) = (scratch(), scratch());
        let second = Witness::start("127.0.0.1:0", kept.path());
        let running = writer(&mut Command::new(DIO), &second, "", &dir.path().join("blocks"));
        second.until_kept(2);
        running.signal(Signal::KILL);
        running.end();
        let (status, _, output) = witness.check(&more, &dir.path().join("blocks"));
        assert!(status == Some(1) && output.stderr.contains("of session"), "{output:?}");
        fs::remove_file(&path).unwrap();
        let (status, found, output) = witness.check(&more, &path);
        assert_eq!((status, &found["file_found"]), (Some(3), &false.into()), "{output:?}");
    }
}

#[test]
fn what_is_not_durable_is_not_witnessed() {
    let (dir, kept) = (scratch(), scratch());
    let witness = Witness::start("127.0.0.1:0", kept.path());
    for method in ["none", "sync_file_range"] {
        let path = dir.path().join("blocks");
        let output =
            writer(&mut Command::new(DIO), &witness, &format!("--method {method}"), &path).end();
        assert!(
            output.status.code() == Some(2) && output.stderr.contains("that is durable"),
            "{output:?}"
        );
        assert!(!path.exists());
    }
}

fn volumes() -> impl Iterator<Item = Volume> {
    [
        Volume::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB),
        Volume::new(&["mkfs.xfs", "-q", "-f"], 320 * MIB),
    ]
    .into_iter()
    .flatten()
}

#[test]
fn a_disk_that_lies_is_found_out() {
    for volume in volumes() {
        let kept = scratch();
        let witness = Witness::start("127.0.0.1:0", kept.path());
        let path = volume.path.join("blocks");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:retval=0", DIO]);
        let running = writer(&mut strace, &witness, "--method fdatasync --direct off", &path);
        witness.until_kept(20);
        volume.shut_down();
        // All writes of the process fail from here on.
        let output = running.end();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            output.stderr.contains("cannot write to")
                && output.stderr.contains("Input/output error"),
            "{output:?}"
        );
        volume.come_back();
        let (status, found, output) = witness.check(&[], &path);
        assert_eq!(status, Some(3), "{output:?}");
        assert!(number(&found, "acknowledged") >= 20 && number(&found, "lost") > 0, "{found}");
        let losses = found["losses"].as_array().unwrap();
        assert!(losses[0]["found"].as_str().unwrap().contains("nothing (zeros"), "{found}");
        let mut people = Command::new(DIO);
        people.args(["synctest", "--check", "--witness", &witness.address]).arg(&path);
        let output = dio_test::run(&mut people);
        assert!(
            output.status.code() == Some(3) && output.stdout.contains("THE DISK LIED"),
            "{output:?}"
        );
    }
}

#[test]
fn a_disk_that_keeps_its_word_is_not_accused() {
    for (volume, way) in volumes()
        .zip(["--method fdatasync", "--method open_datasync --direct off --pattern append"])
    {
        let kept = scratch();
        let witness = Witness::start("127.0.0.1:0", kept.path());
        let path = volume.path.join("blocks");
        let running = writer(&mut Command::new(DIO), &witness, way, &path);
        witness.until_kept(50);
        // A sync in progress while the file system is shut down may succeed in spite of the
        // shutdown; a power cut would leave no time for that. So the writer is stopped first.
        running.signal(Signal::STOP);
        let tasks = PathBuf::from(format!("/proc/{}/task", running.pid().as_raw_nonzero()));
        let stopped = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        until("every thread has stopped", || fs::read_dir(&tasks).unwrap().flatten().all(stopped));
        volume.shut_down();
        running.signal(Signal::KILL);
        running.end();
        volume.come_back();
        let (status, found, output) = witness.check(&[], &path);
        assert_eq!(status, Some(0), "{way}: {output:?}");
        assert!(number(&found, "acknowledged") >= 50 && found["lost"] == 0, "{found}");
    }
}

#[test]
fn a_witness_that_goes_away_for_a_while_misses_nothing() {
    let (dir, kept) = (scratch(), scratch());
    let mut witness = Witness::start("127.0.0.1:0", kept.path());
    let path = dir.path().join("blocks");
    let running = writer(&mut Command::new(DIO), &witness, "", &path);
    for round in 1..=2 {
        witness.until_kept(round * 50);
        let (address, before) = (witness.address.clone(), witness.highest());
        drop(witness);
        // The writer continues for half a ring without the witness, and then waits.
        std::thread::sleep(std::time::Duration::from_millis(20));
        witness = Witness::start(&address, kept.path());
        assert!(witness.highest() >= before);
        witness.until_kept(before + 1);
    }
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(crate::own::signal_of(&output), Some(2), "{output:?}");
    let written = json(&output.stdout);
    assert_eq!(written["acknowledged"], written["kept_by_witness"], "{written}");
    assert_eq!(number(&written, "acknowledged"), witness.highest());
    let (status, found, _) = witness.check(&[], &path);
    assert_eq!((status, &found["highest"]), (Some(0), &written["acknowledged"]), "{found}");
}

#[test]
fn a_damaged_session_does_not_keep_the_witness_from_starting() {
    let kept = scratch();
    fs::write(kept.path().join(format!("{}.session", "0".repeat(32))), "").unwrap();
    fs::write(kept.path().join("x.session"), "\x1b[2Jnonsense\n").unwrap();
    let witness = Witness::start("127.0.0.1:0", kept.path());
    let said = witness.said(|text| text.lines().count() == 2);
    assert!(
        said.lines()
            .all(|line| line.starts_with("passed over: ") && line.contains("is no session")),
        "{said}"
    );
    let (mut stream, _) = witness.connect();
    stream.write_all(begin(0).0.as_bytes()).unwrap();
    assert_eq!(BufReader::new(stream).lines().next().unwrap().unwrap(), "ok 0");
}
