//! What the tests of whole jobs share.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod cuts;
pub(crate) mod nodes;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dio_test::{Output, Seed, random_file, run};

pub(crate) const MIB: u64 = 1 << 20;

/// `dio-mpi` with so many ranks, in a directory.
pub(crate) fn mpirun(dir: &Path, ranks: u32) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root", "-n", &ranks.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_dio-mpi")).current_dir(dir);
    // Open MPI looks for networks that one machine has no use for, in half of the time of a start.
    command.env("OMPI_MCA_pml", "^ucx,cm");
    keep_directory_of_jobs(rustix::system::uname().nodename().to_str().unwrap());
    command
}

/// Makes the directory in which Open MPI keeps those of all jobs of a user on a host. Two jobs that
/// start at the same time may both make it, and one fails. It stays, because it is not empty.
fn keep_directory_of_jobs(host: &str) {
    let name = format!("ompi.{host}.{}", rustix::process::geteuid().as_raw());
    fs::create_dir_all(std::env::temp_dir().join(name).join("kept")).unwrap();
}

/// Runs `dio-mpi` with so many ranks to its end.
pub(crate) fn dio_mpi(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).args(words))
}

/// Starts `dio-mpi` with so many ranks. Its messages are kept.
pub(crate) fn start(dir: &Path, ranks: u32, words: &[&str]) -> Child {
    let mut command = mpirun(dir, ranks);
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Prepares and compares by other programs, of which none may fail.
pub(crate) fn sh(dir: &Path, script: &str) -> Output {
    let ran = run(Command::new("sh").args(["-ec", script]).current_dir(dir));
    assert!(ran.status.success(), "{script}: {ran:?}");
    ran
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

/// The number that Open MPI has given a process.
fn rank_of(process: u32) -> Option<u32> {
    let variables = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut variables = variables.split(|byte| *byte == 0);
    let rank = variables.find_map(|it| it.strip_prefix(b"OMPI_COMM_WORLD_RANK="))?;
    std::str::from_utf8(rank).ok()?.parse().ok()
}

/// The processes of the ranks below `mpirun`, in order.
pub(crate) fn ranks_of(mpirun: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{mpirun}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    let children: String = lists.collect();
    let mut ranks: Vec<u32> = children
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .filter(|id| {
            let name = fs::read_to_string(format!("/proc/{id}/comm"));
            name.is_ok_and(|name| name.trim() == "dio-mpi")
        })
        .collect();
    ranks.sort_by_key(|process| rank_of(*process));
    ranks
}

pub(crate) fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// Runs a script of the shell in a mount namespace of its own, so that nothing stays mounted. In
/// it, `$MPI` is `dio-mpi` with so many ranks.
pub(crate) fn in_namespace(dir: &Path, ranks: u32, script: &str) -> Output {
    let plain = mpirun(dir, ranks);
    let words = std::iter::once(plain.get_program()).chain(plain.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-uc", script]).env("MPI", words.join(" ")).current_dir(dir);
    run(&mut command)
}

/// An image of btrfs with files of random bytes below `tree`, of which some blocks cannot be read:
/// their bytes are not those of their checksums.
pub(crate) struct BadBlocks {
    image: std::path::PathBuf,
    /// Places in the image, and the bytes that belong there.
    bad: Vec<(u64, Vec<u8>)>,
}

impl BadBlocks {
    /// Makes the image `image` in `dir` of the directory `tree` there. `bad` are names of files in
    /// it, and offsets of blocks. `None`, with a message, if that cannot be.
    pub(crate) fn new(dir: &Path, bad: &[(&str, u64)]) -> Option<BadBlocks> {
        if !dio_test::is_root() {
            dio_test::skip!("mounting needs root");
            return None;
        }
        let script = "set -e; truncate -s 500M image; mkfs.btrfs -q image >&2; mkdir -p mounted; \
                      mount -o loop image mounted; cp -a tree mounted; umount mounted";
        let made = in_namespace(dir, 1, script);
        if !made.status.success() {
            dio_test::skip!("no btrfs can be mounted: {}", made.stderr);
            return None;
        }
        let image = dir.join("image");
        let bytes = fs::read(&image).unwrap();
        let places = bad.iter().map(|(name, at)| {
            let file = File::open(dir.join("tree").join(name)).unwrap();
            let mut block = vec![0; 4096];
            file.read_exact_at(&mut block, *at).unwrap();
            let place = bytes.chunks(4096).position(|found| found == block).unwrap();
            (place as u64 * 4096, block)
        });
        let made = BadBlocks { bad: places.collect(), image };
        made.spoil();
        Some(made)
    }

    /// Makes the blocks unreadable.
    pub(crate) fn spoil(&self) {
        self.write(|_| vec![0x55; 4096]);
    }

    fn write(&self, bytes: impl Fn(&[u8]) -> Vec<u8>) {
        let image = File::options().write(true).open(&self.image).unwrap();
        self.bad.iter().for_each(|(at, old)| image.write_all_at(&bytes(old), *at).unwrap());
        image.sync_all().unwrap();
    }

    /// Makes all blocks readable.
    pub(crate) fn mend(&self) {
        self.write(<[u8]>::to_vec);
    }
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

/// Bytes of the largest pieces in which large files are copied and noted, and of the smallest,
/// which a rank takes that is slow.
pub(crate) const PIECE: u64 = 32 * MIB;
pub(crate) const SMALL_PIECE: u64 = 4 * MIB;

/// The number of pieces of one large file in a journal that notes nothing else.
pub(crate) fn pieces_noted(journal: &Path) -> u64 {
    // One of them says that the file is begun.
    marks_noted(journal).saturating_sub(1) as u64
}

/// The number of marks without values in a journal, each counted once.
pub(crate) fn marks_noted(journal: &Path) -> usize {
    noted(journal).0.len()
}

/// The number of values in a journal, each counted once.
pub(crate) fn values_noted(journal: &Path) -> usize {
    noted(journal).1.len()
}

/// The marks in a journal, and those of values.
fn noted(journal: &Path) -> (HashSet<Vec<u8>>, HashSet<Vec<u8>>) {
    let (mut marks, mut values) = (HashSet::new(), HashSet::new());
    for rank in 0..4 {
        let bytes = fs::read(journal.join(format!("marks.{rank}"))).unwrap_or_default();
        let mut at = 16;
        while let Some(first) = bytes.get(at..at + 4) {
            let first = u32::from_le_bytes(first.try_into().unwrap());
            let count = (first & !(1 << 31)) as usize;
            let is_of_values = first != count as u32;
            let end = at + 4 + if is_of_values { count } else { 16 * count };
            if end + 16 <= bytes.len() {
                let mut body = &bytes[at + 4..end];
                while let Some((mark, rest)) = body.split_at_checked(16) {
                    body = rest;
                    if is_of_values {
                        let (length, rest) = rest.split_at(2);
                        body = &rest[u16::from_le_bytes(length.try_into().unwrap()).into()..];
                    }
                    let known = if is_of_values { &mut values } else { &mut marks };
                    known.insert(mark.to_vec());
                }
            }
            at = end + 16;
        }
    }
    (marks, values)
}

/// The number of bytes that a receipt says were written.
pub(crate) fn written(receipt: &str) -> u64 {
    let line = receipt.lines().find_map(|line| line.trim().strip_prefix("\"bytes_written\": "));
    line.unwrap().trim_end_matches(',').parse().unwrap()
}

/// Reads the file `receipt`, of a job of so many ranks: its numbers are the sums of theirs, and it
/// lists each file once.
pub(crate) fn receipt(dir: &Path, ranks: usize) -> serde_json::Value {
    let text = fs::read(dir.join("receipt")).unwrap();
    assert!(text.starts_with(b"{\n  \"command\""), "it is recognised as a receipt");
    let whole: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let parts = whole["ranks"].as_array().unwrap();
    assert_eq!(parts.len(), ranks);
    for key in ["/bytes_read", "/bytes_written", "/requests/read", "/write/direct"] {
        let number = |of: &serde_json::Value| of.pointer(key).unwrap().as_u64().unwrap();
        assert_eq!(number(&whole), parts.iter().map(number).sum::<u64>(), "{key}: {whole}");
    }
    let (files, count) = (listed(&whole), whole["files"].as_array().unwrap().len());
    assert_eq!(files.len(), count, "{whole}");
    whole
}

/// The files that a receipt lists, with their roles.
pub(crate) fn listed(receipt: &serde_json::Value) -> std::collections::BTreeSet<(String, String)> {
    let text = |file: &serde_json::Value, key| file[key].as_str().unwrap().to_owned();
    let files = receipt["files"].as_array().unwrap().iter();
    files.map(|file| (text(file, "path"), text(file, "role"))).collect()
}

/// How many ranks have this number in their account, and not 0.
pub(crate) fn ranks_with(receipt: &serde_json::Value, key: &str) -> usize {
    let ranks = receipt["ranks"].as_array().unwrap().iter();
    ranks.filter(|rank| rank[key].as_u64().unwrap() > 0).count()
}

/// The numbers that a receipt has under this key for each rank.
pub(crate) fn of_ranks(receipt: &str, key: &str) -> Vec<u64> {
    let (of_ranks, key) = (receipt.split("\"ranks\"").nth(1).unwrap(), format!("\"{key}\": "));
    let numbers = of_ranks.lines().filter_map(|line| line.trim().strip_prefix(&*key));
    numbers.map(|number| number.trim_end_matches(',').parse().unwrap()).collect()
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
