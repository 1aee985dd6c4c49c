//! `dio bench` on small files: tests the contents of its reports, and that it leaves no file
//! behind. Times are not judged here.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A directory in which files can be cold. Returns `None`, and prints why, if /var/tmp is in
/// memory.
fn disk_directory() -> Option<TempDir> {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = std::fs::File::open(directory.path()).unwrap();
    if dio::geometry::FileSystem::of(open.as_fd()).unwrap().is_memory() {
        println!("skipped: /var/tmp is in memory, where no file is cold");
        return None;
    }
    Some(directory)
}

fn bench(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.arg("bench").args(arguments).arg("--dir").arg(directory).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// Checks the bytes read from the device: the whole file, and at most 256 KiB more, for metadata
/// and rounding to pages.
fn assert_read_once(device: &Value, file: u64) {
    let Some(device) = device.as_u64() else {
        println!("skipped: this kernel does not count bytes read");
        return;
    };
    assert!(
        (file..=file + 256 * 1024).contains(&device),
        "{device} bytes from the device for {file}"
    );
}

#[test]
fn increments_reads_every_byte_once_and_leaves_nothing() {
    let Some(directory) = disk_directory() else { return };
    let arguments = [
        "increments",
        "--cold",
        "file",
        "--size",
        "6M",
        "--runs",
        "1",
        "--steps",
        "1,4K,10M",
        "--json",
    ];
    let report = json(&bench(&arguments, directory.path()));
    let rows = report["rows"].as_array().unwrap();
    let expected = [(1, MIB), (4096, 6 * MIB), (10 * MIB, 6 * MIB)];
    assert_eq!(rows.len(), expected.len());
    for (row, (step, file)) in rows.iter().zip(expected) {
        assert_eq!((&row["step_bytes"], &row["file_bytes"]), (&step.into(), &file.into()));
        assert_read_once(&row["cached_device_bytes"], file);
        assert_read_once(&row["direct_device_bytes"], file);
        assert!(
            row["cached_seconds"].as_f64().unwrap() > 0.0
                && row["direct_seconds"].as_f64().unwrap() > 0.0
        );
        assert_eq!(row.as_object().unwrap().len(), 6);
    }
    assert!(report["environment"]["kernel"].is_string());
    assert!(is_empty(directory.path()));
}

#[test]
fn increments_leaves_an_existing_file_alone_and_prints_a_table() {
    let Some(directory) = disk_directory() else { return };
    let path = directory.path().join("data");
    std::fs::write(&path, vec![7; 300_001]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    let output = command
        .args(["bench", "increments", "--cold", "file", "--runs", "1", "--steps", "64K", "--file"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("64 KiB") && text.contains("293 KiB"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 300_001]);
}

/// The estimate of the duration is measured in the working directory. A working directory that
/// cannot be written must not make the benchmark fail.
#[test]
fn an_estimate_is_no_reason_to_fail() {
    let Some(directory) = disk_directory() else { return };
    let path = directory.path().join("data");
    std::fs::write(&path, vec![7; 300_001]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command
        .args(["bench", "increments", "--cold", "file", "--runs", "1", "--steps", "64K", "--file"])
        .arg(&path);
    // No file can be created in /proc.
    let output = command.current_dir("/proc").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn copy_reports_both_ways_and_leaves_nothing() {
    let Some(directory) = disk_directory() else { return };
    let arguments =
        ["copy", "--cold", "file", "--size", "9M", "--small-size", "1M", "--runs", "2", "--json"];
    let report = json(&bench(&arguments, directory.path()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, (block, depth, bytes)) in rows.iter().zip([(4096, 1, MIB), (MIB, 16, 9 * MIB)]) {
        assert_eq!((&row["block_bytes"], &row["depth"]), (&block.into(), &depth.into()));
        assert_eq!(row["file_bytes"], bytes);
        assert_eq!(
            (&row["read_requests"], &row["write_requests"]),
            (&(bytes / block).into(), &(bytes / block).into())
        );
        assert_eq!(
            (&row["source_pages_after"], &row["target_pages_after"]),
            (&0.into(), &0.into())
        );
        assert_eq!(row["samples"].as_array().unwrap().len(), 2);
        assert!(row["cpu_seconds_per_gib"].is_f64());
        assert_read_once(&row["samples"][0]["device_bytes"], bytes);
    }
    assert!(report["gain"].is_f64() && report["environment"]["engine"].is_string());
    assert!(is_empty(directory.path()));
}

#[test]
fn random_reads_through_every_engine_and_through_none() {
    let Some(directory) = disk_directory() else { return };
    let common =
        ["random", "--size", "4M", "--depth", "1,5", "--seconds", "0.05", "--runs", "2", "--json"];
    for (more, engine) in [
        (&["--engine", "blocking"][..], "blocking"),
        (&["--mode", "direct"][..], ""),
        (&["--null"][..], "null"),
    ] {
        let report = json(&bench(&[&common[..], more].concat(), directory.path()));
        assert!(engine.is_empty() || report["engine"] == engine);
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        for (row, depth) in rows.iter().zip([1, 5]) {
            assert_eq!((&row["block_bytes"], &row["depth"]), (&4096.into(), &depth.into()));
            assert_eq!(row["samples"].as_array().unwrap().len(), 2);
            let second = |name: &str| row["latency"][name].as_f64().unwrap();
            assert!(
                second("p50") > 0.0
                    && second("p50") <= second("p99")
                    && second("p999") <= second("max")
            );
            assert!(row["cpu_seconds_per_read"].as_f64().unwrap() > 0.0);
        }
    }
    assert!(is_empty(directory.path()));
}

/// The name of each workload of `streams`, its bytes, and its variants.
fn stream_workloads() -> [(&'static str, u64, &'static [&'static str]); 8] {
    [
        ("read in steps of 1 B", 64 << 10, &["stream", "read(2)"]),
        ("read in steps of 1 B, buffered", 6 * MIB, &["stream", "BufReader"]),
        ("read in steps of 4 KiB", 6 * MIB, &["stream", "read(2)"]),
        ("write in steps of 1 B", 64 << 10, &["stream", "write(2)"]),
        ("write in steps of 1 B, buffered", 6 * MIB, &["stream", "BufWriter"]),
        ("write in steps of 4 KiB", 6 * MIB, &["stream", "write(2)"]),
        // From each seventh of the file, whole pieces are read.
        (
            "7 streams in turns of 64 KiB",
            7 * 13 * (64 << 10),
            &["streams", "limit", "page cache", "one stream"],
        ),
        ("random reads of 4 KiB", 100 * 4096, &["stream", "read_at"]),
    ]
}

#[test]
fn streams_reports_every_workload_and_leaves_nothing() {
    let Some(directory) = disk_directory() else { return };
    let sizes =
        ["streams", "--cold", "file", "--size", "6M", "--small-size", "64K", "--streams", "7"];
    let more = ["--stream-memory", "256K", "--reads", "100", "--runs", "2", "--json"];
    let report = json(&bench(&[&sizes[..], &more].concat(), directory.path()));
    let workloads = report["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), stream_workloads().len());
    for (workload, (name, bytes, ways)) in workloads.iter().zip(stream_workloads()) {
        assert_eq!((&workload["name"], &workload["bytes"]), (&name.into(), &bytes.into()));
        let found = workload["ways"].as_array().unwrap();
        assert_eq!(found.iter().map(|way| way["name"].as_str().unwrap()).collect::<Vec<_>>(), ways);
        assert_eq!(found[0]["stream_ratio"], 1.0);
        for way in found {
            let direct = ["stream", "streams", "limit", "one stream", "read_at"]
                .contains(&way["name"].as_str().unwrap());
            // No page of a direct variant is in the cache; all pages of a cached variant are.
            let pages = way["pages_after"].as_u64().unwrap();
            assert!(if direct { pages == 0 } else { pages * 4096 >= bytes }, "{name}: {way}");
            assert_eq!(way["samples"].as_array().unwrap().len(), 2);
            assert!(
                way["seconds"].as_f64().unwrap() > 0.0
                    && way["stream_ratio"].as_f64().unwrap() > 0.0
            );
            assert_eq!(way["in_vain_part"].is_null(), name.starts_with("write"), "{name}: {way}");
        }
    }
    let alone = &workloads[7]["ways"][1];
    assert!(
        alone["in_vain_part"].as_f64().unwrap() < 0.7,
        "one by one, reads bring what was asked for: {alone}"
    );
    for way in [0, 3] {
        assert_eq!(workloads[6]["ways"][way]["buffer_bytes"], 7 * (256 << 10));
    }
    assert!(is_empty(directory.path()));
}

#[test]
fn streams_measures_parts_of_an_existing_file_and_prints_a_table() {
    let Some(directory) = disk_directory() else { return };
    let path = directory.path().join("data");
    std::fs::write(&path, vec![7; 300_001]).unwrap();
    let file = path.to_str().unwrap();
    let arguments = [
        "streams",
        "--cold",
        "file",
        "--parts",
        "random,read",
        "--steps",
        "10000",
        "--reads",
        "5",
        "--file",
        file,
    ];
    let output = bench(&arguments, directory.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("read in steps of 9.8 KiB") && text.contains("random reads of 4 KiB"),
        "{text}"
    );
    assert!(!text.contains("write in") && !text.contains("in turns of"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 300_001]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn pipeline_passes_every_byte_and_leaves_no_page_where_both_ends_are_direct() {
    let Some(directory) = disk_directory() else { return };
    // The file is large enough for direct I/O at both ends.
    let arguments = [
        "pipeline",
        "--cold",
        "file",
        "--size",
        "9M",
        "--runs",
        "1",
        "--cmd",
        "tr a-z b-za",
        "--json",
    ];
    let report = json(&bench(&arguments, directory.path()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((&report["file_bytes"], &report["cold"]), (&(9 * MIB).into(), &"file".into()));
    let ends: Vec<&Value> = rows.iter().map(|row| &row["ends"]).collect();
    assert_eq!(ends, ["plain", "input", "both"]);
    for (row, (source_is_direct, target_is_direct)) in
        rows.iter().zip([(false, false), (true, false), (true, true)])
    {
        assert_eq!(row["target_bytes"], 9 * MIB);
        assert_eq!(
            (row["source_pages_after"] == 0, row["target_pages_after"] == 0),
            (source_is_direct, target_is_direct)
        );
        assert!(row["cpu_seconds"].is_f64() && row["samples"][0]["wall_seconds"].is_f64());
    }
    assert!(is_empty(directory.path()));
}

#[test]
fn an_interrupted_pipeline_ends_its_commands() {
    let Some(directory) = disk_directory() else { return };
    let note = directory.path().join("note");
    // The note is written under another name first, so that it is never read half written.
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", note.display());
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_dio"))
        .args(["bench", "pipeline", "--cold", "file", "--size", "1M", "--cmd", &command, "--dir"])
        .arg(&work)
        .spawn()
        .unwrap();
    let pid = loop {
        match std::fs::read_to_string(&note) {
            Ok(text) => break text.trim().to_owned(),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    let number = rustix::process::Pid::from_child(&bench);
    rustix::process::kill_process(number, rustix::process::Signal::INT).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&bench.wait().unwrap()), Some(2));
    assert!(is_empty(&work));
    // A zombie has ended too; its new parent may take a while to reap it.
    let ended = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    };
    for _ in 0..12_000 {
        if ended() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("process {pid} still runs");
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let output = bench(&["increments", "--runs", "0"], Path::new("/var/tmp"));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("dio: "));
    let output = bench(&["increments", "--size", "1M"], Path::new("/nonexistent"));
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        message,
        "dio: cannot create a directory in '/nonexistent': No such file or directory\n"
    );
}

/// The first line that a benchmark prints is its expected duration. With the default options that
/// is at most five minutes, and this test allows ten.
#[test]
fn every_benchmark_says_first_how_long_it_takes() {
    use std::io::BufRead;
    let Some(directory) = disk_directory() else { return };
    let mut workloads =
        vec!["increments", "copy", "random", "streams", "pipeline", "wal", "stripe"];
    // These workloads set up devices and mounts.
    if rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists() {
        workloads
            .extend(["oltp", "disks"].iter().filter(|_| Path::new("/dev/loop-control").exists()));
    }
    let commands = workloads.into_iter().map(|workload| format!("bench {workload} --dir"));
    for workload in commands.chain(["wal bench".to_owned()]) {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_dio"))
            .args(workload.split(' '))
            .arg(directory.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(bench.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let pid = rustix::process::Pid::from_child(&bench);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        bench.wait().unwrap();
        if line.contains("cannot") {
            println!("skipped: {workload}: {line}");
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(
            line.starts_with("dio: ") && line.contains(" measurements, about "),
            "{workload}: {line}"
        );
        let (number, unit) =
            (words[words.len() - 2].parse::<u64>().unwrap(), words[words.len() - 1]);
        let seconds = if unit == "min" { 60 * number } else { number };
        // The estimate rests on the speed of the disk, which other processes may slow down for a
        // moment.
        println!("{workload}: {seconds} s");
        assert!(unit != "h" && seconds <= 600, "{workload}: {line}");
        assert!(is_empty(directory.path()), "{workload}");
    }
}

#[test]
fn an_interrupted_benchmark_leaves_nothing() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_dio"))
        .args(["bench", "increments", "--size", "1G", "--dir"])
        .arg(directory.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while std::fs::read_dir(directory.path()).unwrap().count() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&bench);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = bench.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
