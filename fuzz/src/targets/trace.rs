//! Traces of `dio record`.

use dio_advise::exchange::{Format, export, import};
use dio_advise::predict::Workload;
use dio_advise::sizes::sizes;
use dio_advise::speed::{Cost, Operation, Profile, Way};
use dio_advise::trace::{MAGIC, TraceWriter, VERSION, read};

/// Whatever a trace consists of, it is read to an end, and its report is shown as text and as JSON.
/// The input is tried as a trace, and as the payload of one frame whose checksum is right.
pub(super) fn events(input: &[u8]) {
    let mut framed = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    framed.extend_from_slice(&(input.len() as u32).to_le_bytes());
    framed.extend_from_slice(&crc32c::crc32c(input).to_le_bytes());
    framed.extend_from_slice(input);
    for trace in [input, &framed] {
        let mut events = 0_u64;
        let end = read(trace, |_| events += 1);
        let (report, reported) = sizes(trace);
        assert_eq!(end.is_ok(), reported.is_ok());
        let calls: u64 = report.files.iter().flat_map(|file| &file.calls).map(|c| c.count).sum();
        // A call that copies counts for both of its files.
        assert!(calls <= 2 * events, "{calls} calls of {events} events");
        assert!(!report.to_string().is_empty());
        serde_json::to_string(&report).expect("a report is JSON");
        if let Ok(workload) = Workload::read(trace) {
            let prediction = workload.predict(&profile());
            assert!(!prediction.to_string().is_empty());
            serde_json::to_string(&prediction).expect("a prediction is JSON");
        }
    }
}

/// A profile in which each request takes some microseconds.
fn profile() -> Profile {
    let costs = |way| {
        let cost = |(operation, bytes)| Cost {
            operation,
            tool: String::new(),
            bytes,
            threads: 1,
            seconds: 1e-6 + bytes as f64 / 1e9,
            low: 1e-6,
            high: 1e-3,
            cpu_seconds: 1e-6,
        };
        let operations = [
            Operation::ReadInOrder,
            Operation::ReadInOrderPaced,
            Operation::ReadAgain,
            Operation::ReadAtRandom,
            Operation::WriteInOrder,
            Operation::WriteInOrderPaced,
            Operation::Overwrite,
            Operation::AppendAndSync,
            Operation::Sync,
            Operation::Copy,
        ];
        let sizes =
            operations.iter().flat_map(|operation| [(*operation, 4096), (*operation, 1 << 20)]);
        let names = [
            Operation::Open,
            Operation::Start,
            Operation::Look,
            Operation::Create,
            Operation::Rename,
            Operation::Remove,
            Operation::Change,
            Operation::List,
        ];
        let names = names.map(|operation| (operation, 0));
        (way, sizes.chain(names).map(cost).collect())
    };
    let ways = Way::ALL.map(costs).into_iter().collect();
    Profile::new(0, "6.18".into(), (2, 1 << 30), "disk".into(), 1, ways)
}

/// What another format holds becomes a trace that can be read, and exported again.
pub(super) fn others(input: &[u8]) {
    for format in [Format::Iolog, Format::Csv, Format::Blkparse] {
        let mut writer = TraceWriter::new(Vec::new()).expect("memory can be written");
        if import(input, format, &mut writer).is_err() {
            continue;
        }
        let trace = writer.finish().expect("memory can be written");
        for to in [Format::Csv, Format::Blkparse] {
            export(&trace[..], to, None, Vec::new()).expect("what was imported can be exported");
        }
    }
}
