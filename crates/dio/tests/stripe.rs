//! Striped files on real file systems: creation and removal, tampering, sizes that do not fit into
//! 32 bits, holes, several writers, and every layer above, which need not know about stripes.

mod common;

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{MODES, fill, first_difference};
use dio::queue::Queue;
use dio::stream::{Input, Output, Reader, StreamOptions, Writer};
use dio::stripe::{DESCRIPTOR_LEN, ObjectState, StripePlan, create, inspect, remove};
use dio::transfer::{Contents, Copier, NoWatch, Sparse, data_ranges};
use dio::{File, FileError, Io, Mode, OpenOptions, names};
use dio_sys::{Lease, take_lease};
use dio_test::{TestFs, file_systems, resident_pages};
use rustix::fs::{Mode as Permissions, OFlags};
use rustix::io::Errno;

/// A directory for a striped file over three target directories.
struct Place {
    _scratch: Box<dyn std::any::Any>,
    dir: PathBuf,
}

impl Place {
    fn on(fs: &TestFs) -> Place {
        let scratch = fs.dir();
        let dir = scratch.path().to_owned();
        ["a", "b", "c"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        Place { _scratch: Box::new(scratch), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn plan(&self, stripe: u64) -> StripePlan {
        StripePlan {
            stripe: Some(stripe),
            count: None,
            targets: ["a", "b", "c"].map(|name| self.dir.join(name)).to_vec(),
            force: false,
        }
    }

    /// Makes an empty striped file.
    fn striped(&self, name: &str, stripe: u64) -> PathBuf {
        let path = self.path(name);
        create(&path, &self.plan(stripe)).unwrap();
        path
    }

    /// All files in the targets.
    fn objects(&self) -> Vec<PathBuf> {
        let dirs = ["a", "b", "c"].map(|name| fs::read_dir(self.dir.join(name)).unwrap());
        dirs.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }
}

fn first_place() -> Place {
    Place::on(&file_systems()[0])
}

fn read_write(mode: Mode) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(mode);
    options
}

fn bytes(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, tag, 0);
    bytes
}

fn contents(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn object_paths(path: &Path) -> Vec<PathBuf> {
    inspect(path).unwrap().unwrap().objects.into_iter().map(|object| object.path).collect()
}

#[test]
fn a_file_is_made_and_removed_with_all_of_its_objects() {
    for fs in file_systems() {
        let place = Place::on(&fs);
        let path = place.striped("file", 64 << 10);
        assert_eq!(place.objects().len(), 3);
        assert_eq!(fs::metadata(&path).unwrap().len(), DESCRIPTOR_LEN);
        assert!(fs::read_to_string(&path).unwrap().starts_with("dio striped file 1\n"));
        fs::write(place.path("plain"), "text").unwrap();
        assert!(inspect(place.path("plain")).unwrap().is_none());
        let error = create(&path, &place.plan(4096)).unwrap_err();
        assert_eq!(error.errno(), Errno::EXIST, "{error}");
        assert_eq!(remove(place.path("plain")).unwrap_err().errno(), Errno::INVAL);
        // The bytes stay as long as there is a second name.
        fs::hard_link(&path, place.path("link")).unwrap();
        remove(&path).unwrap();
        assert_eq!(place.objects().len(), 3);
        remove(place.path("link")).unwrap();
        assert!(place.objects().is_empty());
        assert!(!path.exists());
    }
}

#[test]
fn an_empty_file_is_replaced_and_keeps_its_permissions() {
    let place = first_place();
    let path = place.path("file");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    create(&path, &place.plan(4096)).unwrap();
    for path in place.objects().iter().chain([&path]) {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o640, "{}", path.display());
    }
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let place = first_place();
    let path = place.path("file");
    let mut plan = place.plan(4096);
    for bad in [place.path("missing"), place.path("plain"), "/proc".into()] {
        fs::write(place.path("plain"), "text").unwrap();
        plan.targets[2] = bad;
        create(&path, &plan).unwrap_err();
        assert!(place.objects().is_empty() && !path.exists());
    }
    for (stripe, count) in
        [(Some(1000), None), (Some(0), None), (None, Some(0)), (None, Some(1000))]
    {
        let error = create(&path, &StripePlan { stripe, count, ..place.plan(4096) }).unwrap_err();
        assert_eq!(error.errno(), Errno::INVAL, "{error}");
    }
    assert!(place.objects().is_empty() && !path.exists());
    let names: Vec<_> =
        fs::read_dir(&place.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "three targets and a plain file: {names:?}");
}

/// If an object is missing, swapped, belongs to another file, is damaged or is something else, the
/// error names it. The report of `inspect` agrees.
#[test]
fn tampered_objects_are_errors_that_name_them() {
    let place = first_place();
    let other = object_paths(&place.striped("other", 4096))[1].clone();
    type Tamper = fn(&[PathBuf], &Path);
    let ways: [(&str, Errno, Tamper); 8] = [
        ("is missing", Errno::NOENT, |objects, _| fs::remove_file(&objects[1]).unwrap()),
        ("is object 0 of this file", Errno::STALE, |objects, _| {
            let spare = objects[1].with_extension("spare");
            fs::rename(&objects[1], &spare).unwrap();
            fs::rename(&objects[0], &objects[1]).unwrap();
            fs::rename(&spare, &objects[0]).unwrap();
        }),
        ("belongs to another file", Errno::STALE, |objects, other| {
            fs::copy(other, &objects[1]).unwrap();
        }),
        ("is no object", Errno::STALE, |objects, _| fs::write(&objects[1], [7; 10_000]).unwrap()),
        ("is no object", Errno::STALE, |objects, _| fs::write(&objects[1], "").unwrap()),
        ("checksum", Errno::BADMSG, |objects, _| {
            let file = fs::OpenOptions::new().write(true).open(&objects[1]).unwrap();
            file.write_all_at(b"z", 40).unwrap();
        }),
        ("", Errno::LOOP, |objects, other| {
            fs::remove_file(&objects[1]).unwrap();
            std::os::unix::fs::symlink(other, &objects[1]).unwrap();
        }),
        ("", Errno::INVAL, |objects, _| {
            fs::remove_file(&objects[1]).unwrap();
            fs::create_dir(&objects[1]).unwrap();
        }),
    ];
    for (number, (what, errno, tamper)) in ways.into_iter().enumerate() {
        let path = place.striped(&format!("file{number}"), 4096);
        fs::write(place.path("source"), bytes(1, 40_000)).unwrap();
        read_write(Mode::Direct).open(&path).unwrap().write_at(&bytes(1, 40_000), 0).unwrap();
        let objects = object_paths(&path);
        tamper(&objects, &other);
        for mode in MODES {
            let mut options = OpenOptions::new();
            let error = options.read(true).mode(mode).open(&path).unwrap_err();
            let text = error.to_string();
            let bad = if number == 1 { &objects[0] } else { &objects[1] };
            let told = if number == 1 { "is object 1 of this file" } else { what };
            assert!(text.contains(told) && text.contains(bad.to_str().unwrap()), "{text}");
            assert!(error.errno() == errno || errno == Errno::INVAL, "{text}");
            assert_eq!(error.path(), path);
        }
        let report = inspect(&path).unwrap().unwrap();
        assert!(!report.is_sound());
        assert!(
            report.objects[1].state != ObjectState::Sound
                && report.objects[2].state == ObjectState::Sound
        );
    }
}

#[test]
fn a_damaged_descriptor_is_an_error_and_a_plain_file_of_its_length_is_none() {
    let place = first_place();
    let path = place.striped("file", 4096);
    let sound = fs::read(&path).unwrap();
    let mut damaged = sound.clone();
    damaged[300] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let error = File::open(&path).unwrap_err();
    assert_eq!(error.errno(), Errno::BADMSG, "{error}");
    let newer = String::from_utf8(sound).unwrap().replacen("file 1\n", "file 7\n", 1);
    fs::write(&path, newer).unwrap();
    let error = File::open(&path).unwrap_err();
    assert!(error.to_string().contains("version 7"), "{error}");
    let plain = place.path("plain");
    fs::write(&plain, bytes(3, DESCRIPTOR_LEN as usize)).unwrap();
    for mode in MODES {
        let file = read_write(mode).open(&plain).unwrap();
        assert!(file.layout().is_none());
        assert_eq!(file.size().unwrap(), DESCRIPTOR_LEN);
    }
    let write_only = OpenOptions::new().write(true).open(&plain).unwrap();
    write_only.write_at(&[7; 4096], 0).unwrap();
    assert_eq!(fs::read(&plain).unwrap()[..4096], [7; 4096]);
}

/// Bytes that a crash left behind the end are not visible, and the first writer without other
/// writers truncates them.
#[test]
fn what_lies_behind_the_end_is_cut_off_when_nobody_else_writes() {
    let place = first_place();
    let path = place.striped("file", 4096);
    let data = bytes(1, 30_000);
    read_write(Mode::Direct).open(&path).unwrap().write_at(&data, 0).unwrap();
    let objects = object_paths(&path);
    let grow = |by: &[u8]| {
        let object = fs::OpenOptions::new().write(true).open(&objects[2]).unwrap();
        object.write_all_at(by, object.metadata().unwrap().len()).unwrap();
    };
    let writer = read_write(Mode::Direct).open(&path).unwrap();
    // Such bytes exist only after a write; behind the end of a closed file they are damage.
    writer.write_at(&data[..1], 0).unwrap();
    grow(&[9; 5000]);
    assert!(inspect(&path).unwrap().unwrap().has_surplus());
    assert!(contents(&path) == data);
    for mode in MODES {
        let mut options = OpenOptions::new();
        let mut buffer = vec![0xee; 64 << 10];
        let count =
            options.read(true).mode(mode).open(&path).unwrap().read_at(&mut buffer, 0).unwrap();
        assert!(
            count == data.len() && !buffer[count..].contains(&9),
            "{mode:?}: bytes from behind the end"
        );
    }
    // While another writer has the file open, the bytes may belong to it.
    drop(read_write(Mode::Direct).open(&path).unwrap());
    assert!(inspect(&path).unwrap().unwrap().has_surplus());
    drop(writer);
    let writer = read_write(Mode::Direct).open(&path).unwrap();
    assert!(!inspect(&path).unwrap().unwrap().has_surplus());
    writer.set_size(60_000).unwrap();
    assert!(
        contents(&path)[..30_000] == data
            && contents(&path)[30_000..].iter().all(|byte| *byte == 0)
    );
}

#[test]
fn offsets_beyond_32_bits_and_sizes_of_16_tib() {
    for fs in file_systems() {
        let place = Place::on(&fs);
        let path = place.striped("file", 1 << 20);
        let file = read_write(Mode::Direct).open(&path).unwrap();
        let size = 16 << 40;
        file.set_size(size).unwrap();
        let places = [0, (4 << 30) - 5000, 9 << 40, size - 70_000];
        for (tag, at) in places.into_iter().enumerate() {
            file.write_at(&bytes(tag as u64, 70_000), at).unwrap();
        }
        assert_eq!(file.size().unwrap(), size);
        for (tag, at) in places.into_iter().enumerate() {
            let mut found = vec![0; 70_000];
            file.read_exact_at(&mut found, at).unwrap();
            assert!(found == bytes(tag as u64, 70_000), "{}: at {at}", fs.name);
            file.read_exact_at(&mut found, at + (1 << 30)).map_or_else(
                |error| assert_eq!(error.errno(), Errno::NODATA),
                |()| assert!(found.iter().all(|byte| *byte == 0)),
            );
        }
        let held: u64 =
            data_ranges(&file, size).unwrap().iter().map(|range| range.end - range.start).sum();
        assert!(held <= 64 << 20, "{}: {held} bytes of data in a sparse file", fs.name);
        assert!(inspect(&path).unwrap().unwrap().allocated() < 64 << 20);
    }
}

/// Several writers in one process, each with its own handle and its own stripes, all of them beyond
/// the current end.
#[test]
fn writers_of_disjoint_stripes_do_not_disturb_each_other() {
    let place = first_place();
    for mode in MODES {
        let path = place.striped(mode.name(), 4096);
        const PIECE: usize = 12_288;
        std::thread::scope(|scope| {
            for writer in 0..6u64 {
                let path = &path;
                scope.spawn(move || {
                    let file = read_write(mode).open(path).unwrap();
                    for turn in (0..8u64).rev() {
                        let at = (turn * 6 + writer) * PIECE as u64;
                        file.write_at(&bytes(writer, PIECE), at).unwrap();
                    }
                });
            }
        });
        let expected: Vec<u8> = (0..48u64).flat_map(|piece| bytes(piece % 6, PIECE)).collect();
        let found = contents(&path);
        assert_eq!(found.len(), expected.len());
        assert_eq!(first_difference(&found, &expected), None, "{mode:?}");
    }
}

/// Copies, streams, queues and byte pipes, to a striped file and back.
#[test]
fn every_layer_takes_a_striped_file_for_a_file() {
    let place = first_place();
    let data = bytes(5, (3 << 20) + 777);
    let plain = place.path("plain");
    fs::write(&plain, &data).unwrap();
    let io = Io::shared().unwrap();

    let path = place.striped("copied", 64 << 10);
    let (source, target) =
        (File::open(&plain).unwrap(), read_write(Mode::Direct).open(&path).unwrap());
    let sparse = Sparse::Auto;
    let job = Contents {
        source: &source,
        target: &target,
        size: data.len() as u64,
        start: 0,
        sparse,
        pace: None,
    };
    Copier::new(&io, 1 << 20, 4).unwrap().copy_contents(&job, &mut NoWatch).unwrap();
    assert!(contents(&path) == data);

    let back = place.path("back");
    let (source, target) =
        (File::open(&path).unwrap(), read_write(Mode::Direct).create(true).open(&back).unwrap());
    let job = Contents {
        source: &source,
        target: &target,
        size: data.len() as u64,
        start: 0,
        sparse,
        pace: None,
    };
    Copier::new(&io, 1 << 20, 4).unwrap().copy_contents(&job, &mut NoWatch).unwrap();
    assert!(fs::read(&back).unwrap() == data);

    let path = place.striped("written", 8192);
    let mut writer = Writer::new(read_write(Mode::Direct).open(&path).unwrap()).unwrap();
    data.chunks(70_001).for_each(|chunk| writer.write_all(chunk).unwrap());
    writer.seek(SeekFrom::Current(100_000)).unwrap();
    writer.write_all(b"behind a gap").unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::new(File::open(&path).unwrap()).unwrap();
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert!(found == [&data[..], &[0; 100_000], b"behind a gap"].concat());

    let file = Arc::new(read_write(Mode::Direct).open(&path).unwrap());
    let mut queue = Queue::new(&io, 64 << 10, 8).unwrap();
    for number in 0..8 {
        let block = queue.block().unwrap();
        queue.read(&file, block, number * (64 << 10), 64 << 10, number).unwrap();
    }
    let mut completions = Vec::new();
    queue.wait(8, &mut completions).unwrap();
    for completion in completions {
        let at = completion.tag as usize * (64 << 10);
        assert!(
            completion.block.filled() == &data[at..at + (64 << 10)],
            "{:?}",
            completion.outcome
        );
    }
}

#[test]
fn streams_of_programs_read_write_and_append() {
    let place = first_place();
    let path = place.striped("file", 4096);
    let data = bytes(5, 200_000);
    for mode in MODES {
        let how = StreamOptions { mode, ..StreamOptions::default() };
        let open = |append: bool| {
            fs::OpenOptions::new().read(!append).write(!append).append(append).open(&path).unwrap()
        };
        OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
        let mut output = Output::adopt(open(false).into(), &path, &how).unwrap();
        output.write_all(&data[..99_999]).unwrap();
        output.finish().unwrap();
        let mut output = Output::adopt(open(true).into(), &path, &how).unwrap();
        data[99_999..].chunks(30_001).for_each(|chunk| output.write_all(chunk).unwrap());
        output.finish().unwrap();
        assert!(contents(&path) == data, "{mode:?}");
        let mut input = Input::open(&path, &how).unwrap();
        assert_eq!(input.len(), Some(data.len() as u64));
        let mut found = Vec::new();
        input.read_to_end(&mut found).unwrap();
        assert!(found == data, "{mode:?}");
        assert!(
            fs::read_to_string(&path).unwrap().starts_with("dio striped file"),
            "the descriptor is not written to"
        );
    }
}

/// More blocks of a striped file are written behind than the source lends chunks: all data arrives,
/// and source and target never wait for each other.
#[test]
fn chunks_of_a_source_come_through_to_many_targets() {
    let place = first_place();
    let data = bytes(5, (6 << 20) + 777);
    fs::write(place.path("plain"), &data).unwrap();
    let how = StreamOptions { block: 64 << 10, depth: 2, ..StreamOptions::default() };
    let path = place.path("file");
    create(&path, &StripePlan { count: Some(8), ..place.plan(64 << 10) }).unwrap();
    // The first pass extends the file; the second one overwrites it.
    for _ in 0..2 {
        let mut input = Input::open(place.path("plain"), &how).unwrap();
        let given = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let mut output = Output::adopt(given.into(), &path, &how).unwrap();
        while let Some(chunk) = input.next_chunk().unwrap() {
            output.write_chunk(chunk).unwrap();
        }
        output.finish().unwrap();
        assert!(contents(&path) == data);
    }
}

/// Direct and uncached I/O leave no page of any object in the cache.
#[test]
fn no_page_of_an_object_stays() {
    // If the page cache is the storage, pages stay.
    for fs in file_systems().iter().filter(|fs| fs.name != "tmpfs") {
        let place = Place::on(fs);
        for mode in [Mode::Direct, Mode::Concurrent, Mode::Uncached] {
            let path = place.striped(mode.name(), 64 << 10);
            let file = read_write(mode).open(&path).unwrap();
            file.write_at(&bytes(1, 1_000_001), 0).unwrap();
            file.write_at(&bytes(2, 4097), 70_001).unwrap();
            file.sync_data().unwrap();
            file.read_at(&mut vec![0; 1 << 20], 0).unwrap();
            file.settle().unwrap();
            for object in object_paths(&path) {
                let resident = resident_pages(&object);
                // The header was written through the cache.
                assert!(
                    resident <= 1,
                    "{}: {resident} pages of {}, {mode:?}",
                    fs.name,
                    object.display()
                );
            }
        }
    }
}

/// The owner of a file may hold a lease on it (`fcntl(2)`), which the kernel breaks only after 45
/// seconds.
#[test]
fn a_lease_keeps_those_waiting_who_open_the_file_and_not_those_who_look_at_it() {
    let place = first_place();
    let (path, other) = (place.striped("file", 4096), place.striped("other", 4096));
    let held = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    if let Err(error) = dio_test::while_busy(|| take_lease(held.as_fd(), Lease::Everybody)) {
        dio_test::skip!("no leases here: {error}");
        return;
    }
    let here = rustix::fs::open(&place.dir, OFlags::PATH, Permissions::empty()).unwrap();
    let there = rustix::fs::open(&path, OFlags::PATH, Permissions::empty()).unwrap();
    let begun = Instant::now();
    let opening = std::thread::spawn({
        let path = path.clone();
        move || (File::open(path).map(|file| file.objects().len()), begun.elapsed())
    });
    let looks: [(&str, &dyn Fn() -> Option<Errno>); 5] = [
        ("stat", &|| names::stat(&path).err()),
        ("fstat of a place", &|| names::fstat(&there).err()),
        ("whether it is striped", &|| names::is_striped(&there).err()),
        ("its stripes", &|| inspect(&path).err().map(|error| error.errno())),
        ("removal", &|| names::unlinkat(&here, c"file").err()),
    ];
    for (what, look) in looks {
        let begun = Instant::now();
        assert_eq!(look(), Some(Errno::AGAIN), "{what}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{what}: {:?}", begun.elapsed());
        let details = names::take_details();
        let says = |error: &FileError| {
            error.detail().is_some_and(|detail| detail.contains("holds a lease"))
        };
        assert!(what == "its stripes" || details.iter().any(says), "{what}: {details:?}");
        assert_eq!(names::stat(&other).map(|stat| stat.st_size), Ok(0));
    }
    assert!(inspect(&path).unwrap_err().to_string().contains("holds a lease"));
    assert_eq!(place.objects().len(), 6, "nothing was removed");
    assert!(!opening.is_finished(), "opening did not wait");
    let released = begun.elapsed();
    drop(held);
    let (opened, after) = opening.join().unwrap();
    assert_eq!(opened.unwrap(), 3);
    assert!(after >= released);
    assert_eq!(names::stat(&path).map(|stat| stat.st_size), Ok(0));
}
