//! Switches between direct and cached I/O: no reader gets stale bytes, and no page stays behind.

use std::collections::HashSet;

use dio_test::{file_systems, resident_pages};

use super::*;

const SIZE: usize = 1 << 20;

fn bench(directory: &std::path::Path) -> Bench {
    Bench::new(directory, settings(), LockPolicy::Range, true)
}

/// Whether a file system supports I/O past the page cache at all.
fn is_direct(directory: &std::path::Path) -> bool {
    let path = directory.join("probe");
    let file = dio::OpenOptions::new().read(true).write(true).create(true).open(&path).unwrap();
    file.write_at(&[1; 65536], 0).unwrap();
    file.read_at(&mut [0; 65536], 0).unwrap();
    let classes = [file.write_class().0, file.read_class().0];
    file.sync_data().unwrap();
    drop(file);
    classes.iter().all(|class| *class == dio::Class::Direct) && resident_pages(&path) == 0
}

#[test]
fn a_cached_open_makes_the_file_cached_and_its_end_direct_again() {
    for fs in file_systems() {
        let directory = fs.dir();
        if !is_direct(directory.path()) {
            // Without direct I/O there is no switch to observe.
            println!("{} has no direct I/O", fs.name);
            continue;
        }
        let bench = bench(directory.path());
        std::fs::write(bench.path(1), vec![1; SIZE]).unwrap();
        std::fs::File::open(bench.path(1)).unwrap().sync_all().unwrap();
        dio::residency::evict(std::fs::File::open(bench.path(1)).unwrap(), 0..SIZE as u64).unwrap();
        // The cached handle is opened first, so that the inode becomes backed.
        let cached = bench.open(1, OFlags::RDWR, Mode::Cached).unwrap();
        assert_eq!(bench.route(cached), KernelRoute::Source);
        let direct = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
        bench.write(cached, 1, 5000, &[2; 100], PLAIN).unwrap();
        assert_eq!(bench.read(direct, 1, 5000, 100).unwrap(), [2; 100]);
        bench.write(direct, 1, 6000, &[3; 100], PLAIN).unwrap();
        assert_eq!(bench.read(cached, 1, 6000, 100).unwrap(), [3; 100]);
        assert!(resident_pages(bench.path(1)) > 0);
        assert!(bench.events(Event::HybridShared) >= 2);
        bench.write(cached, 1, 70_000, &[4; 100], PLAIN).unwrap();
        bench.files.flush(cached).unwrap();
        bench.files.release(cached);
        assert_eq!(resident_pages(bench.path(1)), 0, "{}", fs.name);
        assert_eq!((bench.events(Event::BecameCached), bench.events(Event::BecameDirect)), (1, 1));
        assert_eq!(bench.read(direct, 1, 70_000, 100).unwrap(), [4; 100]);
        assert_eq!(bench.read(direct, 1, 5000, 100).unwrap(), [2; 100]);
        bench.write(direct, 1, 0, &[5; 4096], PLAIN).unwrap();
        assert_eq!(resident_pages(bench.path(1)), 0, "{}", fs.name);
        // Stands for a mapping of the direct handle: the kernel maps the source itself.
        std::fs::read(bench.path(1)).unwrap();
        assert!(resident_pages(bench.path(1)) > 0);
        bench.files.release(direct);
        assert_eq!(resident_pages(bench.path(1)), 0, "{}", fs.name);
    }
}

#[test]
fn what_was_acknowledged_is_there_when_the_kernel_helps_itself() {
    let directory = file_systems()[0].dir();
    let bench = bench(directory.path());
    std::fs::write(bench.path(1), b"").unwrap();
    let direct = bench.open(1, OFlags::WRONLY, Mode::Direct).unwrap();
    for step in 0..10 {
        bench.write(direct, 1, step * 1000, &[step as u8; 1000], PLAIN).unwrap();
    }
    assert_eq!(bench.files.size_of(1), Some(10_000), "it is written behind");
    // The inode was opened apart, so the kernel uses its own cache and requests missing pages here.
    let cached = bench.open(1, OFlags::RDONLY, Mode::Cached).unwrap();
    assert_eq!(bench.route(cached), KernelRoute::Cache);
    assert_eq!(bench.read(cached, 1, 9000, 5000).unwrap(), [9; 1000]);
    bench.files.release(direct);
    bench.files.release(cached);
    // The inode has no handle any more, so the next one may be passed through.
    let cached = bench.open(1, OFlags::RDONLY, Mode::Cached).unwrap();
    assert_eq!(bench.route(cached), KernelRoute::Source);
    assert_eq!(bench.read(cached, 1, 0, 20_000).unwrap().len(), 10_000);
    bench.files.release(cached);
}

#[test]
fn nothing_is_held_back_of_a_backed_inode() {
    let directory = file_systems()[0].dir();
    let bench = bench(directory.path());
    std::fs::write(bench.path(1), b"").unwrap();
    let cached = bench.open(1, OFlags::RDONLY, Mode::Cached).unwrap();
    let direct = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    bench.files.release(cached);
    for step in 0..10u64 {
        bench.write(direct, 1, step * 1000, &[step as u8; 1000], PLAIN).unwrap();
        assert_eq!(std::fs::metadata(bench.path(1)).unwrap().len(), (step + 1) * 1000);
    }
    bench.read(direct, 1, 0, 1000).unwrap();
    bench.read(direct, 1, 1000, 1000).unwrap();
    assert_eq!(bench.events(Event::ReadAhead), 0);
    bench.files.release(direct);
}

#[test]
fn the_kernel_keeps_its_cache_only_of_what_has_not_changed() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"one").unwrap();
    let open = |bench: &Bench| {
        let refuse = |_: std::os::fd::BorrowedFd<'_>| Err(std::io::ErrorKind::Unsupported.into());
        bench
            .files
            .open(
                &Bench::wanted(1, &bench.path(1)),
                &bench.opener(1),
                OFlags::RDONLY,
                Mode::Cached,
                &refuse,
            )
            .unwrap()
    };
    let keeps = |opened: &Opened| opened.flags.contains(dio_fuse::FopenFlags::FOPEN_KEEP_CACHE);
    let first = open(&bench);
    assert!(!keeps(&first) && first.backing.is_none());
    bench.files.release(first.handle);
    let second = open(&bench);
    assert!(keeps(&second));
    bench.files.release(second.handle);
    std::fs::write(bench.path(1), b"two").unwrap();
    let third = open(&bench);
    assert!(!keeps(&third));
    std::fs::write(bench.path(1), b"three").unwrap();
    bench.files.release(third.handle);
    assert!(!keeps(&open(&bench)), "the kernel may have pages of before the last change");
}

#[test]
fn what_was_read_ahead_goes_when_attributes_show_a_change_beside_the_mount() {
    for fs in file_systems() {
        let directory = fs.dir();
        let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
        let look = || bench.files.compare_attributes(1, &rustix::fs::stat(bench.path(1)).unwrap());
        for mode in Mode::ALL {
            std::fs::write(bench.path(1), vec![1; SIZE]).unwrap();
            let handle = bench.open(1, OFlags::RDONLY, mode).unwrap();
            look();
            assert_eq!(bench.read(handle, 1, 0, 4096).unwrap(), [1; 4096]);
            let beside = std::fs::File::options().write(true).open(bench.path(1)).unwrap();
            beside.write_all_at(&vec![2; SIZE], 0).unwrap();
            look();
            for page in 0..SIZE as u64 / 4096 {
                let found = bench.read(handle, 1, page * 4096, 4096).unwrap();
                assert_eq!(found, [2; 4096], "{mode:?} on {}: page {page}", fs.name);
            }
            bench.files.release(handle);
        }
        assert!(bench.events(Event::ReadAhead) > 0);
    }
}

#[test]
fn the_kernel_drops_its_pages_of_what_is_changed_beside_the_mount_without_being_asked() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(
        directory.path(),
        Settings { gather: true, ..settings() },
        LockPolicy::Range,
        false,
    );
    std::fs::write(bench.path(1), vec![1; 8192]).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let send = parking_lot::Mutex::new(send);
    bench.files.on_drop_pages(move |ino, range| send.lock().send((ino, range)).unwrap());
    let reader = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    assert_eq!(bench.route(reader), KernelRoute::Cache);
    bench.read(reader, 1, 0, 4096).unwrap();
    let patience = std::time::Duration::from_secs(20);
    assert_eq!(
        receive.recv_timeout(patience),
        Ok((1, 0..0)),
        "it was written just before it was opened"
    );
    for byte in 2..4 {
        std::fs::write(bench.path(1), vec![byte; 8192]).unwrap();
        // Pages are dropped at once, and again when the bytes are surely in the file.
        assert_eq!(receive.recv_timeout(patience), Ok((1, 0..0)));
        assert_eq!(receive.recv_timeout(patience), Ok((1, 0..0)));
    }
}

/// With many files open, those that are not read lose their pages and cost nothing any more.
#[test]
fn only_so_many_inodes_are_watched_for_changes_beside_the_mount() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(
        directory.path(),
        Settings { gather: true, ..settings() },
        LockPolicy::Range,
        false,
    );
    let (dropped, most) =
        (Arc::new(parking_lot::Mutex::new(HashSet::new())), super::super::freshness::WATCHED_MAX);
    let note = Arc::clone(&dropped);
    bench.files.on_drop_pages(move |ino, _| {
        note.lock().insert(ino);
    });
    let handles: Vec<u64> = (1..=most as u64 + 20)
        .map(|ino| {
            std::fs::write(bench.path(ino), b"bytes").unwrap();
            let handle = bench.open(ino, OFlags::RDONLY, Mode::Direct).unwrap();
            bench.read(handle, ino, 0, 100).unwrap();
            handle
        })
        .collect();
    let unwatched = || {
        bench.files.0.all().into_iter().filter(|shared| !shared.is_watched()).collect::<Vec<_>>()
    };
    let began = std::time::Instant::now();
    while unwatched().len() < 20 {
        assert!(
            began.elapsed().as_secs() < 20,
            "{} are watched",
            handles.len() - unwatched().len()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let idle = unwatched();
    while !idle.iter().all(|shared| dropped.lock().contains(&shared.ino)) {
        assert!(began.elapsed().as_secs() < 20, "the kernel keeps pages of unwatched inodes");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(idle.len(), 20);
    let ino = idle[0].ino;
    std::fs::write(bench.path(ino), b"other").unwrap();
    assert_eq!(bench.read(handles[ino as usize - 1], ino, 0, 100).unwrap(), b"other");
    assert!(idle[0].is_watched(), "the kernel has pages again");
}

#[test]
fn pages_of_a_mapping_are_dropped_with_it() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), vec![7; 8192]).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let send = parking_lot::Mutex::new(send);
    bench.files.on_drop_pages(move |ino, _| send.lock().send(ino).unwrap());
    let plain = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    bench.read(plain, 1, 0, 4096).unwrap();
    bench.files.release(plain);
    let mapped = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    bench.files.read(mapped, 0, 4096, true, |result| assert_eq!(result.unwrap(), [7; 4096]));
    assert!(receive.try_recv().is_err());
    bench.files.release(mapped);
    assert_eq!(receive.recv_timeout(std::time::Duration::from_secs(10)), Ok(1));
    assert!(receive.try_recv().is_err());
}

#[test]
fn the_kernel_drops_what_a_gathering_reader_has_passed() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(
        directory.path(),
        Settings { gather: true, ..settings() },
        LockPolicy::Range,
        false,
    );
    std::fs::File::create(bench.path(1)).unwrap().set_len(64 << 20).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let send = parking_lot::Mutex::new(send);
    bench.files.on_drop_pages(move |_, range| send.lock().send(range).unwrap());
    let reader = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    assert_eq!(bench.route(reader), KernelRoute::Cache);
    let writer = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    assert_eq!(bench.route(writer), KernelRoute::Requests);
    let late = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    assert_eq!(
        bench.route(late),
        KernelRoute::Requests,
        "who comes to a writer does not stand in its way"
    );
    bench.files.release(late);
    for at in (0..64u64 << 20).step_by(1 << 20) {
        bench
            .files
            .read(reader, at, 1 << 20, true, |result| assert_eq!(result.unwrap().len(), 1 << 20));
    }
    bench.files.release(reader);
    bench.files.release(writer);
    let patience = std::time::Duration::from_secs(10);
    let mut upto = 0;
    while upto < 54 << 20 {
        let range = receive.recv_timeout(patience).unwrap();
        assert_eq!(range.start, upto);
        upto = range.end;
    }
    assert_eq!(receive.recv_timeout(patience), Ok(0..0), "and everything in the end");
    // With reads out of order, everything is dropped each time a certain amount has been read.
    let reader = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    assert_eq!(bench.route(reader), KernelRoute::Cache);
    for step in 0..200u64 {
        bench
            .files
            .read(reader, (step * 37 % 64) << 20, 64 << 10, true, |result| assert!(result.is_ok()));
    }
    assert_eq!(receive.recv_timeout(patience), Ok(0..0));
    assert!(receive.try_recv().is_err(), "not each time");
    bench.files.release(reader);
}

#[test]
fn what_is_read_ahead_is_used_and_changes_show() {
    let directory = file_systems()[0].dir();
    let bench = bench(directory.path());
    let bytes: Vec<u8> = (0..4 * SIZE).map(|at| (at / 4096) as u8).collect();
    std::fs::write(bench.path(1), &bytes).unwrap();
    let reader = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    let writer = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    let half = (bytes.len() / 2) as u64;
    for at in (0..half).step_by(4096) {
        assert_eq!(
            bench.read(reader, 1, at, 4096).unwrap(),
            bytes[at as usize..at as usize + 4096]
        );
    }
    let hits = bench.events(Event::ReadAheadHit);
    assert!(hits > 500, "{hits} of 512");
    // The bytes after `half` have been read ahead. They are changed through another handle, and
    // then by a truncation.
    bench.write(writer, 1, half, &[0xee; 4096], PLAIN).unwrap();
    assert_eq!(bench.read(reader, 1, half, 4096).unwrap(), [0xee; 4096]);
    bench.files.set_size(1, None, half + 5000, &bench.opener(1)).unwrap();
    assert_eq!(bench.read(reader, 1, half + 4096, 4096).unwrap().len(), 904);
    assert_eq!(bench.read(reader, 1, half + 8192, 4096).unwrap().len(), 0);
    bench.write(writer, 1, half + 8192, &[0xdd; 4096], PLAIN).unwrap();
    assert_eq!(bench.read(reader, 1, half + 8192, 4096).unwrap(), [0xdd; 4096]);
    assert_eq!(bench.read(reader, 1, half + 5000, 3192).unwrap(), [0; 3192]);
    // A change beside the mount shows after a second.
    let beside = std::fs::File::options().write(true).open(bench.path(1)).unwrap();
    bench.read(reader, 1, 0, 4096).unwrap();
    bench.read(reader, 1, 4096, 4096).unwrap();
    beside.write_all_at(&[0xcc; 65536], 0).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(bench.read(reader, 1, 8192, 4096).unwrap(), [0xcc; 4096]);
    bench.files.release(reader);
    bench.files.release(writer);
}

#[test]
fn memory_goes_back_when_nothing_happens() {
    let directory = file_systems()[0].dir();
    let bench = bench(directory.path());
    std::fs::write(bench.path(1), vec![1; 4 * SIZE]).unwrap();
    let handle = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    (0..20).for_each(|step| drop(bench.read(handle, 1, step * 65536, 65536).unwrap()));
    (0..3).for_each(|step| {
        assert_eq!(bench.write(handle, 1, step * 65536, &[2; 65536], PLAIN), Ok(65536))
    });
    assert!(bench.files.0.common.memory.bytes() > 0);
    let begun = std::time::Instant::now();
    while bench.files.0.common.memory.bytes() > 0 || bench.files.is_pending(1) {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(20),
            "{} bytes",
            bench.files.0.common.memory.bytes()
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    bench.files.release(handle);
}

/// A mapping fills the kernel's cache of the mount, which is dropped when its handle is
/// closed. No event of pages of the source is counted.
#[test]
fn what_a_mapping_brought_in_is_asked_to_go() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), [1; 8192]).unwrap();
    let handle = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    for offset in [0, 4096] {
        bench.files.read(handle, offset, 4096, true, |bytes| assert_eq!(bytes, Ok(&[1; 4096][..])));
    }
    let events = || {
        [Event::BecameCached, Event::DroppedCache, Event::BecameDirect]
            .map(|event| bench.events(event))
    };
    assert_eq!(events(), [1, 0, 0]);
    bench.files.release(handle);
    assert_eq!(events(), [1, 1, 0]);
}

#[test]
fn what_a_hybrid_writer_passes_through_does_not_stay_in_the_page_cache() {
    for fs in file_systems().iter().filter(|fs| fs.name != "tmpfs") {
        let directory = fs.dir();
        let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, true);
        std::fs::write(bench.path(1), b"").unwrap();
        let writer = bench.open(1, OFlags::WRONLY, Mode::Auto).unwrap();
        assert_eq!(bench.route(writer), KernelRoute::Source);
        let block: Vec<u8> = (0..1 << 20).map(|at| (at / 4096) as u8).collect();
        for at in 0..16u64 {
            bench.write(writer, 1, at << 20, &block, PLAIN).unwrap();
        }
        let pages =
            || dio::residency::resident_pages(std::fs::File::open(bench.path(1)).unwrap()).unwrap();
        let begun = std::time::Instant::now();
        while pages() > 0 {
            assert!(
                begun.elapsed() < std::time::Duration::from_secs(20),
                "{}: {} pages",
                fs.name,
                pages()
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // A reader that is opened meanwhile gets all bytes, and its requests go through the page
        // cache too.
        bench.write(writer, 1, 5 << 20, &[0xaa; 4096], PLAIN).unwrap();
        let reader = bench.open(1, OFlags::RDONLY, Mode::Auto).unwrap();
        assert_eq!(bench.read(reader, 1, 5 << 20, 4096).unwrap(), [0xaa; 4096]);
        assert_eq!(bench.read(reader, 1, 4096, 4096).unwrap(), [1; 4096]);
        bench.files.release(writer);
        assert_eq!(bench.read(reader, 1, 5 << 20, 4096).unwrap(), [0xaa; 4096]);
        bench.files.release(reader);
        assert_eq!(pages(), 0, "{}", fs.name);
    }
}

/// Bytes written to the file system by class.
fn written(bench: &Bench, class: dio::Class) -> u64 {
    bench.stats.snapshot().total.write_bytes.get(class)
}

/// Whether a file system can drop bytes from the page cache by itself once it has written them.
fn drops(directory: &std::path::Path) -> bool {
    let file = std::fs::File::create(directory.join("probe")).unwrap();
    rustix::io::pwritev2(&file, &[std::io::IoSlice::new(b"probe")], 0, dio_sys::RWF_DONTCACHE)
        .is_ok()
}

#[test]
fn a_new_file_that_stays_small_takes_the_device_once_and_leaves_no_page() {
    for fs in file_systems().iter().filter(|fs| fs.name != "tmpfs") {
        let directory = fs.dir();
        let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
        let small = drops(directory.path());
        for (ino, mode) in [(1, Mode::Direct), (2, Mode::Concurrent)] {
            std::fs::write(bench.path(ino), b"").unwrap();
            let writer = bench.open(ino, OFlags::WRONLY, mode).unwrap();
            let bytes: Vec<u8> = (0..9001).map(|at| (at / 3) as u8).collect();
            let before = written(&bench, dio::Class::Uncached);
            bench.write(writer, ino, 0, &bytes[..5000], PLAIN).unwrap();
            bench.write(writer, ino, 5000, &bytes[5000..], PLAIN).unwrap();
            assert_eq!(
                std::fs::metadata(bench.path(ino)).unwrap().len(),
                0,
                "{}: it is behind",
                fs.name
            );
            bench.files.flush(writer).unwrap();
            assert_eq!(std::fs::read(bench.path(ino)).unwrap(), bytes, "{}", fs.name);
            if small {
                assert_eq!(written(&bench, dio::Class::Uncached) - before, 9001, "{}", fs.name);
            }
            // Writes after these bytes, and over them, go past the page cache as usual.
            bench.write(writer, ino, 9001, &bytes, PLAIN).unwrap();
            bench.write(writer, ino, 100, &[7; 5000], PLAIN).unwrap();
            bench.files.sync(writer, true).unwrap();
            let reader = bench.open(ino, OFlags::RDONLY, mode).unwrap();
            let whole = [&bytes[..100], &[7; 5000], &bytes[5100..], &bytes].concat();
            assert_eq!(bench.read(reader, ino, 0, 1 << 20).unwrap(), whole, "{} {mode:?}", fs.name);
            [writer, reader].into_iter().for_each(|handle| bench.files.release(handle));
            assert_eq!(std::fs::read(bench.path(ino)).unwrap(), whole);
        }
    }
}

#[test]
fn small_files_leave_the_page_cache_when_they_are_written() {
    for fs in file_systems().iter().filter(|fs| fs.name != "tmpfs") {
        let directory = fs.dir();
        if !drops(directory.path()) || !is_direct(directory.path()) {
            continue;
        }
        let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
        std::fs::write(bench.path(1), b"").unwrap();
        let writer = bench.open(1, OFlags::WRONLY, Mode::Direct).unwrap();
        bench.write(writer, 1, 0, &[1; 20_000], PLAIN).unwrap();
        bench.files.flush(writer).unwrap();
        bench.files.release(writer);
        let begun = std::time::Instant::now();
        // The test does not sync: the pages must be written back without being asked for.
        while resident_pages(bench.path(1)) > 0 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{}", fs.name);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_file_that_is_read_by_others_or_is_long_is_not_small() {
    let fs = &file_systems()[0];
    let directory = fs.dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    let (small, large) = ([1; 3000], vec![2; (64 << 10) + 1]);
    for ino in [1, 2, 3] {
        std::fs::write(bench.path(ino), b"").unwrap();
    }
    let [one, two, three] =
        [1, 2, 3].map(|ino| bench.open(ino, OFlags::RDWR, Mode::Direct).unwrap());
    assert_eq!(bench.read(one, 1, 0, 4096).unwrap(), b"");
    bench.write(one, 1, 0, &small, PLAIN).unwrap();
    bench.files.flush(one).unwrap();
    bench.write(two, 2, 0, &large, PLAIN).unwrap();
    bench.files.flush(two).unwrap();
    let durable = WriteProperties { flags: OFlags::DSYNC, ..PLAIN };
    bench.write(three, 3, 0, &small, durable).unwrap();
    if is_direct(directory.path()) {
        // Only the ends within a block go through the page cache.
        let ends = (3000 % 512 + large.len() % 512 + 3000 % 512) as u64;
        assert!(
            written(&bench, dio::Class::Uncached) <= ends,
            "{:?}",
            bench.stats.snapshot().total.write_bytes
        );
    }
    assert_eq!(bench.read(one, 1, 0, 4096).unwrap(), small);
    assert_eq!(bench.read(two, 2, 0, 1 << 20).unwrap(), large);
    [one, two, three].into_iter().for_each(|handle| bench.files.release(handle));
}
