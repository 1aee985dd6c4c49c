//! Formats a report as tables.

use std::fmt::Write;

use dio::Class;
use dio::file::Reason;
use dio::lock::LockClass;
use dio_common::units;
use dio_mount::stats::{
    Event, Figures, FileFigures, Gauge, Interval, Latency, Operation, RequestKind, Snapshot, Wait,
};

use super::report::blocks;

/// Widths of the column of names, and of each column of numbers.
const NAME: usize = 13;
const NUMBER: usize = 10;

/// Formats the report. `now` is the snapshot at its end, for values that are not rates.
pub(super) fn render(interval: &Interval, live: bool, now: &Snapshot, files: bool) -> String {
    let mut text = String::new();
    heading(&mut text, interval, live, now);
    operations(&mut text, interval);
    waits(&mut text, interval);
    classes(&mut text, interval);
    locks(&mut text, interval);
    events(&mut text, interval);
    reasons(&mut text, interval);
    if files {
        self::files(&mut text, interval);
    }
    text
}

/// Formats the report for a terminal of this size, in place of the previous one. What does not fit
/// is cut off.
pub(super) fn on_screen(text: &str, (lines, columns): (usize, usize)) -> String {
    let cut = |line: &str| line.chars().take(columns).collect::<String>();
    let lines: Vec<String> = text.lines().take(lines.saturating_sub(1)).map(cut).collect();
    // The cursor moves to the top left. The rest of each line is cleared after its text is written,
    // and the rest of the screen at the end, so that nothing flickers.
    format!("\x1b[H{}\x1b[K\n\x1b[J", lines.join("\x1b[K\n"))
}

/// Appends a row: a name, and numbers aligned to the right of their columns.
fn row(text: &mut String, name: &str, cells: &[String]) {
    let _ = write!(text, "{name:<NAME$}");
    for cell in cells {
        let _ = write!(text, " {cell:>NUMBER$}");
    }
    text.push('\n');
}

fn head(text: &mut String, name: &str, columns: &[&str]) {
    text.push('\n');
    row(text, name, &columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>());
}

/// Formats a rate with a useful number of digits.
fn number(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

fn rate(interval: &Interval, count: u64) -> String {
    number(interval.rate(count))
}

fn bytes(interval: &Interval, count: u64) -> String {
    units::size(interval.rate(count).round() as u64)
}

fn time(nanos: u64) -> String {
    if nanos == 0 { "-".to_owned() } else { units::seconds(nanos as f64 / 1e9) }
}

/// Formats a mean time; a dash stands for none.
fn mean(nanos: u64, count: u64) -> String {
    time(nanos.checked_div(count).unwrap_or(0))
}

/// Replaces control characters in text from elsewhere, so that the terminal does not act on them.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn heading(text: &mut String, interval: &Interval, live: bool, now: &Snapshot) {
    let about = |what: &str| {
        now.about.get(what).map(|text| printable(text)).filter(|text| !text.is_empty())
    };
    let _ = write!(text, "{}", about("mountpoint").unwrap_or_else(|| "(mount)".to_owned()));
    if let Some(source) = about("source") {
        let _ = write!(text, "  source {source}");
    }
    if let Some(mode) = about("mode") {
        let _ = write!(text, "  {mode}");
    }
    if let Some(way) = about("requests") {
        let _ = write!(text, "  by {way}");
    }
    if let Some(idle) = about("idle_processors") {
        let _ = write!(text, "  idle processors {idle}");
    }
    let length = units::seconds(interval.seconds);
    let _ = match live {
        true => writeln!(text, "  last {length}"),
        false => writeln!(text, "  since the mount, {length}"),
    };
    let percent = |nanos: u64| match interval.seconds > 0.0 {
        true => format!("{:.0} %", nanos as f64 / 1e7 / interval.seconds),
        false => "-".to_owned(),
    };
    let process = &interval.change.process;
    let _ = write!(
        text,
        "server: {} resident, {} threads, CPU {} user {} system; {} files open",
        units::size(now.process.resident_bytes),
        now.process.threads,
        percent(process.user_nanos),
        percent(process.system_nanos),
        now.open_files,
    );
    for gauge in Gauge::ALL {
        if let Some(value) = now.gauges.get(gauge.name()) {
            let _ = write!(text, ", {}", gauge_text(gauge, *value));
        }
    }
    text.push('\n');
}

fn gauge_text(gauge: Gauge, value: u64) -> String {
    match gauge {
        Gauge::Inodes => format!("{value} inodes"),
        Gauge::Handles => format!("{value} handles"),
        Gauge::InodeMemory => format!("{} for inodes", units::size(value)),
        Gauge::BlockMemory => format!("{} for blocks", units::size(value)),
        Gauge::WriteBehindPending => format!("{} to be written", units::size(value)),
        Gauge::Requests => format!("{value} requests in hand"),
        Gauge::Queued => format!("{value} queued"),
    }
}

fn operations(text: &mut String, interval: &Interval) {
    head(text, "operation", &["per s", "errors/s", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    let mut any = false;
    for operation in Operation::ALL {
        if let Some(latency) = interval.operation(operation) {
            row(text, operation.name(), &operation_cells(interval, latency));
            any = true;
        }
    }
    if !any {
        text.push_str("(nothing)\n");
    }
}

fn operation_cells(interval: &Interval, latency: &Latency) -> Vec<String> {
    let mut cells =
        vec![rate(interval, latency.count), rate(interval, latency.errors), time(latency.mean())];
    cells.extend([0.5, 0.9, 0.99, 0.999].map(|part| time(latency.quantile(part))));
    cells.push(time(latency.longest()));
    cells
}

/// Requests and bytes of programs, and, by class, those of the server to the file system below.
fn classes(text: &mut String, interval: &Interval) {
    let total = &interval.change.total;
    head(text, "class", &["reads/s", "writes/s", "read/s", "written/s"]);
    let cells = [
        rate(interval, total.requests.get(RequestKind::Read)),
        rate(interval, total.requests.get(RequestKind::Write)),
        bytes(interval, total.bytes.get(RequestKind::Read)),
        bytes(interval, total.bytes.get(RequestKind::Write)),
    ];
    row(text, "programs", &cells);
    for class in Class::ALL {
        let requests = (total.read_requests.get(class), total.write_requests.get(class));
        let moved = (total.read_bytes.get(class), total.write_bytes.get(class));
        if requests.0 + requests.1 + moved.0 + moved.1 > 0 {
            let cells = [
                rate(interval, requests.0),
                rate(interval, requests.1),
                bytes(interval, moved.0),
                bytes(interval, moved.1),
            ];
            row(text, &format!("  {}", class.name()), &cells);
        }
    }
    let cells = [
        rate(interval, total.transfers.get(RequestKind::Read)),
        rate(interval, total.transfers.get(RequestKind::Write)),
        bytes(interval, total.read_bytes.total()),
        bytes(interval, total.write_bytes.total()),
    ];
    row(text, "source", &cells);
}

/// Blocks by what was waited for; rows without blocks are shown too.
fn waits(text: &mut String, interval: &Interval) {
    let total = &interval.change.total;
    head(text, "blocked on", &["blocks/s", "mean", "blocked"]);
    for wait in Wait::ALL {
        let (count, nanos) = (total.waits.get(wait), total.waited.get(wait));
        // Seconds blocked per second, which is the average number of requests blocked at a time.
        let unknown = wait == Wait::Queue && count > 0;
        let blocked =
            if unknown { "-".to_owned() } else { format!("{:.2}", interval.rate(nanos) / 1e9) };
        row(text, wait.name(), &[rate(interval, count), mean(nanos, count), blocked]);
    }
}

/// Locks of files, by the class of the operation that took them.
fn locks(text: &mut String, interval: &Interval) {
    let total = &interval.change.total;
    if total.locks.total() == 0 {
        return;
    }
    head(text, "lock for", &["locks/s", "waits/s", "mean wait"]);
    for class in LockClass::ALL {
        let (locks, waits) = (total.locks.get(class), total.lock_waits.get(class));
        if locks + waits > 0 {
            let cells = [
                rate(interval, locks),
                rate(interval, waits),
                mean(total.lock_waited.get(class), waits),
            ];
            row(text, class.name(), &cells);
        }
    }
}

fn events(text: &mut String, interval: &Interval) {
    let total = &interval.change.total;
    if total.events.total() == 0 {
        return;
    }
    let _ = write!(text, "\n{:<22}{:>NUMBER$} {:>NUMBER$}\n", "event", "per s", "bytes/s");
    for event in Event::ALL {
        let count = total.events.get(event);
        if count > 0 {
            let (often, moved) =
                (rate(interval, count), bytes(interval, total.event_bytes.get(event)));
            let _ = writeln!(
                text,
                "{:<22}{often:>NUMBER$} {moved:>NUMBER$}",
                event.name().replace('_', " ")
            );
        }
    }
}

fn reasons(text: &mut String, interval: &Interval) {
    let total = &interval.change.total;
    if total.reasons.total() == 0 {
        return;
    }
    let _ = write!(text, "\n{:<32} {:>NUMBER$}\n", "not direct because", "bytes/s");
    for reason in Reason::ALL {
        let count = total.reasons.get(reason);
        if count > 0 {
            let _ = writeln!(text, "{:<32} {:>NUMBER$}", reason.text(), bytes(interval, count));
        }
    }
}

fn files(text: &mut String, interval: &Interval) {
    head(
        text,
        "",
        &["reads/s", "writes/s", "syncs/s", "read/s", "written/s", "mean", "blocks/s", "mean"],
    );
    // In this table the column of names comes last, because paths have any length.
    let heading = text.trim_end().len();
    text.truncate(heading);
    text.push_str("  path\n");
    for file in &interval.change.files {
        file_row(text, interval, &file.figures, &file_name(file));
    }
    let others = interval.change.others();
    if others != Figures::default() {
        file_row(text, interval, &others, "(others)");
    }
}

fn file_name(file: &FileFigures) -> String {
    let closed = if file.open == 0 { "  (closed)" } else { "" };
    format!("{}{closed}", printable(&file.path))
}

fn file_row(text: &mut String, interval: &Interval, figures: &Figures, name: &str) {
    let waited: u64 = [Wait::File, Wait::Range, Wait::Room]
        .into_iter()
        .map(|wait| figures.waited.get(wait))
        .sum();
    let cells = [
        rate(interval, figures.requests.get(RequestKind::Read)),
        rate(interval, figures.requests.get(RequestKind::Write)),
        rate(interval, figures.requests.get(RequestKind::Sync)),
        bytes(interval, figures.bytes.get(RequestKind::Read)),
        bytes(interval, figures.bytes.get(RequestKind::Write)),
        mean(figures.nanos.total(), figures.requests.total()),
        rate(interval, blocks(figures)),
        mean(waited, blocks(figures)),
    ];
    row(text, "", &cells);
    let end = text.trim_end().len();
    text.truncate(end);
    let _ = writeln!(text, "  {name}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dio_mount::stats::Stats;

    use super::*;

    fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("no line {name} in:\n{text}")).split_whitespace().collect()
    }

    fn sample() -> Snapshot {
        let stats = Stats::new();
        stats.describe("mountpoint", "/mnt/a\x1b[2J");
        stats.gauge(Gauge::Inodes, || 12);
        let file = stats.file(1, "data\x07base");
        file.read(Class::Direct, 4 << 20, Duration::from_millis(1));
        file.written(Class::Bounced, 1 << 20, Duration::from_millis(3));
        file.count(Event::Extend, 512);
        (0..3).for_each(|_| file.waited(Wait::Range, Duration::from_millis(2)));
        stats.record(Operation::Read, Duration::from_millis(1), None);
        drop(file);
        let mut snapshot = stats.snapshot();
        snapshot.nanos = 2_000_000_000;
        snapshot
    }

    #[test]
    fn figures_stand_where_they_belong() {
        let snapshot = sample();
        let text = render(&snapshot.since(None), false, &snapshot, true);
        assert_eq!(line(&text, "programs"), ["programs", "0.5", "0.5", "2", "MiB", "512", "KiB"]);
        assert_eq!(line(&text, "range"), ["range", "1.5", "2.0", "ms", "0.00"]);
        assert_eq!(line(&text, "queue"), ["queue", "0", "-", "0.00"]);
        assert_eq!(line(&text, "extend"), ["extend", "0.5", "256", "B"]);
        assert_eq!(&line(&text, "read")[..5], ["read", "0.5", "0", "1.0", "ms"]);
        let file = text.lines().find(|line| line.ends_with("data?base  (closed)"));
        assert!(file.is_some(), "{text}");
        assert!(text.contains("12 inodes") && text.contains("since the mount, 2.00 s"), "{text}");
        assert!(!text.contains("lock for") && !text.contains("not direct"), "{text}");
    }

    #[test]
    fn names_cannot_act_on_the_terminal() {
        let snapshot = sample();
        let text = render(&snapshot.since(None), true, &snapshot, true);
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
    }

    #[test]
    fn a_screen_is_never_filled_to_its_end() {
        let text = "12345\nµµµµµ\nx\ny\n";
        assert_eq!(on_screen(text, (3, 4)), "\x1b[H1234\x1b[K\nµµµµ\x1b[K\n\x1b[J");
        assert_eq!(on_screen(text, (0, 4)), "\x1b[H\x1b[K\n\x1b[J");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let snapshot = Snapshot::default();
        let text = render(&snapshot.since(None), true, &snapshot, true);
        assert!(
            text.contains("(nothing)") && !text.contains("NaN") && !text.contains("inf"),
            "{text}"
        );
    }
}
