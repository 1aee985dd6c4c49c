//! Commands that make, fill, move, lengthen, cut off, adopt and remove striped files, stopped at
//! every system call that changes something: by a kill just before it, or by an error from it. What
//! the name leads to then, what is left, that all of that is found, and that the same command
//! helps.
//!
//! How the calls are found and hit is strace(1)'s: a first run counts them, and each later one dies
//! at one of them. A kill leaves what was written; a power cut does not, so some of those that are
//! killed have the file systems stopped too.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::own::{MIB, Mounted as Volume, file_systems};
use dio::stripe::{self, StripePlan};
use dio_test::{Output, Rng, Seed};

const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// Calls that change something; of those that open files, only what makes one counts.
const CHANGES: &str = "openat,write,pwrite64,pwritev,pwritev2,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,\
    link,linkat,unlink,unlinkat,fchown,fchownat,fchmod,chmod,fchmodat,utimensat";

/// Calls of each command that are tried, each with a kill and with an error; more with
/// `DIO_TEST_CASES`.
fn cases() -> usize {
    std::env::var("DIO_TEST_CASES").ok().map_or(5, |text| text.parse().expect("DIO_TEST_CASES is a number"))
}

/// A command, and what it does to a file.
#[derive(Clone)]
struct Scene {
    command: &'static str,
    /// The file.
    name: &'static str,
    /// Makes what the command finds.
    prepare: fn(&Path),
    /// What the name leads to before, and after; `None` when it is free.
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    /// A size between the two may be left, with the bytes of the longer one.
    between: bool,
    /// Whether there is more to do when it has been stopped.
    again: fn(&Path) -> bool,
    /// An error leaves no objects behind.
    tidy: bool,
    /// What it has done is durable.
    durable: bool,
}

/// The call at which a command is stopped: which one of that name in one thread.
type Point = (String, usize);

/// How a command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Kill,
    Error,
}

/// Bytes of the files.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn striped(dir: &Path, contents: &[u8]) {
    let targets = ["a", "b"].map(|name| dir.join(name)).to_vec();
    let path = dir.join("file");
    stripe::create(&path, &StripePlan { stripe: Some(16 << 10), count: Some(3), targets, force: false }).unwrap();
    dio::OpenOptions::new().write(true).open(path).unwrap().write_at(contents, 0).unwrap();
}

fn filled(dir: &Path) {
    striped(dir, &bytes(1, 300_000));
}

fn is_plain(path: &Path) -> bool {
    dio_stripe::descriptor_at(path).is_none()
}

/// Commands after which there is another file, or none.
fn making_and_removing() -> Vec<Scene> {
    let base = Scene {
        command: "stripe set -S 16K -c 3 -t a,b file",
        name: "file",
        prepare: |_| {},
        old: None,
        new: Some(Vec::new()),
        between: false,
        again: is_plain,
        tidy: true,
        durable: true,
    };
    let full = || Some(bytes(1, 300_000));
    vec![
        base.clone(),
        Scene { old: Some(Vec::new()), prepare: |dir| fs::write(dir.join("file"), "").unwrap(), ..base.clone() },
        Scene {
            command: "stripe rm file",
            prepare: filled,
            old: full(),
            new: None,
            again: Path::exists,
            tidy: false,
            ..base.clone()
        },
        Scene {
            command: "stripe adopt copy",
            name: "copy",
            prepare: |dir| {
                filled(dir);
                fs::copy(dir.join("file"), dir.join("copy")).unwrap();
                fs::remove_file(dir.join("file")).unwrap();
            },
            old: full(),
            new: full(),
            again: |_| true,
            ..base
        },
    ]
}

/// Commands that move all bytes.
fn moving() -> Vec<Scene> {
    let base = Scene {
        command: "stripe migrate -S 32K -t b,c file",
        name: "file",
        prepare: filled,
        old: Some(bytes(1, 300_000)),
        new: Some(bytes(1, 300_000)),
        between: false,
        again: |_| true,
        tidy: true,
        durable: true,
    };
    let plain: fn(&Path) = |dir| fs::write(dir.join("file"), bytes(1, 300_000)).unwrap();
    vec![Scene { prepare: plain, command: "stripe migrate -S 32K -c 3 -t b,c file", ..base.clone() }, base]
}

/// Commands that make a file longer or shorter.
fn resizing() -> Vec<Scene> {
    let to = |len: usize| {
        let mut all = bytes(1, 300_000);
        all.resize(len, 0);
        Some(all)
    };
    let base = Scene {
        command: "dd if=/dev/null of=file bs=1 seek=500001 count=0 status=none",
        name: "file",
        prepare: filled,
        old: to(300_000),
        new: to(500_001),
        between: true,
        again: |_| true,
        tidy: true,
        durable: false,
    };
    vec![
        Scene {
            command: "dd if=/dev/null of=file bs=1 seek=70001 count=0 status=none",
            new: to(70_001),
            between: false,
            durable: true,
            ..base.clone()
        },
        Scene {
            command: "dd if=/dev/null of=file status=none",
            new: to(0),
            between: false,
            durable: true,
            ..base.clone()
        },
        Scene {
            command: "dd if=more of=file bs=64K conv=notrunc,fsync status=none",
            prepare: |dir| {
                filled(dir);
                fs::write(dir.join("more"), [bytes(1, 300_000), bytes(2, 200_000)].concat()).unwrap();
            },
            new: Some([bytes(1, 300_000), bytes(2, 200_000)].concat()),
            durable: true,
            ..base.clone()
        },
        base,
    ]
}

/// Runs the command of a scene in a directory; its output, and the calls that it made.
fn trace(scene: &Scene, dir: &Path, inject: Option<&str>) -> (Output, String) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", &format!("trace={CHANGES}"), "-o"]).arg(log.path());
    strace.args(inject.map(|inject| format!("--inject={inject}"))).arg(DIO).args(scene.command.split(' '));
    // Of io_uring's requests strace sees nothing.
    let output = dio_test::run(strace.current_dir(dir).env("DIO_ENGINE", "blocking"));
    (output, fs::read_to_string(log).unwrap())
}

/// The calls in a trace at which something changes.
fn points(trace: &str) -> BTreeSet<Point> {
    let (mut made, mut points) = (HashMap::new(), BTreeSet::new());
    for line in trace.lines() {
        let Some((thread, what)) = line.split_once(' ') else { continue };
        let Some((call, how)) = what.trim_start().split_once('(') else { continue };
        if !CHANGES.split(',').any(|change| change == call) {
            continue;
        }
        let number: &mut usize = made.entry((thread, call)).or_default();
        *number += 1;
        if call != "openat" || how.contains("O_CREAT") || how.contains("O_TMPFILE") {
            points.insert((call.to_owned(), *number));
        }
    }
    points
}

/// What a name leads to, `None` when it is free. A striped file that cannot be opened is a failure.
#[track_caller]
fn found(path: &Path, context: &str) -> Option<Vec<u8>> {
    if !path.exists() {
        return None;
    }
    let file = dio::File::open(path).unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap_or_else(|error| panic!("{context}: {error}"));
    Some(bytes)
}

fn files_in(dir: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(fs::canonicalize(dir).unwrap()).unwrap().map(|entry| entry.unwrap());
    entries.filter(|entry| entry.file_type().unwrap().is_file()).map(|entry| entry.path()).collect()
}

/// Everything in the targets that no file in the directory leads to, and what a migration has left
/// beside the file, where an object says where that is.
fn without_a_file(dir: &Path) -> BTreeSet<PathBuf> {
    let moving = |name: &PathBuf| name.to_str().unwrap().ends_with(".dio-migrate");
    let unfinished = |name: &PathBuf| name.to_str().unwrap().ends_with(".new") || moving(name);
    let heads = files_in(dir).into_iter().filter(|name| !unfinished(name));
    let known: BTreeSet<PathBuf> = heads
        .filter_map(|name| dio_stripe::descriptor_at(&name))
        .flat_map(|head| (0..head.targets.len()).map(move |index| head.object_path(index)).collect::<Vec<_>>())
        .collect();
    let all: BTreeSet<PathBuf> = ["a", "b", "c"].iter().flat_map(|name| files_in(&dir.join(name))).collect();
    let headed = |name: &PathBuf| fs::read(name).unwrap().starts_with(b"dio stripe object");
    let beside = files_in(dir).into_iter().filter(moving).filter(|_| all.iter().any(headed));
    all.difference(&known).cloned().chain(beside).collect()
}

fn dio(dir: &Path, line: &str) -> Output {
    dio_test::run(Command::new(DIO).args(line.split(' ')).current_dir(dir))
}

/// Where commands are stopped.
enum Place {
    /// On one file system.
    One(dio_test::TestFs),
    /// Files and the first target on one, the other targets on another, and the power can be cut on
    /// both.
    Two(Volume, Volume),
}

impl Place {
    fn two() -> Option<Place> {
        let ext4 = Volume::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB)?;
        let xfs = Volume::new(&["mkfs.xfs", "-q", "-f"], 320 * MIB)?;
        Some(Place::Two(ext4, xfs))
    }

    /// Does something in a new directory with directories for targets, and removes all of it.
    fn with(&self, work: impl FnOnce(&Path)) {
        let (heads, others) = match self {
            Place::One(fs) => (&fs.path, None),
            Place::Two(one, other) => (&one.path, Some(&other.path)),
        };
        let new = |path: &Path| tempfile::Builder::new().prefix("crash-").tempdir_in(path).unwrap();
        let (scratch, others) = (new(heads), others.map(|path| new(path)));
        let dir = fs::canonicalize(scratch.path()).unwrap();
        for name in ["a", "b", "c"] {
            match &others {
                Some(others) if name != "a" => {
                    fs::create_dir(others.path().join(name)).unwrap();
                    std::os::unix::fs::symlink(others.path().join(name), dir.join(name)).unwrap();
                }
                _ => fs::create_dir(dir.join(name)).unwrap(),
            }
        }
        work(&dir);
    }

    /// Whether the power can be cut.
    fn has_power(&self) -> bool {
        matches!(self, Place::Two(..))
    }

    /// Has everything durable.
    fn sync(&self) {
        if let Place::Two(one, other) = self {
            for volume in [one, other] {
                rustix::fs::syncfs(fs::File::open(&volume.path).unwrap()).unwrap();
            }
        }
    }

    /// Cuts the power, where it can be cut.
    fn cut_power(&self) {
        if let Place::Two(one, other) = self {
            [one, other].into_iter().for_each(Volume::shut_down);
            [one, other].into_iter().for_each(Volume::come_back);
        }
    }
}

impl Scene {
    /// Judges what a stopped command has left, and repeats it.
    fn judge(&self, dir: &Path, output: &Output, (error_of, power): (Option<&str>, bool), context: &str) {
        let context = &format!("{context}, {}", output.stderr.trim_end());
        let path = dir.join(self.name);
        let now = found(&path, context);
        let between = || {
            let (Some(old), Some(new), Some(now)) = (&self.old, &self.new, &now) else { return false };
            let longer = if old.len() > new.len() { old } else { new };
            self.between && now.len() >= old.len().min(new.len()) && longer.starts_with(now)
        };
        let told = now.as_ref().map(Vec::len);
        assert!(now == self.old || now == self.new || between(), "{context}: the name leads to {told:?} bytes");
        let kept = self.durable || !power;
        assert!(!output.status.success() || !kept || now == self.new, "{context}: it says that all is well");

        let left = without_a_file(dir);
        let listed = dio(dir, "stripe orphans --age 0 a b c");
        let shown = listed.stdout.lines().filter(|line| line.starts_with("  "));
        let shown = shown.map(|line| PathBuf::from(line.rsplit(' ').next().unwrap()));
        // A descriptor that has not got its name is no object.
        let shown: BTreeSet<PathBuf> = shown.filter(|path| path.extension().is_none_or(|end| end != "new")).collect();
        assert_eq!(shown, left, "{context}: what 'orphans' finds, and what there is");
        assert_eq!(listed.status.success(), left.is_empty(), "{context}: {listed:?}");
        // Where it is not certain that the old name is gone for good, the old objects stay.
        let unsure = |call: &str| call == "fsync" && self.command.contains("migrate");
        if self.tidy && error_of.is_some_and(|call| !call.starts_with("unlink") && !unsure(call)) {
            assert!(left.is_empty(), "{context}: the error leaves {left:?}");
        }

        if (self.again)(&path) {
            let repeated = dio(dir, self.command);
            assert!(repeated.status.success(), "{context}: the second time, {repeated:?}");
        }
        assert!(found(&path, context) == self.new, "{context}: after the second time");
        let removed = dio(dir, "stripe orphans --rm --yes --age 0 a b c");
        assert!(removed.status.success(), "{context}: {removed:?}");
        assert_eq!(without_a_file(dir), BTreeSet::new(), "{context}: after all were removed");
        let own = |name: &PathBuf| *name == path || name.ends_with("more");
        let empty = |name: &PathBuf| name.to_str().unwrap().ends_with(".new") && fs::metadata(name).unwrap().len() == 0;
        let rest: Vec<_> = files_in(dir).into_iter().filter(|name| !own(name) && !empty(name)).collect();
        assert_eq!(rest, Vec::<PathBuf>::new(), "{context}: beside the file");
    }

    /// The calls at which the command changes something, when nothing stops it.
    fn points(&self, place: &Place) -> Vec<Point> {
        let mut all = BTreeSet::new();
        place.with(|dir| {
            (self.prepare)(dir);
            place.sync();
            let (output, calls) = trace(self, dir, None);
            assert!(output.status.success(), "'{}': {output:?}", self.command);
            place.cut_power();
            self.judge(dir, &output, (None, place.has_power()), &format!("'{}' to its end", self.command));
            all = points(&calls);
        });
        println!("'{}' changes something by {} calls", self.command, all.len());
        // Of calls that several threads make, each number counts once.
        assert!(all.len() > 1, "{all:?}");
        all.into_iter().collect()
    }

    /// Stops the command once.
    fn stop(&self, place: &Place, (call, number): &Point, stop: Stop) {
        place.with(|dir| {
            (self.prepare)(dir);
            place.sync();
            let how = if stop == Stop::Error { "error=EIO" } else { "signal=KILL" };
            let (output, _) = trace(self, dir, Some(&format!("{call}:{how}:when={number}")));
            let context = format!("{}: '{}', {stop:?} at {call} {number}", dir.display(), self.command);
            let killed = output.status.signal() == Some(9);
            // How many requests which thread gets is different every time, and other file systems
            // need fewer calls, so it may have come through.
            assert!(stop == Stop::Error || killed || output.status.success(), "{context}: {output:?}");
            place.cut_power();
            self.judge(dir, &output, ((stop == Stop::Error).then_some(call), place.has_power()), &context);
        });
    }
}

/// Stops each command at some of its calls, and at all of them if there are enough cases.
fn stop_at_each(scenes: &[Scene]) {
    if !can_trace() {
        return;
    }
    let (seed, systems) = (Seed::new(), file_systems().into_iter().map(Place::One).collect::<Vec<_>>());
    let mut rng = seed.rng();
    let mut places = systems.iter().cycle();
    for scene in scenes {
        let mut all = scene.points(&systems[0]);
        for _ in 0..cases().min(all.len()) {
            let point = all.swap_remove(rng.range_usize(0..all.len()));
            [Stop::Kill, Stop::Error]
                .iter()
                .zip(&mut places)
                .for_each(|(stop, place)| scene.stop(place, &point, *stop));
        }
    }
}

/// Whether processes can be traced here.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success());
    if !traced {
        dio_test::skip!("strace is not there, or may not trace");
    }
    traced
}

#[test]
fn making_and_removing_a_file_is_stopped_at_each_call() {
    stop_at_each(&making_and_removing());
}

#[test]
fn moving_a_file_is_stopped_at_each_call() {
    stop_at_each(&moving());
}

#[test]
fn resizing_a_file_is_stopped_at_each_call() {
    stop_at_each(&resizing());
}

/// The process is killed, and then the power is cut: what had not been synced is gone, on each of
/// the file systems up to another moment.
#[test]
fn the_power_is_cut_at_each_call() {
    let Some(place) = can_trace().then(Place::two).flatten() else { return };
    let seed = Seed::new();
    let mut rng = seed.rng();
    for scene in [making_and_removing(), moving(), resizing()].concat() {
        let mut all = scene.points(&place);
        for _ in 0..cases().div_ceil(3).min(all.len()) {
            let point = all.swap_remove(rng.range_usize(0..all.len()));
            scene.stop(&place, &point, Stop::Kill);
        }
    }
}
