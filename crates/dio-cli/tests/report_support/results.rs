//! Results of tiny measurements, made once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

const MEASUREMENTS: [(&str, &str); 8] = [
    ("increments", "increments --size 6M --runs 2 --steps 1,4K,10M --cold file --json --dir"),
    ("copy", "copy --size 9M --small-size 256K --runs 2 --cold file --json --dir"),
    ("random", "random --size 4M --depth 1,4 --seconds 0.05 --runs 3 --json --dir"),
    (
        "streams",
        "streams --size 6M --small-size 64K --streams 3 --reads 50 --stream-memory 256K --runs 2 --cold file --json --dir",
    ),
    ("pipeline", "pipeline --size 9M --runs 2 --cmd cat --cold file --json --dir"),
    (
        "oltp",
        "oltp --storage bare --files 1 --size 4M --clients 2 --reads 3 --writes 2 --ramp-up 0.2 --steady 0.4 --ramp-down 0.2 \
         --every 0.1 --rounds 2 --json --dir",
    ),
    ("wal", "wal --clients 1,3 --methods fdatasync,open_sync --seconds 0.05 --size 4M --runs 2 --json --dir"),
    ("locks", "locks --json -- ls"),
];

/// The program.
pub(crate) fn dio() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dio"))
}

/// Runs one measurement; what could not be cold here gives none.
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

/// Results of all benchmarks by their names; that of `oltp` has all storages.
pub(crate) fn results() -> &'static [(&'static str, Value)] {
    static RESULTS: OnceLock<Vec<(&'static str, Value)>> = OnceLock::new();
    RESULTS.get_or_init(|| {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut results = Vec::new();
        for (name, line) in MEASUREMENTS {
            let Some(mut result) = measure(line, directory.path()) else { continue };
            if name == "oltp" {
                as_all_storages(&mut result);
            }
            results.push((name, result));
        }
        results
    })
}

/// Makes a result of the bare files into one with every storage, as it takes root and time to measure.
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
    let mut records: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    records.sort();
    assert!(records.len() >= 10, "{records:?}");
    records
}
