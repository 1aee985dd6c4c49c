//! Files with known content, and checks that are independent of the library under test.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::Rng;

/// Bytes handled at a time.
const CHUNK: usize = 1 << 20;

/// Creates (or replaces) `path` with `len` bytes that do not compress and follow from `seed`.
///
/// The file is written through the page cache and not synced.
///
/// # Panics
/// On any I/O error.
#[track_caller]
pub fn random_file(path: impl AsRef<Path>, len: u64, seed: u64) {
    let path = path.as_ref();
    let fail = |e: std::io::Error| -> ! { panic!("{}: {e}", path.display()) };
    let mut file = File::create(path).unwrap_or_else(|e| fail(e));
    let mut rng = Rng::new(seed);
    let mut chunk = vec![0; CHUNK];
    let mut left = len;
    while left > 0 {
        let part = left.min(CHUNK as u64) as usize;
        rng.fill(&mut chunk[..part]);
        file.write_all(&chunk[..part]).unwrap_or_else(|e| fail(e));
        left -= part as u64;
    }
}

/// The offset of the first byte in which two files differ. If one file is the beginning of the
/// other, returns the length of the shorter one. Returns `None` if they are equal.
///
/// # Panics
/// On any I/O error.
#[track_caller]
#[must_use]
pub fn first_difference(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Option<u64> {
    let (mut a, mut b) = (ChunkedFile::open(a.as_ref()), ChunkedFile::open(b.as_ref()));
    let mut offset = 0;
    loop {
        let (left, right) = (a.next_chunk(), b.next_chunk());
        if let Some(at) = left.iter().zip(right).position(|(x, y)| x != y) {
            return Some(offset + at as u64);
        }
        if left.len() != right.len() {
            return Some(offset + left.len().min(right.len()) as u64);
        }
        if left.is_empty() {
            return None;
        }
        offset += left.len() as u64;
    }
}

/// Asserts that two files hold the same bytes.
///
/// # Panics
/// When they differ, naming the first differing offset and both lengths; on any I/O error.
#[track_caller]
pub fn same_bytes(a: impl AsRef<Path>, b: impl AsRef<Path>) {
    let (a, b) = (a.as_ref(), b.as_ref());
    if let Some(offset) = first_difference(a, b) {
        let length = |p: &Path| p.metadata().map_or(0, |m| m.len());
        panic!(
            "{} ({} bytes) and {} ({} bytes) differ at offset {offset}",
            a.display(),
            length(a),
            b.display(),
            length(b),
        );
    }
}

/// A file read in whole chunks; only the last one is shorter.
struct ChunkedFile<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    chunk: Vec<u8>,
}

impl<'a> ChunkedFile<'a> {
    #[track_caller]
    fn open(path: &'a Path) -> ChunkedFile<'a> {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        ChunkedFile { path, reader: BufReader::new(file), chunk: vec![0; CHUNK] }
    }

    #[track_caller]
    fn next_chunk(&mut self) -> &[u8] {
        let mut filled = 0;
        while filled < CHUNK {
            match self.reader.read(&mut self.chunk[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => panic!("{}: {e}", self.path.display()),
            }
        }
        &self.chunk[..filled]
    }
}

/// Pages of `path` in the page cache, in the kernel's page size, as counted by fincore(1) of
/// util-linux, which shares no code with the library under test.
///
/// # Panics
/// If fincore is missing (`cargo xtask setup` installs it) or refuses the file.
#[track_caller]
#[must_use]
pub fn resident_pages(path: impl AsRef<Path>) -> u64 {
    let path = path.as_ref();
    let mut fincore = Command::new("fincore");
    fincore.args(["--raw", "--noheadings", "--output", "PAGES", "--"]).arg(path);
    let out = run(&mut fincore);
    assert!(out.status.success(), "fincore {}: {}", path.display(), out.stderr.trim());
    let text = out.stdout.trim();
    // For an empty file, some versions print nothing.
    if text.is_empty() {
        return 0;
    }
    text.parse().unwrap_or_else(|_| panic!("fincore {}: printed `{text}`", path.display()))
}

/// The output and the exit status of a command. Bytes that are not UTF-8 are replaced.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `command` to its end without standard input and returns what it printed.
///
/// # Panics
/// When the command cannot be started.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    let out = loop {
        match command.stdin(Stdio::null()).output() {
            // A program that was just written is busy while a child that another test has forked
            // still holds the descriptor through which it was written. The child closes the
            // descriptor as soon as it executes its program.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now()
            }
            other => {
                break other.unwrap_or_else(|e| panic!("{}: {e}", command.get_program().display()));
            }
        }
    };
    Output {
        status: out.status,
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// Copies a program so that it can be executed at once.
///
/// Another process makes the copy: otherwise a child that another thread of this process forks
/// meanwhile would hold the copy open for writing until it executes its program, and the kernel
/// refuses to execute such a file (`ETXTBSY`, `execve(2)`).
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let output = run(Command::new("cp").arg("--").args([from.as_ref(), to.as_ref()]));
    assert!(output.status.success(), "{}: {output:?}", to.as_ref().display());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::file_systems;

    fn scratch() -> tempfile::TempDir {
        file_systems()[0].dir()
    }

    #[test]
    fn random_files_follow_from_their_seed() {
        let dir = scratch();
        let [a, b, c] = ["a", "b", "c"].map(|n| dir.path().join(n));
        let len = CHUNK as u64 * 2 + 13;
        random_file(&a, len, 1);
        random_file(&b, len, 1);
        random_file(&c, len, 2);
        assert_eq!(a.metadata().unwrap().len(), len);
        same_bytes(&a, &b);
        assert_eq!(first_difference(&a, &c), Some(0));
    }

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        let dir = scratch();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let len = CHUNK as u64 + 100;
        for offset in [0, 4095, CHUNK as u64 - 1, CHUNK as u64, len - 1] {
            random_file(&a, len, 3);
            random_file(&b, len, 3);
            let file = File::options().read(true).write(true).open(&b).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[!byte[0]], offset).unwrap();
            assert_eq!(first_difference(&a, &b), Some(offset));
        }
        random_file(&b, len - 1, 3);
        assert_eq!(first_difference(&a, &b), Some(len - 1));
    }

    #[test]
    #[should_panic(expected = "differ at offset 5")]
    fn the_assertion_names_the_offset() {
        let dir = scratch();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, b"12345678").unwrap();
        std::fs::write(&b, b"12345").unwrap();
        same_bytes(&a, &b);
    }

    #[test]
    fn written_pages_are_resident_and_those_of_a_hole_are_not() {
        for fs in file_systems() {
            let dir = fs.dir();
            let file = dir.path().join("file");
            random_file(&file, 1 << 20, 4);
            let page = run(Command::new("getconf").arg("PAGESIZE"));
            let page: u64 = page.stdout.trim().parse().unwrap();
            assert_eq!(resident_pages(&file), (1 << 20) / page, "{}", fs.name);
            let hole = dir.path().join("hole");
            File::create(&hole).unwrap().set_len(1 << 20).unwrap();
            assert_eq!(resident_pages(&hole), 0, "{}", fs.name);
            let empty = dir.path().join("empty");
            File::create(&empty).unwrap();
            assert_eq!(resident_pages(&empty), 0, "{}", fs.name);
        }
    }

    #[test]
    fn a_command_gives_its_output_and_status() {
        let out = run(Command::new("sh").args(["-c", "cat; echo out; echo err >&2; exit 3"]));
        assert_eq!(out.status.code(), Some(3));
        assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("out\n", "err\n"));
    }
}
