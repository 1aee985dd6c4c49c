//! One writer beside the mount and one reader through it, with random changes.

use crate::support::Scene;
use crate::{BOUND, PAGE, variants};
use dio_test::Soak;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
        let in_time =
            |version: &u64| self.complete[*version as usize].load(Ordering::Acquire) <= limit;
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
    let plan: Vec<(u64, usize)> =
        (1..400).map(|version| (version, rng.range(0..BLOCKS as u64) as usize)).collect();
    let versions = Versions {
        blocks: (0..BLOCKS).map(|_| AtomicU64::new(0)).collect(),
        complete: (0..400).map(|_| AtomicU64::new(u64::MAX)).collect(),
    };
    let pauses: Vec<u64> =
        plan.iter().map(|_| if rng.range(0..20) == 0 { rng.range(0..400) } else { 3 }).collect();
    let reads: Vec<(u64, u64, u64)> = (0..4096)
        .map(|_| (rng.range(0..BLOCKS as u64), rng.range(1..9), rng.range(0..8)))
        .collect();
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
                versions.complete[*version as usize]
                    .store(start.elapsed().as_millis() as u64, Ordering::Release);
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
            assert_eq!(
                u64::from_ne_bytes(block),
                newest(number),
                "{options}: block {number} in the end"
            );
        }
    });
}

#[test]
fn soak_readers_keep_up_with_a_writer_beside_the_mount() {
    let Some(scene) = Scene::new() else { return };
    let variants = variants();
    for seed in Soak::of(1) {
        let mut rng = seed.rng();
        let chosen: Vec<&String> =
            (0..4).map(|_| &variants[rng.range(0..variants.len() as u64) as usize]).collect();
        let other = scene.mount("concurrent");
        thread::scope(|scope| {
            for (number, options) in chosen.into_iter().enumerate() {
                let (scene, seed, other, name) =
                    (&scene, &seed, other.path(), format!("soak{number}"));
                fs::write(scene.source.join(&name), "").unwrap();
                scope.spawn(move || {
                    let mounted = scene.mount(options);
                    let writable =
                        if number % 2 == 0 { scene.source.join(&name) } else { other.join(&name) };
                    readers_keep_up(seed, options, &mounted.path().join(&name), &writable);
                    mounted.unmount();
                });
            }
        });
        other.unmount();
    }
}
