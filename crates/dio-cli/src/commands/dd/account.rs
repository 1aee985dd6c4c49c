//! Counts records in and out, and prints the report.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::flags::Level;
use super::human;
use crate::tool::messages::say;

/// Records of one side, input or output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SideRecords {
    pub(super) full: u64,
    pub(super) partial: u64,
    /// Bytes of the record in progress, which is not full yet.
    rest: u64,
    /// No full record followed the last partial one.
    ends_short: bool,
}

impl SideRecords {
    /// Returns whether no record except perhaps the last is partial.
    pub(super) fn is_full_but_for_the_last(&self) -> bool {
        self.partial == 0 || self.partial == 1 && self.ends_short
    }

    /// Makes a count of full records only.
    pub(super) fn of(full: u64) -> SideRecords {
        SideRecords { full, ..SideRecords::default() }
    }

    /// Counts bytes of a stream that is cut into records of `record` bytes, wherever the pieces
    /// end.
    pub(super) fn stream(&mut self, record: u64, bytes: u64) {
        let all = u128::from(self.rest) + u128::from(bytes);
        let full = (all / u128::from(record)) as u64;
        self.full += full;
        self.ends_short &= full == 0;
        self.rest = (all % u128::from(record)) as u64;
    }

    /// Ends the record in progress; returns true if there was one.
    pub(super) fn cut(&mut self) -> bool {
        let short = std::mem::take(&mut self.rest) > 0;
        self.partial += u64::from(short);
        self.ends_short |= short;
        short
    }

    /// Returns the counts without the record in progress.
    pub(super) fn without_rest(self) -> SideRecords {
        SideRecords { rest: 0, ..self }
    }

    /// Bytes of the record in progress.
    pub(super) fn rest(&self) -> u64 {
        self.rest
    }
}

/// All counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCounts {
    pub(super) input: SideRecords,
    pub(super) output: SideRecords,
    pub(super) truncated: u64,
    /// Bytes written, or skipped by seeking because they were zeros.
    pub(super) bytes: u64,
}

impl RecordCounts {
    /// Bytes for the report. A record in progress does not count as written yet.
    fn told(&self) -> u64 {
        self.bytes - self.output.rest.min(self.bytes)
    }
}

/// The account of a run. It is shared with the thread that handles signals.
#[derive(Debug)]
pub(super) struct Account {
    started: Instant,
    level: Level,
    state: Mutex<ProgressState>,
}

#[derive(Debug)]
struct ProgressState {
    counts: RecordCounts,
    /// Elapsed time at which the next progress line is due.
    due: Duration,
    /// Length in characters of the progress line on the terminal.
    shown: usize,
}

/// Time between two progress lines.
const STEP: Duration = Duration::from_secs(1);

impl Account {
    /// Starts an account.
    pub(super) fn new(level: Level) -> Account {
        let state = ProgressState { counts: RecordCounts::default(), due: STEP, shown: 0 };
        Account { started: Instant::now(), level, state: Mutex::new(state) }
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut RecordCounts) -> T) -> T {
        change(&mut self.lock().counts)
    }

    pub(super) fn counts(&self) -> RecordCounts {
        self.lock().counts
    }

    /// Shows the progress line if it is enabled and due.
    pub(super) fn tick(&self) {
        if self.level != Level::Progress {
            return;
        }
        let elapsed = self.started.elapsed();
        let mut state = self.lock();
        if elapsed < state.due {
            return;
        }
        state.due += STEP;
        let line = transfer(state.counts.told(), elapsed, true);
        let blank = state.shown.saturating_sub(line.len());
        state.shown = line.len();
        say(format!("\r{line}{:blank$}", ""));
    }

    /// Prints the report, also before the end. Prints nothing with `status=none`.
    pub(super) fn report(&self) {
        if self.level == Level::None {
            return;
        }
        let mut state = self.lock();
        let mut text = String::new();
        if std::mem::take(&mut state.shown) > 0 {
            text.push('\n');
        }
        let RecordCounts { input, output, truncated, .. } = state.counts;
        let _ = writeln!(text, "{}+{} records in", input.full, input.partial);
        let _ = writeln!(text, "{}+{} records out", output.full, output.partial);
        match truncated {
            0 => {}
            1 => text.push_str("1 truncated record\n"),
            many => {
                let _ = writeln!(text, "{many} truncated records");
            }
        }
        if self.level != Level::NoXfer {
            let _ =
                writeln!(text, "{}", transfer(state.counts.told(), self.started.elapsed(), false));
        }
        say(text);
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock()
    }
}

/// Formats bytes, time and rate as a line. With `on_the_way` the time is in whole seconds.
fn transfer(bytes: u64, elapsed: Duration, on_the_way: bool) -> String {
    let (decimal, binary) = (human::size(bytes, 1000), human::size(bytes, 1024));
    let amount = match (bytes, decimal.ends_with(" B"), binary.ends_with(" B")) {
        (1, ..) => "1 byte copied".to_owned(),
        (_, true, _) => format!("{bytes} bytes copied"),
        (_, _, true) => format!("{bytes} bytes ({decimal}) copied"),
        _ => format!("{bytes} bytes ({decimal}, {binary}) copied"),
    };
    let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let rate = human::rate(bytes, nanoseconds);
    let seconds = match on_the_way {
        true => format!("{:.0}", elapsed.as_secs_f64()),
        false => human::seconds(elapsed.as_secs_f64()),
    };
    format!("{amount}, {seconds} s, {rate}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_stream_are_cut_into_records() {
        let mut side = SideRecords::default();
        for bytes in [3, 3, 0, 10, 1] {
            side.stream(5, bytes);
        }
        assert_eq!((side.full, side.rest()), (3, 2));
        assert!(side.cut() && !side.cut());
        assert_eq!((side.full, side.partial), (3, 1));
    }

    #[test]
    fn the_amount_is_told_as_gnu_tells_it() {
        let second = Duration::from_millis(1500);
        for (bytes, text) in [
            (0, "0 bytes copied, 1.5 s, 0.0 kB/s"),
            (1, "1 byte copied, 1.5 s, 0.0 kB/s"),
            (999, "999 bytes copied, 1.5 s, 0.7 kB/s"),
            (1000, "1000 bytes (1.0 kB) copied, 1.5 s, 0.7 kB/s"),
            (4096, "4096 bytes (4.1 kB, 4.0 KiB) copied, 1.5 s, 2.7 kB/s"),
        ] {
            assert_eq!(transfer(bytes, second, false), text);
        }
        assert_eq!(
            transfer(3000, Duration::from_millis(2004), true),
            "3000 bytes (3.0 kB, 2.9 KiB) copied, 2 s, 1.5 kB/s"
        );
    }
}
