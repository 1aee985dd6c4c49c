//! Proves how changes beside the mount show through the mount, and how programs on the mount see
//! each other's changes where the kernel does not ask the server. Covers stale bytes, false holes,
//! and flags of inodes.

mod flags;
mod support;
mod versions;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use support::{Mapper, Scene, SlowWrite};

const PAGE: u64 = 4096;

/// One second is promised. The tests run a dozen mounts and their programs at once on two cores, so
/// a thread may be late by another second.
const BOUND: Duration = Duration::from_secs(2);

/// Runs the server that the other tests start in a process of its own; does nothing in an ordinary
/// run.
#[test]
fn serves() {
    support::serve();
}

/// Combinations of the options that determine what the kernel caches and for how long.
fn variants() -> Vec<String> {
    let modes = ["direct", "concurrent", "cached", "auto"];
    let kept = [
        "gather,remember=0",
        "gather,remember=1",
        "gather,remember=60",
        "nogather,remember=0",
        "nogather",
    ];
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
        let (changed, times) =
            (Instant::now(), |stat: fs::Metadata| (stat.mtime(), stat.mtime_nsec()));
        let now = times(source.metadata().unwrap());
        let mut late = 0;
        while changed.elapsed() < BOUND {
            let shown = times(file.metadata().unwrap()) == now;
            let found = stale(&file, byte, pages);
            assert!(
                !shown || found == 0,
                "{options}: {found} stale pages although the change shows"
            );
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
    println!(
        "{options}, asks {asks}: the last stale page {} ms after the change",
        late.as_millis()
    );
    assert!(late < BOUND, "{options}: stale after {late:?}");
    assert_eq!(seen, asks, "{options}: whether stat has shown the change");
}

#[test]
fn the_first_change_of_an_open_file_shows_within_the_bound() {
    let Some(scene) = Scene::new() else { return };
    let pages = 64;
    let modes = [
        "direct",
        "concurrent",
        "concurrent,nogather",
        "concurrent,remember=30",
        "direct,remember=10",
        "auto",
    ];
    let variants = modes.iter().flat_map(|options| [(*options, true), (*options, false)]);
    thread::scope(|scope| {
        for (options, asks) in variants {
            let (scene, name) = (&scene, format!("{options}-{asks}"));
            fs::write(scene.source.join(&name), vec![b'a'; (pages * PAGE) as usize]).unwrap();
            scope.spawn(move || {
                let mounted = scene.mount(options);
                sees_the_first_change(
                    options,
                    &mounted.path().join(&name),
                    &scene.source.join(&name),
                    pages,
                    asks,
                );
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
        for options in [
            "direct,gather,remember=0",
            "concurrent,gather",
            "cached",
            "auto,gather",
            "direct,nogather",
        ] {
            let (scene, name, other) = (&scene, options.replace(',', "-"), other.path());
            fs::write(scene.source.join(&name), vec![b'a'; (pages * PAGE) as usize]).unwrap();
            scope.spawn(move || {
                let mounted = scene.mount(options);
                let write = |byte| overwrite(&other.join(&name), byte, pages * PAGE);
                sees_changes(
                    options,
                    &mounted.path().join(&name),
                    &scene.source.join(&name),
                    pages,
                    &write,
                );
                mounted.unmount();
            });
        }
    });
    other.unmount();
}

/// Waits until reads find what was written. Reads that begin later than `bound` have to. Returns
/// when it began to wait.
fn until_fresh(bound: Duration, mut is_fresh: impl FnMut() -> bool) -> Instant {
    let since = Instant::now();
    loop {
        // A thread may be late anywhere: the time before the read counts, not that after it.
        let began = since.elapsed();
        if is_fresh() {
            return since;
        }
        assert!(began < bound, "stale after {began:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a mapping finds `byte` in the last page, for which the kernel sends no request, and
/// a reader finds it in all pages.
fn both_find(file: &File, mapper: &mut Mapper, byte: u8, pages: u64, bound: Duration) {
    let since = until_fresh(bound, || {
        mapper.byte((pages - 1) * PAGE + 1) == byte && stale(file, byte, pages) == 0
    });
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
    let (slow, mounted) =
        (scene.mount_of(&bytes, "direct,nogather"), scene.mount("direct,gather,remember=60"));
    let at = mounted.path().join("file");
    let file = File::open(&at).unwrap();
    let Some(mut mapper) = Mapper::new(&at, false) else { return };
    let Some(write) = SlowWrite::begin(&slow.path().join("file"), slow.server(), &source) else {
        return;
    };
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
    until_fresh(BOUND, || stale(&file, b'b', 64) == 0);
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
        let data =
            seek(&file, SeekFrom::Data(0)).unwrap_or_else(|errno| panic!("{options}: {errno}"));
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
