//! `dio bench database` with tiny sizes: real servers start on every storage, are loaded and stop,
//! and no file or mount is left behind.

use std::path::Path;
use std::process::Output;

use crate::mount_support::{Scene, dio, mounts};
use serde_json::Value;

const TINY: &str = "--size 8M --pool 16M --clients 2 --rounds 1 --ramp-up 0 --steady 2 --json";

fn database(flags: &str, directory: &Path) -> Output {
    let words = format!("database {flags} {TINY}");
    dio("bench", &words).arg("--dir").arg(directory).output().unwrap()
}

/// Checks that every storage was measured, and that nothing is left in the directory.
#[track_caller]
fn assert_measured(output: &Output, storages: &[&str], directory: &Path) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let section = &report["sections"][0];
    let rows = section["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["contender"].as_str().unwrap()).collect();
    assert_eq!(names, storages);
    for row in rows {
        let run = &row["runs"][0];
        let (tps, response) = (run["tps"].as_f64().unwrap(), &run["response"]);
        assert!(tps > 0.0 && response["p50"].as_f64().unwrap() > 0.0, "{run:#}");
        assert!(run["histogram"].as_array().is_some_and(|buckets| !buckets.is_empty()), "{run:#}");
        let points = run["points"].as_array().unwrap();
        assert!(points.iter().any(|point| point["tps"].as_f64().unwrap() > 0.0), "{points:?}");
    }
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(directory)), "{:?}", mounts());
}

#[test]
fn mariadb_works_on_every_storage() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let flags = "mariadb --workload oltp_update_non_index --storage \
                 raw,bare,direct-file,concurrent --mount-option native";
    let output = database(flags, &directory);
    assert_measured(&output, &["raw", "bare", "direct_file", "concurrent"], &directory);
}

#[test]
fn postgresql_works_on_every_storage_that_it_has() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let output = database("postgresql --storage buffered,concurrent", &directory);
    assert_measured(&output, &["buffered", "concurrent"], &directory);
}

#[test]
fn what_a_database_cannot_is_an_error_before_anything_is_made() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = database("postgresql --storage raw", directory.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("PostgreSQL cannot use 'raw'"),
        "{output:?}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
