use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::trace::{
    Call, DATA_ONLY, Event, EventSink, FileInfo, FileKind, Heading, Request, TraceWriter, WatchCost,
};

fn request(call: Call, thread: u32, file: u32, offset: u64, bytes: u64) -> Request {
    let done = bytes as i64;
    Request { done, duration: 1000, ..Request::at(0, call, thread, (file, offset), bytes) }
}

/// A trace of two processes with a thread each, and of files of these sizes.
fn trace(sizes: &[u64], requests: Vec<Request>, after: u64) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let mut add = |event| writer.add(&event).unwrap();
    add(Event::Heading(Heading::new(vec!["job".into()], "6.18".into(), 0, WatchCost::default())));
    for pid in [10, 20] {
        add(Event::Thread { tid: pid, pid, name: b"job".to_vec() });
    }
    for (inode, size) in sizes.iter().enumerate() {
        let (device, inode, path) = (1, inode as u64, b"/data".to_vec());
        add(Event::File(FileInfo { device, inode, kind: FileKind::Regular, size: *size, path }));
    }
    requests.into_iter().for_each(|request| add(Event::Request(request)));
    add(Event::Ended { status: 0, after });
    writer.finish().unwrap()
}

fn replayed(trace: &[u8], mode: ReplayMode) -> Replayed {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let options = ReplayOptions { mode, speed: Speed::AsFastAsPossible };
    let done = replay(trace, dir.path(), options, &|| false).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays");
    done
}

const MODES: [ReplayMode; 5] = [
    ReplayMode::Cached,
    ReplayMode::Direct,
    ReplayMode::Concurrent,
    ReplayMode::Uncached,
    ReplayMode::Streams,
];

#[test]
fn every_request_moves_what_it_moved() {
    let mut requests = Vec::new();
    // A file is read in order and to its end, another one is written, synced, read back, cut.
    requests.extend((0..11).map(|number| request(Call::Read, 0, 0, number * 10_000, 10_000)));
    let mut last = request(Call::Read, 0, 0, 110_000, 10_000);
    last.done = 777;
    requests.push(last);
    requests.extend((0..50).map(|number| request(Call::Write, 1, 1, number * 3001, 3001)));
    requests.push(request(Call::Fdatasync, 1, 1, 0, 0));
    requests.extend((0..50).map(|number| request(Call::Pread, 1, 1, (49 - number) * 3001, 3001)));
    requests.push(request(Call::Ftruncate, 1, 1, 5000, 0));
    let mut short = request(Call::Pread, 1, 1, 4000, 4096);
    short.done = 1000;
    requests.push(short);
    requests.push(request(Call::Fallocate, 1, 1, 0, 65536));
    requests.push(request(Call::Fsync, 1, 1, 0, 0));
    let mut copy = request(Call::CopyFileRange, 0, 0, 0, 110_777);
    copy.to = Some(2);
    requests.push(copy);
    let count = requests.len() as u64;
    let trace = trace(&[110_777, 3001, 110_777], requests, 1_000_000);
    for mode in MODES {
        let done = replayed(&trace, mode);
        assert_eq!((done.requests, done.differing), (count, 0), "{mode:?}: {done:?}");
        assert_eq!((done.threads, done.files), (2, 3), "{mode:?}: {done:?}");
        assert_eq!(done.bytes, 110_777 * 2 + 2 * 50 * 3001 + 1000, "{mode:?}: {done:?}");
    }
}

#[test]
fn a_thread_waits_for_the_one_that_it_waited_for() {
    // The second thread begins after the first request of the first one, which goes on after the
    // second one's last request; and that one sleeps before it.
    let mut requests = vec![
        request(Call::Pread, 0, 0, 0, 4096),
        request(Call::Pread, 1, 0, 4096, 4096),
        request(Call::Pread, 1, 0, 8192, 4096),
        request(Call::Pread, 0, 0, 12288, 4096),
    ];
    for (number, request) in requests.iter_mut().enumerate() {
        request.start = number as u64 * 10_000_000;
        request.waited = number == 3;
    }
    let trace = trace(&[16384], requests, 50_000_000);
    let (plan, _) = plan::plan(&trace[..]).unwrap();
    let [first, second] = &plan.threads[..] else { panic!("{plan:?}") };
    let links = |thread: &planned::PlannedThread| -> Vec<_> {
        thread.requests.iter().map(|request| (request.after, request.pause)).collect()
    };
    assert_eq!(links(first), [(None, 0), (Some((1, 1)), 9_999_000)]);
    assert_eq!(links(second), [(Some((0, 0)), 9_999_000), (None, 9_999_000)]);
    assert_eq!(plan.tail, 50_000_000 - 30_001_000);

    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let done = replay(&trace[..], dir.path(), ReplayOptions::default(), &|| false).unwrap();
    assert!(done.seconds >= 0.049, "{done:?}");
    assert_eq!(done.recorded_seconds, 0.05);
}

#[test]
fn files_have_their_sizes_and_nothing_else_is_replayed() {
    let mut failed = request(Call::Read, 0, 0, 0, 10);
    failed.done = -5;
    let mut ring = request(Call::IoUringEnter, 0, 0, 0, 0);
    ring.done = 1;
    // Appended to by the trace; written within; read beyond what the size says.
    let requests = vec![
        failed,
        ring,
        request(Call::Write, 0, 0, 10_000, 5000),
        request(Call::Pwrite, 0, 1, 100, 50),
        request(Call::Pread, 0, 2, 0, 9000),
    ];
    let trace = trace(&[15_000, 7000, 8000, 4_000_000_000_000_000], requests, 0);
    let (plan, _) = plan::plan(&trace[..]).unwrap();
    let sizes: Vec<_> = plan.files.iter().map(|file| (file.size, file.is_used)).collect();
    assert_eq!(sizes, [(10_000, true), (100, true), (9000, true), (0, false)]);
    let left_out: Vec<_> = plan.left_out.into_iter().collect();
    assert_eq!(left_out, [("asynchronous", 1), ("failed", 1)]);
}

#[test]
fn the_source_of_a_copy_is_warm_if_only_the_target_is_new() {
    for (cached, is_warm) in [(1 << 20, true), (2 << 20, false)] {
        let copy = |number: u64| Request {
            to: Some(1),
            cached,
            ..request(Call::CopyFileRange, 0, 0, number << 20, 1 << 20)
        };
        let trace = trace(&[4 << 20, 0], (0..4).map(copy).collect(), 0);
        let (plan, _) = plan::plan(&trace[..]).unwrap();
        assert_eq!(plan.files[0].is_warm, is_warm, "{cached}");
    }
}

/// A request to io_uring, with the times at which it was submitted and completed.
fn begun(call: Call, offset: u64, [start, end]: [u64; 2]) -> Request {
    Request { start, duration: end - start, ..request(call, 0, 0, offset, 4096) }
}

#[test]
fn requests_that_were_in_flight_at_once_are_replayed_at_once() {
    // Two at a time; the third is submitted when the first has completed, and so on.
    let requests = vec![
        begun(Call::UringRead, 0, [0, 100]),
        begun(Call::UringWrite, 4096, [10, 130]),
        begun(Call::AioRead, 8192, [105, 220]),
        Request { flags: DATA_ONLY, ..begun(Call::UringFsync, 0, [140, 250]) },
    ];
    let trace = trace(&[1 << 20], requests, 300);
    let (plan, _) = plan::plan(&trace[..]).unwrap();
    let lanes: Vec<Vec<_>> = plan.threads[2..]
        .iter()
        .map(|lane| {
            assert_eq!((lane.process, lane.owner), (10, 0));
            let of =
                |request: &planned::PlannedRequest| (request.call, request.pause, request.took);
            lane.requests.iter().map(of).collect()
        })
        .collect();
    let [first, second] = &lanes[..] else { panic!("{lanes:?}") };
    assert_eq!(first[..], [(Call::Pread, 0, 100), (Call::Pread, 5, 115)]);
    assert_eq!(second[..], [(Call::Pwrite, 10, 120), (Call::Fdatasync, 10, 110)]);
    for mode in MODES {
        let done = replayed(&trace, mode);
        assert_eq!((done.requests, done.differing, done.bytes), (4, 0, 3 * 4096), "{mode:?}");
    }
}

proptest! {
    /// Whatever a trace says, nothing overflows, and no request waits for one that waits for it.
    #[test]
    fn any_trace_can_be_planned(
        raw in proptest::collection::vec(
            (
                0..Call::ALL.len(),
                0..2_u32,
                0..3_u32,
                prop_oneof![0..20_u64, any::<u64>()],
                prop_oneof![0..3_u64, any::<u64>()],
                any::<i64>(),
                any::<bool>(),
            ),
            0..40,
        ),
        numbers in any::<(u64, u64, u64)>(),
    ) {
        let requests = raw.into_iter().map(|(call, thread, file, start, duration, done, waited)| {
            let one = request(Call::ALL[call], thread, file, numbers.0, numbers.1);
            Request { start, duration, done, waited, to: waited.then_some(2), ..one }
        });
        let trace = trace(&[numbers.2, 5, 0], requests.collect(), numbers.0);
        let (plan, _) = plan::plan(&trace[..]).unwrap();
        // Threads take turns for as long as one of them can go on.
        let mut done = vec![0_usize; plan.threads.len()];
        let mut has_gone_on = true;
        while has_gone_on {
            has_gone_on = false;
            for (number, thread) in plan.threads.iter().enumerate() {
                let may_begin = |request: &planned::PlannedRequest, done: &[usize]| {
                    request.after.is_none_or(|(of, awaited)| done[of as usize] > awaited as usize)
                };
                while let Some(request) = thread.requests.get(done[number])
                    && may_begin(request, &done)
                {
                    done[number] += 1;
                    has_gone_on = true;
                }
            }
        }
        let all: Vec<usize> = plan.threads.iter().map(|thread| thread.requests.len()).collect();
        prop_assert_eq!(done, all);
    }
}

#[test]
fn files_that_do_not_fit_are_refused_before_any_is_made() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let trace = trace(&[u64::MAX / 2], vec![request(Call::Pread, 0, 0, 0, 10)], 0);
    let error = replay(&trace[..], dir.path(), ReplayOptions::default(), &|| false).unwrap_err();
    assert!(matches!(error, ReplayError::Space { .. }), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_replay_can_be_stopped() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut late = request(Call::Pread, 0, 0, 0, 10);
    late.start = 3_600_000_000_000;
    let trace = trace(&[10], vec![late], 0);
    let asked = AtomicU32::new(0);
    let is_stopped = || asked.fetch_add(1, Ordering::Relaxed) > 3;
    let error = replay(&trace[..], dir.path(), ReplayOptions::default(), &is_stopped).unwrap_err();
    assert!(matches!(error, ReplayError::Stopped), "{error}");
}

#[test]
fn what_stops_cost_is_taken_out_of_the_pauses() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let mut add = |event| writer.add(&event).unwrap();
    let cost = WatchCost { within: 100, around: 2000, other: 5000 };
    add(Event::Heading(Heading::new(vec!["job".into()], "6.18".into(), 0, cost)));
    add(Event::Thread { tid: 1, pid: 1, name: b"job".to_vec() });
    let info = FileInfo {
        device: 1,
        inode: 1,
        kind: FileKind::Regular,
        size: 1 << 20,
        path: b"/data".to_vec(),
    };
    add(Event::File(info));
    add(Event::Request(request(Call::Pread, 0, 0, 0, 4096)));
    add(Event::Unrecorded { thread: 0, calls: 3 });
    let second = Request { start: 101_000, ..request(Call::Pread, 0, 0, 4096, 4096) };
    add(Event::Request(second));
    let (plan, _) = plan::plan(&writer.finish().unwrap()[..]).unwrap();
    let second = &plan.threads[0].requests[1];
    assert_eq!((second.pause, second.took), (100_000 - 2000 - 3 * 5000, 900));
}
