//! The power fails below a real file system while a process appends to a log on it: everything that
//! the process acknowledged is there.
//!
//! There are two kinds of power cuts. Either the file system is stopped by its own ioctl without
//! writing its journal (`FS_IOC_SHUTDOWN` of ext4, `XFS_IOC_GOINGDOWN` of xfs; `xfs_io` calls it),
//! then unmounted and mounted again. Or every write and flush of its disk is recorded, and the disk
//! is rebuilt as it was at some moment, with a part of what was not flushed.
//!
//! `DIO_WAL_ROUNDS` sets the number of power cuts of each kind, `DIO_SEED` repeats a run. Root
//! only.

#[path = "../proof/mod.rs"]
mod proof;
mod recorder;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use dio_test::{Rng, Seed, skip};
use dio_wal::Log;
use proof::{Running, Said, judge, options, rounds};
use recorder::{Recorded, cut};

/// Power cuts of each kind on each file system in an ordinary run.
const ROUNDS: u64 = 3;
/// Power cuts that are simulated from one recording.
const CUTS: u64 = 10;

/// The test that runs in the child process.
#[test]
fn child() {
    proof::child();
}

/// A file system that has a journal.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    format: &'static [&'static str],
    options: &'static str,
    /// Size in bytes; xfs needs at least 300 MB.
    size: u64,
}

const EXT4: Kind =
    Kind { name: "ext4", format: &["mkfs.ext4", "-q", "-F"], options: "rw", size: 96 << 20 };
const XFS: Kind =
    Kind { name: "xfs", format: &["mkfs.xfs", "-q", "-f"], options: "nouuid", size: 320 << 20 };

fn run(words: &[&str], path: &Path) -> Result<String, String> {
    let output = dio_test::run(Command::new(words[0]).args(&words[1..]).arg(path));
    if output.status.success() { Ok(output.stdout) } else { Err(output.stderr) }
}

/// A file system on an image, through a loop device. It is unmounted when this is dropped.
struct Volume {
    kind: Kind,
    at: PathBuf,
    /// The loop device disappears with the mount.
    mounted: bool,
}

impl Volume {
    fn mount(kind: Kind, image: &Path, at: &Path) -> Result<Volume, String> {
        let device = run(&["losetup", "--find", "--show", "--direct-io=on"], image)?;
        let device = Path::new(device.trim());
        let path = at.to_str().unwrap();
        let output =
            dio_test::run(Command::new("mount").args(["-o", kind.options]).arg(device).arg(path));
        // From now on the loop device is detached at its last close (LOOP_CLR_FD).
        run(&["losetup", "--detach"], device)?;
        match output.status.success() {
            true => Ok(Volume { kind, at: at.to_owned(), mounted: true }),
            false => Err(output.stderr),
        }
    }

    fn log(&self) -> PathBuf {
        self.at.join("log")
    }

    fn unmount(&mut self) {
        let began = std::time::Instant::now();
        while self.mounted {
            match run(&["umount"], &self.at) {
                Ok(_) => self.mounted = false,
                Err(error) => {
                    assert!(began.elapsed().as_secs() < 60, "{}: {error}", self.kind.name)
                }
            }
            if self.mounted {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.mounted && run(&["umount"], &self.at).is_err() {
            let _ = run(&["umount", "--lazy"], &self.at);
        }
    }
}

/// A directory with a formatted image, and an empty directory for the log in it.
struct Ground {
    kind: Kind,
    dir: tempfile::TempDir,
}

impl Ground {
    /// Returns `None`, and prints that the test is skipped, if the image cannot be mounted.
    fn new(kind: Kind) -> Option<Ground> {
        if !dio_test::is_root() {
            skip!("mounting {} needs root", kind.name);
            return None;
        }
        let ground = Ground { kind, dir: dio_test::file_systems()[0].dir() };
        std::fs::create_dir(ground.at()).unwrap();
        ground.format();
        match Volume::mount(kind, &ground.image(), &ground.at()) {
            Ok(mut volume) => {
                std::fs::create_dir(volume.log()).unwrap();
                volume.unmount();
                Some(ground)
            }
            Err(error) => {
                skip!("cannot mount {}: {error}", kind.name);
                None
            }
        }
    }

    fn format(&self) {
        File::create(self.image()).unwrap().set_len(self.kind.size).unwrap();
        run(self.kind.format, &self.image()).unwrap();
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn at(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }
}

/// Recovers the log on a volume and checks it.
fn recover(volume: &Volume, number: u64, said: Said, what: &str) -> (Log, Said) {
    let log =
        Log::open(volume.log(), &options(number)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = judge(&log, said, what);
    (log, found)
}

fn shut_down(kind: Kind) {
    let Some(ground) = Ground::new(kind) else { return };
    let mut random = Seed::new().rng();
    let mut found = Said::default();
    for round in 0..rounds(ROUNDS) {
        let what = format!("{}, round {round}", kind.name);
        let mut volume = Volume::mount(kind, &ground.image(), &ground.at()).unwrap();
        let mut child = Running::start(&volume.log(), random.range(0..10), found);
        child.listen_to(random.range_usize(5..60));
        run(&["xfs_io", "-x", "-c", "shutdown"], &volume.at).unwrap();
        let said = child.listen_to_the_end();
        volume.unmount();

        let mut volume = Volume::mount(kind, &ground.image(), &ground.at()).unwrap();
        let (log, recovered) = recover(&volume, round + 3, said, &what);
        found = recovered;
        if random.bool(0.5) {
            log.close().unwrap();
        } else {
            drop(log);
        }
        volume.unmount();
    }
    println!("{}: {} records after the last round", kind.name, found.durable);
}

/// All events of a disk, and the child's output after numbers of events.
type Recording = (Vec<recorder::Event>, Vec<(usize, Said)>);

/// Two children append, one after the other, on a recorded disk.
fn record(ground: &Ground, random: &mut Rng) -> Result<Recording, String> {
    let disk = Recorded::new(&ground.image()).map_err(|error| error.to_string())?;
    let mut volume = Volume::mount(ground.kind, &disk.path(), &ground.at())?;
    let mut said = vec![(disk.happened(), Said::default())];
    let mut found = Said::default();
    for _ in 0..2 {
        let mut child = Running::start(&volume.log(), random.range(0..10), found);
        said.push((disk.happened(), child.said));
        for _ in 0..random.range_usize(20..60) {
            child.listen_to(1);
            // Everything that was printed by now was durable before.
            said.push((disk.happened(), child.said));
        }
        let last = child.kill();
        said.push((disk.happened(), last));
        let (log, recovered) =
            recover(&volume, random.range(0..10), last, "before the power fails");
        drop(log);
        found = recovered;
        said.push((disk.happened(), found));
    }
    let events = disk.events();
    volume.unmount();
    drop(volume);
    // The loop device disappears when the last process has closed it.
    let busy =
        || run(&["losetup", "--associated"], &disk.path()).is_ok_and(|text| !text.is_empty());
    for _ in 0..200 {
        if !busy() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok((events, said))
}

fn replay(kind: Kind) {
    let Some(ground) = Ground::new(kind) else { return };
    let mut random = Seed::new().rng();
    let base = ground.dir.path().join("base");
    let copy = |from: &Path, to: &Path| {
        let output = dio_test::run(Command::new("cp").arg("--sparse=always").args([from, to]));
        assert!(output.status.success(), "{output:?}");
    };
    copy(&ground.image(), &base);
    let (mut done, wanted) = (0, rounds(ROUNDS));
    while done < wanted {
        copy(&base, &ground.image());
        let (events, said) = match record(&ground, &mut random) {
            Ok(recording) => recording,
            Err(error) => return skip!("cannot record a disk with {}: {error}", kind.name),
        };
        let began = said[0].0;
        for _ in 0..CUTS.min(wanted - done) {
            let at = random.range_usize(began..events.len() + 1);
            let last = said
                .iter()
                .rev()
                .find(|(happened, _)| *happened <= at)
                .map_or(Said::default(), |said| said.1);
            // The child's output arrives later than its actions. If the log ends before a record,
            // the first output that acknowledges this record includes all truncations before it.
            let latest = |end: u64| {
                let heard = said.iter().map(|(_, said)| said).find(|said| said.durable >= end);
                heard.unwrap_or(&said[said.len() - 1].1).latest_start()
            };
            copy(&base, &ground.image());
            cut(&ground.image(), &events[..at], &mut random).unwrap();
            let what = format!("{}, cut {done} behind event {at} of {}", kind.name, events.len());
            let volume = Volume::mount(kind, &ground.image(), &ground.at());
            let mut volume = volume.unwrap_or_else(|error| panic!("{what}: {error}"));
            let recover = |number| {
                let log = Log::open(volume.log(), &options(number))
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = proof::judge_by(&log, last, &what, latest);
                (log, found)
            };
            let (log, found) = recover(random.range(0..10));
            drop(log);
            // Recovered records are durable.
            let (log, again) = recover(random.range(0..10));
            assert_eq!(again, found, "{what}");
            log.close().unwrap();
            volume.unmount();
            done += 1;
        }
    }
}

/// A real disk is full: the append fails with the reason, appended records are committed, and
/// truncation makes space.
#[test]
fn a_full_file_system_fails_an_append_and_nothing_else() {
    let Some(ground) = Ground::new(EXT4) else { return };
    let mut volume = Volume::mount(EXT4, &ground.image(), &ground.at()).unwrap();
    let log = Log::open(volume.log(), dio_wal::Options::new().segment(8 << 20).spares(1)).unwrap();
    let record = vec![7; 300_000];
    let mut lsns = Vec::new();
    let error = loop {
        match log.append(&record) {
            Ok(lsn) => lsns.push(lsn),
            Err(error) => break error.to_string(),
        }
        if lsns.len() % 5 == 0 {
            log.commit(lsns[lsns.len() - 1]).unwrap();
        }
        assert!(lsns.len() < 400, "{} MiB went into 96 MiB", (lsns.len() * 300_000) >> 20);
    };
    assert!(
        error.contains("No space left on device") && error.starts_with("cannot allocate space for"),
        "{error}"
    );
    let last = lsns[lsns.len() - 1];
    log.commit(last).unwrap();
    log.truncate_before(lsns[lsns.len() / 2]).unwrap();
    let lsn = log.append(&record).unwrap();
    log.commit(lsn).unwrap();
    log.close().unwrap();
    let log = Log::open(volume.log(), &dio_wal::Options::new()).unwrap();
    let mut reader = log.reader(last).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().lsn, last);
    assert_eq!(reader.next().unwrap().unwrap().lsn, lsn);
    drop((reader, log));
    volume.unmount();
}

#[test]
fn ext4_that_is_shut_down_loses_nothing_acknowledged() {
    shut_down(EXT4);
}

#[test]
fn xfs_that_is_shut_down_loses_nothing_acknowledged() {
    shut_down(XFS);
}

#[test]
fn a_disk_with_ext4_whose_power_fails_loses_nothing_acknowledged() {
    replay(EXT4);
}

#[test]
fn a_disk_with_xfs_whose_power_fails_loses_nothing_acknowledged() {
    replay(XFS);
}
