//! Shared by the tests of faults: a mount over a file system of its own that can be made to fail,
//! and programs that write below the mount and record which data was acknowledged.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dio_test::{Mounted, judge_fully};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::own::{Mounted as Volume, PATIENCE};

pub const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// Returns a `dio` command.
pub fn dio(command: &str) -> Command {
    let mut dio = Command::new(DIO);
    dio.arg(command).env("LC_ALL", "C.UTF-8");
    dio
}

#[track_caller]
pub fn good(command: &mut Command) {
    let output = dio_test::run(command);
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {output:?}");
}

/// The error number of a failed operation.
pub fn errno<T>(outcome: io::Result<T>) -> Option<Errno> {
    outcome.err().and_then(|error| Errno::from_io_error(&error))
}

/// The mount options for a mode. The limit on held-back bytes is low, so that bytes are held back
/// on a small file system too.
pub fn options(mode: &str) -> String {
    format!("{mode},allow_other,limit=64M")
}

/// A file system on an image, and a directory elsewhere where it is mounted in a mode.
pub struct Scene {
    /// Name for messages.
    pub name: String,
    pub mode: String,
    pub volume: Volume,
    place: TempDir,
}

impl Scene {
    pub fn new(volume: Volume, mode: &str) -> Scene {
        let place = dio_test::file_systems()[0].dir();
        fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let kind = dio_test::mount_type(&volume.path).unwrap();
        let scene =
            Scene { name: format!("{mode} on {kind}"), mode: mode.to_owned(), volume, place };
        fs::create_dir(scene.source()).unwrap();
        scene
    }

    pub fn source(&self) -> PathBuf {
        self.volume.path.join("source")
    }

    /// Mounts the source directory.
    #[track_caller]
    pub fn mount(&self) -> Mounted {
        Mounted::within(self.place.path(), DIO, self.source(), &options(&self.mode))
    }

    /// Mounts the source directory by another program than dio, which starts dio, with further
    /// options.
    #[track_caller]
    pub fn mount_by(&self, program: &Path, more: &str) -> Mounted {
        let options = format!("{},{more}", options(&self.mode));
        Mounted::within(self.place.path(), program, self.source(), &options)
    }

    /// A directory of the test's own.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The device that holds the file system.
    pub fn device(&self) -> PathBuf {
        let mut findmnt = Command::new("findmnt");
        let output = dio_test::run(findmnt.args(["-n", "-o", "SOURCE"]).arg(&self.volume.path));
        PathBuf::from(output.stdout.trim())
    }
}

/// The contents of a file of the test: bytes computed from the file's number and their offset.
pub fn content(file: u64, range: Range<u64>) -> Vec<u8> {
    let word = |at: u64| {
        (at ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
            .to_le_bytes()
    };
    let words = (range.start / 8..range.end.div_ceil(8)).flat_map(word);
    words.skip((range.start % 8) as usize).take((range.end - range.start) as usize).collect()
}

/// A file, open for reading and writing, to which 300,000 bytes have just been written, in order
/// and without a sync.
#[track_caller]
pub fn pending(path: &Path, number: u64) -> File {
    let mut file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    for part in content(number, 0..300_000).chunks(30_000) {
        file.write_all(part).unwrap();
    }
    file
}

/// How a writer of the load works.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Odd records in order, an fsync after every fourth.
    Records,
    /// Blocks in order, each with an fdatasync.
    Blocks,
    /// Odd records in order through `O_DSYNC`.
    Durable,
    /// Blocks of a file overwritten anywhere, an fsync after every second.
    Pages,
}

const KINDS: [Kind; 4] = [Kind::Records, Kind::Blocks, Kind::Durable, Kind::Pages];

const PAGE: u64 = 8192;
const PAGES: u64 = 64;

/// Writers that work below a mount until each of them fails.
pub struct Load {
    name: String,
    clock: Arc<Clock>,
    writers: Vec<JoinHandle<Promise>>,
}

#[derive(Default)]
struct Clock {
    /// Number of syncs that were acknowledged.
    synced: AtomicU64,
    /// Acknowledgements no longer count as promises.
    late: AtomicBool,
    enough: AtomicBool,
}

impl Clock {
    /// Counts an acknowledged sync. `promised` records what it makes durable.
    fn tick(&self, promised: impl FnOnce()) -> io::Result<()> {
        self.synced.fetch_add(1, Ordering::Relaxed);
        if !self.late.load(Ordering::SeqCst) {
            promised();
        }
        if self.enough.load(Ordering::Relaxed) { Err(Errno::CANCELED.into()) } else { Ok(()) }
    }
}

/// The data that was acknowledged to a writer.
struct Promise {
    kind: Kind,
    /// Number of bytes, from the start, that are durable. For pages: the version that each page has
    /// at least, and the version that was last written to it.
    durable: u64,
    pages: Vec<(u64, u64)>,
    error: io::Error,
}

impl Load {
    #[track_caller]
    pub fn start(directory: &Path, name: &str) -> Load {
        fs::create_dir(directory).unwrap();
        let clock = Arc::new(Clock::default());
        let writer = |(number, kind): (usize, Kind)| {
            let mut open = File::options();
            open.read(true).write(true).create_new(true);
            if matches!(kind, Kind::Durable) {
                open.custom_flags(rustix::fs::OFlags::DSYNC.bits() as i32);
            }
            let file = open.open(directory.join(number.to_string())).unwrap();
            let clock = Arc::clone(&clock);
            std::thread::spawn(move || write(number as u64, kind, file, &clock))
        };
        let writers = KINDS.into_iter().enumerate().map(writer).collect();
        // The names are made durable before anything fails, as a program that needs them would do.
        File::open(directory).unwrap().sync_all().unwrap();
        Load { name: name.to_owned(), clock, writers }
    }

    /// Waits until some hundreds of syncs have been acknowledged.
    #[track_caller]
    pub fn run_for_a_while(&self) {
        let (start, enough) = (Instant::now(), if judge_fully() { 20_000 } else { 300 });
        while self.clock.synced.load(Ordering::Relaxed) < enough {
            assert!(start.elapsed() < PATIENCE, "{}: the load is stuck", self.name);
            assert!(
                !self.writers.iter().any(JoinHandle::is_finished),
                "{}: a writer has ended",
                self.name
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Shuts down the file system below the mount. Only syncs that were acknowledged before that
    /// count: even without a mount of dio, ext4 acknowledges some of the syncs that are under way
    /// when it is shut down, and loses their bytes (seen in one of 25 runs on Linux 6.18). A power
    /// cut leaves no time for such an acknowledgement.
    #[track_caller]
    pub fn shut_down(&self, volume: &Volume) {
        self.clock.late.store(true, Ordering::SeqCst);
        volume.shut_down();
    }

    /// Waits until every writer has failed with one of these errors.
    #[track_caller]
    pub fn end(self, expected: &[Errno]) -> Written {
        self.end_but(expected, |_| false)
    }

    /// As [`Load::end`], for the case that the kernel continues without the server. In cached mode
    /// the kernel writes to the source itself, and a writer that requests no sync needs no reply.
    /// The data acknowledged to such a writer is checked like that of all other writers.
    #[track_caller]
    pub fn end_of_server(self, expected: &[Errno], mode: &str) -> Written {
        let cached = mode == "cached";
        self.end_but(expected, |kind| cached && matches!(kind, Kind::Durable))
    }

    #[track_caller]
    fn end_but(self, expected: &[Errno], may_go_on: impl Fn(Kind) -> bool) -> Written {
        let start = Instant::now();
        let has_ended =
            |(kind, writer): (Kind, &JoinHandle<Promise>)| may_go_on(kind) || writer.is_finished();
        while !KINDS.into_iter().zip(&self.writers).all(has_ended) {
            assert!(start.elapsed() < PATIENCE, "{}: a writer goes on, or hangs", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.clock.enough.store(true, Ordering::Relaxed);
        let promises: Vec<Promise> =
            self.writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        for promise in &promises {
            let errno = Errno::from_io_error(&promise.error);
            let expects = |errno| {
                expected.contains(&errno) || may_go_on(promise.kind) && errno == Errno::CANCELED
            };
            assert!(errno.is_some_and(expects), "{}: {promise:?}", self.name);
        }
        Written { name: self.name, promises }
    }
}

impl std::fmt::Debug for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {} bytes durable, {}", self.kind, self.durable, self.error)
    }
}

fn write(number: u64, kind: Kind, file: File, clock: &Clock) -> Promise {
    let mut promise = Promise {
        kind,
        durable: 0,
        pages: vec![(0, 0); PAGES as usize],
        error: io::Error::other("none"),
    };
    let outcome = match kind {
        Kind::Pages => overwrite(&file, number, &mut promise.pages, clock),
        _ => append(file, number, kind, &mut promise.durable, clock),
    };
    promise.error = outcome.expect_err("it writes until it fails");
    promise
}

fn append(
    mut file: File,
    number: u64,
    kind: Kind,
    durable: &mut u64,
    clock: &Clock,
) -> io::Result<()> {
    let (mut end, mut records) = (0, 0_u64);
    let length = if matches!(kind, Kind::Blocks) { 4096 } else { 3001 };
    loop {
        file.write_all(&content(number, end..end + length))?;
        end += length;
        records += 1;
        match kind {
            Kind::Blocks => file.sync_data()?,
            Kind::Records if records % 4 == 0 => file.sync_all()?,
            Kind::Records => continue,
            Kind::Durable | Kind::Pages => {}
        }
        clock.tick(|| *durable = end)?;
    }
}

/// Every word of a page holds its version.
fn overwrite(file: &File, number: u64, pages: &mut [(u64, u64)], clock: &Clock) -> io::Result<()> {
    file.set_len(PAGE * PAGES)?;
    let mut random = dio_test::Rng::new(number);
    for version in 1_u64.. {
        let page = random.range(0..PAGES);
        // The version counts as written even if the write fails.
        pages[page as usize].1 = version;
        file.write_all_at(&version.to_le_bytes().repeat(PAGE as usize / 8), page * PAGE)?;
        if version % 2 == 0 {
            file.sync_all()?;
            clock.tick(|| pages.iter_mut().for_each(|(durable, tried)| *durable = *tried))?;
        }
    }
    Ok(())
}

/// The data that was acknowledged to the writers of a load.
pub struct Written {
    name: String,
    promises: Vec<Promise>,
}

impl Written {
    /// Checks that the files in this directory hold all data that must be durable.
    #[track_caller]
    pub fn verify(&self, directory: &Path) {
        for (number, promise) in self.promises.iter().enumerate() {
            let mut found = Vec::new();
            File::open(directory.join(number.to_string()))
                .unwrap()
                .read_to_end(&mut found)
                .unwrap();
            let about = format!("{}: {}: {promise:?}", self.name, directory.display());
            if let Kind::Pages = promise.kind {
                verify_pages(&found, &promise.pages, &about);
                continue;
            }
            assert!(promise.durable > 0, "{about}");
            assert!(found.len() as u64 >= promise.durable, "{about}: {} bytes found", found.len());
            let expected = content(number as u64, 0..promise.durable);
            let wrong = expected.iter().zip(&found).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "{about}: the first wrong byte");
        }
    }
}

#[track_caller]
fn verify_pages(found: &[u8], pages: &[(u64, u64)], about: &str) {
    assert_eq!(found.len() as u64, PAGE * PAGES, "{about}");
    for (page, (durable, tried)) in found.chunks(PAGE as usize).zip(pages) {
        // A page that was being written may be torn.
        for word in page.chunks(8) {
            let version = u64::from_le_bytes(word.try_into().unwrap());
            assert!(
                (*durable..=*tried).contains(&version),
                "{about}: {version} is not in {durable}..={tried}"
            );
        }
    }
}
