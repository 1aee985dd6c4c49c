//! A line on standard error that says how far the work is.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::When;
use dio_common::units::size as human_size;

/// Work that takes less shows nothing.
const QUIET: Duration = Duration::from_millis(500);

/// Time between two lines where there is no terminal.
const STEP: Duration = Duration::from_secs(1);

/// Counts bytes and shows them.
#[derive(Debug)]
pub struct Progress {
    name: String,
    /// What is done with the bytes, as in "copied".
    done: &'static str,
    wanted: bool,
    started: Instant,
    bytes: AtomicU64,
    /// What is not a terminal gets whole lines.
    lines: bool,
    /// Lines shown so far, one for each [`STEP`].
    shown: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Shows the progress of the tool of that name, and what it has `done` with the bytes.
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

    /// `bytes` more are where they belong.
    pub fn add(&self, bytes: u64) {
        if !self.wanted {
            return;
        }
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let elapsed = self.started.elapsed();
        if elapsed < QUIET {
            return;
        }
        if self.lines {
            let step = elapsed.as_secs() / STEP.as_secs();
            // Only one of several workers finds that the step has come.
            if self.shown.fetch_max(step, Ordering::Relaxed) < step {
                self.line(total, elapsed);
            }
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            let style =
                ProgressStyle::with_template("{spinner} {binary_bytes} {msg} in {elapsed}, {binary_bytes_per_sec}");
            bar.set_style(style.expect("the template is a constant"));
            bar.with_message(self.done).with_elapsed(self.started.elapsed())
        });
        bar.set_position(total);
    }

    fn line(&self, bytes: u64, elapsed: Duration) {
        let rate = (bytes as f64 / elapsed.as_secs_f64()) as u64;
        let (bytes, rate, seconds) = (human_size(bytes), human_size(rate), elapsed.as_secs_f64());
        // Nobody can be told that standard error is closed.
        let _ = writeln!(std::io::stderr().lock(), "{}: {bytes} {} in {seconds:.1} s, {rate}/s", self.name, self.done);
    }

    /// Does something that may print, while the line is away.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the line away; the last of several lines tells the whole.
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
