//! The pipeline against a plain loop: random delays, errors and panics at random items, and any
//! number of threads. The sink must get the same items, the same failure must be returned, and the
//! bound on the items must hold.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dio::pipeline::Pipeline;
use dio_test::{Rng, Seed};
use parking_lot::Mutex;

/// Number of items that exist now, and the highest number so far.
#[derive(Default)]
struct Census {
    living: AtomicUsize,
    most: AtomicUsize,
}

/// An item that is counted as long as it exists.
struct Item<'a> {
    number: usize,
    census: &'a Census,
}

impl<'a> Item<'a> {
    fn new(number: usize, census: &'a Census) -> Item<'a> {
        let living = census.living.fetch_add(1, Ordering::SeqCst) + 1;
        census.most.fetch_max(living, Ordering::SeqCst);
        Item { number, census }
    }
}

impl Drop for Item<'_> {
    fn drop(&mut self) {
        self.census.living.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A failure of one stage at one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    Panic,
}

/// The location of a failure: an item, and a stage or a consumer.
type Place = (usize, usize);

#[derive(Debug)]
struct Case {
    items: usize,
    workers: usize,
    depth: usize,
    faults: Vec<(Place, Fault)>,
    seed: u64,
    /// The longest delay of each stage in microseconds.
    delays: [u64; 3],
}

const SOURCE: usize = 0;
const WORK: usize = 1;
const SINK: usize = 2;

impl Case {
    fn random(rng: &mut Rng, stages: usize) -> Case {
        let items = rng.range_usize(0..50);
        // Faults are close to each other, so that the first in order is often not the first in
        // time.
        let near = rng.range_usize(0..items.max(1));
        let faults = (0..rng.range_usize(0..4)).map(|_| {
            let item = near + rng.range_usize(0..6);
            (
                (item, rng.range_usize(0..stages)),
                *rng.pick(&[Fault::Error, Fault::Error, Fault::Panic]),
            )
        });
        let mut faults: Vec<_> = faults.collect();
        if rng.bool(0.3) {
            faults.clear();
        }
        faults.sort_by_key(|(place, _)| *place);
        faults.dedup_by_key(|(place, _)| *place);
        let delay = |rng: &mut Rng| *rng.pick(&[0, 0, 60, 300]);
        Case {
            items,
            workers: rng.range_usize(0..5),
            depth: rng.range_usize(1..9),
            faults,
            seed: rng.next_u64(),
            delays: [delay(rng), delay(rng), delay(rng)],
        }
    }

    /// Runs one stage on one item.
    fn act(&self, item: usize, stage: usize) -> Result<(), Place> {
        let mut rng = Rng::new(self.seed ^ (item * 8 + stage) as u64);
        match rng.range(0..self.delays[stage.min(2)] + 1) {
            0 => {}
            short if short < 20 => thread::yield_now(),
            long => thread::sleep(Duration::from_micros(long)),
        }
        match self.faults.iter().find(|(place, _)| *place == (item, stage)) {
            Some((place, Fault::Error)) => Err(*place),
            // As `panic!`, but without a message.
            Some((place, Fault::Panic)) => resume_unwind(Box::new(*place)),
            None => Ok(()),
        }
    }

    fn read<'a>(&self, next: &mut usize, census: &'a Census) -> Result<Option<Item<'a>>, Place> {
        let item = Item::new(*next, census);
        *next += 1;
        self.act(item.number, SOURCE)?;
        Ok((item.number < self.items).then_some(item))
    }

    fn work<'a>(&self, item: Item<'a>) -> Result<Item<'a>, Place> {
        self.act(item.number, WORK).map(|()| item)
    }
}

/// The end of a run; a panic is distinguished from an error.
#[derive(Debug, PartialEq, Eq)]
enum End {
    All,
    Error(Place),
    Panic(Place),
}

fn end(run: impl FnOnce() -> Result<(), Place>) -> End {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => End::All,
        Ok(Err(place)) => End::Error(place),
        Err(payload) => {
            End::Panic(*payload.downcast().expect("no other panic: a failed assertion has its own"))
        }
    }
}

/// Turns a hang into a failure.
fn in_time<R: Send + 'static>(what: String, run: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let runner = thread::spawn(move || sender.send(run()));
    let result = receiver.recv_timeout(Duration::from_secs(60));
    result.unwrap_or_else(|error| panic!("{error} ({}): {what}", runner.is_finished()))
}

fn run_loop(case: &Case, seen: &mut Vec<usize>) -> Result<(), Place> {
    let (census, mut next) = (Census::default(), 0);
    while let Some(item) = case.read(&mut next, &census)? {
        case.act(item.number, WORK)?;
        case.act(item.number, SINK)?;
        seen.push(item.number);
    }
    Ok(())
}

fn run_pipeline(case: &Case, seen: &mut Vec<usize>, census: &Census) -> Result<(), Place> {
    let mut next = 0;
    let source = || case.read(&mut next, census);
    let worker = || |item| case.work(item);
    let sink = |item: Item<'_>| {
        case.act(item.number, SINK)?;
        seen.push(item.number);
        Ok(())
    };
    let report = Pipeline::new(case.workers).depth(case.depth).run(source, worker, sink)?;
    assert_eq!((report.items, report.stopped), (case.items as u64, false));
    assert!(report.work.threads <= case.workers);
    Ok(())
}

#[test]
fn a_pipeline_does_what_the_plain_loop_does() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let mut ends = [0; 3];
    for _ in 0..400 {
        let case = Case::random(&mut rng, 3);
        let what = format!("{case:?}");
        ends[in_time(what, move || {
            let (mut expected, mut seen, census) = (Vec::new(), Vec::new(), Census::default());
            let wanted = end(|| run_loop(&case, &mut expected));
            let found = end(|| run_pipeline(&case, &mut seen, &census));
            assert_eq!((found, seen), (wanted, expected), "{case:?}");
            let most = census.most.into_inner();
            assert!(most <= case.depth, "{most} items at once: {case:?}");
            assert_eq!(census.living.into_inner(), 0, "{case:?}");
            match end(|| run_loop(&case, &mut Vec::new())) {
                End::All => 0,
                End::Error(_) => 1,
                End::Panic(_) => 2,
            }
        })] += 1;
    }
    assert!(ends.iter().all(|count| *count > 20), "all, errors, panics: {ends:?}");
}

/// Consumers count the items they get. A failing consumer does not count the item at which it
/// fails.
fn broadcast_loop(case: &Case, seen: &mut [usize]) -> Result<(), Place> {
    let (census, mut next) = (Census::default(), 0);
    while let Some(item) = case.read(&mut next, &census)? {
        for (which, seen) in seen.iter_mut().enumerate() {
            case.act(item.number, which + 1)?;
            *seen += 1;
        }
    }
    Ok(())
}

fn broadcast(case: &Case, seen: &mut [usize], census: &Census) -> Result<(), Place> {
    let mut next = 0;
    let mut consumers: Vec<(usize, &mut usize)> = seen.iter_mut().enumerate().collect();
    let pipeline = Pipeline::new(case.workers).depth(case.depth);
    let source = || case.read(&mut next, census);
    let report = pipeline.broadcast(source, &mut consumers, |(which, seen), item| {
        assert_eq!(item.number, **seen, "no item is left out or seen twice");
        case.act(item.number, *which + 1)?;
        **seen += 1;
        Ok(())
    })?;
    assert_eq!((report.items, report.stopped), (case.items as u64, false));
    Ok(())
}

#[test]
fn a_broadcast_does_what_the_plain_loop_does() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for _ in 0..300 {
        let consumers = rng.range_usize(1..5);
        let case = Case::random(&mut rng, consumers + 1);
        in_time(format!("{consumers} consumers, {case:?}"), move || {
            let (mut expected, mut seen) = (vec![0; consumers], vec![0; consumers]);
            let census = Census::default();
            let wanted = end(|| broadcast_loop(&case, &mut expected));
            let found = end(|| broadcast(&case, &mut seen, &census));
            assert_eq!(found, wanted, "{case:?}");
            // The consumer that failed has got as many items as in the loop. At an error of the
            // source, and at the end, all consumers have.
            let exact = |which| match found {
                End::All => true,
                End::Error((_, stage)) | End::Panic((_, stage)) => {
                    stage == SOURCE || stage == which + 1
                }
            };
            for (which, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
                let ahead = if exact(which) { 0 } else { case.depth };
                assert!(
                    (*expected..=expected + ahead).contains(seen),
                    "consumer {which}: {seen}, {expected}: {case:?}"
                );
            }
            let most = census.most.into_inner();
            assert!(most <= case.depth, "{most} items at once: {case:?}");
            assert_eq!(census.living.into_inner(), 0, "{case:?}");
        });
    }
}

#[test]
fn a_stop_at_any_moment_leaves_a_whole_beginning() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for _ in 0..200 {
        let mut case = Case::random(&mut rng, 3);
        case.faults.clear();
        let after = rng.range_usize(0..120);
        in_time(format!("stop after {after} questions, {case:?}"), move || {
            let (census, asked, mut next) = (Census::default(), AtomicUsize::new(0), 0);
            let stop = || asked.fetch_add(1, Ordering::SeqCst) >= after;
            let seen = Mutex::new(Vec::new());
            let worker = || |item| case.work(item);
            let sink = |item: Item<'_>| {
                seen.lock().push(item.number);
                case.act(item.number, SINK)
            };
            let pipeline = Pipeline::new(case.workers).depth(case.depth).stop(&stop);
            let report = pipeline.run(|| case.read(&mut next, &census), worker, sink).unwrap();
            let seen = seen.into_inner();
            assert_eq!(seen, (0..seen.len()).collect::<Vec<_>>(), "{case:?}");
            assert_eq!(report.items, seen.len() as u64);
            assert!(
                report.stopped || seen.len() == case.items,
                "an incomplete run must say so: {case:?}"
            );
            assert_eq!(census.living.into_inner(), 0, "{case:?}");
        });
    }
}
