use super::*;
use crate::trace::{Heading, TraceWriter, WatchCost};

fn request(call: Call, file: u32, offset: u64, bytes: u64) -> Event {
    let done = bytes as i64;
    let request = Request::at(0, call, 0, (file, offset), bytes);
    Event::Request(Request { done, duration: 1000, ..request })
}

fn report_of(requests: impl IntoIterator<Item = Event>) -> SizesReport {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let file = |path: &[u8]| FileInfo {
        device: 1,
        inode: 2,
        kind: FileKind::Regular,
        size: 5 << 20,
        path: path.to_vec(),
    };
    let heading =
        Heading::new(vec!["tar".into(), "-c".into()], "6.18".into(), 0, WatchCost::default());
    let before = [
        Event::Heading(heading),
        Event::Thread { tid: 7, pid: 7, name: b"tar".to_vec() },
        Event::File(file(b"/data/in")),
        Event::File(file(b"/data/\x1b[31mout")),
    ];
    for event in before.into_iter().chain(requests) {
        writer.add(&event).unwrap();
    }
    writer.add(&Event::Ended { status: 0, after: 2_000_000_000 }).unwrap();
    let (report, end) = sizes(&writer.finish().unwrap()[..]);
    assert_eq!(end.unwrap(), TraceEnd::Whole);
    report
}

#[test]
fn calls_are_counted_by_file_and_size() {
    let reads = (0..5000).map(|number| request(Call::Read, 0, number * 10240, 10240));
    let writes = (0..7).map(|number| request(Call::Pwrite, 1, 4096 * (7 - number), 4096));
    let report = report_of(reads.chain(writes));
    let [input, output] = &report.files[..] else { panic!("{report:?}") };
    assert_eq!((input.calls[0].count, input.calls[0].bytes), (5000, 5000 * 10240));
    assert_eq!(input.calls[0].sizes, [SizeCount { bytes: 10240, count: 5000 }]);
    assert!(input.calls[0].sequential > 0.999 && output.calls[0].sequential < 0.001);
    assert_eq!(input.calls[0].powers[14], 5000);
    let saving = Saving {
        program: "tar".into(),
        call: Call::Read,
        path: "/data/in".into(),
        asks: 10240,
        better: 8 << 20,
        calls: 5000 - 7,
    };
    assert_eq!(report.savings, [saving]);
}

#[test]
fn the_text_says_what_is_asked_for_and_what_it_costs() {
    let reads = (0..5000).map(|number| request(Call::Read, 0, number * 10240, 10240));
    let other = [request(Call::Fsync, 1, 0, 0), request(Call::Mmap, 1, 0, 0)];
    let text = report_of(reads.chain(other)).to_string();
    assert!(text.starts_with("tar -c: 5,001 calls to 2 files in 2.00 s\n"), "{text}");
    let line = "tar reads /data/in in 10 KiB; 8 MiB would save 4,993 calls\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("not in this report: 1 files were mapped"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn random_and_large_requests_save_nothing() {
    let places = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
    let reads = (0..5000).map(|number| request(Call::Pread, 0, places(number), 4096));
    assert_eq!(report_of(reads).savings, []);
    let large = (0..2000).map(|number| request(Call::Read, 0, number << 23, 8 << 20));
    assert_eq!(report_of(large).savings, []);
}
