//! The progress of `dio bench` and `dio wal bench` on standard error: the expected time, and how
//! far they are.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use dio_bench::progress::{Progress, listen};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

/// The time between two lines if standard error is not a terminal.
const EVERY: Duration = Duration::from_secs(30);

/// Shows progress: on a terminal as a line that is rewritten, otherwise as a line from time to
/// time. The expected time comes first in both cases.
pub(in crate::commands) fn show() {
    let terminal = std::io::stderr().is_terminal();
    let bar = terminal.then(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}");
        bar.with_style(style.expect("the template is a constant"))
    });
    let last = Mutex::new(Instant::now());
    listen(move |progress| {
        if progress.next.is_none() {
            line(&at_start(&progress));
        }
        match &bar {
            Some(bar) => {
                bar.set_length(progress.all as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(rest(&progress));
            }
            None => {
                let mut last = last.lock();
                if last.elapsed() >= EVERY {
                    *last = Instant::now();
                    line(&format!("{} of {}: {}", progress.done, progress.all, rest(&progress)));
                }
            }
        }
    });
}

fn line(text: &str) {
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(std::io::stderr().lock(), "dio: {text}");
}

fn at_start(progress: &Progress<'_>) -> String {
    let plural = if progress.all == 1 { "" } else { "s" };
    format!("{} measurement{plural}, about {}", progress.all, roughly(progress.left))
}

fn rest(progress: &Progress<'_>) -> String {
    match progress.next {
        Some(next) => format!("{next}; about {} left", roughly(progress.left)),
        None => "preparing".to_owned(),
    }
}

/// Formats a time that is only an estimate.
fn roughly(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_told_in_few_digits() {
        let told = |seconds: f64| roughly(Duration::from_secs_f64(seconds));
        assert_eq!(
            [0.2, 119.0, 121.0, 7199.0, 7201.0].map(told),
            ["1 s", "119 s", "3 min", "120 min", "3 h"]
        );
        let mut progress =
            Progress { done: 0, all: 45, left: Duration::from_secs(170), next: None };
        assert_eq!(at_start(&progress), "45 measurements, about 3 min");
        (progress.done, progress.next) = (3, Some("dd"));
        assert_eq!(rest(&progress), "dd; about 3 min left");
    }
}
