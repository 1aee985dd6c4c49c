//! The distribution of work in virtual time: nothing is lost or done twice whatever the tree, the
//! number of ranks and the random numbers are, and a thousand ranks are kept busy.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dio_mpi::simulate::{Costs, Outcome, Simulation, Storage, Tree};

const COSTS: Costs = Costs {
    message: Duration::from_micros(100),
    directory: Duration::from_micros(500),
    file: Duration::from_micros(300),
    rate: 2e9,
    storage: None,
};

const GIB: u64 = 1 << 30;

/// A random number that belongs to these two.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A tree that a seed decides, with up to `directories` directories.
struct Random {
    seed: u64,
    directories: u64,
}

impl Tree for Random {
    fn directories(&self, directory: u64) -> Vec<u64> {
        // As in a heap: the children of n are from fanout·n + 1 on.
        let fanout = 1 + self.seed % 5;
        (1..=fanout)
            .map(|child| directory * fanout + child)
            .filter(|n| *n < self.directories)
            .collect()
    }

    fn files(&self, directory: u64) -> u64 {
        match mixed(self.seed, directory) {
            many if many % 7 == 0 => many / 7 % 20_000,
            few => few / 7 % 300,
        }
    }

    fn large(&self, directory: u64) -> Vec<u64> {
        let number = mixed(self.seed, directory) >> 40;
        (0..number % 3).map(|file| 1 + mixed(number, file) % (4 * GIB)).collect()
    }
}

/// What a sequential copy of the tree does: directories, small files, and large files by size.
fn sequential(tree: &impl Tree) -> (u64, u64, BTreeMap<(u64, usize), u64>) {
    let (mut waiting, mut files, mut directories) = (vec![0], 0, 0);
    let mut large = BTreeMap::new();
    while let Some(directory) = waiting.pop() {
        directories += 1;
        files += tree.files(directory);
        large.extend(
            tree.large(directory).into_iter().enumerate().map(|(n, size)| ((directory, n), size)),
        );
        waiting.extend(tree.directories(directory));
    }
    (directories, files, large)
}

fn check(tree: &impl Tree, mut outcome: Outcome) {
    let seed = outcome.seed;
    let (directories, files, large) = sequential(tree);
    assert_eq!((outcome.directories, outcome.files), (directories, files), "seed {seed}");
    outcome.ranges.sort_unstable();
    let mut covered: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    for (directory, file, start, end) in outcome.ranges {
        let to = covered.entry((directory, file)).or_default();
        assert_eq!(*to, start, "seed {seed}: a gap, or bytes twice");
        *to = end;
    }
    assert!(covered == large, "seed {seed}");
}

#[test]
fn every_file_and_byte_is_copied_once_whatever_the_order() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seeds from {seed}");
    for seed in (0..40).chain(seed..seed + 40) {
        let tree = Random { seed, directories: 1 + mixed(seed, 1) % 400 };
        let ranks = 1 + (mixed(seed, 2) % 40) as usize;
        let costs = Costs { message: Duration::from_micros(mixed(seed, 3) % 5000), ..COSTS };
        check(&tree, Simulation::new(&tree, costs, ranks, seed).run());
        if seed % 8 > 0 {
            continue;
        }
        // Ranks that rest and go on again lose nothing either.
        let storage = Storage { rate: 4e9, files: 6e3, best: ranks / 3, loss: 0.2 };
        let costs = Costs { storage: Some(storage), ..costs };
        check(&tree, Simulation::new(&tree, costs, ranks, seed).tuned().run());
    }
}

/// `width` directories in each of `width` directories, each with files; and one large file.
struct Wide {
    width: u64,
    files: u64,
    large: u64,
}

impl Tree for Wide {
    fn directories(&self, directory: u64) -> Vec<u64> {
        match directory {
            0 => (1..=self.width).collect(),
            // Of 1, from width + 1 on.
            n if n <= self.width => (n * self.width + 1..=(n + 1) * self.width).collect(),
            _ => Vec::new(),
        }
    }

    fn files(&self, directory: u64) -> u64 {
        if directory > self.width { self.files } else { 0 }
    }

    fn large(&self, directory: u64) -> Vec<u64> {
        if directory == 0 && self.large > 0 { vec![self.large] } else { Vec::new() }
    }
}

/// The share of the workers' time in which they had nothing to do.
fn idle(outcome: &Outcome, ranks: usize) -> f64 {
    outcome.idle.as_secs_f64() / (outcome.took.as_secs_f64() * ranks as f64)
}

fn report(name: &str, outcome: &Outcome, ranks: usize) -> f64 {
    let most = outcome.messages.iter().max().unwrap();
    let mean = outcome.messages.iter().sum::<u64>() / ranks as u64;
    let idle = idle(outcome, ranks);
    println!(
        "{name}, {ranks} ranks: {:.2} s, idle {:.1} %, messages of rank 0 {}, most {most}, mean \
         {mean}; items in one rank at most {}",
        outcome.took.as_secs_f64(),
        idle * 100.0,
        outcome.messages[0],
        outcome.items_max,
    );
    idle
}

#[test]
fn ten_million_files_and_fifty_terabytes_keep_a_thousand_ranks_busy() {
    for (name, tree) in [
        ("10 million files in 99,856 directories", Wide { width: 316, files: 100, large: 0 }),
        ("one file of 50 TB", Wide { width: 0, files: 0, large: 50_000_000_000_000 }),
        ("10 million files and 50 TB", Wide { width: 316, files: 100, large: 50_000_000_000_000 }),
    ] {
        let outcomes = [100, 1000].map(|ranks| {
            let outcome = Simulation::new(&tree, COSTS, ranks, 1).run();
            let idle = report(name, &outcome, ranks);
            assert!(idle < 0.2, "{name}, {ranks} ranks: {idle}");
            // A directory's jobs, and the loans that are out: no rank keeps the tree.
            assert!(outcome.items_max < 4000, "{}", outcome.items_max);
            outcome
        });
        // With ten times the ranks, rank 0 has no more to do than with as many ranks as lifelines.
        let of_rank_0 = outcomes.each_ref().map(|outcome| outcome.messages[0]);
        assert!(of_rank_0[1] < 10 * of_rank_0[0].max(100), "{name}: {of_rank_0:?}");
        outcomes.into_iter().for_each(|outcome| check(&tree, outcome));
    }
}

#[test]
fn one_directory_of_a_million_names_is_shared() {
    struct Flat;
    impl Tree for Flat {
        fn directories(&self, _: u64) -> Vec<u64> {
            Vec::new()
        }
        fn files(&self, _: u64) -> u64 {
            1_000_000
        }
        fn large(&self, _: u64) -> Vec<u64> {
            Vec::new()
        }
    }
    let outcome = Simulation::new(&Flat, COSTS, 64, 1).run();
    assert!(report("a directory of a million names", &outcome, 64) < 0.2);
    check(&Flat, outcome);
}

/// A tree with large files or with small ones only, and its bytes or files.
fn large_or_small(large: u64, files: u64) -> Wide {
    Wide { width: if files == 0 { 0 } else { 30 }, files: files / 900, large }
}

#[test]
fn more_ranks_are_faster_until_the_storage_is_the_limit_and_then_as_fast() {
    // A rank moves 1 GB/s or 2,500 files/s, and the storage as much as four ranks.
    let storage = Storage { rate: 4e9, files: 1e4, best: usize::MAX, loss: 0.0 };
    let file = Duration::from_micros(400);
    let costs = Costs { rate: 1e9, file, storage: Some(storage), ..COSTS };
    for (name, tree) in [
        ("one file of 20 GB", large_or_small(20_000_000_000, 0)),
        ("90,000 files", large_or_small(0, 90_000)),
    ] {
        let times = [1, 2, 4, 8, 16].map(|ranks| {
            let outcome = Simulation::new(&tree, costs, ranks, 1).tuned().run();
            println!("{name}, {ranks} ranks: {:.2} s", outcome.took.as_secs_f64());
            let took = outcome.took.as_secs_f64();
            check(&tree, outcome);
            took
        });
        for (ranks, took) in [(2.0, times[1]), (4.0, times[2])] {
            let linear = times[0] / ranks / took;
            assert!(linear > 0.9, "{name}: {linear} of linear with {ranks} ranks");
        }
        for took in &times[3..] {
            assert!(*took < 1.05 * times[2], "{name}: {times:?}");
        }
    }
}

#[test]
fn ranks_rest_where_storage_is_slower_with_all_of_them() {
    // Four ranks are best; with 16, it is slower by half.
    let storage = Storage { rate: 4e9, files: 1e4, best: 4, loss: 1.0 / 12.0 };
    let costs = Costs { rate: 1e9, storage: Some(storage), ..COSTS };
    let tree = large_or_small(1_200_000_000_000, 0);
    let run = |ranks, is_tuned| {
        let simulation = Simulation::new(&tree, costs, ranks, 1);
        let outcome = if is_tuned { simulation.tuned().run() } else { simulation.run() };
        let took = outcome.took.as_secs_f64();
        println!("{ranks} ranks, tuned: {is_tuned}: {took:.0} s, {} at work", outcome.at_work);
        check(&tree, outcome);
        took
    };
    let best = run(4, false);
    assert!(run(16, false) > 1.8 * best);
    assert!(run(16, true) < 1.15 * best);
}
