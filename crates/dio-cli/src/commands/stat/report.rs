//! Formats a report as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use dio_mount::stats::{
    Event, Figures, FileFigures, Interval, Latency, Named, RequestKind, Tally, Wait,
};
use serde_json::{Map, Value, json};

/// Formats a report as one object. Names that end in `_per_second` are rates over the interval,
/// those that end in `_seconds` times; the other numbers are counts within the interval.
/// `docs/stat.md` explains them.
pub(super) fn to_json(interval: &Interval, live: bool, files: bool) -> Value {
    let change = &interval.change;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let operations: Map<String, Value> = change
        .operations
        .iter()
        .filter(|(_, latency)| latency.count > 0)
        .map(|(name, latency)| (name.clone(), of_operation(interval, latency)))
        .collect();
    let mut object = json!({
        "time": now.as_secs_f64(),
        "since": if live { "previous" } else { "mount" },
        "interval_seconds": interval.seconds,
        "mount": change.about,
        "operations": operations,
        "errors": change.errors,
        "total": of_figures(interval, &change.total),
        "open_files": change.open_files,
        "gauges": change.gauges,
        "server": {
            "pid": change.process.pid,
            "resident_bytes": change.process.resident_bytes,
            "threads": change.process.threads,
            "user_seconds": change.process.user_nanos as f64 / 1e9,
            "system_seconds": change.process.system_nanos as f64 / 1e9,
        },
    });
    if files {
        object["files"] = change.files.iter().map(|file| of_file(interval, file)).collect();
    }
    object
}

fn of_operation(interval: &Interval, latency: &Latency) -> Value {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    json!({
        "count": latency.count,
        "per_second": interval.rate(latency.count),
        "errors": latency.errors,
        "mean_seconds": seconds(latency.mean()),
        "p50_seconds": seconds(latency.quantile(0.5)),
        "p90_seconds": seconds(latency.quantile(0.9)),
        "p99_seconds": seconds(latency.quantile(0.99)),
        "p999_seconds": seconds(latency.quantile(0.999)),
        "max_seconds": seconds(latency.longest()),
    })
}

fn of_figures(interval: &Interval, figures: &Figures) -> Value {
    json!({
        "requests": figures.requests,
        "requests_per_second": rates(interval, &figures.requests),
        "errors": figures.errors,
        "bytes": figures.bytes,
        "bytes_per_second": rates(interval, &figures.bytes),
        "mean_seconds": means(&figures.nanos, &figures.requests),
        "read_requests": figures.read_requests,
        "write_requests": figures.write_requests,
        "source_read_bytes": figures.read_bytes,
        "source_written_bytes": figures.write_bytes,
        "source_requests": figures.transfers,
        "indirect_bytes": figures.reasons,
        "blocks": all(&figures.waits, |count| json!(count)),
        "blocks_per_second": all(&figures.waits, |count| json!(interval.rate(count))),
        "blocked_seconds": all(&figures.waited, |nanos| json!(nanos as f64 / 1e9)),
        "locks": figures.locks,
        "lock_waits": figures.lock_waits,
        "lock_wait_seconds": all(&figures.lock_waited, |nanos| json!(nanos as f64 / 1e9)),
        "extends_per_second": interval.rate(figures.events.get(Event::Extend)),
        "events": figures.events,
        "event_bytes": figures.event_bytes,
    })
}

fn of_file(interval: &Interval, file: &FileFigures) -> Value {
    let mut object = of_figures(interval, &file.figures);
    object["path"] = json!(file.path);
    object["inode"] = json!(file.inode);
    object["open"] = json!(file.open > 0);
    object
}

/// All values by name, including zeros.
fn all<K: Named>(tally: &Tally<K>, show: impl Fn(u64) -> Value) -> Value {
    tally
        .iter()
        .map(|(key, count)| (key.label().to_owned(), show(count)))
        .collect::<Map<_, _>>()
        .into()
}

fn rates(interval: &Interval, tally: &Tally<RequestKind>) -> Value {
    all(tally, |count| json!(interval.rate(count)))
}

/// Mean times by kind; 0 for a kind without requests.
fn means(nanos: &Tally<RequestKind>, requests: &Tally<RequestKind>) -> Value {
    let mean = |kind| match requests.get(kind) {
        0 => 0.0,
        count => nanos.get(kind) as f64 / 1e9 / count as f64,
    };
    RequestKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), json!(mean(kind))))
        .collect::<Map<_, _>>()
        .into()
}

/// Number of times that requests blocked each other: on file locks, on range locks, and on the
/// limit for bytes that are acknowledged and not yet written.
pub(super) fn blocks(figures: &Figures) -> u64 {
    [Wait::File, Wait::Range, Wait::Room].into_iter().map(|wait| figures.waits.get(wait)).sum()
}
