//! The gzip codec and other programs read each other's files.

use std::fs;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use dio_cli::codec::gzip::{Decode, Encode, decode, encode};
use dio_test::Rng;

fn data(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut data = Vec::new();
    while data.len() < length {
        data.extend_from_slice(
            format!("line {} of the table\t{}\n", data.len(), rng.range(0..1000)).as_bytes(),
        );
        if rng.bool(0.01) {
            data.extend(rng.bytes(300));
        }
    }
    data.truncate(length);
    data
}

/// Returns standard output of a command, which must succeed and print no message.
fn output(command: &mut Command) -> Vec<u8> {
    let out = command.env("LC_ALL", "C").stdin(Stdio::null()).output().expect("starts");
    assert!(
        out.status.success() && out.stderr.is_empty(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

/// Returns the data as compressed by another program.
fn piped(command: &mut Command, data: &[u8]) -> Option<Vec<u8>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(data).expect("it reads"));
        let out = child.wait_with_output().expect("ends");
        assert!(out.status.success());
        Some(out.stdout)
    })
}

fn encoded(data: &[u8], path: &Path) {
    let mut file = fs::File::create(path).expect("created");
    let how = Encode {
        workers: 2,
        name: Some(b"the name"),
        mtime: Some(1_000_000_000),
        ..Encode::default()
    };
    encode(&mut &*data, &mut file, &how).expect("encodes");
}

#[test]
fn gunzip_reads_ours() {
    let dir = tempfile::tempdir().expect("a directory");
    for size in [0, 1, 5000, 1 << 20, 3_500_000] {
        let data = data(size, size as u64);
        let path = dir.path().join(format!("{size}.gz"));
        encoded(&data, &path);
        assert!(output(Command::new("gzip").arg("-t").arg(&path)).is_empty());
        assert!(output(Command::new("gzip").arg("-dc").arg(&path)) == data);
        assert!(output(Command::new("zcat").arg(&path)) == data);
    }
}

#[test]
fn gzip_lists_ours() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.gz");
    for size in [0, 5000, 1 << 20, 2 << 20, 2_500_000, 7_000_000] {
        encoded(&data(size, 1), &path);
        let table = output(Command::new("gzip").args(["-lN"]).arg(&path).env("TZ", "UTC"));
        let table = String::from_utf8_lossy(&table);
        let line = table.lines().nth(1).expect("a line below the heading");
        assert!(line.ends_with("the name"), "{table}");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], fs::metadata(&path).expect("there").len().to_string(), "{table}");
        assert_eq!(words[1], size.to_string(), "{table}");
    }
    // gzip has nothing to report.
    let said = Command::new("gzip")
        .args(["-tv"])
        .arg(&path)
        .env("LC_ALL", "C")
        .output()
        .expect("runs")
        .stderr;
    assert_eq!(String::from_utf8_lossy(&said), format!("{}:\t OK\n", path.display()));
    let long = Command::new("gzip")
        .args(["-lvN"])
        .arg(&path)
        .env("TZ", "UTC")
        .env("LC_ALL", "C")
        .output()
        .expect("runs");
    let table = String::from_utf8_lossy(&long.stdout);
    assert!(long.status.success() && table.contains("Sep  9 01:46"), "{table}");
}

#[test]
fn other_readers_read_ours() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = data(2_500_000, 2);
    let path = dir.path().join("x.gz");
    encoded(&data, &path);
    let script = "import gzip,sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())";
    for (program, args) in
        [("python3", &["-c", script][..]), ("pigz", &["-dc"]), ("bgzip", &["-dc"])]
    {
        if Command::new(program).arg("--version").output().is_err() {
            // These programs are optional: every system has gunzip.
            continue;
        }
        assert!(output(Command::new(program).args(args).arg(&path)) == data, "{program}");
    }
}

/// Readers that stop at the end of the first member, and do not report data behind it.
#[test]
fn soak_readers_of_one_member_read_all() {
    const PYTHON: &str = "import sys,zlib; \
                          sys.stdout.buffer.write(zlib.decompress(open(sys.argv[1],'rb').read(), \
                          31))";
    const PERL: &str = "use IO::Uncompress::Gunzip; binmode STDOUT; \
        IO::Uncompress::Gunzip::gunzip($ARGV[0] => '-') or die";
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.gz");
    for seed in dio_test::Soak::of(3) {
        let mut rng = seed.rng();
        let size =
            (2 << 20) * rng.range_usize(0..4) + rng.range_usize(0..3) * rng.range_usize(0..700_000);
        let data = match rng.range(0..3) {
            0 => rng.bytes(size),
            _ => data(size, rng.range(0..1 << 32)),
        };
        let mut file = fs::File::create(&path).expect("created");
        let how = Encode { workers: 2, level: rng.range(0..10) as u8, ..Encode::default() };
        encode(&mut &data[..], &mut file, &how).expect("encodes");
        for (program, args) in [
            ("python3", &["-c", PYTHON][..]),
            ("perl", &["-e", PERL]),
            ("gzip", &["-dc"]),
            ("pigz", &["-dc"]),
        ] {
            if program == "pigz" && Command::new(program).arg("--version").output().is_err() {
                continue;
            }
            assert!(output(Command::new(program).args(args).arg(&path)) == data, "{program}");
        }
    }
}

#[test]
fn what_others_write_is_read() {
    let data = data(1_500_000, 3);
    for (program, args) in [
        ("gzip", &["-c"][..]),
        ("gzip", &["-1c"]),
        ("gzip", &["-9c", "--rsyncable"]),
        ("pigz", &["-c", "-p", "3"]),
        ("pigz", &["-0c"]),
        ("bgzip", &["-c"]),
    ] {
        let Some(packed) = piped(Command::new(program).args(args), &data) else {
            // All programs but gzip are optional: the formats are tested without them too.
            assert_ne!(program, "gzip");
            continue;
        };
        for workers in [0, 2] {
            let mut out = Vec::new();
            let how = Decode { workers, ..Decode::default() };
            let moved = decode(&mut BufReader::new(&packed[..]), &mut out, &how).expect("decodes");
            assert!(out == data, "{program} {args:?}");
            assert_eq!(moved.read, packed.len() as u64);
        }
    }
}
