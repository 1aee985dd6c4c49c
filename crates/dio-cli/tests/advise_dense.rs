//! Calls that come too densely to be recorded one by one are in the trace all the same.

use std::fs;

use dio_advise::trace::{Call, Event, read};

use crate::advise::{is_watchable, run, said, scratch};
use crate::own::{random_file, skip, warm};

#[test]
fn calls_that_come_densely_are_all_recorded_in_their_order() {
    const BLOCK: u64 = 512;
    const BLOCKS: u64 = 100_000;
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    random_file(dir.path().join("file"), BLOCK * BLOCKS, 1);
    warm(&dir.path().join("file"));
    let command = "dd if=file of=/dev/null bs=512 status=none; exec dd if=file bs=512 | wc -c";
    let output = run(dir.path(), &["record", "-o", "trace", "sh", "-c", command]);
    assert!(output.status.success(), "{}", said(&output));
    let (mut files, mut ends) = (Vec::new(), Vec::new());
    let (mut places, mut results, mut dense) = (Vec::new(), Vec::new(), 0);
    let trace = fs::read(dir.path().join("trace")).unwrap();
    read(&trace[..], |event| match event {
        Event::File(file) => files.push(file.path),
        Event::Thread { .. } => ends.push(0),
        Event::Cost(_) => dense += 1,
        Event::Lost(count) => panic!("{count} calls are lost"),
        // A page may be touched within a call: the path of `openat` is in a mapped file.
        Event::Request(request) if request.call.is_fault() => {}
        Event::Request(request) => {
            let end = &mut ends[request.thread as usize];
            assert!(*end <= request.start, "{request:?} begins before {end}");
            *end = request.start + request.duration;
            match request.call {
                Call::Read if files[request.file as usize].ends_with(b"/file") => {
                    places.push((request.offset, request.asked, request.done));
                }
                Call::Write if files[request.file as usize] == *b"/dev/null" => {
                    results.push((request.asked, request.done));
                }
                _ => {}
            }
        }
        _ => {}
    })
    .unwrap();
    // On a slow machine none may be dense.
    println!("{dense} changes between dense and other calls");
    let expected = (0..BLOCKS).map(|number| (number * BLOCK, BLOCK, BLOCK as i64));
    let expected = expected.chain([(BLOCKS * BLOCK, BLOCK, 0)]).collect::<Vec<_>>();
    assert_eq!(places.len(), 2 * expected.len());
    assert!(places[..expected.len()] == expected && places[expected.len()..] == expected);
    assert_eq!(results, vec![(BLOCK, BLOCK as i64); BLOCKS as usize]);
}

/// The kernel gives a file that is opened after another one was closed the same descriptor, and may
/// keep it at the same address.
#[test]
fn dense_calls_to_one_file_after_another_are_told_apart() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    for number in 0..4 {
        random_file(dir.path().join(format!("f{number}")), 8192, number);
    }
    let command = "import os\nfor turn in range(80):\n file = os.open(f'f{turn % 4}', 0)\n \
                   for at in range(2000): os.pread(file, 512, at % 16 * 512)\n os.close(file)";
    let output = run(dir.path(), &["record", "-o", "trace", "python3", "-c", command]);
    assert!(output.status.success(), "{}", said(&output));
    let mut files: Vec<(Vec<u8>, u64)> = Vec::new();
    let trace = fs::read(dir.path().join("trace")).unwrap();
    read(&trace[..], |event| match event {
        Event::File(file) => files.push((file.path, 0)),
        Event::Request(request) if request.call == Call::Pread && request.asked == 512 => {
            files[request.file as usize].1 += 1;
        }
        _ => {}
    })
    .unwrap();
    files.retain(|(_, count)| *count > 0);
    let counts: Vec<u64> = files.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [40_000; 4], "{files:?}");
}
