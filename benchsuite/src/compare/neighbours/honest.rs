//! The honest user: a process that reads at random offsets and creates small files, with a pause in
//! between, and measures the time that each takes.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde_json::{Value, json};

use super::aligned::Aligned;
use super::crowd::end_all;
use crate::Result;
use dio_bench::data::Random;
use dio_bench::histogram::Histogram;
use dio_bench::suite::Sample;

/// The file that the honest user reads, in its directory.
pub(super) const DATA: &str = "data";
/// Bytes of one read.
const PIECE: usize = 4096;
/// Bytes of a file that it creates.
const SMALL: usize = 100;
/// Pause between two turns.
const REST: Duration = Duration::from_millis(1);
/// How late the report may be after the end of the run, on a machine whose processors are all busy.
const LATE: Duration = Duration::from_secs(20);
/// The quantities of its report.
const KEYS: [&str; 8] = [
    "turns_per_second",
    "read_p50_nanoseconds",
    "read_p99_nanoseconds",
    "read_max_nanoseconds",
    "create_p50_nanoseconds",
    "create_p99_nanoseconds",
    "create_max_nanoseconds",
    "errors",
];

#[derive(Clone, Copy)]
enum HonestRequests {
    Open,
    Read,
    Create,
}

/// The measurements so far. The working thread counts, and the main thread reports when the time is
/// over, because an operation may never return.
#[derive(Default)]
struct Measured {
    reads: Histogram,
    creates: Histogram,
    turns: u64,
    errors: u64,
    first_error: Option<String>,
    /// The operation in progress, and the time at which it began.
    under_way: Option<(HonestRequests, Instant)>,
}

impl Measured {
    fn add(&mut self, work: HonestRequests, time: Duration) {
        let nanoseconds = time.as_nanos() as u64;
        match work {
            HonestRequests::Open => {}
            HonestRequests::Read => self.reads.add(nanoseconds),
            HonestRequests::Create => self.creates.add(nanoseconds),
        }
    }

    /// The report. An operation in progress counts with the time that it has taken so far. If that
    /// is the open before the first read, it counts as a read.
    fn report(&mut self, time: Duration) -> Value {
        if let Some((work, begun)) = self.under_way.take() {
            self.add(
                if let HonestRequests::Open = work { HonestRequests::Read } else { work },
                begun.elapsed(),
            );
        }
        let mut report = json!({
            "turns_per_second": self.turns as f64 / time.as_secs_f64(),
            "errors": self.errors,
            "first_error": self.first_error,
        });
        for (name, times) in [("read", &self.reads), ("create", &self.creates)] {
            if times.count() > 0 {
                report[format!("{name}_p50_nanoseconds")] = times.quantile(0.5).into();
                report[format!("{name}_p99_nanoseconds")] = times.quantile(0.99).into();
                report[format!("{name}_max_nanoseconds")] = times.max().into();
            }
        }
        report
    }
}

type SharedMeasured = Arc<Mutex<Measured>>;

fn lock(shared: &SharedMeasured) -> MutexGuard<'_, Measured> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `honest DIR`: reads and creates files for `seconds` seconds, and prints one JSON object.
pub(crate) fn serve(dir: &Path, seconds: u64) -> Result<()> {
    let (shared, time) = (SharedMeasured::default(), Duration::from_secs(seconds));
    let working = shared.clone();
    let dir = dir.to_path_buf();
    thread::spawn(move || work(&dir, &working));
    thread::sleep(time);
    let report = lock(&shared).report(time);
    Ok(writeln!(io::stdout(), "{report}")?)
}

fn work(dir: &Path, shared: &SharedMeasured) {
    let (mut random, mut memory) = (Random::new(std::process::id().into()), Aligned::new(PIECE));
    let direct = OFlags::DIRECT.bits().cast_signed();
    let open = || {
        let file = OpenOptions::new().read(true).custom_flags(direct).open(dir.join(DATA))?;
        let pieces = file.metadata()?.len() / PIECE as u64;
        Ok((file, pieces))
    };
    let (file, pieces) = loop {
        match timed(shared, HonestRequests::Open, open) {
            Some(opened) => break opened,
            None => thread::sleep(REST),
        }
    };
    for number in 0u64.. {
        let offset = random.below(pieces) * PIECE as u64;
        let read =
            timed(shared, HonestRequests::Read, || file.read_exact_at(memory.bytes(), offset));
        let path = dir.join(format!("new.{}.{number}", std::process::id()));
        let created = timed(shared, HonestRequests::Create, || create(&path));
        if read.is_some() && created.is_some() {
            lock(shared).turns += 1;
        }
        thread::sleep(REST);
    }
}

/// Creates a file of a few bytes and removes it.
fn create(path: &Path) -> io::Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(&[7; SMALL]);
    written.and(fs::remove_file(path))
}

/// Runs an operation and counts its time, or its error.
fn timed<T>(
    shared: &SharedMeasured,
    work: HonestRequests,
    what: impl FnOnce() -> io::Result<T>,
) -> Option<T> {
    let begun = Instant::now();
    lock(shared).under_way = Some((work, begun));
    let result = what();
    let time = begun.elapsed();
    let mut measured = lock(shared);
    measured.under_way = None;
    match result {
        Ok(value) => {
            measured.add(work, time);
            Some(value)
        }
        Err(error) => {
            measured.errors += 1;
            measured.first_error.get_or_insert(error.to_string());
            None
        }
    }
}

/// The result of a run of the honest user.
#[derive(Debug, PartialEq)]
pub(super) struct RequestOutcome {
    pub(super) sample: Sample,
    pub(super) first_error: Option<String>,
}

impl RequestOutcome {
    /// Parses the line that the process printed. `None` means that the process did not report in
    /// time.
    fn of(line: Option<&str>) -> Result<RequestOutcome> {
        let none = r#"{"turns_per_second": 0, "errors": 0}"#;
        let report: Value = serde_json::from_str(line.unwrap_or(none))
            .map_err(|e| format!("the report of the honest user's process: {e}"))?;
        let mut sample: Sample =
            KEYS.iter().filter_map(|key| Some((*key, report[*key].as_f64()?))).collect();
        let turns =
            sample.get("turns_per_second").ok_or("the honest user's report lacks its turns")?;
        let no_progress = if *turns > 0.0 { 0.0 } else { 1.0 };
        sample.insert("no_progress", no_progress);
        Ok(RequestOutcome {
            sample,
            first_error: report["first_error"].as_str().map(str::to_string),
        })
    }

    /// Fails unless the honest user made progress without errors, as it must without an attack.
    pub(super) fn undisturbed(&self) -> Result<()> {
        if self.sample["no_progress"] == 0.0 && self.sample["errors"] == 0.0 {
            return Ok(());
        }
        let why = self.first_error.as_deref().unwrap_or("nothing ended in time");
        Err(format!("the honest user, alone, cannot work: {why}").into())
    }
}

/// The running process, as the comparison sees it. It is killed when this is dropped.
pub(super) struct Honest {
    child: Child,
    lines: mpsc::Receiver<io::Result<String>>,
}

impl Honest {
    /// Starts `command`, which must run [`serve`].
    pub(super) fn start(mut command: Command) -> Result<Honest> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the honest user has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(output).read_line(&mut line);
            // If the line comes too late, there is no receiver any more.
            let _ = sender.send(read.map(|_| line));
        });
        Ok(Honest { child, lines })
    }

    /// Waits for the report of a run of `seconds` seconds.
    pub(super) fn outcome(&self, seconds: u64) -> Result<RequestOutcome> {
        match self.lines.recv_timeout(Duration::from_secs(seconds) + LATE) {
            Ok(line) => RequestOutcome::of(Some(&line?)),
            Err(_) => RequestOutcome::of(None),
        }
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        end_all([&mut self.child]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_never_returns_counts_with_its_time_so_far() {
        let mut measured = Measured::default();
        (0..3).for_each(|_| measured.add(HonestRequests::Read, Duration::from_micros(50)));
        measured.turns = 3;
        measured.under_way = Instant::now()
            .checked_sub(Duration::from_secs(2))
            .map(|begun| (HonestRequests::Create, begun));
        let outcome =
            RequestOutcome::of(Some(&measured.report(Duration::from_secs(2)).to_string()))
                .expect("complete");
        assert!(outcome.sample["create_p99_nanoseconds"] >= 2e9, "{outcome:?}");
        assert!(outcome.sample["read_max_nanoseconds"] < 1e5, "{outcome:?}");
        assert_eq!((outcome.sample["turns_per_second"], outcome.sample["no_progress"]), (1.5, 0.0));
        outcome.undisturbed().expect("it works");
    }

    #[test]
    fn without_a_turn_or_a_report_there_is_no_progress() {
        let begun = Instant::now()
            .checked_sub(Duration::from_secs(2))
            .expect("the machine is up for longer");
        let mut stuck =
            Measured { under_way: Some((HonestRequests::Open, begun)), ..Measured::default() };
        let stuck = RequestOutcome::of(Some(&stuck.report(Duration::from_secs(2)).to_string()))
            .expect("complete");
        assert!(stuck.sample["read_p50_nanoseconds"] >= 2e9, "{stuck:?}");
        let silent = RequestOutcome::of(None).expect("complete");
        assert!(!silent.sample.contains_key("read_p50_nanoseconds"), "{silent:?}");
        for outcome in [stuck, silent] {
            assert_eq!(outcome.sample["no_progress"], 1.0);
            assert!(outcome.undisturbed().is_err());
        }
    }

    #[test]
    fn errors_are_counted_and_the_first_is_kept() {
        let shared = SharedMeasured::default();
        for message in ["no room", "no luck"] {
            assert_eq!(
                timed(&shared, HonestRequests::Create, || Err::<(), _>(io::Error::other(message))),
                None
            );
        }
        timed(&shared, HonestRequests::Read, || Ok(()));
        lock(&shared).turns = 1;
        let outcome =
            RequestOutcome::of(Some(&lock(&shared).report(REST).to_string())).expect("complete");
        assert_eq!(
            (outcome.sample["errors"], outcome.first_error.as_deref()),
            (2.0, Some("no room"))
        );
        assert!(outcome.undisturbed().is_err());
    }

    #[test]
    fn a_report_that_is_none_is_an_error() {
        for line in ["", "what?", "{}"] {
            assert!(RequestOutcome::of(Some(line)).is_err(), "{line}");
        }
    }
}
