//! The reader of the hot set counts its reads, and ends when its parent does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn start(file: &std::path::Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_dio-benchsuite"))
        .arg("hot-reader")
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

#[test]
fn reads_from_the_first_line_to_the_end_of_input() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), vec![7; 1 << 20]).expect("written");
    let mut child = start(file.path());
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"begin\n").expect("it listens");
    sleep(Duration::from_millis(100));
    drop(input);
    line.clear();
    output.read_line(&mut line).expect("readable");
    let result: serde_json::Value = serde_json::from_str(&line).expect("one JSON object");
    let number = |key: &str| result[key].as_f64().expect("a number");
    assert!(number("reads_per_second") > 1000.0, "{result}");
    assert!(number("p50_nanoseconds") > 0.0);
    assert!(number("p50_nanoseconds") <= number("p99_nanoseconds"));
    assert!(number("p999_nanoseconds") <= number("max_nanoseconds"));
    assert!(child.wait().expect("ends").success());
}

#[test]
fn a_missing_hot_set_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = start(&dir.path().join("nothing")).wait_with_output().expect("ends");
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
}
