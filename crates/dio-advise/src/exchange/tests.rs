use super::*;
use crate::trace::{
    Call, Event, FileInfo, FileKind, Heading, Request, TraceWriter, WatchCost, read,
};

fn request(call: Call, start: u64, offset: u64, bytes: u64) -> Request {
    Request { duration: 500, ..Request::at(start, call, 0, (0, offset), bytes) }
}

fn trace(path: &str, requests: &[Request]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let mut add = |event: Event| writer.add(&event).unwrap();
    let (device, kind) = (0, FileKind::Regular);
    add(Event::Heading(Heading::new(vec![], "".into(), 0, WatchCost::default())));
    add(Event::Thread { tid: 8, pid: 7, name: b"job, \"1\"".to_vec() });
    let path = path.as_bytes().to_vec();
    add(Event::File(FileInfo { device, inode: 1, kind, size: 1 << 20, path }));
    requests.iter().for_each(|request| add(Event::Request(request.clone())));
    writer.finish().unwrap()
}

fn requests() -> Vec<Request> {
    vec![
        request(Call::Read, 1_000_000, 0, 8192),
        request(Call::Pwrite, 2_000_000, 4096, 512),
        request(Call::Fsync, 3_000_000, 0, 0),
        request(Call::Pread, 4_000_000, 1 << 19, 1024),
    ]
}

fn exported(format: Format, path: &str) -> (Exchanged, String) {
    let mut out = Vec::new();
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut files = NewFiles::within(dir.path(), &|| false);
    let done = export(&trace(path, &requests())[..], format, Some(&mut files), &mut out).unwrap();
    let made = dir.path().join("000000").to_string_lossy().into_owned();
    (done, String::from_utf8(out).unwrap().replace(&made, path))
}

fn imported(text: &str, format: Format) -> Result<Vec<Event>, ExchangeError> {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    import(text.as_bytes(), format, &mut writer)?;
    let mut events = Vec::new();
    read(&writer.finish().unwrap()[..], |event| events.push(event)).unwrap();
    Ok(events)
}

fn requests_of(events: &[Event]) -> Vec<Request> {
    let of = |event: &Event| match event {
        Event::Request(request) => Some(request.clone()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn an_iolog_is_what_fio_writes() {
    let (done, text) = exported(Format::Iolog, "/data/file");
    assert_eq!((done.requests, done.left_out), (4, 0));
    let expected = "fio version 3 iolog\n0 /data/file add\n0 /data/file open\n\
                    1000 /data/file read 0 8192\n2000 /data/file write 4096 512\n\
                    3000 /data/file sync 0 0\n4000 /data/file read 524288 1024\n\
                    4000 /data/file close\n";
    assert_eq!(text, expected);
    let back = requests_of(&imported(&text, Format::Iolog).unwrap());
    let places = |requests: &[Request]| -> Vec<_> {
        requests.iter().map(|one| (one.start, one.offset, one.asked, one.done)).collect()
    };
    assert_eq!(places(&back), places(&requests()));
    let old = "fio version 2 iolog\nf add\nf open\nf read 0 10\nf wait 70 0\nf write 10 20\n\
               f trim 0 4096\nf close\n";
    let old = requests_of(&imported(old, Format::Iolog).unwrap());
    assert_eq!(places(&old), [(0, 0, 10, 10), (70_000, 10, 20, 20), (70_000, 0, 4096, 0)]);
    let recorded = |path, requests: &[Request]| {
        export(&trace(path, requests)[..], Format::Iolog, None, Vec::new())
    };
    assert!(matches!(recorded("/a b", &requests()[..1]), Err(ExchangeError::Name(_))));
    assert!(recorded("/a", &requests()[..1]).is_ok());
    assert!(matches!(recorded("/a", &requests()), Err(ExchangeError::Writes(_))));
}

#[test]
fn a_table_comes_back_whole() {
    let (done, text) = exported(Format::Csv, "/data/a, \"b\"");
    assert_eq!(done.requests, 4);
    assert!(text.starts_with("start_ns,duration_ns,pid,tid,program,call,path"), "{text}");
    let events = imported(&text, Format::Csv).unwrap();
    assert_eq!(requests_of(&events), requests());
    assert!(events.contains(&Event::Thread { tid: 8, pid: 7, name: b"job, \"1\"".to_vec() }));
    let has = |event: &Event| matches!(event, Event::File(file) if file.path == b"/data/a, \"b\"");
    assert!(events.iter().any(has), "{events:?}");
}

#[test]
fn block_events_have_sectors() {
    let (done, text) = exported(Format::Blkparse, "/data/file");
    assert_eq!(done.requests, 4);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "  7,0    0        2     0.002000000     7  Q   W 8 + 1 [dio]");
    let back = requests_of(&imported(&text, Format::Blkparse).unwrap());
    assert_eq!((back[0].offset, back[0].asked, back[2].call), (0, 8192, Call::Fsync));
    let other = "  8,16   3       11     5.009507758   697  C   W 223490 + 56 [0]\n  8,16   1       \
                 1     0.000000000   697  Q   RA 100 + 8 [cat]\nCPU0 (8,16):\n Reads Queued: 1\n";
    let other = requests_of(&imported(other, Format::Blkparse).unwrap());
    assert_eq!(other.len(), 1);
    assert_eq!((other[0].offset, other[0].asked, other[0].direct), (51_200, 4096, true));
}

#[test]
fn lines_that_cannot_be_understood_are_told() {
    for (format, text, told) in [
        (Format::Iolog, "", "line 1: it is empty"),
        (Format::Iolog, "other\n", "line 1: it is no iolog"),
        (
            Format::Iolog,
            "fio version 3 iolog\n1 f read x 5\n",
            "line 2: the offset is no number: x",
        ),
        (Format::Iolog, "fio version 3 iolog\n1 f\n", "line 2: the action is missing"),
        (Format::Csv, "a,b\n1,2\n", "line 1: it has no headings"),
        (Format::Blkparse, "8,0 0 1 0.1 5 Q R 1 + 2 [a]\n", "line 1: 0.1 is no time"),
        (Format::Blkparse, "", "line 1: no line of it has an event"),
    ] {
        let error = imported(text, format).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
    }
}
