//! A line on standard error that says how far the copy is.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::When;

/// A copy that takes less shows nothing.
const QUIET: Duration = Duration::from_millis(500);

/// Counts bytes and shows them.
pub(crate) struct Progress {
    wanted: bool,
    started: Instant,
    bytes: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    pub(super) fn new(when: When) -> Self {
        let wanted = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => std::io::stderr().is_terminal(),
        };
        Self { wanted, started: Instant::now(), bytes: AtomicU64::new(0), bar: OnceLock::new() }
    }

    /// `bytes` more are where they belong.
    pub(crate) fn add(&self, bytes: u64) {
        if !self.wanted {
            return;
        }
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.started.elapsed() < QUIET {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            let style =
                ProgressStyle::with_template("{spinner} {binary_bytes} copied in {elapsed}, {binary_bytes_per_sec}");
            bar.set_style(style.expect("the template is a constant"));
            bar.with_elapsed(self.started.elapsed())
        });
        bar.set_position(total);
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
