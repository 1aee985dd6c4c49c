//! A progress line on standard error.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::When;
use dio_common::units::size as human_size;

/// Work that takes less time shows no progress.
const QUIET: Duration = Duration::from_millis(500);

/// The time between two lines if standard error is not a terminal.
const STEP: Duration = Duration::from_secs(1);

/// Counts bytes and shows the progress.
#[derive(Debug)]
pub struct Progress {
    name: String,
    /// A verb for what happens to the bytes, such as "copied".
    done: &'static str,
    wanted: bool,
    started: Instant,
    bytes: AtomicU64,
    /// Whether to print whole lines, because standard error is not a terminal.
    lines: bool,
    /// Number of the last [`STEP`] for which a line was printed; steps may be skipped.
    shown: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Creates the progress of the tool `name`; `done` is the verb for what happens to the bytes.
    pub fn new(when: When, name: String, done: &'static str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let wanted = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal,
        };
        Self {
            name,
            done,
            wanted,
            started: Instant::now(),
            bytes: AtomicU64::new(0),
            lines: !terminal,
            shown: AtomicU64::new(0),
            bar: OnceLock::new(),
        }
    }

    /// Counts `bytes` more that are finished.
    pub fn add(&self, bytes: u64) {
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if !self.wanted {
            return;
        }
        let elapsed = self.started.elapsed();
        if elapsed < QUIET {
            return;
        }
        if self.lines {
            let step = elapsed.as_secs() / STEP.as_secs();
            // Of several workers, only one gets to print the line of this step.
            if self.shown.fetch_max(step, Ordering::Relaxed) < step {
                self.line(total, elapsed);
            }
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template(
                "{spinner} {binary_bytes} {msg} in {elapsed}, {binary_bytes_per_sec}",
            );
            bar.set_style(style.expect("the template is a constant"));
            bar.with_message(self.done).with_elapsed(self.started.elapsed())
        });
        bar.set_position(total);
    }

    /// Number of bytes counted so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn line(&self, bytes: u64, elapsed: Duration) {
        let rate = (bytes as f64 / elapsed.as_secs_f64()) as u64;
        let (bytes, rate, seconds) = (human_size(bytes), human_size(rate), elapsed.as_secs_f64());
        // An error of standard error cannot be reported anywhere.
        let _ = writeln!(
            std::io::stderr().lock(),
            "{}: {bytes} {} in {seconds:.1} s, {rate}/s",
            self.name,
            self.done
        );
    }

    /// Runs `print`, which may print, with the progress bar hidden.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the progress bar, or prints a last line with the totals.
    pub fn finish(&self) {
        let elapsed = self.started.elapsed();
        if self.wanted && self.lines && elapsed >= QUIET {
            self.line(self.bytes.load(Ordering::Relaxed), elapsed);
        }
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
