//! Tests what is live, what is durable, and what a power cut leaves.

use rustix::io::Errno;

use super::{disk, memory, op, plain, read_op, run_all, sync, write};
use crate::engine::sim::{
    Fault, Faults, SimAction, SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium, SplitMix64,
    pattern,
};
use crate::engine::{Engine, Medium, Op, OpFlags, OpKind, Route};

#[test]
fn what_is_not_synced_is_live_and_at_the_mercy_of_a_cut() {
    let disk = plain(8);
    let file = disk.file(&[1; 16384]);
    write(&file, 0, &[2; 32768]).unwrap();
    assert_eq!(file.contents(), [2; 32768]);
    assert_eq!(file.durable_contents(), [1; 16384]);
    let (mut lost, mut kept, mut torn, mut short, mut stale) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let contents = file.power_cut_with(seed).contents();
        assert!([16384, 32768].contains(&contents.len()), "seed {seed}: size {}", contents.len());
        for sector in contents[..16384].chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512], "seed {seed}: a sector is atomic");
        }
        let is_new = |sector: &&[u8]| **sector == [2; 512];
        match contents[..16384].chunks(512).filter(is_new).count() {
            0 => lost += 1,
            32 => kept += 1,
            _ => torn += 1,
        }
        short += u32::from(contents.len() == 16384);
        let strange = |sector: &[u8]| sector != [2; 512] && sector != [0; 512];
        stale += u32::from(contents.len() > 16384 && contents[16384..].chunks(512).any(strange));
    }
    assert!(
        lost > 5 && kept > 5 && torn > 5 && short > 5 && stale > 5,
        "{lost} {kept} {torn} {short} {stale}"
    );
    assert_eq!(file.contents(), [2; 32768], "a cut is a copy");
}

#[test]
fn what_is_synced_survives_every_cut() {
    let disk = plain(8);
    let file = disk.file(&[1; 1000]);
    write(&file, 0, &[2; 4096]).unwrap();
    file.set_size(3000).unwrap();
    assert_eq!(sync(&file), Ok(0));
    file.set_size(3000).unwrap();
    assert!((0..100).all(|seed| file.power_cut_with(seed).contents() == [2; 3000]));
    assert_eq!(file.durable_contents(), [2; 3000]);
}

#[test]
fn dsync_makes_its_own_bytes_durable_and_no_others() {
    let disk = plain(8);
    let file = disk.file(&[1; 4096]);
    write(&file, 0, &[2; 512]).unwrap();
    let flags = OpFlags { dsync: true, ..OpFlags::default() };
    let mut own = Op { flags, ..op(OpKind::Write, &file, 4096, Some(memory(&[3; 512]))) };
    assert_eq!(file.transfer(&mut own), Ok(512));
    let survived: Vec<_> = (0..100).map(|seed| file.power_cut_with(seed).contents()).collect();
    assert!(survived.iter().all(|contents| contents.len() == 4608 && contents[4096..] == [3; 512]));
    assert!(
        survived.iter().any(|contents| contents[0] == 1)
            && survived.iter().any(|contents| contents[0] == 2)
    );
}

#[test]
fn a_sync_covers_what_was_complete_when_it_began() {
    let clock = SimClock::new();
    let disk = SimDisk::new(&clock, SimDiskModel { channels: 2, ..SimDiskModel::default() }, 1);
    let file = disk.file(&[]);
    let mut engine = SimEngine::new(&clock, 4, 1);
    let mut done = Vec::new();
    engine.start(op(OpKind::Write, &file, 0, Some(memory(&[1; 512])))).unwrap();
    engine.finish(1, &mut done).unwrap();
    engine.start(op(OpKind::Write, &file, 512, Some(memory(&[2; 512])))).unwrap();
    engine.start(op(OpKind::SyncAll, &file, 0, None)).unwrap();
    engine.finish(2, &mut done).unwrap();
    assert_eq!(
        done.last().unwrap().op.kind,
        OpKind::SyncAll,
        "the write was complete before the sync was"
    );
    assert_eq!(file.contents().len(), 1024);
    assert_eq!(file.durable_contents(), [1; 512]);
}

#[test]
fn after_a_failed_sync_another_succeeds_and_saves_nothing() {
    let (mut lost, mut saved) = (0, 0);
    for seed in 0..40 {
        let disk = plain(seed);
        let file = disk.file(&[1; 4096]);
        write(&file, 0, &[2; 4096]).unwrap();
        disk.set_faults(Faults::none().at(1, Fault::SyncFails));
        assert_eq!(sync(&file), Err(Errno::IO));
        assert_eq!(sync(&file), Ok(0));
        let after = file.power_cut().contents();
        assert!(
            after == [1; 4096] || after == [2; 4096],
            "seed {seed}: the page is settled, one way or the other"
        );
        assert_eq!(after, file.durable_contents());
        assert_eq!(file.contents(), [2; 4096]);
        if after[0] == 1 {
            lost += 1
        } else {
            saved += 1
        }
        write(&file, 0, &[3; 4096]).unwrap();
        sync(&file).unwrap();
        assert_eq!(file.power_cut().contents(), [3; 4096], "a new write is synced as ever");
    }
    assert!(lost > 5 && saved > 5, "{lost} {saved}");
}

#[test]
fn a_lost_write_to_allocated_space_reads_as_zeros() {
    let disk = plain(4);
    let file = disk.file(&[]);
    file.allocate(0..65536, true).unwrap();
    sync(&file).unwrap();
    write(&file, 0, &[7; 65536]).unwrap();
    for seed in 0..60 {
        let contents = file.power_cut_with(seed).contents();
        assert!(
            contents.len() == 65536 && contents.iter().all(|byte| [0, 7].contains(byte)),
            "seed {seed}"
        );
    }
}

#[test]
fn a_cut_off_is_lost_or_kept_whole() {
    for stored in [false, true] {
        let disk = plain(4);
        let file = disk.pattern_file(20000, 4);
        let before = file.contents();
        let file = if stored { disk.file(&before) } else { file };
        file.set_size(5000).unwrap();
        file.set_size(20000).unwrap();
        let mut after = before.clone();
        after[5000..].fill(0);
        assert_eq!(file.contents(), after);
        let mut seen = [0; 3];
        for seed in 0..100 {
            let contents = file.power_cut_with(seed).contents();
            let which = [&before, &after, &before[..5000].to_vec()]
                .iter()
                .position(|state| **state == contents);
            // The zeros behind the new end may have been written although the cut-off was lost.
            let zeroed =
                || contents[..5000] == before[..5000] && contents[8192..] == before[8192..];
            assert!(which.is_some() || stored && zeroed(), "seed {seed}");
            which.into_iter().for_each(|which| seen[which] += 1);
        }
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    }
}

#[test]
fn what_a_cut_took_does_not_come_back_when_the_file_grows() {
    let disk = plain(4);
    let file = disk.file(&[1; 1000]);
    write(&file, 1024, &[2; 16384]).unwrap();
    for seed in 0..100 {
        let after = file.power_cut_with(seed);
        let len = after.contents().len();
        after.set_size(32768).unwrap();
        assert!(
            after.contents()[len..].iter().all(|byte| *byte == 0),
            "seed {seed}: {len} bytes survived"
        );
    }
}

#[test]
fn a_late_sync_does_not_undo_what_became_durable_meanwhile() {
    let mut overtaken = false;
    for seed in 0..20 {
        let clock = SimClock::new();
        let disk =
            SimDisk::new(&clock, SimDiskModel { reorder: true, ..SimDiskModel::default() }, seed);
        let file = disk.file(&[1; 4096]);
        write(&file, 0, &[2; 4096]).unwrap();
        let mut engine = SimEngine::new(&clock, 4, seed);
        let flags = OpFlags { dsync: true, ..OpFlags::default() };
        let ops = [
            read_op(&file, 0, 512),
            op(OpKind::SyncData, &file, 0, None),
            Op { flags, ..op(OpKind::Write, &file, 512, Some(memory(&[3; 512]))) },
        ];
        let done = run_all(&mut engine, ops);
        overtaken |= done[2].op.kind == OpKind::SyncData;
        let expected = [[2; 512].as_slice(), &[3; 512], &[2; 3072]].concat();
        assert_eq!(file.durable_contents(), expected, "seed {seed}");
        assert_eq!(file.power_cut().contents(), expected, "seed {seed}");
    }
    assert!(overtaken, "no seed lets the write overtake the sync");
}

#[test]
fn a_cut_finds_any_part_of_a_write_in_flight() {
    let clock = SimClock::new();
    let file = SimDisk::new(&clock, SimDiskModel::default(), 1).file(&[1; 2048]);
    let mut engine = SimEngine::new(&clock, 2, 1);
    engine.start(op(OpKind::Write, &file, 0, Some(memory(&[2; 2048])))).unwrap();
    assert_eq!(file.contents(), [1; 2048]);
    let news: std::collections::BTreeSet<_> = (0..200)
        .map(|seed| file.power_cut_with(seed).contents().iter().filter(|byte| **byte == 2).count())
        .collect();
    assert_eq!(news.into_iter().collect::<Vec<_>>(), [0, 512, 1024, 1536, 2048]);
}

/// Random changes: the live contents equal those of a plain vector, and after every cut each sector
/// is in a state that it had since the last sync.
#[test]
fn live_and_durable_agree_with_a_model_under_any_changes() {
    for seed in 0..150 {
        let mut random = SplitMix64::new(seed);
        let disk = disk(SimDiskModel { stale_after_cut: false, ..SimDiskModel::default() }, seed);
        let mut live = vec![0; random.below(30_000) as usize];
        pattern(seed, 0, &mut live);
        let file = if seed % 2 == 0 {
            disk.pattern_file(live.len() as u64, seed)
        } else {
            disk.file(&live)
        };
        let mut states = vec![live.clone()];
        for step in 0..30 {
            change(&file, &mut live, &mut states, step, &mut random);
            assert_eq!(file.contents(), live, "seed {seed} step {step}");
            let after = file.power_cut_with(random.next_u64()).contents();
            assert!(
                states.iter().any(|state| state.len() == after.len()),
                "seed {seed} step {step}: {}",
                after.len()
            );
            for (number, sector) in after.chunks(512).enumerate() {
                // A cut-off zeroes the end of a sector in whatever state it is.
                let ends =
                    states.iter().map(|state| state.len().saturating_sub(number * 512).min(512));
                let mut of_state =
                    states.iter().map(|state| state.get(number * 512..).unwrap_or_default());
                let known =
                    of_state.any(|state| ends.clone().any(|end| is_cut(sector, state, end)));
                assert!(
                    known,
                    "seed {seed} step {step}: sector {number} is of no state since the last sync"
                );
            }
        }
    }
}

/// True if `sector` equals `state` up to `end` or to the end of the state, and is zero behind that.
fn is_cut(sector: &[u8], state: &[u8], end: usize) -> bool {
    let end = end.min(state.len()).min(sector.len());
    sector[..end] == state[..end] && sector[end..].iter().all(|byte| *byte == 0)
}

/// Makes one random change of a file and of its model. `states` are those since the last sync.
fn change(
    file: &SimMedium,
    live: &mut Vec<u8>,
    states: &mut Vec<Vec<u8>>,
    step: u8,
    random: &mut SplitMix64,
) {
    let (offset, len) = (random.below(40_000), 1 + random.below(9_000));
    let range = offset as usize..(offset + len) as usize;
    match random.below(8) {
        0 => file.set_size(offset).unwrap(),
        1 => file.punch(offset..offset + len).unwrap(),
        2 => file.allocate(offset..offset + len, len % 2 == 0).unwrap(),
        3 => {
            sync(file).unwrap();
            states.clear();
        }
        _ => {
            let write =
                op(OpKind::Write, file, offset, Some(memory(&vec![step + 1; len as usize])));
            assert_eq!(
                file.transfer(&mut Op { route: Route::Buffered, ..write }),
                Ok(len as usize)
            );
        }
    }
    match file.disk().trace().entries.last().unwrap().action {
        SimAction::SetSize => live.resize(offset as usize, 0),
        SimAction::Punch => {
            let end = live.len();
            live[range.start.min(end)..range.end.min(end)].fill(0);
        }
        SimAction::Allocate if len % 2 == 0 => live.resize(live.len().max(range.end), 0),
        SimAction::Transfer(OpKind::Write) => {
            live.resize(live.len().max(range.end), 0);
            live[range].fill(step + 1);
        }
        _ => {}
    }
    states.push(live.clone());
}
