//! Results of tiny measurements, made once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

const MEASUREMENTS: [(&str, &str); 9] = [
    ("increments", "increments --size 6M --runs 2 --steps 1,4K,10M --cold file --json --dir"),
    ("copy", "copy --size 9M --small-size 256K --runs 2 --cold file --json --dir"),
    ("random", "random --size 4M --depth 1,4 --seconds 0.05 --runs 3 --json --dir"),
    (
        "streams",
        "streams --size 6M --small-size 64K --streams 3 --reads 50 --stream-memory 256K --runs 2 \
         --cold file --json --dir",
    ),
    ("pipeline", "pipeline --size 9M --runs 2 --cmd cat --cold file --json --dir"),
    (
        "oltp",
        "oltp --storage bare --files 1 --size 4M --clients 2 --reads 3 --writes 2 --ramp-up 0.2 \
         --steady 0.4 --ramp-down 0.2 --every 0.1 --rounds 2 --json --dir",
    ),
    (
        "wal",
        "wal --clients 1,3 --methods fdatasync,open_sync --seconds 0.05 --size 4M --runs 2 --json \
         --dir",
    ),
    (
        "stripe",
        "stripe --rig real --transfer 1M,4M --stripes 3 --real-stripe-size 64K,1M --size 4M --runs \
         2 --json --dir",
    ),
    ("locks", "locks --json -- ls"),
];

/// Returns a command that runs the program.
pub(crate) fn dio() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dio"))
}

/// Runs one measurement. Returns `None` if the files could not be made cold here.
fn measure(line: &str, directory: &Path) -> Option<Value> {
    let output = dio().arg("bench").args(line.split_whitespace()).arg(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("is not cold") {
        dio_test::skip!("{line}: {said}");
        return None;
    }
    assert!(output.status.success(), "{line}: {said}");
    Some(serde_json::from_slice(&output.stdout).expect("standard output is JSON"))
}

/// Results of all benchmarks by name. The result of `oltp` has all storages and that of `stripe`
/// has modelled disks; the result of `disks` is invented.
pub(crate) fn results() -> &'static [(&'static str, Value)] {
    static RESULTS: OnceLock<Vec<(&'static str, Value)>> = OnceLock::new();
    RESULTS.get_or_init(|| {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut results = Vec::new();
        for (name, line) in MEASUREMENTS {
            let Some(mut result) = measure(line, directory.path()) else { continue };
            match name {
                "oltp" => as_all_storages(&mut result),
                "stripe" => {
                    results.push(("disks", disks(&result["environment"])));
                    with_modelled_disks(&mut result);
                }
                _ => {}
            }
            results.push((name, result));
        }
        results
    })
}

/// Extends a result of the bare files to one with every storage, because measuring that needs root
/// and time.
fn as_all_storages(result: &mut Value) {
    let bare = result["rows"][0].clone();
    let named = |(name, factor): (&str, f64)| {
        let mut row = bare.clone();
        row["contender"] = json!(name);
        for run in row["runs"].as_array_mut().unwrap() {
            run["tps"] = json!(run["tps"].as_f64().unwrap() * factor);
            if !["raw", "bare", "buffered"].contains(&name) {
                let blocks = if name == "direct_file" { 5210.5 } else { 0.0 };
                run["mount_blocks"] = json!([{"class": "file", "blocks": 9, "blocks_per_second": blocks,
                                              "waited_seconds": 0.5}]);
            }
        }
        row
    };
    let storages = [
        ("raw", 1.0),
        ("bare", 1.01),
        ("buffered", 0.7),
        ("direct_file", 0.4),
        ("direct_range", 0.96),
        ("concurrent", 0.98),
    ];
    result["rows"] = storages.map(named).to_vec().into();
}

/// Adds modelled disks of the default sizes and layouts, because measuring them needs root and
/// time.
fn with_modelled_disks(result: &mut Value) {
    let mut rows = Vec::new();
    for stripes in [1u64, 2, 4, 8] {
        for direction in ["write", "read"] {
            for transfer in [1u64, 4, 16, 64, 256] {
                let together = stripes.min(transfer) as f64;
                let around = |rate: f64| json!([rate * 0.97, rate, rate * 1.01]);
                let gain =
                    json!({"median": together, "min": together * 0.96, "max": together * 1.02});
                let part = json!({"median": 0.99, "min": 0.97, "max": 1.01});
                rows.push(json!({
                    "rig": "modelled", "stripe_bytes": 1 << 20, "transfer_bytes": transfer << 20, "stripes": stripes,
                    "direction": direction, "wait_each_mib_s": 48.5, "submit_all_mib_s": 48.5 * together,
                    "async_mib_s": 49.0 * together, "gain": gain, "of_async": part,
                    "samples_mib_s": {"wait_each": around(48.5), "submit_all": around(48.5 * together),
                                      "async": around(49.0 * together)},
                }));
            }
        }
    }
    result["rows"].as_array_mut().unwrap().append(&mut rows);
    let about = "ext4 on loop devices over images of 400 MiB in memory, behind FUSE";
    result["grounds"].as_array_mut().unwrap().push(json!({"rig": "modelled", "about": about}));
    result["skipped"] = json!([{"rig": "network", "reason": "there is no sshfs"}]);
    let gain = json!({"median": 1.93, "min": 1.88, "max": 1.95});
    result["copy"] =
        json!({"bytes": 192 << 20, "dio_cp_mib_s": 46.3, "dd_mib_s": 24.0, "gain": gain});
}

/// An invented result over up to eight disks, because measuring it needs root and minutes: the
/// share of the limits that each variant reaches, and its CPU time.
fn disks(environment: &Value) -> Value {
    const LIMIT: f64 = (100 << 20) as f64;
    const BYTES: f64 = (300 << 20) as f64;
    let mut rows = Vec::new();
    for targets in [1, 2, 4, 6, 8] {
        for direction in ["read", "write"] {
            for (way, reached, cpu) in
                [("cached", 0.8, 1.9), ("direct", 0.98, 0.4), ("raw", 0.99, 0.35)]
            {
                let run = |part: f64| {
                    let rate = LIMIT * f64::from(targets) * reached * part;
                    let bytes = BYTES * f64::from(targets);
                    json!({"bytes": bytes as u64, "seconds": bytes / rate, "own_cpu_seconds": cpu, "kernel_cpu_seconds": 0.2,
                           "busy": cpu / 2.1, "machine_busy": cpu / 2.0, "device_bytes": bytes as u64})
                };
                let rate = LIMIT * f64::from(targets) * reached;
                rows.push(json!({
                    "targets": targets, "direction": direction, "way": way,
                    "bytes_per_second": {"median": rate, "min": rate * 0.98, "max": rate * 1.01},
                    "to_one": targets, "to_raw": reached / 0.99, "busy": cpu / 2.1, "cpu_seconds_per_gib": cpu,
                    "own_cpu_seconds_per_gib": cpu, "runs": [run(0.98), run(1.0), run(1.01)],
                }));
            }
        }
    }
    let settings = json!({"rate_bytes_per_second": 100 << 20, "stripe_bytes": 1 << 20, "depth": 4, "seconds": [0.5, 3.0],
                          "rounds": 3});
    let note = "write, 8 disks, cached: 1.20 times the limits together: not what disks of this \
                rate would do";
    json!({
        "benchmark": "disks", "format": 1, "rows": rows, "settings": settings, "notes": [note],
        "environment": environment
    })
}

/// Writes results into files of a directory.
pub(crate) fn files(directory: &Path, results: &[(&'static str, Value)]) -> Vec<PathBuf> {
    let file = |(name, result): &(&str, Value)| {
        let path = directory.join(format!("{name}.json"));
        std::fs::write(&path, result.to_string()).unwrap();
        path
    };
    results.iter().map(file).collect()
}

/// The records of the benchsuite.
pub(crate) fn records() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchsuite/runs");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut records: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    records.sort();
    assert!(records.len() >= 10, "{records:?}");
    records
}
