//! Segments of a log.
//!
//! An input consists of the files of all segments, one behind the other. It is run twice:
//! unchanged, and with correct headers and checksums, which random changes never make. In the
//! second run, a record whose kind is above 127 keeps its wrong checksum, so that damage occurs
//! too.

mod memory;

use std::sync::Arc;

use dio_wal::format::{
    MARK_PAYLOAD_BYTES, RECORD_ALIGN_BYTES, RECORD_HEADER_BYTES, RecordHeader,
    SEGMENT_HEADER_BYTES, SegmentHeader, segment_name,
};
use dio_wal::{Identity, Layout, Log, Lsn, Options, Reader, WalError, format, salvage, verify};

use memory::Memory;

/// Largest segment in bytes: the input has no more, whatever a header says.
const SEGMENT_MAX: u64 = 16 << 10;
const SEGMENTS_MAX: usize = 8;
/// Largest number of damaged parts that one reader skips.
const PASSES_MAX: usize = 10_000;

type Records = Vec<(Lsn, Vec<u8>)>;

/// Reading never fails except by an error, salvage returns every record that recovery returns, and
/// a log that opens has the same records, and one more, after a record was appended.
pub(super) fn segments(input: &[u8]) {
    let (header, input) =
        (first_header(input), &input[..input.len().min(SEGMENTS_MAX * SEGMENT_MAX as usize)]);
    check(&header, input);
    let healed = healed(&header, input);
    if healed != input {
        check(&header, &healed);
    }
}

/// The contents of the first header, ignoring its checksum. Impossible values are replaced.
fn first_header(input: &[u8]) -> SegmentHeader {
    let mut head = [0; SEGMENT_HEADER_BYTES];
    let there = input.len().min(SEGMENT_HEADER_BYTES);
    head[..there].copy_from_slice(&input[..there]);
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let layout = Layout::new((word(12) & 0xffff_ffff) as u32, word(16)).ok();
    let layout = layout.filter(|layout| layout.segment_bytes() <= SEGMENT_MAX);
    SegmentHeader {
        layout: layout.unwrap_or_else(|| Layout::new(512, 4096).expect("sizes that are possible")),
        identity: Identity(head[24..40].try_into().expect("sixteen bytes")),
        number: word(40) & 0xffff,
    }
}

/// The input with all headers and checksums corrected.
fn healed(first: &SegmentHeader, input: &[u8]) -> Vec<u8> {
    let (segment, block) =
        (first.layout.segment_bytes() as usize, first.layout.block_bytes() as usize);
    let mut bytes = input.to_vec();
    bytes.resize(input.len().next_multiple_of(segment).min(SEGMENTS_MAX * segment).max(segment), 0);
    let mut stream: Vec<u8> = bytes.chunks(segment).flat_map(|one| one[block..].to_vec()).collect();
    heal(first, &mut stream);
    let data = stream.chunks(segment - block);
    let number = |place: usize| first.number + place as u64;
    let with_header = data.enumerate().flat_map(|(place, data)| {
        let mut head = SegmentHeader { number: number(place), ..*first }.encode().to_vec();
        head.resize(block, 0);
        [&head[..], data].concat()
    });
    with_header.collect()
}

/// Corrects the records of a stream that begins with the segment of this header.
fn heal(first: &SegmentHeader, stream: &mut [u8]) {
    let begin = first.layout.segment_start(first.number);
    let (mut at, mut previous) = (0, 0);
    while let Some(head) = stream.get(at..at + RECORD_HEADER_BYTES) {
        if head.iter().all(|byte| *byte == 0) {
            at = (first.layout.block_at_or_after(begin + at as u64 + 1) - begin) as usize;
            continue;
        }
        let (tag, wanted) =
            (head[20], u32::from_le_bytes(head[16..20].try_into().expect("four bytes")));
        let kind = if tag & 1 == 0 { format::RecordKind::Mark } else { format::RecordKind::Data };
        let length = if kind == format::RecordKind::Mark {
            MARK_PAYLOAD_BYTES
        } else {
            wanted as usize % 4096
        };
        let Some(payload) =
            stream.get_mut(at + RECORD_HEADER_BYTES..at + RECORD_HEADER_BYTES + length)
        else {
            return;
        };
        if kind == format::RecordKind::Mark {
            payload[..16].copy_from_slice(&first.identity.0);
        }
        let crc = crc32c::crc32c_append(first.identity.checksum_seed(), payload);
        let header = RecordHeader::seal(kind, begin + at as u64, previous, length as u32, crc);
        if tag < 0x80 {
            stream[at..at + RECORD_HEADER_BYTES].copy_from_slice(&header.encode());
        }
        let end = at + (RECORD_HEADER_BYTES + length).next_multiple_of(RECORD_ALIGN_BYTES as usize);
        stream
            .iter_mut()
            .take(end)
            .skip(at + RECORD_HEADER_BYTES + length)
            .for_each(|byte| *byte = 0);
        (at, previous) = (end, header.crc);
    }
}

fn check(header: &SegmentHeader, bytes: &[u8]) {
    let segments =
        bytes.chunks(header.layout.segment_bytes() as usize).take(SEGMENTS_MAX).enumerate();
    let storage = || {
        let files = segments
            .clone()
            .map(|(place, bytes)| (segment_name(header.number + place as u64), bytes.to_vec()));
        Arc::new(Memory::new(files))
    };
    let _ = verify(storage());
    let mut salvaged = Records::new();
    let taken = salvage::<WalError>(storage(), |record| {
        salvaged.push((record.lsn, record.data.to_vec()));
        Ok(())
    });
    assert!(taken.is_err() || taken.is_ok_and(|taken| taken.records == salvaged.len() as u64));
    let _ = damaged(storage());
    reopened(storage(), &salvaged);
}

/// Reads on behind damage until the reader finds nothing more.
fn damaged(storage: Arc<Memory>) -> Result<(), WalError> {
    let mut reader = Reader::open_damaged_on(storage, Lsn(0))?;
    for _ in 0..PASSES_MAX {
        while reader.next()?.is_some() {}
        if reader.check_end().is_ok() || reader.skip_damage()?.is_none() {
            return Ok(());
        }
    }
    panic!("a reader that passes damage does not end");
}

/// Opens the log, appends a record, and opens it again.
fn reopened(storage: Arc<Memory>, salvaged: &Records) {
    let mut options = Options::new();
    options
        .prepare_in_background(false)
        .write_behind(0)
        .zeros_ahead(false)
        .idle_mark(None)
        .buffer(4096);
    let open = || Log::open_on(Arc::clone(&storage) as _, &options);
    let Ok(log) = open() else { return };
    let mut records = read(&log).expect("a log that was recovered can be read");
    assert!(
        records.iter().all(|record| salvaged.contains(record)),
        "salvage leaves out what recovery takes"
    );
    // Near the largest LSN there is no space for a record; then the log does not change.
    let Ok(lsn) = log.append(b"one more") else { return };
    if log.commit(lsn).is_err() {
        return;
    }
    log.close().expect("nothing fails in memory");
    records.push((lsn, b"one more".to_vec()));
    let again = open().and_then(|log| read(&log)).expect("the log was closed in good order");
    assert_eq!(again, records);
}

fn read(log: &Log) -> Result<Records, WalError> {
    let mut reader = log.reader(log.start())?;
    let mut records = Records::new();
    while let Some(record) = reader.next()? {
        records.push((record.lsn, record.data.to_vec()));
    }
    Ok(records)
}
