//! Wrong headers of segments: opening reports them, and salvage, readers and `verify` continue with
//! the sound records.

use std::io;
use std::path::Path;
use std::sync::Arc;

use dio_test::Rng;
use dio_wal::format::{RecordHeader, RecordKind, SegmentHeader, segment_name};
use dio_wal::storage::{Directory, Storage};
use dio_wal::{
    HeaderFault, Identity, Log, Lsn, Method, Options, Reader, Salvage, WalError, salvage, verify,
};

const BLOCK: u64 = 512;
const SEGMENT: u64 = 32 << 10;

type Records = Vec<(u64, Vec<u8>)>;

/// Fills a log with `count` records over several segments, and closes it.
fn fill(path: &Path, count: usize, seed: u64) -> Records {
    let mut options = Options::new();
    options
        .segment(SEGMENT)
        .buffer(8 << 10)
        .block(BLOCK as u32)
        .idle_mark(None)
        .prepare_in_background(false);
    let log = Log::open(path, &options).unwrap();
    let mut rng = Rng::new(seed);
    let records = (0..count)
        .map(|_| {
            let length = rng.range_usize(0..3000);
            let record = rng.bytes(length);
            let lsn = log.append(&record).unwrap();
            log.commit(lsn).unwrap();
            (lsn.0, record)
        })
        .collect();
    log.close().unwrap();
    records
}

fn storage(path: &Path) -> Arc<dyn Storage> {
    Arc::new(Directory::open(path, true, Method::Fdatasync).unwrap())
}

fn last_segment(path: &Path) -> u64 {
    let names = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let number = |name: String| u64::from_str_radix(name.strip_suffix(".wal")?, 16).ok();
    names.filter_map(number).max().unwrap()
}

fn take(path: &Path) -> (Salvage, Records) {
    let mut taken = Vec::new();
    let found = salvage::<WalError>(storage(path), |record| {
        taken.push((record.lsn.0, record.data.to_vec()));
        Ok(())
    });
    (found.unwrap(), taken)
}

/// The records that a reader finds which continues behind damage.
fn read(path: &Path) -> Result<Records, WalError> {
    let mut reader = Reader::open_damaged_on(storage(path), Lsn(0))?;
    let mut found = Vec::new();
    loop {
        while let Some(record) = reader.next()? {
            found.push((record.lsn.0, record.data.to_vec()));
        }
        if reader.check_end().is_ok() || reader.skip_damage()?.is_none() {
            return Ok(found);
        }
    }
}

fn change(path: &Path, number: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let path = path.join(segment_name(number));
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
}

/// A changed bit anywhere in the header of the first segment, of a middle one or of the last: no
/// record is lost.
#[test]
fn a_damaged_header_costs_no_record() {
    let dir = dio_test::file_systems()[0].dir();
    let records = fill(dir.path(), 120, 1);
    let last = last_segment(dir.path());
    assert!(last > 3, "{last}");
    for number in [0, 2, last] {
        for byte in (0..64).step_by(3) {
            change(dir.path(), number, |bytes| bytes[byte] ^= 0x10);
            let refused = Log::open(dir.path(), &Options::new()).map(|_| ());
            let named = matches!(&refused, Err(WalError::Header { segment, .. })
                if *segment == segment_name(number));
            assert!(named, "segment {number}, byte {byte}: {refused:?}");
            let (found, taken) = take(dir.path());
            assert!(
                taken == records,
                "segment {number}, byte {byte}: {} of {}",
                taken.len(),
                records.len()
            );
            assert_eq!(found.gaps, []);
            let bad: Vec<(&str, &HeaderFault)> =
                found.headers.iter().map(|bad| (&bad.segment[..], &bad.fault)).collect();
            let fault = if byte < 8 { HeaderFault::Magic } else { HeaderFault::Checksum };
            assert_eq!(bad, [(&segment_name(number)[..], &fault)]);
            assert!(read(dir.path()).unwrap() == records, "segment {number}, byte {byte}");
            let verdict = verify(storage(dir.path())).unwrap();
            assert_eq!(verdict.read.records, records.len() as u64);
            assert!(
                matches!(verdict.damage, Some(WalError::Header { .. })),
                "{:?}",
                verdict.damage
            );
            change(dir.path(), number, |bytes| bytes[byte] ^= 0x10);
        }
    }
    let (found, _) = take(dir.path());
    assert_eq!((found.headers, found.gaps), (vec![], vec![]));
    assert!(verify(storage(dir.path())).unwrap().damage.is_none());
}

/// A segment of another log, or another segment of this log, has the name of a segment: the records
/// that it replaces are lost, and no others.
#[test]
fn a_foreign_file_costs_what_it_hides() {
    let dir = dio_test::file_systems()[0].dir();
    let (own, other) = (dir.path().join("own"), dir.path().join("other"));
    std::fs::create_dir(&own).unwrap();
    std::fs::create_dir(&other).unwrap();
    let records = fill(&own, 120, 1);
    fill(&other, 120, 2);
    let last = last_segment(&own);
    let layout = dio_wal::Layout::new(BLOCK as u32, SEGMENT).unwrap();
    for number in [0, 2, last] {
        // A record that has a part in a hidden block cannot be sound.
        let hidden = |at: &usize| {
            let end = records.get(at + 1).map_or(u64::MAX, |next| next.0);
            layout.segment_start(number) < end && records[*at].0 < layout.segment_start(number + 1)
        };
        let lost: Vec<usize> = (0..records.len()).filter(hidden).collect();
        for (from, fault) in
            [(other.join(segment_name(number)), "foreign"), (own.join(segment_name(1)), "number")]
        {
            let kept = std::fs::read(own.join(segment_name(number))).unwrap();
            std::fs::copy(from, own.join(segment_name(number))).unwrap();
            let (found, taken) = take(&own);
            let whole: Records = records
                .iter()
                .enumerate()
                .filter(|(at, _)| !lost.contains(at))
                .map(|(_, one)| one.clone())
                .collect();
            // The record that begins the next segment may need the mark of its group, which is
            // hidden.
            let missing = whole.iter().filter(|record| !taken.contains(record)).count();
            assert!(
                missing <= 1 && taken.iter().all(|record| whole.contains(record)),
                "{number} {fault}: {missing}"
            );
            assert_eq!(found.gaps.is_empty(), number == last, "{number} {fault}: {:?}", found.gaps);
            assert_eq!(found.headers.len(), 1);
            let fits = match &found.headers[0].fault {
                HeaderFault::Foreign(_) => fault == "foreign",
                HeaderFault::Number(1) => fault == "number",
                _ => false,
            };
            assert!(
                fits && found.headers[0].segment == segment_name(number),
                "{:?}",
                found.headers
            );
            assert!(read(&own).unwrap().len() + 1 >= whole.len(), "{number} {fault}");
            assert!(verify(storage(&own)).unwrap().damage.is_some(), "{number} {fault}");
            std::fs::write(own.join(segment_name(number)), kept).unwrap();
        }
    }
}

/// If no header is left, the marks say which log it is, and which block size it has.
#[test]
fn a_log_without_any_header_is_known_by_its_marks() {
    for (count, block) in [(5, 512), (5, 4096), (200, 4096)] {
        let dir = dio_test::file_systems()[0].dir();
        let mut options = Options::new();
        options
            .segment(SEGMENT)
            .buffer(8 << 10)
            .block(block)
            .idle_mark(None)
            .prepare_in_background(false);
        let log = Log::open(dir.path(), &options).unwrap();
        let lsns: Vec<u64> = (0..count)
            .map(|number| {
                let lsn = log.append(&[number as u8; 700]).unwrap();
                log.commit(lsn).unwrap();
                lsn.0
            })
            .collect();
        log.close().unwrap();
        for number in 0..=last_segment(dir.path()) {
            change(dir.path(), number, |bytes| bytes[..512].fill(0));
        }
        let (found, taken) = take(dir.path());
        assert_eq!(taken.iter().map(|(lsn, _)| *lsn).collect::<Vec<_>>(), lsns, "{block}");
        assert_eq!(found.headers.len() as u64, last_segment(dir.path()) + 1);
        assert_eq!(read(dir.path()).unwrap().len(), lsns.len());
    }
}

/// A file that cannot belong to any log, by its name or by its contents, hides no log and is no
/// log.
#[test]
fn what_is_nothing_at_all_hides_nothing() {
    let dir = dio_test::file_systems()[0].dir();
    std::fs::write(dir.path().join(segment_name(0)), Rng::new(1).bytes(10_000)).unwrap();
    let refused = salvage::<WalError>(storage(dir.path()), |_| Ok(()));
    assert!(matches!(refused, Err(WalError::Header { .. })), "{refused:?}");
    assert!(matches!(read(dir.path()), Err(WalError::Header { .. })));
    std::fs::remove_file(dir.path().join(segment_name(0))).unwrap();
    let none = salvage::<WalError>(storage(dir.path()), |_| Ok(())).map(|_| ()).unwrap_err();
    for error in [none, read(dir.path()).unwrap_err()] {
        assert!(
            matches!(&error, WalError::Io { source, .. }
                if source.kind() == io::ErrorKind::NotFound),
            "{error}"
        );
    }

    let records = fill(dir.path(), 60, 3);
    for bytes in [0, 100, 10_000] {
        for number in [last_segment(dir.path()) + 1, u64::MAX] {
            std::fs::write(dir.path().join(segment_name(number)), Rng::new(1).bytes(bytes))
                .unwrap();
            assert!(take(dir.path()).1 == records, "{bytes} {number}");
            assert!(read(dir.path()).unwrap() == records, "{bytes} {number}");
            assert!(verify(storage(dir.path())).unwrap().damage.is_some(), "{bytes} {number}");
            std::fs::remove_file(dir.path().join(segment_name(number))).unwrap();
        }
    }
}

/// A log that begins with a data record, which no writer makes. Found by fuzzing: the record was
/// there when the log was opened, but not after the next commit.
#[test]
fn a_log_that_begins_without_a_mark_is_empty() {
    let dir = dio_test::file_systems()[0].dir();
    let identity = Identity([7; 16]);
    let layout = dio_wal::Layout::new(BLOCK as u32, SEGMENT).unwrap();
    let head = SegmentHeader { layout, identity, number: 0 }.encode();
    let crc = crc32c::crc32c_append(identity.checksum_seed(), b"a record");
    let record = RecordHeader::seal(RecordKind::Data, 0, 0, 8, crc).encode();
    let mut bytes = vec![0; SEGMENT as usize];
    bytes[..head.len()].copy_from_slice(&head);
    let at = BLOCK as usize;
    bytes[at..at + record.len()].copy_from_slice(&record);
    bytes[at + record.len()..][..8].copy_from_slice(b"a record");
    std::fs::write(dir.path().join(segment_name(0)), bytes).unwrap();
    let log = Log::open(dir.path(), &Options::new()).unwrap();
    assert_eq!(log.recovery().records, 0);
    let lsn = log.append(b"another").unwrap();
    log.commit(lsn).unwrap();
    log.close().unwrap();
    let log = Log::open(dir.path(), &Options::new()).unwrap();
    assert_eq!(log.recovery().records, 1);
    let mut reader = log.reader(log.start()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().data, b"another");
}
