//! Rules of files, one at a time, on media that behave in ways which are rare on real ones.

mod common;

use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use common::{Hooked, io_of, sim_disk, sim_geometry};
use dio::engine::{Medium, OpKind};
use dio::{File, Io, Limits, Mode, OpenOptions};
use parking_lot::Mutex;
use rustix::io::Errno;

const LIMITS: Limits =
    Limits { depth: 4, request: 4096, bounce_block: 4096, bounce_blocks: 16, idle_engines: 1 };

fn open_with(io: &Io, medium: Arc<dyn Medium>, mode: Mode) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .mode(mode)
        .io(io)
        .open_medium("hooked", medium, sim_geometry(512))
        .unwrap()
}

fn open(medium: Arc<dyn Medium>) -> File {
    open_with(&io_of("blocking", LIMITS), medium, Mode::Direct)
}

/// A file that grows while it is read: the first of several requests finds the old end, the second
/// one does not.
#[test]
fn a_read_ends_where_its_first_short_request_ended() {
    let inner = sim_disk(512, 1).file(&[7; 16_384]);
    let medium = Hooked::new(inner)
        .before(|op| (op.kind == OpKind::Read && op.offset == 4096).then_some(Ok(0)));
    let medium = medium.size(|_| 4096);
    let file = open(medium.shared());
    let mut buffer = vec![0u8; 16_384];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 4096);
    let mut misaligned = vec![0u8; 16_384];
    assert_eq!(file.read_at(&mut misaligned[1..], 100).unwrap(), 3996);
}

/// Another process truncates the file between the query of the size and the read of a block that is
/// to be patched. The truncated bytes must not be replaced by the old contents of the bounce block.
#[test]
fn a_block_patched_in_a_file_that_shrank_holds_no_stale_bytes() {
    let io = io_of("blocking", LIMITS);
    let disk = sim_disk(4096, 2);
    let secret = disk.file(&[0xaa; 16_384]);
    let geometry = sim_geometry(4096);
    let mut options = OpenOptions::new();
    options.read(true).write(true).io(&io);
    let other = options.open_medium("secret", Arc::new(secret), geometry).unwrap();
    other.read_at(&mut vec![0; 16_000], 1).unwrap();

    let inner = disk.file(&[1; 700]);
    let asked = AtomicU64::new(0);
    // Only the first query, under the lock of the write, gets the old size.
    let medium = Hooked::new(inner.clone())
        .size(move |size| if asked.fetch_add(1, Ordering::Relaxed) == 0 { 4096 } else { size });
    let file = options.open_medium("shrunk", medium.shared(), geometry).unwrap();
    file.write_at(&[2; 10], 100).unwrap();
    let contents = inner.contents();
    assert_eq!(contents[100..110], [2; 10]);
    assert_eq!(contents[110..700], [1; 590]);
    assert!(
        contents[700..].iter().all(|byte| *byte == 0),
        "stale bytes of another file were written"
    );
}

/// A file system whose `fstat` reports a larger size than can be read (attribute cache of a network
/// file system).
#[test]
fn a_read_that_never_reaches_the_claimed_end_gives_up() {
    let inner = sim_disk(512, 3).file(&[7; 700]);
    let file = open(Hooked::new(inner).size(|_| 4096).shared());
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        send.send(file.read_at(&mut [0; 1024], 0).map_err(|error| error.errno()))
    });
    let outcome = receive.recv_timeout(Duration::from_secs(60)).expect("the read comes to an end");
    assert!(outcome == Ok(700) || outcome == Err(Errno::IO), "{outcome:?}");
}

#[test]
fn offsets_past_the_greatest_file_are_refused_by_every_operation() {
    let file = open(Arc::new(sim_disk(512, 4).file(&[7; 4096])));
    let mut arena = common::Arena::new(8192);
    for offset in [u64::MAX, u64::MAX - 511, i64::MAX as u64 - 511, 1 << 63] {
        let aligned = arena.slice(0, 4096);
        assert_eq!(file.read_at(aligned, offset).unwrap_err().errno(), Errno::INVAL, "{offset}");
        assert_eq!(file.write_at(aligned, offset).unwrap_err().errno(), Errno::FBIG, "{offset}");
        let misaligned = arena.slice(3, 4096);
        assert_eq!(file.read_at(misaligned, offset).unwrap_err().errno(), Errno::INVAL, "{offset}");
        assert_eq!(file.write_at(misaligned, offset).unwrap_err().errno(), Errno::FBIG, "{offset}");
    }
    file.sync_all().unwrap();
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
fn reversed_ranges_are_refused() {
    let file = open(Arc::new(sim_disk(512, 5).file(&[7; 4096])));
    assert_eq!(file.punch(100..50).unwrap_err().errno(), Errno::INVAL);
    assert_eq!(file.allocate(100..50, false).unwrap_err().errno(), Errno::INVAL);
    assert_eq!(file.allocate(100..50, true).unwrap_err().errno(), Errno::INVAL);
}

/// The kernel reports a lost write to only one sync of a descriptor. Another sync that ran at the
/// same time and succeeded must not acknowledge the lost data.
#[test]
fn of_two_syncs_at_once_neither_succeeds_when_one_fails() {
    let inner = sim_disk(512, 6).file(&[7; 4096]);
    let (first_entered, second_done) = (Barrier::new(2), Mutex::new(None));
    let (send, receive) = mpsc::channel::<()>();
    let (send, receive) = (Mutex::new(send), Mutex::new(receive));
    let (calls, entered) = (AtomicU64::new(0), Arc::new(first_entered));
    let seen = Arc::clone(&entered);
    let medium = Hooked::new(inner).before(move |op| {
        if op.kind != OpKind::SyncData {
            return None;
        }
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            seen.wait();
            // The other sync reaches the kernel, returns, and has time to report.
            receive.lock().recv().unwrap();
            std::thread::sleep(Duration::from_millis(100));
            return Some(Err(Errno::IO));
        }
        send.lock().send(()).unwrap();
        Some(Ok(0))
    });
    let file = open(medium.shared());
    std::thread::scope(|threads| {
        let first = threads.spawn(|| file.sync_data().unwrap_err().errno());
        entered.wait();
        *second_done.lock() = Some(file.sync_data());
        assert_eq!(first.join().unwrap(), Errno::IO);
    });
    let second = second_done.lock().take().unwrap();
    assert!(second.is_err(), "a sync acknowledged what a sync beside it had lost");
}

#[test]
fn after_a_failed_write_nothing_that_changes_the_file_succeeds() {
    let fail = Arc::new(AtomicU64::new(0));
    let failing = Arc::clone(&fail);
    let medium = Hooked::new(sim_disk(512, 7).file(&[7; 8192])).before(move |op| {
        (op.kind == OpKind::Write && failing.load(Ordering::Relaxed) == 1).then_some(Err(Errno::IO))
    });
    let file = open(medium.shared());
    file.write_at(&[1; 512], 0).unwrap();
    fail.store(1, Ordering::Relaxed);
    let error = file.write_at(&[1; 512], 1024).unwrap_err();
    assert_eq!(
        (error.errno(), error.offset(), error.path()),
        (Errno::IO, Some(1024), "hooked".as_ref())
    );
    fail.store(0, Ordering::Relaxed);
    let again = [
        file.write_at(&[1; 512], 0),
        file.write_at(&[], 0),
        file.sync_data(),
        file.sync_all(),
        file.set_size(1),
        file.punch(0..512),
        file.allocate(0..512, true),
        file.settle(),
    ];
    for outcome in again {
        let error = outcome.unwrap_err();
        assert_eq!((error.errno(), error.offset()), (Errno::IO, Some(1024)));
    }
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap(), 512, "reading goes on");
}

#[test]
fn a_request_that_was_refused_latches_nothing() {
    let medium = Hooked::new(sim_disk(512, 8).file(&[7; 8192]))
        .before(|op| (op.kind == OpKind::Write && op.offset == 512).then_some(Err(Errno::INVAL)));
    let file = open(medium.shared());
    assert_eq!(file.write_at(&[1; 512], 512).unwrap_err().errno(), Errno::INVAL);
    file.write_at(&[1; 512], 0).unwrap();
    file.sync_data().unwrap();
}

/// No request is larger than the limit, and none is smaller than necessary, whatever the memory.
#[test]
fn requests_keep_to_their_limit() {
    for (request, bounce_block) in
        [(4096, 65_536), (8192, 4096), (5000, 4096), (512, 4096), (65_536, 65_536)]
    {
        let io = io_of("blocking", Limits { request, bounce_block, ..LIMITS });
        let medium = Hooked::new(sim_disk(512, 9).file(&[])).shared();
        let file = open_with(&io, medium.clone(), Mode::Direct);
        let bytes: Vec<u8> = (0..100_000u32).map(|byte| byte as u8).collect();
        let mut back = vec![0u8; 100_001];
        for shift in [0, 1] {
            file.write_at(&bytes[shift..], 0).unwrap();
            assert_eq!(file.read_at(&mut back[shift..], 0).unwrap(), 100_000 - shift);
            assert_eq!(back[shift..100_000], bytes[shift..]);
            file.set_size(0).unwrap();
        }
        for (kind, offset, len) in medium.seen.lock().iter() {
            assert!(
                *len <= request.max(512),
                "{kind:?} of {len} at {offset} with a limit of {request}"
            );
        }
    }
}

/// Memory behind the bytes that were read belongs to the caller: no bytes of the file's last block
/// may appear there.
#[test]
fn memory_behind_the_end_is_left_alone_or_cleared() {
    for mode in common::MODES {
        let io = io_of("blocking", LIMITS);
        // Direct reads of this disk fill the rest of the last block with garbage, as devices do.
        let file = open_with(&io, Arc::new(sim_disk(512, 10).file(&[1; 5000])), mode);
        let mut arena = common::Arena::new(32_768);
        for (shift, offset, len) in
            [(0, 0, 8192), (0, 4608, 512), (1, 0, 8192), (0, 100, 8192), (0, 4096, 4096)]
        {
            let buffer = arena.slice(shift, len);
            buffer.fill(0xcc);
            let count = file.read_at(buffer, offset).unwrap();
            assert_eq!(count as u64, (5000 - offset).min(len as u64));
            assert!(buffer[..count].iter().all(|byte| *byte == 1));
            let foreign = buffer[count..].iter().find(|byte| ![0xcc, 0].contains(byte));
            assert_eq!(foreign, None, "{mode:?} {shift} {offset} {len}");
            if !mode.wants_direct() {
                assert!(
                    buffer[count..].iter().all(|byte| *byte == 0xcc),
                    "{mode:?} writes behind what it read"
                );
            }
        }
        let (mut a, mut b, mut c) = ([0xcc; 4999], [0xcc; 3], [0xcc; 700]);
        let mut buffers =
            [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
        assert_eq!(file.read_vectored_at(&mut buffers, 0).unwrap(), 5000);
        assert!(a.iter().all(|byte| *byte == 1) && b[0] == 1);
        assert!(b[1..].iter().chain(&c).all(|byte| [0xcc, 0].contains(byte)), "{mode:?}");
    }
}

#[test]
fn a_short_write_at_the_beginning_works_in_every_mode() {
    for mode in common::MODES {
        let inner = sim_disk(4096, 11).file(&[]);
        let file = open_with(&io_of("blocking", LIMITS), Arc::new(inner.clone()), mode);
        file.write_at(&[5; 10], 0).unwrap();
        file.write_at(&[6; 10], 20).unwrap();
        assert_eq!(inner.contents(), [[5; 10], [0; 10], [6; 10]].concat(), "{mode:?}");
    }
}

/// The rest of a block may belong to other programs, which may have synced it: only the bytes of
/// the request may be written.
#[test]
fn a_write_of_a_part_of_a_block_leaves_the_rest_to_others() {
    for mode in [Mode::Direct, Mode::Concurrent] {
        for (start, len) in [(100u64, 50usize), (100, 9000), (4096, 5000), (8191, 2)] {
            let inner = sim_disk(4096, 21).file(&[1; 65_536]);
            let (io, written) = (io_of("blocking", LIMITS), start..start + len as u64);
            let other = open_with(&io, Arc::new(inner.clone()), Mode::Cached);
            let others =
                [written.start - 1, written.end, written.start & !4095, (written.end | 4095) - 1];
            let others = others.map(|at| if written.contains(&at) { written.end } else { at });
            // Another program writes these bytes at the last moment.
            let medium = Hooked::new(inner.clone()).before(move |op| {
                if op.kind == OpKind::Write {
                    others.iter().for_each(|at| other.write_at(&[3], *at).unwrap());
                }
                None
            });
            let file = {
                let mut options = OpenOptions::new();
                options.read(true).write(true).mode(mode).io(&io);
                options.open_medium("hooked", medium.shared(), sim_geometry(4096)).unwrap()
            };
            file.write_at(&vec![2; len], start).unwrap();
            let contents = inner.contents();
            assert!(
                others.iter().all(|at| contents[*at as usize] == 3),
                "{mode:?} {start} {len}: theirs was undone"
            );
            assert!(written.clone().all(|at| contents[at as usize] == 2), "{mode:?} {start} {len}");
        }
    }
}

/// A handle that patches a block must not undo a write to the same block through a cached handle.
#[test]
fn patching_a_block_excludes_cached_writes_of_the_process() {
    let dir = dio_test::file_systems()[0].dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![0u8; 65_536]).unwrap();
    let io = io_of("blocking", LIMITS);
    let open =
        |mode| OpenOptions::new().read(true).write(true).mode(mode).io(&io).open(&path).unwrap();
    for mode in [Mode::Cached, Mode::Uncached] {
        let (direct, cached) = (open(Mode::Direct), open(mode));
        std::thread::scope(|threads| {
            threads.spawn(|| (1..=250u8).for_each(|tag| direct.write_at(&[tag; 100], 0).unwrap()));
            threads.spawn(|| {
                for tag in 1..=250u8 {
                    cached.write_at(&[tag; 100], 200).unwrap();
                    let mut back = [0; 100];
                    cached.read_at(&mut back, 200).unwrap();
                    assert_eq!(back, [tag; 100], "{mode:?}: a write was undone by one beside it");
                }
            });
        });
    }
}

#[test]
fn handles_of_different_ios_exclude_each_other() {
    let dir = dio_test::file_systems()[0].dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![0u8; 4096]).unwrap();
    let open = || {
        let io = io_of("blocking", LIMITS);
        OpenOptions::new().read(true).write(true).io(&io).open(&path).unwrap()
    };
    let (one, other) = (open(), open());
    let hammer = |file: &File, at: u64| {
        for tag in 1..=200u8 {
            file.write_at(&[tag; 50], at).unwrap();
            let mut back = [0; 50];
            file.read_at(&mut back, at).unwrap();
            assert_eq!(back, [tag; 50]);
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| hammer(&one, 10));
        hammer(&other, 300);
    });
}

/// Runs two writes concurrently on a medium where each waits up to `patience` for the other.
/// Returns whether both were in flight at the same time.
fn in_flight_together(
    mode: Mode,
    size: usize,
    one: std::ops::Range<u64>,
    other: std::ops::Range<u64>,
    patience: Duration,
) -> bool {
    let (now, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (entered, highest) = (Arc::clone(&now), Arc::clone(&most));
    let medium = Hooked::new(sim_disk(512, 12).file(&vec![0; size])).before(move |op| {
        if op.kind == OpKind::Write {
            highest.fetch_max(entered.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let since = std::time::Instant::now();
            while highest.load(Ordering::SeqCst) < 2 && since.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            entered.fetch_sub(1, Ordering::SeqCst);
        }
        None
    });
    let file =
        open_with(&io_of("blocking", Limits { request: 1 << 20, ..LIMITS }), medium.shared(), mode);
    let start = Barrier::new(2);
    std::thread::scope(|threads| {
        for range in [one, other] {
            let (file, start) = (&file, &start);
            threads.spawn(move || {
                let mut arena = common::Arena::new(1 << 16);
                start.wait();
                file.write_at(arena.slice(0, (range.end - range.start) as usize), range.start)
                    .unwrap();
            });
        }
    });
    most.load(Ordering::SeqCst) == 2
}

#[test]
fn writes_run_in_parallel_exactly_when_the_mode_allows_it() {
    let size = 1 << 16;
    for (mode, one, other, together) in [
        (Mode::Direct, 0..4096, 4096..8192, true),
        (Mode::Direct, 0..4096, 3584..8192, false),
        (Mode::Concurrent, 0..4096, 3584..8192, true),
        // Unaligned and extending writes run alone, wherever they are.
        (Mode::Direct, 0..4000, 8192..12_288, false),
        (Mode::Concurrent, 0..4000, 8192..12_288, false),
        (Mode::Direct, 0..4096, 1 << 16..(1 << 16) + 512, false),
        (Mode::Concurrent, 0..4096, 1 << 16..(1 << 16) + 512, false),
        (Mode::Cached, 0..4000, 4096..8192, true),
        (Mode::Cached, 0..4000, 3584..8192, false),
    ] {
        let patience = if together { Duration::from_secs(60) } else { Duration::from_millis(50) };
        let seen = in_flight_together(mode, size, one.clone(), other.clone(), patience);
        assert_eq!(seen, together, "{mode:?} {one:?} {other:?}");
    }
}
