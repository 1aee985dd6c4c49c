//! Tests what the pipeline promises, case by case. `tests/pipeline.rs` compares it with the plain
//! loop at random.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::stage::*;
use super::*;

/// A place where threads meet: each waits until so many have come.
struct Meeting {
    places: usize,
    come: Mutex<usize>,
    all: Condvar,
}

impl Meeting {
    fn of(places: usize) -> Meeting {
        Meeting { places, come: Mutex::new(0), all: Condvar::new() }
    }

    fn wait(&self) {
        let mut come = self.come.lock();
        *come += 1;
        let round = come.div_ceil(self.places) * self.places;
        self.all.notify_all();
        let patience = Duration::from_secs(60);
        let waited = self.all.wait_while_for(&mut come, |come| *come < round, patience);
        assert!(!waited.timed_out(), "the others never came: the stages do not run at once");
    }
}

fn numbers(end: usize) -> impl FnMut() -> Result<Option<usize>, String> + Send {
    let mut numbers = 0..end;
    move || Ok(numbers.next())
}

#[test]
fn all_stages_are_busy_at_once_within_the_least_depth() {
    // In each round the source reads item r + 2, while the worker has item r + 1 and the sink item
    // r.
    let meeting = Meeting::of(3);
    let last = 20;
    let mut next = 0;
    let source = || {
        if next > last {
            return Ok::<_, String>(None);
        }
        if next >= 2 {
            meeting.wait();
        }
        next += 1;
        Ok(Some(next - 1))
    };
    let worker = || {
        |item: usize| {
            if (1..last).contains(&item) {
                meeting.wait();
            }
            Ok(item)
        }
    };
    let sink = |item: usize| {
        if item + 1 < last {
            meeting.wait();
        }
        Ok(())
    };
    let report = Pipeline::new(1).depth(3).run(source, worker, sink).unwrap();
    assert_eq!(report.items, last as u64 + 1);
}

#[test]
fn all_workers_are_busy_at_once() {
    let meeting = Meeting::of(4);
    let worker = || {
        |item: usize| {
            meeting.wait();
            Ok(item)
        }
    };
    let report = Pipeline::new(4).run(numbers(40), worker, |_| Ok(())).unwrap();
    assert_eq!((report.items, report.work.threads), (40, 4));
}

#[test]
fn the_report_says_who_limits() {
    // Threads that a busy machine keeps waiting look busy themselves, but not each time.
    assert!((0..20).any(|_| limits_are_told()), "the stage that limits is not told");
}

/// Runs pipelines of which one stage is slow. True if the reports show which.
fn limits_are_told() -> bool {
    let nap = || std::thread::sleep(Duration::from_millis(4));
    let slow_sink = Pipeline::new(2).run(
        numbers(20),
        || Ok,
        |_| {
            nap();
            Ok(())
        },
    );
    let report = slow_sink.unwrap();
    assert!(report.elapsed >= report.sink.busy, "{report:?}");
    let others_wait = report.source.utilisation() < 0.3 && report.work.utilisation() < 0.3;
    let sink =
        report.sink.utilisation() > 0.7 && others_wait && report.source.waited > report.elapsed / 2;
    let mut read = numbers(20);
    let slow_source = || {
        nap();
        read()
    };
    let report = Pipeline::new(2).run(slow_source, || Ok, |_| Ok(())).unwrap();
    sink && report.source.utilisation() > 0.7 && report.sink.utilisation() < 0.3
}

#[test]
fn each_worker_makes_its_state_once_and_in_its_own_thread() {
    let made = AtomicUsize::new(0);
    let worker = || {
        made.fetch_add(1, Ordering::Relaxed);
        // Neither may leave the thread in which it is made.
        let (count, thread) = (std::rc::Rc::new(Cell::new(0)), std::thread::current().id());
        move |item: usize| {
            assert_eq!(std::thread::current().id(), thread);
            count.set(count.get() + 1);
            Ok((item, count.get()))
        }
    };
    let mut firsts = 0;
    let sink = |(_, count)| {
        firsts += usize::from(count == 1);
        Ok(())
    };
    let _ = Pipeline::new(3).run(numbers(100), worker, sink).unwrap();
    assert!((1..=3).contains(&firsts));
    assert_eq!(made.into_inner(), firsts);
}

#[test]
fn the_sink_may_be_tied_to_the_calling_thread_and_borrow() {
    let seen = std::rc::Rc::new(Cell::new(0));
    let _ = Pipeline::new(2).run(
        numbers(10),
        || Ok,
        |item| {
            seen.set(seen.get() + item);
            Ok(())
        },
    );
    assert_eq!(seen.get(), 45);
}

#[test]
fn an_earlier_error_that_happens_later_is_the_one_returned() {
    let late = AtomicBool::new(false);
    let worker = || {
        |item: usize| match item {
            3 => {
                while !late.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Err("three".to_owned())
            }
            4 => {
                late.store(true, Ordering::Release);
                Err("four".to_owned())
            }
            item => Ok(item),
        }
    };
    let mut seen = Vec::new();
    let error = Pipeline::new(2).run(numbers(10), worker, |item| {
        seen.push(item);
        Ok(())
    });
    assert_eq!((error.unwrap_err().as_str(), seen), ("three", vec![0, 1, 2]));
}

#[test]
fn nothing_is_worked_on_behind_a_known_error() {
    let (failed, worked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let worker = || {
        |item: usize| {
            worked.fetch_add(1, Ordering::Relaxed);
            match item {
                0 => {
                    while !failed.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    // This is time enough for the other worker to do all the rest.
                    std::thread::sleep(Duration::from_millis(50));
                }
                1 => {
                    failed.store(true, Ordering::Release);
                    return Err("one".to_owned());
                }
                _ => {}
            }
            Ok(item)
        }
    };
    let error = Pipeline::new(2).depth(64).run(numbers(64), worker, |_| Ok(())).unwrap_err();
    assert_eq!(error, "one");
    assert!(worked.into_inner() < 16);
}

#[test]
fn a_source_that_waits_for_memory_of_dropped_items_does_not_hang() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The pool is smaller than the depth, so the source waits for blocks that only the end of
        // the queue frees.
        let pool = crate::block::Pool::new(4096, 3).unwrap();
        let source = || Ok::<_, String>(pool.take_many(1).pop());
        for workers in [1, 4] {
            // It returns without having asked for anything, when the source has the whole pool.
            let leave = |_: &mut Items<'_, _, _>| {
                while pool.try_take().is_some() {
                    std::thread::yield_now();
                }
                Err::<(), _>("full".to_owned())
            };
            let error = Pipeline::new(workers).depth(16).pull(source, || Ok, leave).unwrap_err();
            assert_eq!(error, "full");
        }
        sender.send(pool.take_many(3).len()).unwrap();
    });
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(3));
}

#[test]
fn a_panic_comes_out_wherever_it_happens() {
    for workers in [0, 1, 3] {
        for stage in ["source", "maker", "worker", "sink"] {
            let run = || {
                let mut read = numbers(100);
                let source = move || match read() {
                    Ok(Some(20)) if stage == "source" => resume_unwind(Box::new(stage)),
                    item => item,
                };
                let worker = || {
                    if stage == "maker" {
                        resume_unwind(Box::new(stage));
                    }
                    move |item| match item {
                        20 if stage == "worker" => resume_unwind(Box::new(stage)),
                        item => Ok::<_, String>(item),
                    }
                };
                let sink = |item| match item {
                    20 if stage == "sink" => resume_unwind(Box::new(stage)),
                    _ => Ok(()),
                };
                Pipeline::new(workers).run(source, worker, sink)
            };
            let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&stage), "{workers} workers");
        }
    }
}

#[test]
fn after_a_request_to_stop_the_sink_sees_nothing_more() {
    for workers in [0, 1, 3] {
        let stop = AtomicBool::new(false);
        let asked = || stop.load(Ordering::Relaxed);
        let mut seen = 0;
        let endless = || Ok::<_, String>(Some(0));
        let sink = |_| {
            seen += 1;
            stop.store(seen == 5, Ordering::Relaxed);
            Ok(())
        };
        let report = Pipeline::new(workers).stop(&asked).run(endless, || Ok, sink).unwrap();
        assert_eq!((report.items, report.stopped, seen), (5, true, 5));
    }
}

#[test]
fn a_sink_that_asks_may_leave_early() {
    for workers in [0, 2] {
        let endless = || Ok::<_, String>(Some(7));
        let pipeline = Pipeline::new(workers);
        let (sum, report) =
            pipeline.pull(endless, || Ok, |items| items.take(3).sum::<Result<i32, _>>()).unwrap();
        assert_eq!((sum, report.items, report.stopped), (21, 3, false));
        let (last, _) = pipeline
            .pull(
                numbers(3),
                || Ok,
                |items| {
                    assert_eq!(items.by_ref().count(), 3);
                    Ok((items.next().is_none(), items.stopped()))
                },
            )
            .unwrap();
        assert_eq!(last, (true, false));
    }
}

#[test]
fn an_error_is_the_last_item() {
    for workers in [0, 2] {
        let worker = || |item: usize| if item == 2 { Err("two".to_owned()) } else { Ok(item) };
        let collect = |items: &mut Items<'_, _, _>| Ok::<_, String>(items.collect::<Vec<_>>());
        let (items, report) = Pipeline::new(workers).pull(numbers(9), worker, collect).unwrap();
        assert_eq!((items, report.items), (vec![Ok(0), Ok(1), Err("two".to_owned())], 2));
    }
}

#[test]
fn consumers_of_a_broadcast_run_at_once_and_share_what_is_read() {
    let meeting = Meeting::of(3);
    let mut consumers = [0usize; 3];
    let report = Pipeline::new(1).broadcast(numbers(50), &mut consumers, |sum, item| {
        meeting.wait();
        *sum += item;
        Ok(())
    });
    let report = report.unwrap();
    assert_eq!((consumers, report.items, report.work.threads), ([1225; 3], 50, 3));
}

#[test]
fn a_broadcast_to_nobody_reads_all_the_same() {
    for workers in [0, 1] {
        let report = Pipeline::new(workers)
            .depth(2)
            .broadcast(numbers(9), &mut [(); 0], |(), _| Ok(()))
            .unwrap();
        assert_eq!((report.items, report.stopped), (9, false));
    }
}

#[test]
fn a_broadcast_stops_when_asked() {
    for workers in [0, 1] {
        let stop = AtomicBool::new(false);
        let asked = || stop.load(Ordering::Relaxed);
        let mut consumers = [0, 0];
        let endless = || Ok::<_, String>(Some(()));
        let consume = |seen: &mut usize, (): &()| {
            *seen += 1;
            stop.fetch_or(*seen == 5, Ordering::Relaxed);
            Ok(())
        };
        let report = Pipeline::new(workers)
            .depth(4)
            .stop(&asked)
            .broadcast(endless, &mut consumers, consume)
            .unwrap();
        assert!(report.stopped);
        assert!(consumers.iter().all(|seen| (1..=9).contains(seen)), "{consumers:?}");
    }
}
