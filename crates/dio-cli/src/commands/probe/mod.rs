//! `dio probe`: what a path really does with direct and uncached I/O.

mod rows;
pub(in crate::commands) mod speed;
mod striped;
mod values;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::probe::{Kind, ProbeError, Report};
use serde_json::{Value, json};

use self::rows::{
    Table, device_rows, file_system_name, geometry_rows, optimal, place_rows, ring_rows, trial_rows,
};
use self::values::{
    answer_json, device_json, geometry_json, mount_json, or_unknown, overwrites_json,
};
use super::words;
use crate::quote::{named, quoted};

/// Report what a path really does, by asking the kernel and by trying
///
/// In a writable directory, an unnamed temporary file of a few MiB is used; nothing remains.
/// Existing files and devices are never written; up to 1 MiB of them that was not cached is read.
/// For a striped file, the alignments are those of the strictest object, and each target is
/// reported on its own.
///
/// With --speed, it is measured what requests cost there: by size, in order and at random places,
/// through the page cache, below a mount of each mode, and by the tools of dio. That takes about a
/// minute and 3 GiB of space. `dio advise` predicts from the result, which is kept in
/// ~/.cache/dio.
#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    /// Files, directories or block devices
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Print one JSON array with an object for each path
    #[arg(long)]
    json: bool,

    /// Measure what requests to files in a directory cost
    #[arg(long)]
    speed: bool,

    /// With --speed, write the profile to FILE instead of ~/.cache/dio
    #[arg(short, long, value_name = "FILE", requires = "speed", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Run the loads of --speed here
    #[arg(long, hide = true, value_name = "WAY")]
    speed_loads: Option<String>,

    /// Measure with a part of the usual bytes, for a trial
    #[arg(long, hide = true, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=256))]
    speed_part: u64,
}

/// Probes every path; continues after a failure and then exits with status 1.
pub fn run(args: ProbeArgs) -> ExitCode {
    if args.speed || args.speed_loads.is_some() {
        return measure_speed(&args);
    }
    let mut status = ExitCode::SUCCESS;
    let mut reports = Vec::new();
    for path in &args.paths {
        match dio::probe::probe(path) {
            Ok(report) => reports.push(report),
            Err(error) => {
                let reason = match &error {
                    ProbeError::Open { source, .. } => words(source),
                    ProbeError::NoStorage { .. } => {
                        "Neither a file, a directory nor a block device".to_owned()
                    }
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
    // A closed pipe is no failure of the probe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    status
}

/// Measures in each directory, or runs the loads of a measurement.
fn measure_speed(args: &ProbeArgs) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for path in &args.paths {
        let done = match &args.speed_loads {
            Some(way) => speed::loads(way, path, args.speed_part),
            None => keep_speed(path, args),
        };
        if let Err(text) = done {
            eprintln!("dio: cannot measure {}: {text}", quoted(path));
            status = ExitCode::FAILURE;
        }
    }
    status
}

fn keep_speed(path: &Path, args: &ProbeArgs) -> Result<(), String> {
    eprintln!("dio: measuring {}, {}", quoted(path), speed::ABOUT);
    let profile = speed::measured(path, args.speed_part)?;
    let kept = match &args.output {
        Some(output) => speed::write(&profile, output).map(|()| Some(output.clone())),
        None => speed::keep(&profile),
    };
    match kept.map_err(|error| format!("cannot write the profile: {}", words(&error)))? {
        Some(kept) => println!("{}", kept.display()),
        None => return Err("there is no place to keep the profile: give one by -o".to_owned()),
    }
    Ok(())
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
        "geometry": or_unknown(&report.geometry, |known| {
            geometry_json(known, optimal(&report.device))
        }),
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
