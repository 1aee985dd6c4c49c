//! Commands that make, fill, move, lengthen, truncate, adopt and remove striped files are stopped
//! at every system call that changes something: by a kill just before it, or by an error from it.
//! The tests check what the name leads to then, what is left, that everything that is left is
//! found, and that repeating the command helps.
//!
//! strace(1) finds the calls and stops the command: a first run counts the calls, and each later
//! run is stopped at one of them. A kill does not lose what was written, but a power cut does, so
//! in some runs the kill is followed by a shutdown of the file systems.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::own::{MIB, Mounted as Volume, file_systems};
use dio::stripe::{self, StripePlan};
use dio_test::{Output, Rng, Seed};

const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// Calls that change something. Of the calls that open files, only those that create one count.
const CHANGES: &str = "openat,write,pwrite64,pwritev,pwritev2,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,\
    link,linkat,unlink,unlinkat,fchown,fchownat,fchmod,chmod,fchmodat,utimensat";

/// Number of calls of each command that are tried, each with a kill and with an error.
/// `DIO_TEST_CASES` sets another number.
fn cases() -> usize {
    std::env::var("DIO_TEST_CASES")
        .ok()
        .map_or(5, |text| text.parse().expect("DIO_TEST_CASES is a number"))
}

/// A command, and its effect on a file.
#[derive(Clone)]
struct Scene {
    command: &'static str,
    /// Name of the file.
    name: &'static str,
    /// Prepares the directory for the command.
    prepare: fn(&Path),
    /// The contents of the file before and after the command; `None` if the name is free.
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    /// A stopped command may leave any size between the two, with the bytes of the longer contents.
    between: bool,
    /// Whether the command has to be repeated after it was stopped.
    again: fn(&Path) -> bool,
    /// After an error, no objects are left.
    tidy: bool,
    /// The effect of the command is durable when it has ended.
    durable: bool,
}

/// The call at which a command is stopped: its name, and its number among the calls of that name in
/// one thread.
type Point = (String, usize);

/// How a command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Kill,
    Error,
}

/// Random contents for a file.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn striped(dir: &Path, contents: &[u8]) {
    let targets = ["a", "b"].map(|name| dir.join(name)).to_vec();
    let path = dir.join("file");
    stripe::create(
        &path,
        &StripePlan { stripe: Some(16 << 10), count: Some(3), targets, force: false },
    )
    .unwrap();
    dio::OpenOptions::new().write(true).open(path).unwrap().write_at(contents, 0).unwrap();
}

fn filled(dir: &Path) {
    striped(dir, &bytes(1, 300_000));
}

fn is_plain(path: &Path) -> bool {
    dio_stripe::descriptor_at(path).is_none()
}

/// Commands after which there is another file, or no file.
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
        Scene {
            old: Some(Vec::new()),
            prepare: |dir| fs::write(dir.join("file"), "").unwrap(),
            ..base.clone()
        },
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
    vec![
        Scene { prepare: plain, command: "stripe migrate -S 32K -c 3 -t b,c file", ..base.clone() },
        base,
    ]
}

/// Commands that lengthen or shorten a file.
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
                fs::write(dir.join("more"), [bytes(1, 300_000), bytes(2, 200_000)].concat())
                    .unwrap();
            },
            new: Some([bytes(1, 300_000), bytes(2, 200_000)].concat()),
            durable: true,
            ..base.clone()
        },
        base,
    ]
}

/// Runs the command of a scene in a directory. Returns its output, and a trace of its calls.
fn trace(scene: &Scene, dir: &Path, inject: Option<&str>) -> (Output, String) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", &format!("trace={CHANGES}"), "-o"]).arg(log.path());
    strace
        .args(inject.map(|inject| format!("--inject={inject}")))
        .arg(DIO)
        .args(scene.command.split(' '));
    // strace does not show the requests of io_uring.
    let output = dio_test::run(strace.current_dir(dir).env("DIO_ENGINE", "blocking"));
    (output, fs::read_to_string(log).unwrap())
}

/// The calls in a trace that change something.
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

/// The contents of the file at `path`, or `None` if there is no file. If a striped file cannot be
/// opened, the test fails.
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

/// Everything in the targets that belongs to no file in the directory, and the remains of a
/// migration beside the file, if an object names them.
fn without_a_file(dir: &Path) -> BTreeSet<PathBuf> {
    let moving = |name: &PathBuf| name.to_str().unwrap().ends_with(".dio-migrate");
    let unfinished = |name: &PathBuf| name.to_str().unwrap().ends_with(".new") || moving(name);
    let heads = files_in(dir).into_iter().filter(|name| !unfinished(name));
    let known: BTreeSet<PathBuf> = heads
        .filter_map(|name| dio_stripe::descriptor_at(&name))
        .flat_map(|head| {
            (0..head.targets.len()).map(move |index| head.object_path(index)).collect::<Vec<_>>()
        })
        .collect();
    let all: BTreeSet<PathBuf> =
        ["a", "b", "c"].iter().flat_map(|name| files_in(&dir.join(name))).collect();
    let headed = |name: &PathBuf| fs::read(name).unwrap().starts_with(b"dio stripe object");
    let beside = files_in(dir).into_iter().filter(moving).filter(|_| all.iter().any(headed));
    all.difference(&known).cloned().chain(beside).collect()
}

fn dio(dir: &Path, line: &str) -> Output {
    dio_test::run(Command::new(DIO).args(line.split(' ')).current_dir(dir))
}

/// The file systems on which commands are stopped.
enum Place {
    /// A single file system.
    One(dio_test::TestFs),
    /// Two volumes: the files and the first target are on the first one, the other targets on the
    /// second one. The power can be cut on both.
    Two(Volume, Volume),
}

impl Place {
    fn two() -> Option<Place> {
        let ext4 = Volume::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB)?;
        let xfs = Volume::new(&["mkfs.xfs", "-q", "-f"], 320 * MIB)?;
        Some(Place::Two(ext4, xfs))
    }

    /// Calls `work` in a new directory with directories for targets, and removes all of it
    /// afterwards.
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

    /// Makes everything durable.
    fn sync(&self) {
        if let Place::Two(one, other) = self {
            for volume in [one, other] {
                rustix::fs::syncfs(fs::File::open(&volume.path).unwrap()).unwrap();
            }
        }
    }

    /// Cuts the power, if that is possible.
    fn cut_power(&self) {
        if let Place::Two(one, other) = self {
            [one, other].into_iter().for_each(Volume::shut_down);
            [one, other].into_iter().for_each(Volume::come_back);
        }
    }
}

impl Scene {
    /// Checks what a stopped command has left, and repeats the command.
    fn judge(
        &self,
        dir: &Path,
        output: &Output,
        (error_of, power): (Option<&str>, bool),
        context: &str,
    ) {
        let context = &format!("{context}, {}", output.stderr.trim_end());
        let path = dir.join(self.name);
        let now = found(&path, context);
        let between = || {
            let (Some(old), Some(new), Some(now)) = (&self.old, &self.new, &now) else {
                return false;
            };
            let longer = if old.len() > new.len() { old } else { new };
            self.between && now.len() >= old.len().min(new.len()) && longer.starts_with(now)
        };
        let told = now.as_ref().map(Vec::len);
        assert!(
            now == self.old || now == self.new || between(),
            "{context}: the name leads to {told:?} bytes"
        );
        let kept = self.durable || !power;
        assert!(
            !output.status.success() || !kept || now == self.new,
            "{context}: it says that all is well"
        );

        let left = without_a_file(dir);
        let listed = dio(dir, "stripe orphans --age 0 a b c");
        let shown = listed.stdout.lines().filter(|line| line.starts_with("  "));
        let shown = shown.map(|line| PathBuf::from(line.rsplit(' ').next().unwrap()));
        // A descriptor that does not have its final name yet is no object.
        let shown: BTreeSet<PathBuf> =
            shown.filter(|path| path.extension().is_none_or(|end| end != "new")).collect();
        assert_eq!(shown, left, "{context}: what 'orphans' finds, and what there is");
        assert_eq!(listed.status.success(), left.is_empty(), "{context}: {listed:?}");
        // If it is not certain that the removal of the old name is durable, the old objects stay.
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
        let empty = |name: &PathBuf| {
            name.to_str().unwrap().ends_with(".new") && fs::metadata(name).unwrap().len() == 0
        };
        let rest: Vec<_> =
            files_in(dir).into_iter().filter(|name| !own(name) && !empty(name)).collect();
        assert_eq!(rest, Vec::<PathBuf>::new(), "{context}: beside the file");
    }

    /// The calls at which the command changes something, found in a run that is not stopped.
    fn points(&self, place: &Place) -> Vec<Point> {
        let mut all = BTreeSet::new();
        place.with(|dir| {
            (self.prepare)(dir);
            place.sync();
            let (output, calls) = trace(self, dir, None);
            assert!(output.status.success(), "'{}': {output:?}", self.command);
            place.cut_power();
            self.judge(
                dir,
                &output,
                (None, place.has_power()),
                &format!("'{}' to its end", self.command),
            );
            all = points(&calls);
        });
        println!("'{}' changes something by {} calls", self.command, all.len());
        // If several threads make the same call, each number counts once.
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
            let context =
                format!("{}: '{}', {stop:?} at {call} {number}", dir.display(), self.command);
            let killed = output.status.signal() == Some(9);
            // The number of requests of each thread differs from run to run, and other file systems
            // need fewer calls, so the command may have ended before the call.
            assert!(
                stop == Stop::Error || killed || output.status.success(),
                "{context}: {output:?}"
            );
            place.cut_power();
            self.judge(
                dir,
                &output,
                ((stop == Stop::Error).then_some(call), place.has_power()),
                &context,
            );
        });
    }
}

/// Stops each command at some of its calls, and at all of them if there are enough cases.
fn stop_at_each(scenes: &[Scene]) {
    if !can_trace() {
        return;
    }
    let (seed, systems) =
        (Seed::new(), file_systems().into_iter().map(Place::One).collect::<Vec<_>>());
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
    let traced = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|status| status.success());
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

/// The process is killed, and then the power is cut: what had not been synced is gone, up to a
/// different moment on each file system.
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
