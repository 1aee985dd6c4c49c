//! Requests of io_uring and of asynchronous I/O are recorded as fio counts its own, and replayed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::advise::{dio, run, scratch};
use crate::own::{random_file, skip};

const MIB: u64 = 1 << 20;

/// Records a job of fio which mixes reads, writes and syncs of `file`; returns its report, or why
/// it did not run.
fn record_fio(dir: &Path, options: &[&str]) -> Result<Value, String> {
    let mut command = dio(dir, &["record", "-o", "trace", "--"]);
    command.args(["fio", "--name=job", "--filename=file", "--rw=randrw", "--bs=4k"]);
    command.args(["--size=8M", "--number_ios=600", "--fsync=7", "--output-format=json"]);
    let output = command.arg("--output=said").args(options).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = fs::read_to_string(dir.join("said")).unwrap();
    // Warnings may come before it.
    Ok(serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap())
}

/// How many requests of a kind were recorded of `file`, by the program.
fn recorded(dir: &Path, calls: &[&str]) -> u64 {
    let csv = run(dir, &["record", "export", "--format", "csv", "trace"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    let path = fs::canonicalize(dir).unwrap().join("file");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let column = |name: &str| names.iter().position(|one| *one == name).unwrap();
    let (call, of) = (column("call"), column("path"));
    let is_one = |line: &Vec<&str>| calls.contains(&line[call]) && Path::new(line[of]) == path;
    lines.filter(is_one).count() as u64
}

#[test]
fn requests_in_flight_are_recorded_as_fio_counts_them() {
    let dir = scratch();
    random_file(dir.path().join("file"), 8 * MIB, 1);
    if !run(dir.path(), &["record", "-o", "trace", "true"]).status.success() {
        return skip!("commands cannot be watched here");
    }
    // By ring or by call; direct or not; several submitted by one call; by a thread of the kernel,
    // of a file that is registered with the ring.
    for options in [
        &["--ioengine=io_uring", "--direct=1", "--iodepth=16"][..],
        &["--ioengine=io_uring", "--iodepth=8", "--iodepth_batch=4"],
        &["--ioengine=io_uring", "--iodepth=8", "--nonvectored=0"],
        &["--ioengine=io_uring", "--direct=1", "--sqthread_poll=1", "--registerfiles=1"],
        &["--ioengine=libaio", "--direct=1", "--iodepth=16", "--iodepth_batch=8"],
        &["--ioengine=libaio", "--iodepth=2"],
    ] {
        let fio = match record_fio(dir.path(), options) {
            Ok(fio) => fio,
            Err(error) => {
                skip!("fio {options:?}: {error}");
                continue;
            }
        };
        let job = &fio["jobs"][0];
        let made = |kind: &str| job[kind]["total_ios"].as_u64().unwrap();
        let reads = recorded(dir.path(), &["io_uring read", "aio read"]);
        let writes = recorded(dir.path(), &["io_uring write", "aio write"]);
        let syncs = recorded(dir.path(), &["io_uring fsync", "aio fsync", "fsync"]);
        assert_eq!((reads, writes), (made("read"), made("write")), "{options:?}");
        assert!(reads > 100 && syncs > 0, "{reads} {syncs} {options:?}");
        let replayed =
            run(dir.path(), &["replay", "--json", "--speed", "as-fast-as-possible", "trace"]);
        let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
        assert!(replayed["requests"].as_u64().unwrap() >= reads + writes + syncs, "{replayed}");
        assert_eq!(replayed["left_out"].get("asynchronous"), None, "{replayed}");
    }
}
