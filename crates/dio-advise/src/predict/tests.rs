use std::collections::BTreeMap;

use super::*;
use crate::speed::Cost;
use crate::trace::{
    Call, Event, EventSink, FileInfo, FileKind, Heading, Request, TraceWriter, WatchCost,
    name_number,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MEMORY: u64 = 8 << 30;

/// Costs of a simulated disk that moves 1 GB/s, with 100 µs until the first byte, on a machine that
/// copies 4 GB/s and takes 1 µs a call, and 5 µs more below a mount.
fn costs(way: Way) -> Vec<Cost> {
    let call = if way == Way::Cached { 1e-6 } else { 6e-6 };
    let copied = |bytes: u64| call + bytes as f64 / 4e9;
    let moved = |bytes: u64| bytes as f64 / 1e9;
    let mut costs = Vec::new();
    let mut add = |operation, bytes, threads, seconds: f64| {
        let (low, high, tool) = (seconds * 0.9, seconds * 1.1, String::new());
        costs.push(Cost { operation, tool, bytes, threads, seconds, low, high, cpu_seconds: call });
    };
    for bytes in [4 * KIB, 64 * KIB, MIB] {
        add(Operation::ReadInOrder, bytes, 1, copied(bytes).max(moved(bytes)));
        add(Operation::ReadInOrderPaced, bytes, 1, copied(bytes));
        add(Operation::ReadAgain, bytes, 1, copied(bytes));
        add(Operation::ReadAtRandom, bytes, 1, call + 100e-6 + moved(bytes));
        add(Operation::ReadAtRandom, bytes, 16, moved(bytes) + 10e-6);
        let write =
            if way == Way::Cached { copied(bytes) } else { copied(bytes).max(moved(bytes)) };
        add(Operation::WriteInOrder, bytes, 1, write);
        add(Operation::WriteInOrderPaced, bytes, 1, copied(bytes));
        add(Operation::Overwrite, bytes, 1, write);
        add(Operation::AppendAndSync, bytes, 1, call + 300e-6 + moved(bytes));
        add(Operation::Sync, bytes, 1, 300e-6 + moved(bytes));
        add(Operation::Copy, bytes, 1, 2.0 * moved(bytes));
    }
    add(Operation::Open, 0, 1, call);
    add(Operation::Look, 0, 1, call);
    let names = [Operation::Create, Operation::Rename, Operation::Remove, Operation::Change];
    names.into_iter().for_each(|operation| add(operation, 0, 1, 3.0 * call));
    add(Operation::List, 0, 1, 2.0 * call);
    if way.mount_option().is_some() {
        add(Operation::Start, 0, 1, 1e-3);
    }
    costs
}

fn profile() -> Profile {
    let ways = Way::ALL.map(|way| (way, costs(way)));
    let (kernel, disk) = ("6.18".into(), "simulated".into());
    let mut profile = Profile::new(0, kernel, (2, MEMORY), disk, 1, BTreeMap::from(ways));
    profile.machine = "simulated".into();
    profile
}

/// A program that runs on the simulated machine, through the page cache, while it is recorded.
struct Program {
    now: u64,
    events: Vec<Event>,
}

impl Program {
    fn new(command: &[&str], sizes: &[(&str, u64)]) -> Program {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let mut heading = Heading::new(command, "6.18".into(), 0, WatchCost::default());
        heading.machine = "simulated".into();
        let mut events = vec![Event::Heading(heading)];
        events.push(Event::Thread { tid: 1, pid: 1, name: b"job".to_vec() });
        for (inode, (path, size)) in sizes.iter().enumerate() {
            let (device, inode, path) = (1, inode as u64, path.as_bytes().to_vec());
            let (kind, size) = (FileKind::Regular, *size);
            events.push(Event::File(FileInfo { device, inode, kind, size, path }));
        }
        Program { now: 0, events }
    }

    /// A call that takes so many microseconds, after a pause.
    fn call(&mut self, call: Call, file: u32, at: (u64, u64), cached: u64, micros: [f64; 2]) {
        let [pause, took] = micros.map(|micros| (micros * 1e3) as u64);
        let start = self.now + pause;
        self.now = start + took;
        let request = Request::at(start, call, 0, (file, at.0), at.1);
        self.events.push(Event::Request(Request { cached, duration: took, ..request }));
    }

    /// Adds a directory, whose names calls are about.
    fn directory(&mut self, path: &str) {
        let (device, inode, size, kind) = (0, 0, 0, FileKind::Other);
        let path = path.as_bytes().to_vec();
        self.events.push(Event::File(FileInfo { device, inode, kind, size, path }));
    }

    /// The last call.
    fn last(&mut self) -> &mut Request {
        match self.events.last_mut() {
            Some(Event::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    fn predicted(mut self) -> Prediction {
        self.events.push(Event::Ended { status: 0, after: self.now });
        let mut writer = TraceWriter::new(Vec::new()).unwrap();
        self.events.iter().for_each(|event| writer.add(event).unwrap());
        let prediction = Workload::read(&writer.finish().unwrap()[..]).unwrap().predict(&profile());
        assert!(!prediction.to_string().is_empty());
        for way in &prediction.ways {
            assert!(way.low <= way.predicted_seconds && way.predicted_seconds <= way.high);
        }
        prediction
    }
}

fn seconds(prediction: &Prediction, way: Advised) -> f64 {
    prediction.ways.iter().find(|one| one.way == way).unwrap().predicted_seconds
}

fn assert_near(seconds: f64, expected: f64) {
    assert!((seconds / expected - 1.0).abs() < 0.05, "{seconds} is not about {expected}");
}

/// Reads a file of 256 MiB in order, with pauses.
fn read_in_order(program: &mut Program, pause: f64) {
    for number in 0..256 {
        let took = if pause > 0.0 { 263.0 } else { 1049.0 };
        program.call(Call::Read, 0, (number * MIB, MIB), MIB, [pause, took]);
    }
}

#[test]
fn what_is_read_once_goes_direct() {
    let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
    read_in_order(&mut program, 2000.0);
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::Direct, "{prediction}");
    assert_eq!(prediction.verdict.apply[0], "dio run -o direct --dir /data -- job");
    // The disk reads while the program computes.
    assert_near(seconds(&prediction, Advised::Direct), 256.0 * 2.268e-3);
    assert_eq!(prediction.ways[0].cache_bytes, 256 * MIB);
    assert_eq!(prediction.groups[0].files, "/data/big");
    assert_near(prediction.model_ratio, 1.0);
}

#[test]
fn what_is_read_again_stays_cached() {
    let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
    read_in_order(&mut program, 0.0);
    for number in 0..1024 {
        program.call(Call::Read, 0, (number % 256 * MIB, MIB), 0, [0.0, 263.0]);
    }
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::Cached, "{prediction}");
    assert!(prediction.verdict.apply.is_empty());
    assert_near(seconds(&prediction, Advised::Direct), 1280.0 * 1.049e-3);
    let points = &prediction.miss_ratios;
    assert!(points.iter().any(|point| point.memory_bytes == 256 * MIB && point.miss_ratio < 0.21));
}

#[test]
fn small_reads_at_random_places_that_return_stay_cached() {
    let mut program = Program::new(&["job"], &[("/data/table", 64 * MIB)]);
    for number in 0..20_000_u64 {
        let place = number.wrapping_mul(7919) % 512;
        let [cached, took] = if number < 512 { [4 * KIB, 105] } else { [0, 2] };
        program.call(Call::Pread, 0, (place * 4 * KIB, 4 * KIB), cached, [1.0, took as f64]);
    }
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::Cached, "{prediction}");
    assert!(seconds(&prediction, Advised::Direct) > 15.0 * seconds(&prediction, Advised::Cached));
}

#[test]
fn a_program_that_does_little_is_left_alone() {
    let mut program = Program::new(&["job"], &[("/data/note", 4 * KIB)]);
    program.call(Call::Read, 0, (0, 4 * KIB), 4 * KIB, [100_000.0, 105.0]);
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::Cached, "{prediction}");
}

#[test]
fn files_of_one_directory_go_different_ways() {
    let files = [("/data/scan.dat", 256 * MIB), ("/data/hot.idx", 4 * MIB)];
    let mut program = Program::new(&["job"], &files);
    for number in 0..256 {
        program.call(Call::Read, 0, (number * MIB, MIB), MIB, [2000.0, 263.0]);
        for place in 0..128_u64 {
            let at = (number * 31 + place * 7919) % 1024 * 4 * KIB;
            program.call(Call::Pread, 1, (at, 4 * KIB), 0, [1.0, 2.0]);
        }
    }
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::Mixed, "{prediction}");
    assert_eq!(prediction.verdict.apply[0], "dio run -o direct,cached=hot.idx --dir /data -- job");
    let mixed = seconds(&prediction, Advised::Mixed);
    assert!(mixed < 0.9 * seconds(&prediction, Advised::Direct), "{prediction}");
}

#[test]
fn a_tool_is_advised_where_it_is_as_fast() {
    let mut program = Program::new(&["/bin/cat", "/data/big"], &[("/data/big", 256 * MIB)]);
    read_in_order(&mut program, 0.0);
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::Tool, "{prediction}");
    assert_eq!(prediction.verdict.apply, ["dio cat /data/big"]);
}

#[test]
fn a_model_that_is_far_off_cannot_tell() {
    let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
    for number in 0..256 {
        program.call(Call::Read, 0, (number * MIB, MIB), MIB, [0.0, 1800.0]);
    }
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::CannotTell, "{prediction}");
    assert_eq!(prediction.verdict.confidence, Confidence::Low);
}

#[test]
fn what_was_measured_counts_more_than_what_was_expected() {
    let prediction = || {
        let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
        read_in_order(&mut program, 2000.0);
        program.predicted()
    };
    let judged = |of: &dyn Fn(Advised) -> Option<f64>| {
        let mut prediction = prediction();
        let seconds: Vec<_> = prediction.ways.iter().map(|one| of(one.way)).collect();
        prediction.prove(&seconds);
        assert!(!prediction.to_string().is_empty());
        let expected = prediction.expected.map(|verdict| verdict.way);
        assert!(expected.is_none_or(|way| way == Advised::Direct));
        (prediction.verdict.way, prediction.verdict.apply.len(), prediction.verdict.why)
    };
    let (way, lines, why) = judged(&|way| Some(if way == Advised::Direct { 0.5 } else { 0.6 }));
    assert_eq!((way, lines), (Advised::Direct, 2));
    assert_eq!(why.last().unwrap(), "measured, as it was expected");
    let (way, lines, why) = judged(&|way| Some(if way == Advised::Cached { 0.5 } else { 0.6 }));
    assert_eq!((way, lines), (Advised::Cached, 0));
    assert_eq!(why.last().unwrap(), "measured; what was expected: direct");
    let (way, _, why) = judged(&|way| (way == Advised::Cached).then_some(0.5));
    assert_eq!((way, &why[0][..]), (Advised::Cached, "no other way could be run"));
    // Without a time as it is, there is nothing to compare with.
    let (way, ..) = judged(&|way| (way != Advised::Cached).then_some(0.5));
    assert_eq!(way, Advised::Direct);
}

#[test]
fn syncs_wait_for_the_disk_by_each_way() {
    let mut program = Program::new(&["job"], &[("/data/log", 0)]);
    for number in 0..1000 {
        program.call(Call::Write, 0, (number * 4 * KIB, 4 * KIB), 4 * KIB, [0.0, 2.0]);
        program.call(Call::Fdatasync, 0, (0, 0), 0, [0.0, 303.0]);
    }
    let prediction = program.predicted();
    assert_near(seconds(&prediction, Advised::Direct), 1000.0 * 310e-6);
    assert_eq!(prediction.verdict.way, Advised::Cached, "{prediction}");
}

#[test]
fn requests_that_are_direct_already_are_left_as_they_are() {
    let mut program = Program::new(&["job"], &[("/data/table", 64 * MIB)]);
    for number in 0..4000_u64 {
        let start = number / 16 * 100_000 + number % 16 * 1000;
        let at = number.wrapping_mul(7919) % 16_384 * 4 * KIB;
        let request = Request::at(start, Call::UringRead, 0, (0, at), 4 * KIB);
        let request = Request { direct: true, duration: 80_000, ..request };
        program.now = start + request.duration;
        program.events.push(Event::Request(request));
    }
    let prediction = program.predicted();
    assert_eq!(prediction.verdict.way, Advised::AlreadyDirect, "{prediction}");
    assert_eq!(prediction.groups[0].way, Advised::AlreadyDirect);
    assert_eq!(prediction.ways[0].cache_bytes, 0);
    // Sixteen at a time, of which each asks the server below a mount.
    assert_near(seconds(&prediction, Advised::Cached), 250.0 * 100e-6);
    assert_near(seconds(&prediction, Advised::Direct), 250.0 * 106e-6);
}

#[test]
fn looks_at_absent_names_are_questions_to_a_mount() {
    let mut program = Program::new(&["job"], &[("/data/table", 64 * MIB)]);
    program.directory("/data");
    for number in 0..10_000_u64 {
        let at = number.wrapping_mul(7919) % 16_384 * 4 * KIB;
        // An open file, and a name in its directory that does not exist.
        program.call(Call::Stat, 0, (0, 0), 0, [1.0, 1.0]);
        program.call(Call::Stat, 1, (0, 0), 0, [1.0, 1.0]);
        program.last().done = -2;
        program.call(Call::Pread, 0, (at, 4 * KIB), 4 * KIB, [1.0, 105.0]);
    }
    let prediction = program.predicted();
    assert_near(seconds(&prediction, Advised::Cached), 10_000.0 * 110e-6);
    // The look at the name takes 5 µs more below a mount, and so does the read.
    assert_near(seconds(&prediction, Advised::Direct), 10_000.0 * 120e-6);
    assert_eq!(prediction.groups.len(), 1, "a directory is no group of files");
}

#[test]
fn names_that_exist_are_asked_for_once() {
    let mut program = Program::new(&["job"], &[("/data/file", 64 * MIB)]);
    program.directory("/data");
    for number in 0..10_000_u64 {
        let at = number.wrapping_mul(7919) % 16_384 * 4 * KIB;
        program.call(Call::Pread, 0, (at, 4 * KIB), 4 * KIB, [0.0, 105.0]);
        // Each name is looked at twice, and then the file, whose name is known, is opened.
        for name in [number, number, name_number(b"/data/file")] {
            program.call(Call::Stat, 1, (name, 0), 0, [0.0, 1.0]);
        }
        program.call(Call::Open, 0, (0, 0), 0, [0.0, 1.0]);
    }
    let prediction = program.predicted();
    assert_near(seconds(&prediction, Advised::Cached), 10_000.0 * 109e-6);
    // The read and one look take 5 µs more; opening was measured with a look.
    assert_near(seconds(&prediction, Advised::Direct), 10_000.0 * 119e-6);
}

#[test]
fn calls_about_names_cost_more_below_a_mount() {
    let mut program = Program::new(&["job"], &[("/data/made", 64 * MIB)]);
    program.directory("/data");
    for number in 0..10_000_u64 {
        let at = number.wrapping_mul(7919) % 16_384 * 4 * KIB;
        program.call(Call::Pread, 0, (at, 4 * KIB), 4 * KIB, [0.0, 105.0]);
        for call in [Call::Getdents, Call::Mkdir, Call::Rename, Call::Chmod, Call::Rmdir] {
            program.call(call, 1, (0, 0), 0, [0.0, 4.0]);
        }
    }
    let prediction = program.predicted();
    assert_near(seconds(&prediction, Advised::Cached), 10_000.0 * 125e-6);
    // Four calls that take 15 µs more, one that takes 10, and the read, which takes 5.
    assert_near(seconds(&prediction, Advised::Direct), 10_000.0 * 200e-6);
    assert_eq!(prediction.groups.len(), 1, "a directory is no group of files");
}

#[test]
fn what_is_written_in_memory_is_written_when_the_file_is_synced() {
    let mut program = Program::new(&["job"], &[("/data/mapped", 64 * MIB)]);
    for number in 0..4096_u64 {
        let at = number.wrapping_mul(7919) % 16_384 * 4 * KIB;
        program.call(Call::WriteFault, 0, (at, 4 * KIB), 0, [10.0, 0.0]);
        if number % 256 == 255 {
            program.call(Call::Msync, 0, (0, 64 * MIB), 0, [0.0, 1300.0]);
            program.last().flags = 4;
        }
    }
    let prediction = program.predicted();
    let evidence = prediction.groups[0].evidence.join("\n");
    assert!(evidence.contains("16 MiB written in mapped memory"), "{evidence}");
    assert!(evidence.contains("synced 16 times, every 1 MiB"), "{evidence}");
    assert_near(seconds(&prediction, Advised::Cached), 16.0 * (2.56e-3 + 1.3e-3));
}

#[test]
fn another_machine_is_predicted_by_its_profile() {
    let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
    read_in_order(&mut program, 0.0);
    if let Event::Heading(heading) = &mut program.events[0] {
        heading.machine = "another".into();
    }
    assert_eq!(program.predicted().ways[0].measured_seconds, None);
}

#[test]
fn another_disk_is_predicted_by_its_profile() {
    let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
    read_in_order(&mut program, 0.0);
    program.events.iter_mut().for_each(|event| {
        if let Event::File(file) = event {
            file.device = 2;
        }
    });
    let prediction = program.predicted();
    assert_eq!(prediction.ways[0].measured_seconds, None);
    assert_near(seconds(&prediction, Advised::Cached), 256.0 * 1.049e-3);
}

#[test]
fn a_trace_without_requests_to_files_is_an_error() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let heading = Heading::new(vec!["job".into()], "6.18".into(), 0, WatchCost::default());
    writer.add(&Event::Heading(heading)).unwrap();
    let trace = writer.finish().unwrap();
    assert!(matches!(Workload::read(&trace[..]), Err(PredictError::Empty)));
}

#[test]
fn a_file_whose_pages_were_not_seen_counts_as_cold_and_that_is_said() {
    let mut program = Program::new(&["job"], &[("/data/big", 256 * MIB)]);
    program.events.push(Event::CacheUnseen { file: 0 });
    // As fast as from the page cache.
    for number in 0..256 {
        program.call(Call::Read, 0, (number * MIB, MIB), 0, [0.0, 263.0]);
    }
    let prediction = program.predicted();
    assert_eq!(prediction.files[0].found, Found::Cold);
    assert!(prediction.missing.iter().any(|line| line.contains("could not be seen")));
    // The model expects a cold file, and the times are those of a warm one.
    assert_eq!(prediction.verdict.confidence, Confidence::Low, "{prediction}");
}
