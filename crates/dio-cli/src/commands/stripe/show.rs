//! `dio stripe show`: shows the objects of striped files, and whether all of them are there.

use crate::quote::{named, quoted};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::stripe::{ObjectState, StripePlan, StripeReport, default_of, inspect};
use dio_common::units::size as human_size;
use serde_json::{Value, json};

/// Show how files are striped
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Print one JSON array with an object for each file
    #[arg(long)]
    json: bool,

    /// Striped files, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
}

/// Inspects the files. A file without a report is reported as an error, and makes the exit status a
/// failure.
pub(super) fn reports(files: &[PathBuf]) -> (Vec<(&Path, StripeReport)>, ExitCode) {
    let (mut found, mut status) = (Vec::new(), ExitCode::SUCCESS);
    for file in files {
        match inspect(file) {
            Ok(Some(report)) => found.push((file.as_path(), report)),
            Ok(None) => {
                eprintln!("dio stripe: {} is not striped", quoted(file));
                status = ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("dio stripe: {error}");
                status = ExitCode::FAILURE;
            }
        }
    }
    (found, status)
}

pub(super) fn show(args: &ShowArgs) -> ExitCode {
    let (directories, files): (Vec<PathBuf>, Vec<PathBuf>) =
        args.files.iter().cloned().partition(|path| path.is_dir());
    let (reports, mut status) = reports(&files);
    let mut plans = Vec::new();
    for directory in &directories {
        match default_of(directory) {
            Ok(Some(plan)) => plans.push((directory.as_path(), plan)),
            Ok(None) => {
                eprintln!("dio stripe: {} has no stripes for new files", quoted(directory));
                status = ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("dio stripe: {error}");
                status = ExitCode::FAILURE;
            }
        }
    }
    let text = if args.json {
        let files = reports.iter().map(|(path, report)| to_json(path, report));
        let directories = plans.iter().map(|(path, plan)| plan_to_json(path, plan));
        format!("{:#}\n", Value::Array(files.chain(directories).collect()))
    } else {
        let files = reports.iter().map(|(path, report)| to_text(path, report));
        let directories = plans.iter().map(|(path, plan)| plan_to_text(path, plan));
        files.chain(directories).collect::<Vec<_>>().join("\n")
    };
    // A closed pipe is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    status
}

fn to_text(path: &Path, report: &StripeReport) -> String {
    let layout = &report.descriptor.layout;
    let mut text = format!(
        "{}: {} ({}), stripes of {} over {} object{}\n",
        named(path),
        human_size(report.size),
        report.size,
        human_size(layout.stripe()),
        layout.objects(),
        if layout.objects() == 1 { "" } else { "s" },
    );
    if report.copy {
        text.push_str("       (a copy of the descriptor: it can be read by, and not written)\n");
    }
    if report.is_sound() && report.generation == 0 {
        let cure = "'dio stripe check --repair' brings it to the present one";
        text.push_str(&format!(
            "       (the first format, in which old copies of objects are not told: {cure})\n"
        ));
    }
    if report.open {
        text.push_str("       (open for writing, or its writer was interrupted)\n");
    }
    for (index, object) in report.objects.iter().enumerate() {
        let held = object.size.saturating_sub(layout.start());
        let state = match &object.state {
            ObjectState::Sound => human_size(held),
            state => words(state),
        };
        let of = object
            .capacity
            .map(|size| format!(" (a device of {})", human_size(size)))
            .unwrap_or_default();
        text.push_str(&format!("  {index:>3}  {state:>10}  {}{of}\n", named(&object.path)));
    }
    text
}

fn plan_to_text(path: &Path, plan: &StripePlan) -> String {
    let stripe = plan.stripe.map_or("the usual size".to_owned(), human_size);
    let count = plan.count.unwrap_or(plan.targets.len());
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!(
        "{}: new files have stripes of {stripe} over {count} object{plural}\n",
        named(path)
    );
    plan.targets.iter().for_each(|target| text.push_str(&format!("       {}\n", named(target))));
    text
}

fn plan_to_json(path: &Path, plan: &StripePlan) -> Value {
    json!({
        "path": path.to_string_lossy(),
        "default": true,
        "stripe_bytes": plan.stripe,
        "stripe_count": plan.count.unwrap_or(plan.targets.len()),
        "targets": plan.targets.iter().map(|target| target.to_string_lossy()).collect::<Vec<_>>(),
    })
}

pub(in crate::commands) fn words(state: &ObjectState) -> String {
    match state {
        ObjectState::Sound => "sound".to_owned(),
        ObjectState::Missing => "is missing".to_owned(),
        ObjectState::Wrong(what) => what.clone(),
    }
}

fn to_json(path: &Path, report: &StripeReport) -> Value {
    let layout = &report.descriptor.layout;
    let objects: Vec<Value> = report
        .objects
        .iter()
        .map(|object| {
            json!({
                "path": object.path.to_string_lossy(),
                "state": words(&object.state),
                "sound": object.state == ObjectState::Sound,
                "bytes": object.size.saturating_sub(layout.start()),
                "expected_bytes": object.share.saturating_sub(layout.start()),
                "allocated_bytes": object.allocated,
                "device_bytes": object.capacity,
            })
        })
        .collect();
    json!({
        "path": path.to_string_lossy(),
        "id": report.descriptor.id.to_string(),
        "bytes": report.size,
        "stripe_bytes": layout.stripe(),
        "stripe_count": layout.objects(),
        "copy": report.copy,
        "sound": report.is_sound(),
        "surplus": report.has_surplus(),
        "generation": report.generation,
        "open": report.open,
        "objects": objects,
    })
}
