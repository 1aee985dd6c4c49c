use std::collections::BTreeMap;

use proptest::prelude::*;

use super::frame::FRAME_HEADER;
use super::*;

fn request() -> impl Strategy<Value = Request> {
    let place = prop_oneof![Just(0), 0..1_000_000_u64, any::<u64>()];
    let result = prop_oneof![0..1_i64 << 20, -133_i64..0, any::<i64>()];
    (
        (0..Call::ALL.len(), 0..5_u32, 0..5_u32, place),
        (any::<u64>(), result, any::<u64>(), any::<u64>(), proptest::option::of(0..5_u32)),
        (any::<u64>(), any::<u32>(), any::<bool>(), any::<bool>(), any::<bool>()),
        proptest::option::of(any::<u64>()),
    )
        .prop_map(
            |(
                (call, thread, file, offset),
                (asked, done, start, duration, to),
                more,
                to_offset,
            )| {
                let (cached, flags, direct, synced, waited) = more;
                Request {
                    call: Call::ALL[call],
                    thread,
                    file,
                    offset,
                    asked,
                    done,
                    cached,
                    flags,
                    direct,
                    synced,
                    waited,
                    start,
                    duration,
                    to,
                    to_offset,
                }
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let file = (any::<u64>(), any::<u64>(), 0..FileKind::ALL.len(), any::<u64>(), bytes());
    prop_oneof![
        20 => request().prop_map(Event::Request),
        1 => file.prop_map(|(device, inode, kind, size, path)| Event::File(FileInfo {
            device,
            inode,
            kind: FileKind::ALL[kind],
            size,
            path,
        })),
        1 => (any::<u32>(), any::<u32>(), bytes())
            .prop_map(|(tid, pid, name)| Event::Thread { tid, pid, name }),
        1 => any::<u64>().prop_map(Event::Lost),
        1 => (0..5_u32, any::<u64>())
            .prop_map(|(thread, calls)| Event::Unrecorded { thread, calls }),
        1 => (0..5_u32).prop_map(|file| Event::CacheUnseen { file }),
        1 => (any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(within, around, other)| Event::Cost(WatchCost { within, around, other })),
        1 => (any::<u8>(), any::<u64>()).prop_map(|(status, after)| Event::Ended { status, after }),
        1 => ".{0,20}".prop_map(|word| Event::Heading(Heading::new(vec![word], "6".into(), 7, WatchCost::default()))),
    ]
}

/// Events of which the requests name threads and files that are known.
fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    let info = FileInfo { device: 1, inode: 2, kind: FileKind::Regular, size: 3, path: vec![] };
    let known = (0..5).flat_map(move |number| {
        let thread = Event::Thread { tid: number, pid: 1, name: b"t".to_vec() };
        [thread, Event::File(info.clone())]
    });
    proptest::collection::vec(event(), 1..most)
        .prop_map(move |events| known.clone().chain(events).collect())
}

/// Writes the events, with a flush after each of the given numbers of them. Returns the trace, and
/// the number of events in it up to the end of each frame.
fn written(events: &[Event], flushes: &[usize]) -> (Vec<u8>, BTreeMap<usize, usize>) {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let mut frames = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        writer.add(event).unwrap();
        if flushes.contains(&number) {
            writer.flush().unwrap();
        }
    }
    let trace = writer.finish().unwrap();
    let mut at = MAGIC.len() + 4;
    while at < trace.len() {
        let length = u32::from_le_bytes(trace[at..at + 4].try_into().unwrap()) as usize;
        at += FRAME_HEADER + length;
        let mut count = 0;
        read(&trace[..at], |_| count += 1).unwrap();
        frames.insert(at, count);
    }
    (trace, frames)
}

fn read_all(trace: &[u8]) -> (Result<TraceEnd, TraceError>, Vec<Event>) {
    let mut events = Vec::new();
    let end = read(trace, |event| events.push(event));
    (end, events)
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        events in events(60),
        flushes in proptest::collection::vec(0..60_usize, 0..4),
    ) {
        let (trace, _) = written(&events, &flushes);
        let (end, read) = read_all(&trace);
        prop_assert_eq!(end.unwrap(), TraceEnd::Whole);
        prop_assert_eq!(read, events);
    }

    #[test]
    fn a_trace_that_is_cut_has_all_whole_frames(
        events in events(40),
        flushes in proptest::collection::vec(0..40_usize, 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (trace, frames) = written(&events, &flushes);
        let cut = 1 + cut.index(trace.len());
        let (end, read) = read_all(&trace[..cut]);
        let is_end = cut == MAGIC.len() + 4 || frames.contains_key(&cut);
        prop_assert_eq!(end.unwrap(), if is_end { TraceEnd::Whole } else { TraceEnd::Cut });
        let whole = frames.range(..=cut).next_back().map_or(0, |(_, count)| *count);
        prop_assert_eq!(&read[..], &events[..whole]);
    }

    /// Whatever the bytes are, reading ends with an answer, and never with an event that was not
    /// written before the change.
    #[test]
    fn a_changed_byte_is_noticed(
        events in events(40),
        place in any::<prop::sample::Index>(),
        change in 1..=255_u8,
    ) {
        let (mut trace, _) = written(&events, &[10, 20]);
        let at = place.index(trace.len());
        trace[at] ^= change;
        let (end, read) = read_all(&trace);
        prop_assert!(events.starts_with(&read));
        prop_assert!(end.is_err() || matches!(end, Ok(TraceEnd::Cut)), "{:?}", end);
    }

    #[test]
    fn hostile_bytes_panic_nowhere(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_all(&bytes);
        // A frame whose checksum is right.
        let mut trace = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        trace.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        trace.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        trace.append(&mut bytes);
        let _ = read_all(&trace);
    }
}

#[test]
fn requests_in_sequence_take_ten_bytes() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    for number in 0..10_000 {
        let request = Request::at(number * 1500, Call::Read, 0, (3, number << 12), 4096);
        let request = Request { duration: 700, ..request };
        writer.add(&Event::Request(request)).unwrap();
    }
    let bytes = writer.finish().unwrap().len();
    assert!(bytes < 100_000, "{bytes}");
}

#[test]
fn requests_name_what_is_known() {
    let (trace, _) = written(&[Event::Lost(1)], &[0]);
    assert!(read_all(&trace).0.is_ok());
    let request = Request::at(0, Call::Fsync, 0, (0, 0), 0);
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    writer.add(&Event::Thread { tid: 1, pid: 1, name: Vec::new() }).unwrap();
    writer.add(&Event::Request(request)).unwrap();
    let (end, read) = read_all(&writer.finish().unwrap());
    assert!(matches!(end, Err(TraceError::Damaged { .. })), "{end:?}");
    assert_eq!(read.len(), 1);
}

#[test]
fn a_trace_of_the_version_before_is_read() {
    let request = Request { to: Some(0), ..Request::at(0, Call::Sendfile, 0, (0, 5), 7) };
    let info = FileInfo { device: 1, inode: 2, kind: FileKind::Regular, size: 3, path: vec![] };
    let thread = Event::Thread { tid: 1, pid: 1, name: Vec::new() };
    let events = [thread, Event::File(info), Event::Request(request)];
    let (mut trace, _) = written(&events, &[]);
    trace[MAGIC.len()..][..4].copy_from_slice(&2_u32.to_le_bytes());
    let (end, read) = read_all(&trace);
    assert_eq!((end.unwrap(), &read[..]), (TraceEnd::Whole, &events[..]));
}

#[test]
fn what_is_no_trace_is_told() {
    assert!(matches!(read_all(b"").0, Err(TraceError::Foreign)));
    assert!(matches!(read_all(b"PK\x03\x04 an archive").0, Err(TraceError::Foreign)));
    let later = [&MAGIC[..], &9_u32.to_le_bytes()].concat();
    assert!(matches!(read_all(&later).0, Err(TraceError::Version(9))));
}
