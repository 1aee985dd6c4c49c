//! A process that appends and prints what was acknowledged, and the check of what is found after it
//! was stopped.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use dio_test::Rng;
use dio_wal::{Log, Method, Options};

const CHILD: &str = "DIO_WAL_TEST_CHILD";

/// Options that go through every method, direct and cached.
pub(crate) fn options(number: u64) -> Options {
    let mut options = Options::new();
    options.method(Method::ALL[(number % 5) as usize]).direct(number / 5 % 2 == 0);
    options.segment(512 << 10).buffer(64 << 10).write_behind(2).spares(2);
    options
}

/// The record with this number. Its contents follow from the number.
pub(crate) fn record(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let length =
        rng.range_usize(0..*[50, 200, 5_000, 150_000].get((number % 11) as usize).unwrap_or(&300));
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(rng.bytes(length));
    bytes
}

pub(crate) fn number_of(data: &[u8]) -> u64 {
    u64::from_le_bytes(data[..8].try_into().unwrap())
}

/// Number of rounds of a test: `DIO_WAL_ROUNDS`, or else `ordinary`.
pub(crate) fn rounds(ordinary: u64) -> u64 {
    std::env::var("DIO_WAL_ROUNDS")
        .map_or(ordinary, |text| text.parse().expect("DIO_WAL_ROUNDS is a number"))
}

/// Runs in the child: appends until an operation fails, and prints what is durable.
pub(crate) fn child() {
    let Ok(job) = std::env::var(CHILD) else { return };
    let (path, rest) = job.split_once('\n').unwrap();
    let (number, next) = rest.split_once('\n').unwrap();
    let outcome =
        append_for_ever(Path::new(path), &options(number.parse().unwrap()), next.parse().unwrap());
    // The parent may have closed the pipe.
    let _ = writeln!(std::io::stderr(), "failed {outcome:?}");
}

fn append_for_ever(
    path: &Path,
    options: &Options,
    mut next: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let log = Log::open(path, options)?;
    let mut lsns = Vec::new();
    let mut out = std::io::stderr();
    loop {
        for _ in 0..1 + next % 5 {
            lsns.push((next, log.append(&record(next))?));
            next += 1;
        }
        log.commit(lsns[lsns.len() - 1].1)?;
        writeln!(out, "durable {next}")?;
        if lsns.len() > 60 {
            log.truncate_before(lsns[30].1)?;
            writeln!(out, "start {}", lsns[30].0)?;
            lsns.drain(..30);
        }
    }
}

/// Numbers of records, as printed by a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Records below this number are durable.
    pub(crate) durable: u64,
    /// Records below this number were truncated.
    pub(crate) start: u64,
    /// The first record that the last child appended. It truncates thirty records at a time,
    /// counted from this one.
    pub(crate) began: u64,
}

/// A running child.
pub(crate) struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
    pub(crate) said: Said,
    /// The child ended by itself.
    pub(crate) failed: bool,
}

impl Running {
    /// Starts a child that continues after the records that were found.
    pub(crate) fn start(path: &Path, number: u64, found: Said) -> Running {
        let next = found.durable;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{}\n{number}\n{next}", path.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Running { child, lines, said: Said { began: next, ..found }, failed: false }
    }

    /// Reads one more line. Returns `false` if there is none.
    pub(crate) fn listen(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else { return false };
        match line.split_once(' ') {
            Some(("durable", number)) => self.said.durable = number.parse().unwrap(),
            Some(("start", number)) => self.said.start = number.parse().unwrap(),
            Some(("failed", _)) => self.failed = true,
            _ => panic!("the child says: {line}"),
        }
        true
    }

    /// Reads this number of lines.
    pub(crate) fn listen_to(&mut self, lines: usize) {
        for _ in 0..lines {
            assert!(self.listen() && !self.failed, "the child ended early: {:?}", self.said);
        }
    }

    /// Reads lines until the child ends by itself, because its disk is gone.
    pub(crate) fn listen_to_the_end(mut self) -> Said {
        while !self.failed && self.listen() {}
        self.said
    }

    /// Kills the child. What it printed before still counts.
    pub(crate) fn kill(mut self) -> Said {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // The last line may be incomplete.
        let rest: Vec<String> = self.lines.by_ref().map_while(Result::ok).collect();
        let whole = rest.len().saturating_sub(1);
        for line in rest.into_iter().take(whole) {
            match line.split_once(' ') {
                Some(("durable", number)) => self.said.durable = number.parse().unwrap(),
                Some(("start", number)) => self.said.start = number.parse().unwrap(),
                _ => panic!("the child says: {line}"),
            }
        }
        self.said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If the child has been waited for, neither call has an effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a log as any program would after the crash, and checks it against the child's output.
/// Returns what is there.
pub(crate) fn judge(log: &Log, said: Said, what: &str) -> Said {
    judge_by(log, said, what, |_| said.latest_start())
}

impl Said {
    /// The highest possible first record: the child may have truncated once more than it has
    /// printed.
    pub(crate) fn latest_start(&self) -> u64 {
        self.start.max(self.began) + 30
    }
}

/// As [`judge`]; `latest` returns the highest possible first record of a log that ends before the
/// record with the given number.
pub(crate) fn judge_by(log: &Log, said: Said, what: &str, latest: impl Fn(u64) -> u64) -> Said {
    let mut reader = log.reader(log.start()).unwrap();
    let mut found: Option<(u64, u64)> = None;
    while let Some(read) = reader.next().unwrap() {
        let number = number_of(read.data);
        assert!(found.is_none_or(|(_, end)| end == number), "{what}: {number} after {found:?}");
        assert!(read.data == record(number), "{what}: record {number} is not what was appended");
        found = Some((found.map_or(number, |(first, _)| first), number + 1));
    }
    let (first, end) = found.unwrap_or((said.start, 0));
    let in_time = (said.start..=latest(end)).contains(&first);
    assert!(in_time, "{what}: the log starts at record {first} and ends at {end}: {said:?}");
    assert!(end >= said.durable, "{what}: {} records were durable, {end} are there", said.durable);
    Said { durable: end, ..said }
}
