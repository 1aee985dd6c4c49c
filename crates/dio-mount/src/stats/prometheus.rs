//! Snapshots in the text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Files are not listed here: a time series for every path that was ever used would have no bound.

use std::fmt::{Display, Write};

use super::named::{Named, Tally};
use super::{Latency, Snapshot};

/// Upper bounds of the buckets of a latency, in nanoseconds: from 10 µs to 30 s.
const BOUNDS: [u64; 14] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// The type of a metric family.
#[derive(Clone, Copy)]
enum Type {
    Counter,
    Gauge,
    Histogram,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        }
    }
}

/// Returns the text for a mount that is served. Every sample has the label `mountpoint`, so that
/// the files of several mounts can be collected together.
pub fn render(snapshot: &Snapshot) -> String {
    render_as(snapshot, true)
}

/// Returns the text for a mount that is `up`, or has just ended.
pub(crate) fn render_as(snapshot: &Snapshot, up: bool) -> String {
    let mountpoint = snapshot.about.get("mountpoint").map_or("", String::as_str);
    let mut text = Text { text: String::with_capacity(32 << 10), mountpoint: escaped(mountpoint) };
    text.head("dio_up", Type::Gauge, "1 while the mount is served, 0 in what it wrote last.");
    text.sample("dio_up", &[], u64::from(up));
    text.about(snapshot);
    text.operations(snapshot);
    text.requests(snapshot);
    text.source(snapshot);
    text.waits(snapshot);
    text.events(snapshot);
    text.server(snapshot);
    text.text
}

/// Escapes the value of a label. Help texts are escaped likewise, except for the quote.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Formats nanoseconds as seconds, as the shortest exact decimal.
fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Text {
    text: String,
    /// The value of the label, already escaped.
    mountpoint: String,
}

impl Text {
    fn head(&mut self, name: &str, kind: Type, help: &str) {
        // A write to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{name}{{mountpoint=\"{}\"", self.mountpoint);
        for (label, value) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(value));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    /// Writes a family with a sample for each value of an enum, including zeros: a counter that
    /// appears only later has no rate.
    fn tally<K: Named>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        tally: &Tally<K>,
        show: fn(u64) -> String,
    ) {
        self.head(name, Type::Counter, help);
        for (key, count) in tally.iter() {
            self.sample(name, &[(label, key.label())], show(count));
        }
    }

    fn about(&mut self, snapshot: &Snapshot) {
        let about = |what: &str| snapshot.about.get(what).map_or("", String::as_str);
        self.head("dio_mount_info", Type::Gauge, "What the mount is; always 1.");
        self.sample("dio_mount_info", &[("source", about("source")), ("mode", about("mode"))], 1);
        self.head("dio_uptime_seconds", Type::Gauge, "Time since the server began.");
        self.sample("dio_uptime_seconds", &[], seconds(snapshot.nanos));
    }

    fn operations(&mut self, snapshot: &Snapshot) {
        let name = "dio_operation_duration_seconds";
        self.head(
            name,
            Type::Histogram,
            "Time from the arrival of a request of the kernel to its answer.",
        );
        for (operation, latency) in &snapshot.operations {
            self.histogram(name, operation, latency);
        }
        let name = "dio_operation_errors_total";
        self.head(name, Type::Counter, "Requests of the kernel that failed.");
        for (operation, latency) in &snapshot.operations {
            self.sample(name, &[("operation", operation)], latency.errors);
        }
        let name = "dio_errors_total";
        self.head(name, Type::Counter, "Requests of the kernel that failed, by error number.");
        for (errno, count) in &snapshot.errors {
            self.sample(name, &[("errno", &errno.to_string())], count);
        }
    }

    fn histogram(&mut self, name: &str, operation: &str, latency: &Latency) {
        let bucket = format!("{name}_bucket");
        for bound in BOUNDS {
            self.sample(
                &bucket,
                &[("operation", operation), ("le", &seconds(bound))],
                latency.within(bound),
            );
        }
        self.sample(&bucket, &[("operation", operation), ("le", "+Inf")], latency.count);
        self.sample(&format!("{name}_sum"), &[("operation", operation)], seconds(latency.nanos));
        self.sample(&format!("{name}_count"), &[("operation", operation)], latency.count);
    }

    fn requests(&mut self, snapshot: &Snapshot) {
        let total = &snapshot.total;
        let plain = |count: u64| count.to_string();
        self.tally(
            "dio_requests_total",
            "Requests of programs that were answered.",
            "kind",
            &total.requests,
            plain,
        );
        self.tally(
            "dio_request_errors_total",
            "Requests of programs that failed.",
            "kind",
            &total.errors,
            plain,
        );
        self.tally(
            "dio_request_bytes_total",
            "Bytes that programs got or gave.",
            "kind",
            &total.bytes,
            plain,
        );
        self.tally(
            "dio_request_seconds_total",
            "Time that requests took, summed.",
            "kind",
            &total.nanos,
            seconds,
        );
        let help = "Read requests of programs by how most of their bytes travelled.";
        self.tally("dio_read_requests_total", help, "class", &total.read_requests, plain);
        let help = "Write requests of programs by how most of their bytes travelled.";
        self.tally("dio_write_requests_total", help, "class", &total.write_requests, plain);
    }

    fn source(&mut self, snapshot: &Snapshot) {
        let total = &snapshot.total;
        let plain = |count: u64| count.to_string();
        let help = "Bytes read from the file system below by how they travelled.";
        self.tally("dio_source_read_bytes_total", help, "class", &total.read_bytes, plain);
        let help = "Bytes written to the file system below by how they travelled.";
        self.tally("dio_source_written_bytes_total", help, "class", &total.write_bytes, plain);
        let help = "Bytes that did not go direct although the mode asks for it.";
        self.tally("dio_indirect_bytes_total", help, "reason", &total.reasons, plain);
        let help = "Requests to the file system below.";
        self.tally("dio_source_requests_total", help, "kind", &total.transfers, plain);
    }

    fn waits(&mut self, snapshot: &Snapshot) {
        let total = &snapshot.total;
        let plain = |count: u64| count.to_string();
        self.tally(
            "dio_blocks_total",
            "Times that a request was blocked.",
            "on",
            &total.waits,
            plain,
        );
        self.tally(
            "dio_blocked_seconds_total",
            "Time that requests were blocked, summed.",
            "on",
            &total.waited,
            seconds,
        );
        self.tally("dio_locks_total", "Locks granted.", "class", &total.locks, plain);
        let help = "Locks that had to be waited for.";
        self.tally("dio_lock_waits_total", help, "class", &total.lock_waits, plain);
        let help = "Time waited for locks, summed.";
        self.tally("dio_lock_wait_seconds_total", help, "class", &total.lock_waited, seconds);
    }

    fn events(&mut self, snapshot: &Snapshot) {
        let total = &snapshot.total;
        let plain = |count: u64| count.to_string();
        self.tally("dio_events_total", "What else happened.", "event", &total.events, plain);
        self.tally(
            "dio_event_bytes_total",
            "The bytes that it concerned.",
            "event",
            &total.event_bytes,
            plain,
        );
    }

    fn server(&mut self, snapshot: &Snapshot) {
        self.head("dio_open_files", Type::Gauge, "Inodes that are open.");
        self.sample("dio_open_files", &[], snapshot.open_files);
        for (gauge, value) in &snapshot.gauges {
            let name = format!("dio_{gauge}");
            self.head(&name, Type::Gauge, "See the manual of dio stat.");
            self.sample(&name, &[], value);
        }
        let process = &snapshot.process;
        self.head(
            "dio_server_resident_bytes",
            Type::Gauge,
            "Memory of the server that is resident.",
        );
        self.sample("dio_server_resident_bytes", &[], process.resident_bytes);
        self.head("dio_server_threads", Type::Gauge, "Threads of the server.");
        self.sample("dio_server_threads", &[], process.threads);
        let name = "dio_server_cpu_seconds_total";
        self.head(name, Type::Counter, "Processor time of the server.");
        self.sample(name, &[("mode", "user")], seconds(process.user_nanos));
        self.sample(name, &[("mode", "system")], seconds(process.system_nanos));
    }
}

#[cfg(test)]
mod tests;
