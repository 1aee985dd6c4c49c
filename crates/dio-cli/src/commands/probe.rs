//! `dio probe`: what a path really does with direct and uncached I/O.

mod striped;

use crate::quote::{named, quoted};
use dio::quote::printable;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use dio::geometry::{Directness, FileSystem, Geometry};
use dio::probe::{Answer, Device, Kind, Mount, Overwrites, ProbeError, Report, Ring, Sharing, Trials};
use dio::stream::ReadAhead;
use serde_json::{Value, json};

use dio_common::units::size as human_size;

use super::words;

/// Report what a path really does, by asking the kernel and by trying
///
/// In a writable directory a nameless temporary file of a few MiB is used; nothing remains. Existing files and
/// devices are never written: of them up to 1 MiB that was not cached is read. A striped file is what its objects are: the
/// alignments are those of the strictest, and each target is told on its own.
#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    /// Files, directories or block devices
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Print one JSON array with an object for each path
    #[arg(long)]
    json: bool,
}

/// Probes every path; goes on after a failure and then exits with status 1.
pub fn run(args: ProbeArgs) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    let mut reports = Vec::new();
    for path in &args.paths {
        match dio::probe::probe(path) {
            Ok(report) => reports.push(report),
            Err(error) => {
                let reason = match &error {
                    ProbeError::Open { source, .. } => words(source),
                    ProbeError::NoStorage { .. } => "Neither a file, a directory nor a block device".to_owned(),
                    other => other.to_string(),
                };
                eprintln!("dio: cannot probe {}: {reason}", quoted(path));
                status = ExitCode::FAILURE;
            }
        }
    }
    let text = if args.json {
        let objects: Vec<Value> = reports.iter().map(to_json).collect();
        format!("{:#}\n", Value::Array(objects))
    } else {
        let tables: Vec<String> = reports.iter().map(to_table).collect();
        tables.join("\n")
    };
    // A reader that went away is no failure of the probe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    status
}

/// Lines of a label and a value under a heading.
struct Table(String);

impl Table {
    fn heading(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn row(&mut self, label: &str, value: impl AsRef<str>) {
        self.0.push_str(&format!("  {label:<26} {}\n", value.as_ref()));
    }

    /// A row only where something is known.
    fn known<T>(&mut self, label: &str, value: Option<T>, show: impl FnOnce(T) -> String) {
        if let Some(value) = value {
            self.row(label, show(value));
        }
    }
}

fn to_table(report: &Report) -> String {
    let mut table = Table(String::new());
    let kind = match report.kind {
        Kind::File if report.stripes.is_some() => "striped file",
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::BlockDevice => "block device",
    };
    table.heading(&format!("{} ({kind})", named(&report.path)));
    match &report.stripes {
        None if report.kind == Kind::BlockDevice => {}
        None => place_rows(&mut table, report.file_system, report.mount.as_ref()),
        Some(stripes) => striped::layout_rows(&mut table, stripes),
    }
    match &report.geometry {
        Ok(geometry) => geometry_rows(&mut table, geometry, optimal(&report.device)),
        Err(reason) => table.row("alignments", format!("unknown: {reason}")),
    }
    trial_rows(&mut table, &report.trials);
    match (&report.stripes, &report.device) {
        (Some(stripes), _) => {
            striped::target_rows(&mut table, stripes);
            table.heading("descriptor");
            place_rows(&mut table, report.file_system, report.mount.as_ref());
        }
        (None, Ok(device)) => device_rows(&mut table, device),
        (None, Err(reason)) => table.heading(&format!("device unknown: {reason}")),
    }
    ring_rows(&mut table, &report.io_uring);
    table.0
}

/// Where something is.
fn place_rows(table: &mut Table, file_system: Option<FileSystem>, mount: Option<&Mount>) {
    table.row("file system", file_system_name(file_system, mount));
    if let Some(mount) = mount {
        table.row("mounted", format!("{} on {}", printable(&mount.source), named(&mount.point)));
        table.row("mount options", printable(&mount.options));
    }
}

fn file_system_name(file_system: Option<FileSystem>, mount: Option<&Mount>) -> String {
    let by_magic = file_system.and_then(|found| found.name());
    match (mount, by_magic) {
        (Some(mount), _) => mount.file_system.clone(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

/// The optimal request of a device in bytes; 0 where nothing is known.
fn optimal(device: &Result<Device, String>) -> u64 {
    device.as_ref().ok().and_then(|device| device.optimal_io).unwrap_or(0)
}

/// The bytes of the requests that dio makes of a file there.
fn suggested(geometry: &Geometry, optimal: u64) -> u64 {
    ReadAhead::for_device(optimal, geometry.preferred()).request as u64
}

/// `optimal` is the optimal request of the device.
fn geometry_rows(table: &mut Table, geometry: &Geometry, optimal: u64) {
    let source = match geometry.directness() {
        Directness::Reported => "",
        Directness::Refused => " (direct I/O refused)",
        Directness::Unknown => " (assumed: the kernel does not tell)",
    };
    let bytes = |value: u64| format!("{}{source}", human_size(value));
    table.row("memory alignment", bytes(geometry.mem_align()));
    table.row("write alignment", bytes(geometry.offset_align()));
    table.row("read alignment", bytes(geometry.read_offset_align()));
    table.row("block", human_size(geometry.block()));
    table.row("suggested transfer", human_size(suggested(geometry, optimal)));
    let atomic = match geometry.atomic() {
        Some(atomic) => format!("{} to {}", human_size(atomic.unit_min), human_size(atomic.unit_max)),
        None => "none reported".to_owned(),
    };
    table.row("atomic write unit", atomic);
}

fn trial_rows(table: &mut Table, trials: &Trials) {
    table.heading("tried");
    if let Answer::Unknown(reason) = &trials.open_direct {
        // Even that was not tried, so nothing was.
        return table.row("nothing", reason);
    }
    for (label, answer) in [
        ("opens direct", &trials.open_direct),
        ("direct reads are direct", &trials.read_direct),
        ("direct writes are direct", &trials.write_direct),
        ("RWF_DONTCACHE, reads", &trials.uncached_read),
        ("RWF_DONTCACHE, new data", &trials.uncached_new),
        ("  overwritten", &trials.uncached_overwrite),
        ("  overwritten, was cached", &trials.uncached_overwrite_cached),
        ("RWF_ATOMIC write", &trials.atomic_write),
    ] {
        table.row(label, answer_words(answer));
    }
    table.row("overwrites of one file", overwrites_words(&trials.overwrites));
}

fn answer_words(answer: &Answer) -> String {
    match answer {
        Answer::Yes => "yes".to_owned(),
        Answer::No(reason) => format!("no: {reason}"),
        Answer::Unknown(reason) => format!("unknown: {reason}"),
    }
}

fn overwrites_words(overwrites: &Overwrites) -> String {
    let verdict = match &overwrites.sharing {
        Sharing::Shared => "shared",
        Sharing::Exclusive => "exclusive",
        Sharing::Unknown(reason) => return format!("unknown: {reason}"),
    };
    match &overwrites.rates {
        Some(rates) => format!(
            "{verdict} ({} writers: {:.1} times the rate of one; on files of their own {:.1})",
            rates.threads,
            rates.gain_together(),
            rates.gain_apart()
        ),
        None => verdict.to_owned(),
    }
}

fn device_rows(table: &mut Table, device: &Device) {
    let mut name = format!("device {}", device.name);
    if let Some(disk) = &device.disk {
        name.push_str(&format!(", partition of {disk}"));
    }
    if !device.parts.is_empty() {
        name.push_str(&format!(", made of {}", device.parts.join(", ")));
    }
    table.heading(&name);
    let size = |bytes: u64| human_size(bytes);
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    table.known("logical block", device.logical_block, size);
    table.known("physical block", device.physical_block, size);
    table.known("minimum I/O size", device.minimum_io, size);
    let optimal = device.optimal_io.map_or("not stated".to_owned(), size);
    table.row("optimal I/O size", optimal);
    table.known("largest request", device.largest_request, size);
    table.known("  the hardware's limit", device.largest_hardware_request, size);
    table.known("segments of a request", device.segments, |count| count.to_string());
    table.known("memory alignment", device.memory_align, size);
    table.known("queue depth", device.queue_depth, |count| count.to_string());
    table.known("read-ahead", device.read_ahead, size);
    table.known("scheduler", device.scheduler.as_ref(), String::clone);
    table.known("rotational", device.rotational, yes);
    table.known("volatile write cache", device.volatile_write_cache, yes);
    table.known("forced unit access (FUA)", device.fua, yes);
    table.known("polling", device.polling, yes);
    let atomic = device.atomic_write_max.map_or("none".to_owned(), size);
    table.row("largest atomic write", atomic);
}

fn ring_rows(table: &mut Table, ring: &Ring) {
    table.heading("io_uring");
    table.row("available", answer_words(&ring.available));
    let limit = ring.memory_lock.map_or("unlimited".to_owned(), human_size);
    let exempt = match ring.exempt {
        Some(true) => " (this process is exempt)",
        Some(false) | None => "",
    };
    table.row("locked memory limit", format!("{limit}{exempt}"));
}

fn to_json(report: &Report) -> Value {
    let trials = &report.trials;
    json!({
        "path": report.path.to_string_lossy(),
        "kind": match report.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::BlockDevice => "block_device",
        },
        "file_system": (report.kind != Kind::BlockDevice)
            .then(|| file_system_name(report.file_system, report.mount.as_ref())),
        "mount": report.mount.as_ref().map(mount_json),
        "striped": report.stripes.as_ref().map(striped::to_json),
        "geometry": or_unknown(&report.geometry, |known| geometry_json(known, optimal(&report.device))),
        "tried": {
            "open_direct": answer_json(&trials.open_direct),
            "read_direct": answer_json(&trials.read_direct),
            "write_direct": answer_json(&trials.write_direct),
            "dontcache_read": answer_json(&trials.uncached_read),
            "dontcache_new": answer_json(&trials.uncached_new),
            "dontcache_overwrite": answer_json(&trials.uncached_overwrite),
            "dontcache_overwrite_cached": answer_json(&trials.uncached_overwrite_cached),
            "atomic_write": answer_json(&trials.atomic_write),
            "overwrites": overwrites_json(&trials.overwrites),
        },
        "device": or_unknown(&report.device, device_json),
        "io_uring": {
            "available": answer_json(&report.io_uring.available),
            "disabled_setting": report.io_uring.disabled,
            "memory_lock_bytes": report.io_uring.memory_lock,
            "memory_lock_exempt": report.io_uring.exempt,
        },
    })
}

/// What is known, or why it is not.
fn or_unknown<T>(known: &Result<T, String>, show: impl FnOnce(&T) -> Value) -> Value {
    known.as_ref().map_or_else(|reason| json!({ "unknown": reason }), show)
}

fn mount_json(mount: &Mount) -> Value {
    json!({
        "point": mount.point.to_string_lossy(),
        "source": mount.source,
        "options": mount.options,
    })
}

fn answer_json(answer: &Answer) -> Value {
    match answer {
        Answer::Yes => json!({ "answer": "yes" }),
        Answer::No(reason) => json!({ "answer": "no", "reason": reason }),
        Answer::Unknown(reason) => json!({ "answer": "unknown", "reason": reason }),
    }
}

fn overwrites_json(overwrites: &Overwrites) -> Value {
    let (answer, reason) = match &overwrites.sharing {
        Sharing::Shared => ("shared", None),
        Sharing::Exclusive => ("exclusive", None),
        Sharing::Unknown(reason) => ("unknown", Some(reason)),
    };
    json!({
        "answer": answer,
        "reason": reason,
        "writes_per_second": overwrites.rates.map(|rates| json!({
            "block_bytes": rates.block,
            "threads": rates.threads,
            "one_writer": rates.one.round(),
            "one_file": rates.together.round(),
            "own_files": rates.apart.round(),
        })),
    })
}

fn geometry_json(geometry: &Geometry, optimal: u64) -> Value {
    json!({
        "direct": match geometry.directness() {
            Directness::Reported => "reported",
            Directness::Refused => "refused",
            Directness::Unknown => "unknown",
        },
        "memory_align": geometry.mem_align(),
        "write_align": geometry.offset_align(),
        "read_align": geometry.read_offset_align(),
        "block_bytes": geometry.block(),
        "suggested_bytes": suggested(geometry, optimal),
        "file_system_suggests_bytes": geometry.preferred(),
        "atomic_write": geometry.atomic().map(|atomic| json!({
            "unit_min": atomic.unit_min,
            "unit_max": atomic.unit_max,
            "segments_max": atomic.segments_max,
        })),
    })
}

fn device_json(device: &Device) -> Value {
    json!({
        "name": device.name,
        "disk": device.disk,
        "parts": device.parts,
        "number": format!("{}:{}", device.major, device.minor),
        "logical_block": device.logical_block,
        "physical_block": device.physical_block,
        "minimum_io": device.minimum_io,
        "optimal_io": device.optimal_io,
        "largest_request": device.largest_request,
        "largest_hardware_request": device.largest_hardware_request,
        "segments": device.segments,
        "memory_align": device.memory_align,
        "queue_depth": device.queue_depth,
        "read_ahead": device.read_ahead,
        "scheduler": device.scheduler,
        "rotational": device.rotational,
        "volatile_write_cache": device.volatile_write_cache,
        "fua": device.fua,
        "polling": device.polling,
        "atomic_write_max": device.atomic_write_max,
    })
}
