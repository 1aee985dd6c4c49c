//! Proves how changes beside the mount show through the mount, and how programs on the mount see
//! each other's changes where the kernel does not ask the server. Covers stale bytes, false holes,
//! and flags of inodes.

mod beside_support;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use beside_support::{Asynchronous, Mapper, Scene, SlowWrite};
use dio_test::{Soak, run};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fcntl_setfl, seek};
use rustix::io::Errno;

const PAGE: u64 = 4096;

/// One second is promised. The tests run a dozen mounts and their programs at once on two cores, so
/// a thread may be late by another second.
const BOUND: Duration = Duration::from_secs(2);

/// Runs the server that the other tests start in a process of its own; does nothing in an ordinary
/// run.
#[test]
fn serves() {
    beside_support::serve();
}

/// Combinations of the options that determine what the kernel caches and for how long.
fn variants() -> Vec<String> {
    let modes = ["direct", "concurrent", "cached", "auto"];
    let kept = ["gather,remember=0", "gather,remember=1", "gather,remember=60", "nogather,remember=0", "nogather"];
    modes.iter().flat_map(|mode| kept.map(|kept| format!("{mode},{kept}"))).collect()
}

/// Overwrites a file and makes it durable; returns when that is done.
fn overwrite(path: &Path, byte: u8, length: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&vec![byte; length as usize], 0).unwrap();
    file.sync_all().unwrap();
}

/// Counts the pages that do not consist of `byte`.
fn stale(file: &File, byte: u8, pages: u64) -> usize {
    let mut page = [0; PAGE as usize];
    let is_stale = |number: &u64| {
        file.read_exact_at(&mut page, number * PAGE).unwrap();
        page != [byte; PAGE as usize]
    };
    (0..pages).filter(is_stale).count()
}

/// Checks reads by a handle, with `stat` and without, and reads by a mapping, after each of two
/// changes that `write` makes.
fn sees_changes(options: &str, at: &Path, source: &Path, pages: u64, write: &dyn Fn(u8)) {
    let file = File::open(at).unwrap();
    assert_eq!(stale(&file, b'a', pages), 0, "{options}");
    let mut mapper = Mapper::new(at, false);
    let mut mapped = |byte, when| {
        if let Some(mapper) = &mut mapper {
            assert_eq!(mapper.byte(PAGE + 1), byte, "{options}, mapped, {when}");
        }
    };
    mapped(b'a', "before");
    for byte in [b'b', b'c'] {
        write(byte);
        let (changed, times) = (Instant::now(), |stat: fs::Metadata| (stat.mtime(), stat.mtime_nsec()));
        let now = times(source.metadata().unwrap());
        let mut late = 0;
        while changed.elapsed() < BOUND {
            let shown = times(file.metadata().unwrap()) == now;
            let found = stale(&file, byte, pages);
            assert!(!shown || found == 0, "{options}: {found} stale pages although the change shows");
            late = late.max(if found == 0 { 0 } else { changed.elapsed().as_millis() });
            thread::sleep(Duration::from_millis(50));
        }
        let found = stale(&file, byte, pages);
        assert_eq!(found, 0, "{options}: stale after {BOUND:?}");
        mapped(byte, "after the bound");
        println!("{options}: the last stale page {late} ms after the change");
    }
}

#[test]
fn what_is_changed_beside_the_mount_shows_within_the_bound() {
    let Some(scene) = Scene::new() else { return };
    let pages = 64;
    thread::scope(|scope| {
        for (number, options) in variants().into_iter().enumerate() {
            let (scene, name) = (&scene, format!("file{number}"));
            fs::write(scene.source.join(&name), vec![b'a'; (pages * PAGE) as usize]).unwrap();
            scope.spawn(move || {
                let mounted = scene.mount(&options);
                let source = scene.source.join(&name);
                let write = |byte| overwrite(&source, byte, pages * PAGE);
                sees_changes(&options, &mounted.path().join(&name), &source, pages, &write);
                mounted.unmount();
            });
        }
    });
}

/// Checks repeated reads by a handle after the first change since it was opened. With `asks`, the
/// program calls `stat` before each read after the change, but never before the change.
fn sees_the_first_change(options: &str, at: &Path, source: &Path, pages: u64, asks: bool) {
    let file = File::open(at).unwrap();
    assert_eq!(stale(&file, b'a', pages), 0, "{options}");
    overwrite(source, b'b', pages * PAGE);
    let (changed, modified) = (Instant::now(), source.metadata().unwrap().modified().unwrap());
    let (mut late, mut seen) = (Duration::ZERO, false);
    while changed.elapsed() < 2 * BOUND {
        let shown = asks && at.metadata().unwrap().modified().unwrap() == modified;
        let began = changed.elapsed();
        let found = stale(&file, b'b', pages);
        assert!(!shown || found == 0, "{options}: {found} stale pages although the change shows");
        late = if found > 0 { began } else { late };
        seen |= shown;
        thread::sleep(Duration::from_millis(20));
    }
    println!("{options}, asks {asks}: the last stale page {} ms after the change", late.as_millis());
    assert!(late < BOUND, "{options}: stale after {late:?}");
    assert_eq!(seen, asks, "{options}: whether stat has shown the change");
}

#[test]
fn the_first_change_of_an_open_file_shows_within_the_bound() {
    let Some(scene) = Scene::new() else { return };
    let pages = 64;
    let modes = ["direct", "concurrent", "concurrent,nogather", "concurrent,remember=30", "direct,remember=10", "auto"];
    let variants = modes.iter().flat_map(|options| [(*options, true), (*options, false)]);
    thread::scope(|scope| {
        for (options, asks) in variants {
            let (scene, name) = (&scene, format!("{options}-{asks}"));
            fs::write(scene.source.join(&name), vec![b'a'; (pages * PAGE) as usize]).unwrap();
            scope.spawn(move || {
                let mounted = scene.mount(options);
                sees_the_first_change(options, &mounted.path().join(&name), &scene.source.join(&name), pages, asks);
                mounted.unmount();
            });
        }
    });
}

#[test]
fn what_is_changed_through_another_mount_shows_within_the_bound() {
    let Some(scene) = Scene::new() else { return };
    let pages = 64;
    let other = scene.mount("concurrent");
    thread::scope(|scope| {
        for options in ["direct,gather,remember=0", "concurrent,gather", "cached", "auto,gather", "direct,nogather"] {
            let (scene, name, other) = (&scene, options.replace(',', "-"), other.path());
            fs::write(scene.source.join(&name), vec![b'a'; (pages * PAGE) as usize]).unwrap();
            scope.spawn(move || {
                let mounted = scene.mount(options);
                let write = |byte| overwrite(&other.join(&name), byte, pages * PAGE);
                sees_changes(options, &mounted.path().join(&name), &scene.source.join(&name), pages, &write);
                mounted.unmount();
            });
        }
    });
    other.unmount();
}

/// Waits until a mapping finds `byte` in the last page, for which the kernel sends no request, and
/// a reader finds it in all pages.
fn both_find(file: &File, mapper: &mut Mapper, byte: u8, pages: u64, bound: Duration) {
    let since = Instant::now();
    while mapper.byte((pages - 1) * PAGE + 1) != byte || stale(file, byte, pages) > 0 {
        assert!(since.elapsed() < bound, "stale after {bound:?}");
        thread::sleep(Duration::from_millis(50));
    }
    println!("fresh after {} ms", since.elapsed().as_millis());
}

/// While a file is written through the mount, its times say nothing about changes beside the mount.
#[test]
fn what_is_changed_on_both_sides_shows_within_ten_seconds() {
    let Some(scene) = Scene::new() else { return };
    let (mounted, source) = (scene.mount("direct,gather,remember=60"), scene.source.join("file"));
    fs::write(&source, vec![b'a'; 4096 * PAGE as usize]).unwrap();
    let at = mounted.path().join("file");
    let file = File::open(&at).unwrap();
    assert_eq!(stale(&file, b'a', 64), 0);
    let Some(mut mapper) = Mapper::new(&at, false) else { return };
    assert_eq!(mapper.byte(31 * PAGE + 1), b'a');
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().read(true).write(true).open(&at).unwrap();
            while !over.load(Ordering::Acquire) {
                // Far away, because the kernel drops large folios as a whole.
                file.write_all_at(&[b'z'; 100], 4095 * PAGE).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
        // Later than the times at which pages of a new file are dropped: 1, 2, 4 and 8 seconds.
        thread::sleep(Duration::from_millis(9700));
        assert_eq!(mapper.byte(31 * PAGE + 1), b'a');
        overwrite(&source, b'b', 32 * PAGE);
        both_find(&file, &mut mapper, b'b', 32, Duration::from_secs(10) + BOUND);
        over.store(true, Ordering::Release);
    });
    drop((file, mapper));
    mounted.unmount();
}

/// The modification time of a system call is that of its beginning, so pages that were read before
/// its end may be outdated.
#[test]
fn what_a_slow_call_writes_last_shows_as_long_again_after_its_end_as_it_took() {
    let Some(scene) = Scene::in_memory() else { return };
    let (bytes, source) = (scene.dir.path().join("bytes"), scene.source.join("file"));
    fs::create_dir(&bytes).unwrap();
    fs::write(bytes.join("file"), vec![b'b'; 64 * PAGE as usize]).unwrap();
    fs::write(&source, vec![b'a'; 64 * PAGE as usize]).unwrap();
    let (slow, mounted) = (scene.mount_of(&bytes, "direct,nogather"), scene.mount("direct,gather,remember=60"));
    let at = mounted.path().join("file");
    let file = File::open(&at).unwrap();
    let Some(mut mapper) = Mapper::new(&at, false) else { return };
    let Some(write) = SlowWrite::begin(&slow.path().join("file"), slow.server(), &source) else { return };
    let began = Instant::now();
    // The bytes that were in memory are written now, and the rest when the call continues.
    while began.elapsed() < Duration::from_millis(4500) {
        let found = stale(&file, b'b', 64);
        mapper.byte(63 * PAGE + 1);
        assert!(found >= 31, "{found}: it is under way");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(stale(&file, b'b', 64) <= 33, "it has begun");
    write.end();
    let took = began.elapsed();
    both_find(&file, &mut mapper, b'b', 64, took + BOUND);
    drop((file, mapper));
    mounted.unmount();
    slow.unmount();
}

/// The kernel compares sizes and modification times. Programs that set the modification time back
/// (`cp -p`, `rsync -t`) still change other attributes.
#[test]
fn a_change_that_hides_its_time_shows_too() {
    let Some(scene) = Scene::new() else { return };
    let (mounted, source) = (scene.mount("direct,gather,remember=0"), scene.source.join("file"));
    fs::write(&source, vec![b'a'; 1 << 18]).unwrap();
    let time = source.metadata().unwrap().modified().unwrap();
    let file = File::open(mounted.path().join("file")).unwrap();
    assert_eq!(stale(&file, b'a', 64), 0);
    overwrite(&source, b'b', 1 << 18);
    File::options().write(true).open(&source).unwrap().set_modified(time).unwrap();
    let changed = Instant::now();
    while stale(&file, b'b', 64) > 0 {
        assert!(changed.elapsed() < BOUND);
        thread::sleep(Duration::from_millis(20));
    }
    drop(file);
    mounted.unmount();
}

/// Copies the data of a file without its holes, which it finds as `cp --sparse=auto` and `tar
/// --sparse` do.
fn copy_of_data(file: &File) -> Vec<u8> {
    let mut copy = vec![0; file.metadata().unwrap().len() as usize];
    let mut at = 0;
    loop {
        let data = match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return copy,
            found => found.unwrap(),
        };
        at = seek(file, SeekFrom::Hole(data)).unwrap();
        file.read_exact_at(&mut copy[data as usize..at as usize], data).unwrap();
    }
}

#[test]
fn what_a_mapping_has_written_is_no_hole() {
    let Some(scene) = Scene::new() else { return };
    for options in ["direct,gather", "concurrent,nogather", "cached", "auto"] {
        let mounted = scene.mount(options);
        let path = mounted.path().join(options);
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let Some(mut mapper) = Mapper::new(&path, true) else { return };
        mapper.store(320_208, 7, 100);
        let file = File::open(&path).unwrap();
        let data = seek(&file, SeekFrom::Data(0)).unwrap_or_else(|errno| panic!("{options}: {errno}"));
        assert!(data <= 320_208, "{options}");
        let mut expected = vec![0; 1 << 20];
        expected[320_208..320_308].fill(7);
        assert!(copy_of_data(&file) == expected, "{options}");
        assert_eq!(seek(&file, SeekFrom::Data(1 << 20)), Err(Errno::NXIO), "{options}");
        drop((mapper, file));
        let file = File::open(&path).unwrap();
        assert!(copy_of_data(&file) == expected, "{options}: once it is closed");
        assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(319_488), "{options}: holes are found again");
        drop(file);
        mounted.unmount();
    }
}

fn flags_of(path: &Path) -> String {
    let output = run(Command::new("lsattr").arg("-d").arg(path));
    assert!(output.status.success(), "{output:?}");
    output.stdout.split_whitespace().next().unwrap().to_owned()
}

fn as_nobody(program: &str, args: &[&str], path: &Path) -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]).args(args).arg(path);
    run(&mut command).status.success()
}

#[test]
fn flags_of_inodes_are_those_of_the_source() {
    let Some(scene) = Scene::new() else { return };
    let probe = scene.source.join("probe");
    fs::write(&probe, "").unwrap();
    if !run(Command::new("chattr").arg("+d").arg(&probe)).status.success() {
        dio_test::skip!("the file system has no flags, or chattr is not installed");
        return;
    }
    let mounted = scene.mount("concurrent");
    let (at, below) = (mounted.path().join("file"), scene.source.join("file"));
    fs::write(&at, "bytes").unwrap();
    let change = |how: &str, path: &Path| run(Command::new("chattr").arg(how).arg(path)).status.success();
    for flags in ["+A", "+d", "-A", "+i"] {
        assert!(change(flags, &at), "{flags}");
        assert_eq!(flags_of(&at), flags_of(&below), "{flags}");
    }
    assert!(flags_of(&below).contains(['i']));
    assert_eq!(fs::write(&at, "other").unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(fs::remove_file(&at).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    assert!(change("-i", &below));
    fs::write(&at, "other").unwrap();
    assert!(change("+d", mounted.path()) && flags_of(&scene.source).contains('d'), "of a directory");

    let extended = |path: &Path| dio_sys::extended_flags(File::open(path).unwrap().as_fd()).unwrap();
    assert_eq!(extended(&at), extended(&below));

    assert!(!as_nobody("chattr", &["+A"], &at), "it is somebody else's");
    chown(&at, Some(65534), Some(65534)).unwrap();
    assert!(as_nobody("chattr", &["+A"], &at) && flags_of(&below).contains('A'));
    for flags in ["+i", "+a"] {
        assert!(!as_nobody("chattr", &[flags], &at), "{flags} takes CAP_LINUX_IMMUTABLE");
    }
    assert!(!flags_of(&below).contains(['i', 'a']));
    mounted.unmount();
}

/// An append-only file can be appended to as without the mount, and cannot be changed otherwise.
#[test]
fn an_append_only_file_can_be_appended_to_in_every_mode() {
    let Some(scene) = Scene::new() else { return };
    let chattr = |how: &str, path: &Path| run(Command::new("chattr").arg(how).arg(path)).status.success();
    let refused = |result: std::io::Result<()>, what: &str| {
        assert_eq!(result.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied), "{what}");
    };
    for options in ["direct", "concurrent", "auto", "cached", "direct,nogather"] {
        let (mounted, source) = (scene.mount(options), scene.source.join(options));
        let at = mounted.path().join(options);
        fs::write(&source, "one\n").unwrap();
        if !chattr("+a", &source) {
            dio_test::skip!("the file system has no flags, or chattr is not installed");
            return;
        }
        let shell = run(Command::new("sh").args(["-c", "echo two >> $0; echo three | tee -a $0"]).arg(&at));
        assert!(shell.status.success(), "{options}: {shell:?}");
        for flags in [OFlags::empty(), OFlags::DSYNC, OFlags::DIRECT] {
            let mut file =
                File::options().read(true).append(true).custom_flags(flags.bits().cast_signed()).open(&at).unwrap();
            file.write_all(b"more\n").unwrap();
            file.write_all(&[b'm'; 9000]).unwrap();
            file.sync_all().unwrap();
        }
        let expected = [b"one\ntwo\nthree\n".to_vec(), [b"more\n".to_vec(), vec![b'm'; 9000]].concat().repeat(3)];
        let expected = expected.concat();
        assert!(fs::read(&source).unwrap() == expected && fs::read(&at).unwrap() == expected, "{options}");
        refused(File::options().write(true).open(&at).map(drop), "to write anywhere");
        refused(File::options().append(true).open(&at).and_then(|file| file.set_len(1)), "to cut off");
        refused(fs::remove_file(&at), "to remove");
        let mut held = File::options().append(true).open(&at).unwrap();
        if options != "cached" && options != "auto" {
            fcntl_setfl(&held, OFlags::empty()).unwrap();
            refused(held.write_all_at(b"over", 0), "to take O_APPEND back and write anywhere");
            fcntl_setfl(&held, OFlags::APPEND).unwrap();
        }
        // Once the attribute is removed, others may write anywhere, even while the file is still
        // open.
        assert!(chattr("-a", &source));
        held.write_all(b"last").unwrap();
        File::options().write(true).open(&at).unwrap().write_all_at(b"ONE", 0).unwrap();
        held.write_all(b"!").unwrap();
        drop(held);
        let found = fs::read(&source).unwrap();
        assert!(found.starts_with(b"ONE\ntwo") && found.ends_with(b"mmlast!"), "{options}");
        assert_eq!(found.len(), expected.len() + 5, "{options}");
        mounted.unmount();
    }
}

/// First bytes of the pages of a file.
fn pages_of(path: &Path) -> String {
    fs::read(path).unwrap().chunks(PAGE as usize).map(|page| char::from(page[0])).collect()
}

/// Tests io_uring requests at the file position: writes into an empty file, reads back, and writes
/// over the beginning. Returns the first bytes of the pages for each.
fn at_the_position(asynchronous: &mut Asynchronous, path: &Path, source: &Path, flags: OFlags) -> [String; 3] {
    let _ = fs::remove_file(source);
    let _ = fs::remove_file(path);
    fs::write(source, "").unwrap();
    // So that the kernel no longer uses cached attributes of the previous file.
    thread::sleep(Duration::from_millis(1100));
    asynchronous.open(path, flags | OFlags::RDWR);
    b"abc".iter().for_each(|byte| asynchronous.write(*byte, -1));
    asynchronous.open(Path::new("/dev/null"), OFlags::RDWR);
    let written = pages_of(source);
    fs::write(source, [b'a', b'b', b'c'].map(|byte| [byte; PAGE as usize]).concat()).unwrap();
    thread::sleep(Duration::from_millis(1100));
    asynchronous.open(path, flags - OFlags::APPEND);
    let read = (0..4).map(|_| asynchronous.read("ring", -1).map_or('.', char::from)).collect();
    asynchronous.open(path, flags | OFlags::RDWR);
    b"xyz".iter().for_each(|byte| asynchronous.write(*byte, -1));
    asynchronous.open(Path::new("/dev/null"), OFlags::RDWR);
    [written, read, pages_of(source)]
}

/// The kernel's FUSE does not advance the position for asynchronous requests, and sends the server
/// the same offset again. If this test fails although the bare file is as expected, the kernel does
/// advance it, and the documents must say so.
#[test]
fn requests_at_the_position_by_io_uring_are_as_documented() {
    let Some(scene) = Scene::new() else { return };
    let Some(mut asynchronous) = Asynchronous::new() else { return };
    let source = scene.source.join("file");
    let mut bare = |flags| at_the_position(&mut asynchronous, &source, &source, flags);
    let (plain, appended) = (bare(OFlags::empty()), bare(OFlags::APPEND));
    assert_eq!(plain, ["abc", "abc.", "xyz"]);
    assert_eq!(appended, ["abc", "abc.", "abcxyz"]);
    for options in ["direct", "concurrent,nogather", "auto", "cached"] {
        let mounted = scene.mount(options);
        let at = mounted.path().join("file");
        let mut found = |flags| at_the_position(&mut asynchronous, &at, &source, flags);
        let [written, read, over] = found(OFlags::empty());
        let moves = options == "cached";
        assert_eq!([written, over], if moves { ["abc", "xyz"] } else { ["c", "zbc"] }, "{options}");
        assert_eq!(read, if options.contains("nogather") { "aaaa" } else { "abc." }, "{options}");
        let [written, _, over] = found(OFlags::APPEND);
        assert_eq!([written, over], ["abc", "abcxyz"], "{options}, by O_APPEND");
        mounted.unmount();
    }
}

/// The kernel refuses these requests. If this test fails, it no longer does, and the documents must
/// say so.
#[test]
fn ranges_are_neither_collapsed_nor_inserted() {
    let Some(scene) = Scene::new() else { return };
    let mounted = scene.mount("direct");
    let path = mounted.path().join("file");
    fs::write(&path, vec![1; 1 << 16]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, flags, 0, 1 << 14), Err(Errno::OPNOTSUPP));
    }
    drop(file);
    mounted.unmount();
}

/// The writer's record in a random test: when each version of each block was complete.
struct Versions {
    blocks: Vec<AtomicU64>,
    /// For each version, the milliseconds after the start at which it was complete.
    complete: Vec<AtomicU64>,
}

impl Versions {
    /// Returns the oldest version that a read of a block may find, if it began at `began`, given
    /// the `versions` that were written.
    fn oldest(&self, block: usize, versions: &[(u64, usize)], began: Duration) -> u64 {
        let limit = began.saturating_sub(BOUND).as_millis() as u64;
        let in_time = |version: &u64| self.complete[*version as usize].load(Ordering::Acquire) <= limit;
        let of_block = versions.iter().filter(|(_, at)| *at == block).map(|(version, _)| *version);
        of_block.filter(in_time).max().unwrap_or(0)
    }
}

/// One writer beside the mount and one reader through it; each block contains its version.
fn readers_keep_up(seed: &dio_test::Seed, options: &str, at: &Path, writable: &Path) {
    const BLOCKS: usize = 96;
    let mut rng = seed.rng();
    let file = File::options().write(true).open(writable).unwrap();
    file.write_all_at(&vec![0; BLOCKS * PAGE as usize], 0).unwrap();
    let plan: Vec<(u64, usize)> = (1..400).map(|version| (version, rng.range(0..BLOCKS as u64) as usize)).collect();
    let versions = Versions {
        blocks: (0..BLOCKS).map(|_| AtomicU64::new(0)).collect(),
        complete: (0..400).map(|_| AtomicU64::new(u64::MAX)).collect(),
    };
    let pauses: Vec<u64> = plan.iter().map(|_| if rng.range(0..20) == 0 { rng.range(0..400) } else { 3 }).collect();
    let reads: Vec<(u64, u64, u64)> =
        (0..4096).map(|_| (rng.range(0..BLOCKS as u64), rng.range(1..9), rng.range(0..8))).collect();
    let (start, over) = (Instant::now(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for ((version, block), pause) in plan.iter().zip(&pauses) {
                let bytes: Vec<u8> = version.to_ne_bytes().repeat(PAGE as usize / 8);
                file.write_all_at(&bytes, *block as u64 * PAGE).unwrap();
                if version % 7 == 0 || writable != at {
                    file.sync_data().unwrap();
                }
                versions.blocks[*block].store(*version, Ordering::Release);
                versions.complete[*version as usize].store(start.elapsed().as_millis() as u64, Ordering::Release);
                thread::sleep(Duration::from_millis(*pause));
            }
            thread::sleep(BOUND + Duration::from_millis(200));
            over.store(true, Ordering::Release);
        });
        let mut reader = File::open(at).unwrap();
        for (first, count, what) in reads.iter().cycle() {
            match what {
                0 => drop(reader.metadata().unwrap()),
                1 => reader = File::open(at).unwrap(),
                _ => thread::sleep(Duration::from_millis(2)),
            }
            let last = over.load(Ordering::Acquire);
            let began = start.elapsed();
            let mut bytes = vec![0; (count * PAGE) as usize];
            let length = reader.read_at(&mut bytes, first * PAGE).unwrap();
            for (index, block) in bytes[..length].chunks_exact(PAGE as usize).enumerate() {
                let block_number = *first as usize + index;
                let found = u64::from_ne_bytes(block[..8].try_into().unwrap());
                let oldest = versions.oldest(block_number, &plan, began);
                assert!(
                    found >= oldest,
                    "{options}: block {block_number} has {found}, {oldest} was there for {BOUND:?}"
                );
            }
            if last {
                break;
            }
        }
        let newest = |block: usize| versions.blocks[block].load(Ordering::Acquire);
        let mut block = [0; 8];
        for number in 0..BLOCKS {
            reader.read_exact_at(&mut block, number as u64 * PAGE).unwrap();
            assert_eq!(u64::from_ne_bytes(block), newest(number), "{options}: block {number} in the end");
        }
    });
}

#[test]
fn soak_readers_keep_up_with_a_writer_beside_the_mount() {
    let Some(scene) = Scene::new() else { return };
    let variants = variants();
    for seed in Soak::of(1) {
        let mut rng = seed.rng();
        let chosen: Vec<&String> = (0..4).map(|_| &variants[rng.range(0..variants.len() as u64) as usize]).collect();
        let other = scene.mount("concurrent");
        thread::scope(|scope| {
            for (number, options) in chosen.into_iter().enumerate() {
                let (scene, seed, other, name) = (&scene, &seed, other.path(), format!("soak{number}"));
                fs::write(scene.source.join(&name), "").unwrap();
                scope.spawn(move || {
                    let mounted = scene.mount(options);
                    let writable = if number % 2 == 0 { scene.source.join(&name) } else { other.join(&name) };
                    readers_keep_up(seed, options, &mounted.path().join(&name), &writable);
                    mounted.unmount();
                });
            }
        });
        other.unmount();
    }
}
