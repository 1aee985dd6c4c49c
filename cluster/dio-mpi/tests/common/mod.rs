//! What the tests of whole jobs share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

use dio_test::{Output, Seed, random_file, run};

pub(crate) const MIB: u64 = 1 << 20;

/// `dio-mpi` with so many ranks, in a directory.
pub(crate) fn mpirun(dir: &Path, ranks: u32) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root", "-n", &ranks.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_dio-mpi")).current_dir(dir);
    command
}

/// Makes a tree with everything that a copy keeps.
pub(crate) fn make_tree(root: &Path, seed: &Seed) {
    let mut rng = seed.stream(1);
    for number in 0..40 {
        let dir = root.join(format!("d{}/e{number}", number % 7));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..rng.range(0..60) {
            let length = rng.range_usize(0..70_000);
            fs::write(dir.join(format!("f{file}")), rng.bytes(length)).unwrap();
        }
    }
    for (number, megabytes) in [3, 70, 100].into_iter().enumerate() {
        random_file(root.join(format!("large{number}")), megabytes * MIB + 4097, number as u64);
    }
    let sparse = File::create(root.join("d1/sparse")).unwrap();
    sparse.write_all_at(&rng.bytes(70 << 20), 40 * MIB).unwrap();
    sparse.set_len(300 * MIB).unwrap();
    fs::write(root.join("d1/first"), "linked").unwrap();
    for number in 0..30 {
        // Names of one inode, all over the tree.
        fs::hard_link(root.join("d1/first"), root.join(format!("d{}/l{number}", number % 7)))
            .unwrap();
        let (one, other) = (format!("d0/p{number}"), format!("d3/q{number}"));
        fs::write(root.join(&one), &one).unwrap();
        fs::hard_link(root.join(one), root.join(other)).unwrap();
    }
    symlink("nowhere", root.join("link")).unwrap();
    use std::os::unix::ffi::OsStrExt;
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"\xff\n\xfe")), "no UTF-8").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    let sh = "setfattr -n user.note -v yes d1/first; setfacl -m u:65534:r large0 2>/dev/null; \
              mkfifo fifo; chmod 2750 d2; chmod 400 d3/e3; chmod 500 d4; chown 12:34 d5 large1; \
              touch -d 2001-02-03 d6/e6 d5 large2 -h link";
    run(Command::new("sh").args(["-c", sh]).current_dir(root));
}

/// The processes of the ranks below `mpirun`.
pub(crate) fn ranks_of(mpirun: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{mpirun}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    let children: String = lists.collect();
    children
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .filter(|id| {
            let name = fs::read_to_string(format!("/proc/{id}/comm"));
            name.is_ok_and(|name| name.trim() == "dio-mpi")
        })
        .collect()
}

pub(crate) fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// Has rsync look for differences of any kind.
pub(crate) fn assert_same(dir: &Path, source: &str, target: &str) {
    let judged = run(Command::new("rsync")
        .args(["-aHAXc", "--dry-run", "--delete", "--itemize-changes"])
        .args([source, target].map(|name| match dir.join(name).is_dir() {
            true => format!("{name}/"),
            false => name.to_owned(),
        }))
        .current_dir(dir));
    assert!(judged.status.success() && judged.stdout.is_empty(), "{judged:?}");
}

/// The number of bytes that a receipt says were written.
pub(crate) fn written(receipt: &str) -> u64 {
    let line = receipt.lines().find_map(|line| line.trim().strip_prefix("\"bytes_written\": "));
    line.unwrap().trim_end_matches(',').parse().unwrap()
}

/// Whether a process has a handler for SIGTERM.
pub(crate) fn catches_sigterm(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << 14) != 0)
}

/// The variable with the command line that [`be_dio`] runs.
const LINE: &str = "DIO_LINE";

/// Is `dio`, in a process of its own, for tests that compare with it: a test program cannot find
/// that of another workspace. The test `as_dio` calls it.
pub(crate) fn be_dio() {
    if let Some(line) = std::env::var_os(LINE) {
        let words = line.to_str().unwrap().split(' ').map(OsString::from);
        let status = dio_cli::cli::run(words.collect::<Vec<_>>());
        std::process::exit(i32::from(status != std::process::ExitCode::SUCCESS));
    }
}

/// Runs `dio` with words that are separated by spaces. The status is 0 or 1.
pub(crate) fn dio(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "as_dio", "--nocapture"]).env(LINE, line).current_dir(dir);
    run(&mut command)
}

/// The lines of standard error that are of the program, not of `mpirun`.
pub(crate) fn messages(output: &Output) -> Vec<&str> {
    output.stderr.lines().filter(|line| line.starts_with("dio-mpi")).collect()
}
