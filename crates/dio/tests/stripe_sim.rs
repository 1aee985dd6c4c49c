//! Striped files on simulated disks: one target of many fails, is full, is slow or loses power. The
//! tests check the error, the remaining contents, and the size of the file.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::rig::{Rig, STRIPE, contents, tagged};
use common::{fill, first_difference, sim_geometry};
use dio::engine::OpKind;
use dio::engine::sim::{Fault, Faults, SimAction, SimDisk, SimDiskModel};
use dio::queue::Queue;
use dio::transfer::{Contents, Copier, NoWatch, Sparse};
use dio::{File, FileError, Limits, Mode, OpenOptions};
use dio_test::{Rng, Seed};
use rustix::io::Errno;

fn named(error: &FileError) -> &str {
    error.detail().unwrap_or("no object")
}

/// One target of four fails a write or a read inside the file, in every way: the error has the
/// offset of the first byte that failed and the name of the object, and the writes to the other
/// targets are there.
#[test]
fn one_failing_target_is_named_and_the_others_keep_what_they_were_given() {
    let model = SimDiskModel { channels: 4, ..SimDiskModel::default() };
    for (bad, fault) in
        (0..4).flat_map(|bad| [Fault::Io, Fault::NoSpace, Fault::Torn].map(|fault| (bad, fault)))
    {
        for mode in [Mode::Direct, Mode::Concurrent, Mode::Uncached] {
            let rig = Rig::new(4, &model, 7);
            let file = rig.open(mode);
            let size = 16 * STRIPE as usize;
            file.write_at(&tagged(1, 0, size), 0).unwrap();
            file.sync_data().unwrap();
            let (start, len) = (2 * STRIPE, 9 * STRIPE as usize);
            // The query of the size is the first operation.
            rig.disks[bad].set_faults(Faults::none().from(rig.disks[bad].operations() + 1, fault));
            let error = file.write_at(&tagged(2, start, len), start).unwrap_err();
            assert_eq!(Some(error.errno()), fault.errno(), "{error}");
            // The request begins with stripe 2. This is the first of its stripes on the bad disk.
            let first = start + (bad as u64 + 4 - 2) % 4 * STRIPE;
            assert_eq!(
                (error.offset(), named(&error)),
                (Some(first), format!("in 'disk{bad}'").as_str()),
                "{error}"
            );
            rig.disks[bad].set_faults(Faults::none());
            let (live, old, new) = (contents(&file), tagged(1, 0, size), tagged(2, 0, size));
            for (stripe, bytes) in live.chunks(STRIPE as usize).enumerate() {
                let range = stripe * STRIPE as usize..(stripe + 1) * STRIPE as usize;
                let asked = (2..11).contains(&stripe);
                let expected = if asked { &new[range.clone()] } else { &old[range.clone()] };
                if stripe % 4 != bad || !asked {
                    assert_eq!(
                        first_difference(bytes, expected),
                        None,
                        "stripe {stripe}, disk{bad} {fault:?}"
                    );
                }
            }
            assert!(file.sync_data().is_err(), "the error latches");
            if fault == Fault::Io {
                rig.disks[bad].set_faults(Faults::none().from(0, fault));
                let mut buffer = vec![0; len];
                let error = file.read_at(&mut buffer, start).unwrap_err();
                assert_eq!(
                    (error.offset(), named(&error)),
                    (Some(first), format!("in 'disk{bad}'").as_str())
                );
            }
        }
    }
}

/// A full target: the file ends before the first byte that found no space, and everything before
/// that byte is there.
#[test]
fn a_full_target_ends_the_file_where_the_first_byte_is_missing() {
    for full in 0..3 {
        let model = SimDiskModel { channels: 2, ..SimDiskModel::default() };
        let small = SimDiskModel { capacity: Some(64 << 10), ..model.clone() };
        let mut rig = Rig::new(3, &model, 3);
        rig.disks[full] = SimDisk::new(&rig.clock, small, 9);
        rig.media[full] = rig.disks[full].file(&vec![0; rig.layout.start() as usize]);
        let file = rig.open(Mode::Direct);
        let bytes = tagged(1, 0, 100 * STRIPE as usize);
        let error = file.write_at(&bytes, 0).unwrap_err();
        assert_eq!(
            (error.errno(), named(&error)),
            (Errno::NOSPC, format!("in 'disk{full}'").as_str()),
            "{error}"
        );
        assert!(error.cure().is_some());
        drop(file);
        let file = rig.open(Mode::Direct);
        let live = contents(&file);
        assert!(
            live.len() as u64 <= error.offset().unwrap() && live.len() > 100 << 10,
            "{} bytes: {error}",
            live.len()
        );
        assert_eq!(first_difference(&live, &bytes), None);
        // No byte behind the end becomes visible when the file is extended.
        file.set_size(live.len() as u64 + 20 * STRIPE).unwrap();
        assert!(contents(&file)[live.len()..].iter().all(|byte| *byte == 0));
    }
}

/// If one request of an extending write fails, the file ends before the first missing byte, and
/// never contains zeros that were not written. With small requests there are many of them; a large
/// request holds more stripes of an object than one vector can.
#[test]
fn a_file_that_grows_holds_no_gap() {
    let model = SimDiskModel { channels: 4, reorder: true, ..SimDiskModel::default() };
    for (request, size) in [(4096, 100_000), (8 << 20, 5 << 20)] {
        let rig = || Rig::with(2, STRIPE, &model, 7, Limits { request, ..Limits::default() });
        for mode in [Mode::Direct, Mode::Uncached, Mode::Cached] {
            let new = tagged(1, 0, size);
            let whole = rig();
            whole.open(mode).write_at(&new, 0).unwrap();
            let operations: Vec<u64> = whole.disks.iter().map(SimDisk::operations).collect();
            for (bad, number) in
                (0..2).flat_map(|disk| (0..operations[disk]).map(move |number| (disk, number)))
            {
                let rig = rig();
                rig.disks[bad].set_faults(Faults::none().at(number, Fault::NoSpace));
                let outcome = rig.open(mode).write_at(&new, 0);
                let live = contents(&rig.open(Mode::Direct));
                assert_eq!(
                    outcome.is_ok(),
                    live.len() == size,
                    "{outcome:?}, {} bytes",
                    live.len()
                );
                let context = format!("disk{bad} failed at {number}, {mode:?}: {outcome:?}");
                assert_eq!(first_difference(&live, &new[..live.len()]), None, "{context}");
            }
        }
    }
}

/// A failed copy to a striped file keeps the complete part, not the reserved size.
#[test]
fn a_copy_that_fails_is_cut_to_what_is_complete() {
    let bytes = tagged(1, 0, 40 * STRIPE as usize + 100);
    let copy = |faults: Option<(usize, u64)>| {
        let rig = Rig::new(3, &SimDiskModel { channels: 2, ..SimDiskModel::default() }, 5);
        let from = SimDisk::new(&rig.clock, SimDiskModel::default(), 1).file(&bytes);
        let source = OpenOptions::new().read(true).io(&rig.io).open_medium(
            "from",
            Arc::new(from),
            sim_geometry(512),
        );
        let (source, target) = (source.unwrap(), rig.open(Mode::Direct));
        let size = bytes.len() as u64;
        let whole = Contents {
            source: &source,
            target: &target,
            size,
            start: 0,
            sparse: Sparse::Never,
            pace: None,
        };
        if let Some((bad, number)) = faults {
            rig.disks[bad].set_faults(Faults::none().from(number, Fault::NoSpace));
        }
        let mut copier = Copier::new(&rig.io, 2 * STRIPE as usize, 4).unwrap();
        let outcome = copier.copy_contents(&whole, &mut NoWatch);
        drop(target);
        rig.disks.iter().for_each(|disk| disk.set_faults(Faults::none()));
        (rig, outcome, copier.complete())
    };
    let operations: Vec<u64> = copy(None).0.disks.iter().map(SimDisk::operations).collect();
    let mut cut = 0;
    for (bad, number) in
        (0..3).flat_map(|disk| (0..operations[disk]).map(move |number| (disk, number)))
    {
        let (rig, outcome, complete) = copy(Some((bad, number)));
        let live = contents(&rig.open(Mode::Direct));
        let context = format!("disk{bad} failed at {number}: {outcome:?}, {} bytes", live.len());
        if outcome.is_ok() {
            assert!(live == bytes, "{context}");
            continue;
        }
        assert!(live.len() as u64 == complete && live.len() < bytes.len(), "{context}");
        assert_eq!(first_difference(&live, &bytes[..live.len()]), None, "{context}");
        cut += u32::from(!live.is_empty());
    }
    assert!(cut > 20, "{cut}");
}

/// Space for a range is reserved on all targets before the size changes.
#[test]
fn a_target_without_space_leaves_the_size_as_it_was() {
    let mut rig = Rig::new(3, &SimDiskModel::default(), 3);
    rig.disks[2] = SimDisk::new(
        &rig.clock,
        SimDiskModel { capacity: Some(64 << 10), ..Default::default() },
        9,
    );
    rig.media[2] = rig.disks[2].file(&vec![0; rig.layout.start() as usize]);
    let file = rig.open(Mode::Direct);
    file.write_at(&[1; 10_000], 0).unwrap();
    let error = file.allocate(0..1 << 20, true).unwrap_err();
    assert_eq!((error.errno(), named(&error)), (Errno::NOSPC, "in 'disk2'"), "{error}");
    assert_eq!(file.size().unwrap(), 10_000);
}

/// If one target cannot be extended, the other targets keep no trace of the attempt: later data is
/// added where the file ended.
#[test]
fn a_resize_that_fails_leaves_nothing_behind_the_end() {
    for (refuses, later) in (0..3).flat_map(|refuses| (0..4).map(move |later| (refuses, later))) {
        let rig = Rig::new(3, &SimDiskModel::default(), 3);
        let file = rig.open(Mode::Direct);
        let bytes = tagged(1, 0, 3 * STRIPE as usize);
        file.write_at(&bytes[..5000], 0).unwrap();
        rig.disks[refuses]
            .set_faults(Faults::none().at(rig.disks[refuses].operations() + later, Fault::Io));
        let failed = file.set_size(1 << 20).is_err();
        rig.disks[refuses].set_faults(Faults::none());
        if !failed {
            continue;
        }
        // Up to the end of a stripe, behind which other objects may still hold something.
        for end in [STRIPE as usize * 2, STRIPE as usize * 3] {
            file.write_at(&bytes[5000..end], 5000).unwrap();
            assert_eq!(file.size().unwrap(), end as u64, "disk{refuses}, operation {later}");
        }
        assert_eq!(first_difference(&contents(&file), &bytes), None);
    }
}

/// A sync covers every target. A failing one is named, and nothing is acknowledged from then on.
#[test]
fn a_sync_that_fails_on_one_target_fails() {
    for bad in 0..3 {
        let rig = Rig::new(3, &SimDiskModel::default(), 5);
        let file = rig.open(Mode::Direct);
        file.write_at(&tagged(1, 0, 50_000), 0).unwrap();
        rig.disks[bad].set_faults(Faults::none().from(0, Fault::SyncFails));
        let error = file.sync_data().unwrap_err();
        assert_eq!((error.errno(), named(&error)), (Errno::IO, format!("in 'disk{bad}'").as_str()));
        rig.disks[bad].set_faults(Faults::none());
        file.sync_data().unwrap_err();
        file.write_at(&[1], 0).unwrap_err();
    }
}

/// A request over eight targets takes as long as the part on one target. Adjacent parts on one
/// target are one request.
#[test]
fn all_stripes_are_submitted_before_one_is_waited_for() {
    let model = SimDiskModel { service: Duration::from_millis(10), ..SimDiskModel::default() };
    let rig = Rig::with(8, STRIPE, &model, 1, Limits::default());
    let file = rig.open(Mode::Direct);
    let bytes = tagged(1, 0, 64 * STRIPE as usize);
    file.allocate(0..bytes.len() as u64, true).unwrap();
    let mut read = vec![0; bytes.len()];
    let start = rig.clock.now();
    file.write_at(&bytes, 0).unwrap();
    let written = rig.clock.now();
    file.read_exact_at(&mut read, 0).unwrap();
    let took = [written - start, rig.clock.now() - written];
    assert!(took.iter().all(|took| *took < Duration::from_millis(11)), "{took:?}");
    assert_eq!(read, bytes);
    for disk in &rig.disks {
        for kind in [OpKind::Read, OpKind::Write] {
            assert_eq!(
                disk.trace().kind(kind).entries.len(),
                1,
                "eight stripes of one target are one {kind:?}"
            );
        }
    }
}

/// One disk is fifty times slower: the other disks finish all of their parts before the slow one is
/// waited for.
#[test]
fn a_slow_target_does_not_stop_the_others() {
    let model = SimDiskModel { service: Duration::from_millis(1), ..SimDiskModel::default() };
    let mut rig = Rig::with(4, STRIPE, &model, 1, Limits::default());
    let slow = SimDiskModel { service: Duration::from_millis(50), ..model };
    rig.disks[1] = SimDisk::new(&rig.clock, slow, 9);
    rig.media[1] = rig.disks[1].file(&vec![0; rig.layout.start() as usize]);
    let file = Arc::new(rig.open(Mode::Concurrent));
    const DEPTH: usize = 8;
    file.allocate(0..DEPTH as u64 * rig.layout.row(), true).unwrap();
    // An engine without room for all parts of the window at once.
    let mut queue = Queue::new(&rig.io, rig.layout.row() as usize, DEPTH).unwrap();
    let start = rig.clock.now();
    for number in 0..DEPTH as u64 {
        let mut block = queue.block().unwrap();
        block.bytes_mut().fill(number as u8 + 1);
        queue
            .write(&file, block, number * rig.layout.row(), rig.layout.row() as usize, number)
            .unwrap();
    }
    let mut completions = Vec::new();
    queue.wait(DEPTH, &mut completions).unwrap();
    assert_eq!(completions.len(), DEPTH);
    assert!(completions.iter().all(|completion| completion.outcome.is_ok()));
    for (number, disk) in rig.disks.iter().enumerate() {
        let (_, end) = disk.trace().kind(OpKind::Write).span().unwrap();
        let limit = Duration::from_millis(if number == 1 { 405 } else { 10 });
        assert!(end - start < limit, "disk{number} was done after {:?}", end - start);
    }
}

/// As above, with an engine that holds fewer operations than the window has parts: its slots go to
/// the targets that are idle.
#[test]
fn places_in_a_small_engine_go_to_the_targets_that_are_idle() {
    let model = SimDiskModel { service: Duration::from_millis(1), ..SimDiskModel::default() };
    let mut rig =
        Rig::with(4, STRIPE, &model, 1, Limits { depth: 6, request: 4096, ..Limits::default() });
    rig.disks[1] =
        SimDisk::new(&rig.clock, SimDiskModel { service: Duration::from_millis(50), ..model }, 9);
    rig.media[1] = rig.disks[1].file(&vec![0; rig.layout.start() as usize]);
    let file = rig.open(Mode::Direct);
    let bytes = tagged(1, 0, 4 * rig.layout.row() as usize);
    file.allocate(0..bytes.len() as u64, true).unwrap();
    let start = rig.clock.now();
    file.write_at(&bytes, 0).unwrap();
    for (number, disk) in rig.disks.iter().enumerate().filter(|(number, _)| *number != 1) {
        let (_, end) = disk.trace().kind(OpKind::Write).span().unwrap();
        assert!(
            end - start < Duration::from_millis(50),
            "disk{number} waited for the slow one: {:?}",
            end - start
        );
    }
    assert_eq!(contents(&file), bytes);
}

/// Frequent transient faults on every target have no effect.
#[test]
fn transient_trouble_on_all_targets_does_not_show() {
    let seed = Seed::new();
    for round in 0..40 {
        let model =
            SimDiskModel { channels: 3, reorder: true, scribble: true, ..SimDiskModel::default() };
        let rig = Rig::new(1 + round as usize % 5, &model, seed.value().wrapping_add(round * 100));
        for disk in &rig.disks {
            let faults =
                [Fault::ShortAligned, Fault::ShortUnaligned, Fault::Again, Fault::Interrupted];
            disk.set_faults(
                faults.into_iter().fold(Faults::none(), |faults, fault| faults.chance(fault, 100)),
            );
        }
        let file = rig.open([Mode::Direct, Mode::Concurrent, Mode::Uncached][round as usize % 3]);
        let mut rng = Rng::new(seed.value().wrapping_add(round));
        let mut model = Vec::new();
        for tag in 1..30 {
            let (offset, len) = (rng.range(0..60_000), rng.range_usize(1..40_000));
            if rng.range(0..4) == 0 {
                file.set_size(offset).unwrap();
                model.resize(offset as usize, 0);
            } else {
                file.write_at(&tagged(tag, offset, len), offset).unwrap();
                model.resize(model.len().max(offset as usize + len), 0);
                fill(&mut model[offset as usize..offset as usize + len], tag, offset);
            }
            let live = contents(&file);
            assert_eq!(live.len(), model.len(), "size, {seed:?}");
            assert_eq!(first_difference(&live, &model), None, "{seed:?}");
        }
    }
}

/// Checks the state after a crash during a change: the size is the old or the new one, or with
/// `between` any size between them, and the bytes are correct.
fn check_after_cut(cut: &Rig, old: &[u8], new: &[u8], between: bool, context: &str) {
    let file = cut.open(Mode::Direct);
    let live = contents(&file);
    let (least, most) = (old.len().min(new.len()), old.len().max(new.len()));
    let allowed = live.len() == old.len()
        || live.len() == new.len()
        || between && (least..=most).contains(&live.len());
    assert!(allowed, "{context}: {} bytes after {} became {}", live.len(), old.len(), new.len());
    // The part that both contents have in common was synced before.
    assert_eq!(
        first_difference(&live[..live.len().min(least)], &old[..live.len().min(least)]),
        None,
        "{context}"
    );
    // No byte behind the end becomes visible when the file is extended.
    let end = live.len();
    file.set_size(end as u64 + 10 * STRIPE).unwrap();
    assert!(
        contents(&file)[end..].iter().all(|byte| *byte == 0),
        "{context}: old bytes behind the end"
    );
}

/// The power fails on all disks at every operation of a truncation: the size is the old one or the
/// new one.
#[test]
fn a_crash_while_truncating_leaves_the_old_size_or_the_new_one() {
    let seed = Seed::new();
    for (from, to) in
        [(50_000, 0), (50_000, 20_000), (40_960, 8192), (50_000, 49_999), (30_000, 29_000)]
    {
        every_crash(seed.value(), &tagged(1, 0, from), &tagged(1, 0, to), false, |file| {
            file.set_size(to as u64)
        });
    }
}

/// A file is truncated and extended again, by a hole or by bytes, before a sync: no truncated byte
/// comes back in the extended part.
#[test]
fn a_crash_after_cutting_off_and_growing_brings_nothing_back() {
    let seed = Seed::new();
    let model = SimDiskModel { channels: 2, stale_after_cut: false, ..SimDiskModel::default() };
    let (old, cut_to, grown) = (tagged(1, 0, 50_000), 10_000, 60_000);
    for round in 0..60 {
        let rig = Rig::new(3, &model, seed.value() + 10 * round);
        let file = rig.open(Mode::Direct);
        file.write_at(&old, 0).unwrap();
        file.sync_all().unwrap();
        file.set_size(cut_to as u64).unwrap();
        if round % 2 == 0 {
            file.set_size(grown as u64).unwrap();
        } else {
            file.write_at(&[0; 512], grown as u64 - 512).unwrap();
        }
        let live = contents(&rig.after_power_cut(round).open(Mode::Direct));
        assert!(live.len() >= cut_to && live.len() <= grown, "{} bytes", live.len());
        assert_eq!(first_difference(&live[..cut_to], &old[..cut_to]), None);
        let back = live[cut_to..].iter().position(|byte| *byte != 0);
        assert_eq!(back, None, "round {round} of {seed:?}: what was cut off is back");
    }
}

/// The same for a file that is extended, by a hole or by bytes: any size between is possible, and
/// no existing byte is lost.
#[test]
fn a_crash_while_extending_loses_nothing_that_was_there() {
    let seed = Seed::new();
    for (from, to) in [(0, 50_000), (20_000, 50_000), (8192, 40_960), (100, 4000)] {
        let (old, new) = (tagged(1, 0, from), tagged(1, 0, to));
        every_crash(seed.value(), &old, &new, true, |file| file.set_size(to as u64));
        every_crash(seed.value(), &old, &new, true, |file| file.allocate(0..to as u64, true));
        every_crash(seed.value(), &old, &new, true, |file| {
            file.write_at(&new[from..], from as u64)
        });
        every_crash(seed.value(), &old, &new, true, |file| {
            file.write_at(&new[to - 1..], to as u64 - 1)
        });
    }
}

/// Repeats a change so that each disk fails at each of its operations, and then cuts the power.
fn every_crash(
    seed: u64,
    old: &[u8],
    new: &[u8],
    between: bool,
    change: impl Fn(&File) -> Result<(), FileError>,
) {
    let model = SimDiskModel { channels: 2, stale_after_cut: false, ..SimDiskModel::default() };
    let prepared = || {
        let rig = Rig::new(3, &model, seed);
        let file = rig.open(Mode::Direct);
        file.write_at(old, 0).unwrap();
        file.sync_all().unwrap();
        (rig, file)
    };
    let (rig, file) = prepared();
    let before: Vec<u64> = rig.disks.iter().map(SimDisk::operations).collect();
    change(&file).unwrap();
    let after: Vec<u64> = rig.disks.iter().map(SimDisk::operations).collect();
    (0..6).for_each(|cut| {
        check_after_cut(&rig.after_power_cut(seed ^ cut), old, new, between, "after all of it")
    });
    for (dies, number) in
        (0..3).flat_map(|disk| (before[disk]..after[disk]).map(move |number| (disk, number)))
    {
        let (rig, file) = prepared();
        rig.disks[dies].set_faults(Faults::none().from(number, Fault::Io));
        let failed = change(&file).is_err();
        let trace = rig.disks[dies].trace();
        let asked = trace
            .entries
            .iter()
            .all(|entry| entry.fault.is_none() || entry.action == SimAction::Size);
        assert!(failed || asked, "disk{dies} died at operation {number}, and nobody noticed");
        for cut in 0..4 {
            let context =
                format!("disk{dies} died at operation {number}, cut {cut}, seed {seed:#x}");
            check_after_cut(&rig.after_power_cut(seed ^ cut), old, new, between, &context);
        }
    }
}

/// A synced write is durable on every target: the trace of each disk contains the sync.
#[test]
fn what_was_synced_is_durable_on_every_target() {
    let seed = Seed::new();
    for round in 0..20 {
        let rig = Rig::new(
            4,
            &SimDiskModel { channels: 2, ..SimDiskModel::default() },
            seed.value() + round,
        );
        let file = rig.open(Mode::Direct);
        let mut rng = Rng::new(seed.value() + round);
        let bytes = tagged(round, 0, rng.range_usize(1..200_000));
        file.write_at(&bytes, 0).unwrap();
        file.sync_data().unwrap();
        for disk in &rig.disks {
            let synced = disk
                .trace()
                .entries
                .iter()
                .any(|entry| entry.action == SimAction::Transfer(OpKind::SyncData));
            assert!(synced, "every target is synced");
        }
        assert!(contents(&rig.after_power_cut(round).open(Mode::Direct)) == bytes, "{seed:?}");
    }
}
