//! `dio bench locks`: counts how often a command blocks on locks, from the kernel's tracing and
//! from a mount. The commands here are made to block.

use std::path::Path;
use std::process::{Command, Output};

use crate::mount_support::{Scene, dio};
use dio_test::skip;
use serde_json::Value;

/// Four programs that write the same file through the page cache, in large pieces: all but one wait
/// for the lock of its inode.
fn crowd(file: &Path) -> String {
    let file = file.display();
    format!(
        "for n in 1 2 3 4; do dd if=/dev/zero of={file} bs=4M count=40 conv=notrunc status=none & \
         done; wait"
    )
}

fn locks(flags: &[&str], shell: &str) -> Command {
    let mut command = dio("bench", "locks");
    command.args(flags).args(["--", "sh", "-c", shell]);
    command
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is the report alone")
}

/// How often threads blocked on locks of a class: the sum of all its rows.
fn blocks(rows: &Value, class: &str) -> u64 {
    let rows = rows.as_array().unwrap().iter().filter(|row| row["class"] == class);
    rows.map(|row| row["blocks"].as_u64().unwrap()).sum()
}

#[test]
fn writers_of_one_file_block_on_its_inode_and_every_block_is_seen() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let output =
        locks(&["--json", "--kernel", "tracepoint"], &crowd(&directory.path().join("file")))
            .output()
            .unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("lock:contention_begin"), "{said}");
        skip!("the kernel's tracepoints are not to be had: {said}");
        return;
    }
    let report = json(&output);
    let kernel = &report["kernel"];
    assert_eq!(kernel["method"], "tracepoint");
    let inode = blocks(&kernel["rows"], "inode");
    assert!(inode > 10, "{report:#}");
    let first =
        kernel["rows"].as_array().unwrap().iter().find(|row| row["class"] == "inode").unwrap();
    assert!(first["waited_seconds"].as_f64().unwrap() > 0.0, "{report:#}");
    assert!(first["functions"][0]["name"].as_str().unwrap().contains("write"), "{report:#}");
}

#[test]
fn without_privileges_what_threads_sleep_in_is_looked_at_and_the_report_says_so() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let crowd = crowd(&directory.path().join("file"));
    let report = json(&locks(&["--json", "--kernel", "wait-channels"], &crowd).output().unwrap());
    assert_eq!(report["kernel"]["method"], "wait_channels");
    assert!(report["kernel"]["notes"][0].as_str().unwrap().contains("at least"), "{report:#}");
    let own = std::fs::read_to_string("/proc/self/wchan").unwrap_or_default();
    if own.is_empty() {
        skip!("this kernel has no wait channels");
        return;
    }
    assert!(blocks(&report["kernel"]["rows"], "inode") > 0, "{report:#}");
}

#[test]
fn a_mount_tells_what_blocked_on_its_files() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.foreground(&mut scene.mount("-f -o dio,lock=file"));
    std::fs::write(scene.source.join("data"), vec![1; 8 << 20]).unwrap();
    let file = scene.at.join("data");
    let shell = format!(
        "for n in 1 2 3 4; do dd if=/dev/zero of={} bs=8k count=800 oflag=direct conv=notrunc \
         status=none & done; wait",
        file.display()
    );
    let report =
        json(&locks(&["--json", "--mount", scene.at.to_str().unwrap()], &shell).output().unwrap());
    let mounts = report["mounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "{report:#}");
    assert!(blocks(&mounts[0]["rows"], "file") > 10, "{report:#}");
    assert!(mounts[0]["error"].is_null());
    drop(server);
}

#[test]
fn the_commands_status_and_output_are_kept() {
    let output = locks(&["--kernel", "wait-channels"], "echo said; exit 7").output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("ended with status 7") && text.contains("Library, told by"), "{text}");
    assert!(!text.contains("said\n"), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "said\n");
    for signal in [9, 15] {
        let output =
            locks(&["--kernel", "wait-channels"], &format!("kill -{signal} $$")).output().unwrap();
        assert_eq!(output.status.code(), Some(128 + signal), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("was ended by signal {signal}")), "{text}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report");
    let output = locks(&["--kernel", "wait-channels", "-o", path.to_str().unwrap()], "echo said")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n");
    assert!(std::fs::read_to_string(&path).unwrap().contains("Kernel, of the command"));
}

#[test]
fn programs_of_dio_tell_of_their_own_locks() {
    let program = env!("CARGO_BIN_EXE_dio");
    let shell = format!("{program} sum /proc/self/exe; {program} sum /proc/self/exe; exec true");
    let report = json(&locks(&["--json", "--kernel", "wait-channels"], &shell).output().unwrap());
    assert_eq!(report["library"]["processes"], 2, "{report:#}");
    assert_eq!(
        report["library"]["rows"],
        Value::Array(Vec::new()),
        "one thread at a time reads: {report:#}"
    );
    let report = json(&locks(&["--json", "--kernel", "wait-channels"], "true").output().unwrap());
    assert_eq!(report["library"]["processes"], 0);
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let output = dio("bench", "locks -- /nonexistent/program").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cannot start '/nonexistent/program'")
    );
    let output = locks(&["--mount", "/proc"], "true").output().unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("is not on a dio mount"),
        "{output:?}"
    );
}
