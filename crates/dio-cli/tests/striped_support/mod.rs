//! A plain and a striped file with the same contents, on which the same tools run.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dio_test::{Output, TestFs};

/// Two directories, each with a file named `file`, which is plain in one and striped in the other.
pub struct Pair {
    _scratch: Box<dyn std::any::Any>,
    pub dir: PathBuf,
}

/// Runs a command of dio in a directory.
pub fn dio(dir: &Path, args: &[&str]) -> Output {
    dio_test::run(
        Command::new(env!("CARGO_BIN_EXE_dio"))
            .args(args)
            .current_dir(dir)
            .env("LC_ALL", "C.UTF-8"),
    )
}

/// As `dio`; the command must succeed.
#[track_caller]
pub fn good(dir: &Path, args: &[&str]) -> Output {
    let output = dio(dir, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}

/// Runs a script in which each tool is dio's. Returns standard output, status and standard error.
pub fn script(dir: &Path, text: &str) -> (Vec<u8>, Option<i32>, Vec<u8>) {
    let names = [
        "cp",
        "cat",
        "dd",
        "tee",
        "split",
        "sort",
        "uniq",
        "tar",
        "gzip",
        "zstd",
        "cksum",
        "md5sum",
        "sha256sum",
    ];
    let functions: String = names
        .iter()
        .map(|name| format!("{name}() {{ {} {name} \"$@\"; }}\n", env!("CARGO_BIN_EXE_dio")))
        .collect();
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(format!("set -o pipefail; {functions}{text}"))
        .current_dir(dir)
        .env("LC_ALL", "C.UTF-8");
    let output = shell.output().unwrap();
    (output.stdout, output.status.code(), output.stderr)
}

impl Pair {
    /// Makes both files with `contents`.
    pub fn on(fs: &TestFs, contents: &[u8]) -> Pair {
        let scratch = fs.dir();
        let dir = scratch.path().to_owned();
        ["a", "b", "c", "plain", "striped"]
            .iter()
            .for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        fs::write(dir.join("contents"), contents).unwrap();
        let pair = Pair { _scratch: Box::new(scratch), dir };
        pair.again();
        pair
    }

    /// Makes both files again.
    pub fn again(&self) {
        let (plain, striped) = (self.dir.join("plain"), self.dir.join("striped"));
        for dir in [&plain, &striped] {
            fs::remove_dir_all(dir).unwrap();
            fs::create_dir(dir).unwrap();
        }
        fs::copy(self.dir.join("contents"), plain.join("file")).unwrap();
        good(&self.dir, &["stripe", "set", "-S", "64K", "-t", "a,b,c", "striped/file"]);
        good(&self.dir, &["cp", "contents", "striped/file"]);
    }

    /// Checks that the script has the same outcome in both directories.
    #[track_caller]
    pub fn same(&self, text: &str) {
        let [plain, striped] = ["plain", "striped"].map(|name| script(&self.dir.join(name), text));
        assert_eq!(plain.1, Some(0), "{text}: {}", String::from_utf8_lossy(&plain.2));
        assert_eq!(plain.1, striped.1, "status of {text}: {}", String::from_utf8_lossy(&striped.2));
        assert!(
            plain.0 == striped.0,
            "output of {text}: {} and {} bytes",
            plain.0.len(),
            striped.0.len()
        );
        let plain = fs::read(self.dir.join("plain/file")).unwrap();
        good(&self.dir, &["cp", "striped/file", "back"]);
        let striped = fs::read(self.dir.join("back")).unwrap();
        assert!(
            plain == striped,
            "contents after {text}: {} and {} bytes",
            plain.len(),
            striped.len()
        );
        let descriptor = fs::read(self.dir.join("striped/file")).unwrap();
        assert!(descriptor.starts_with(b"dio striped file"), "{text}: it is not striped any more");
        good(&self.dir, &["stripe", "check", "striped/file"]);
    }
}

/// Lines of text with repetitions. Their lengths do not fit into whole stripes.
pub fn lines(bytes: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0u64.. {
        if text.len() >= bytes {
            break;
        }
        let line = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (number % 50);
        text.extend_from_slice(format!("{line:x} line {}\n", number / 3).as_bytes());
        if number % 4 == 0 {
            text.extend_from_slice(b"again\nagain\n");
        }
    }
    text.extend_from_slice(b"no newline at the end");
    text
}
