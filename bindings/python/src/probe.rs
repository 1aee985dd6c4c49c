//! `dio.probe` and striped files.

use std::path::PathBuf;

use dio::geometry::{Directness, Geometry};
use dio::probe::{Answer, Device, Kind, ProbeError, Report, Sharing, Trials};
use dio::stripe::{self, ObjectState, StripePlan};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::Failure;

/// How I/O to a path behaves, found out by trials.
#[pyfunction]
pub(crate) fn probe<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let found = py.detach(|| dio::probe::probe(&path));
    let report = found.map_err(|error| match error {
        ProbeError::Open { source, .. } => Failure::system("probe", &path, &source),
        _ => {
            let failed = dio::FileError::new("probe", &path, rustix::io::Errno::INVAL);
            failed.with_cure("name a file, a directory or a block device").into()
        }
    })?;
    describe(py, &report)
}

fn describe<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("path", report.path.as_os_str())?;
    let kind = match report.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::BlockDevice => "block device",
    };
    facts.set_item("kind", kind)?;
    facts.set_item("file_system", report.file_system.and_then(|found| found.name()))?;
    if let Some(mount) = &report.mount {
        facts.set_item("mount_point", mount.point.as_os_str())?;
        facts.set_item("mount_options", &mount.options)?;
    }
    facts.set_item(
        "geometry",
        report.geometry.as_ref().ok().map(|g| geometry(py, g)).transpose()?,
    )?;
    facts.set_item("device", report.device.as_ref().ok().map(|d| device(py, d)).transpose()?)?;
    let reasons = PyDict::new(py);
    facts.set_item("trials", trials(py, &report.trials, &reasons)?)?;
    facts.set_item("io_uring", answer(&report.io_uring.available, "io_uring", &reasons)?)?;
    for (name, text) in
        [("geometry", report.geometry.as_ref().err()), ("device", report.device.as_ref().err())]
    {
        if let Some(text) = text {
            reasons.set_item(name, text)?;
        }
    }
    facts.set_item("reasons", reasons)?;
    facts.set_item(
        "objects",
        report.stripes.as_ref().and_then(|s| s.as_ref().ok()).map(|s| s.objects.len()),
    )?;
    Ok(facts)
}

/// True, False or None, with the reason under the same name.
fn answer(answer: &Answer, name: &str, reasons: &Bound<'_, PyDict>) -> PyResult<Option<bool>> {
    Ok(match answer {
        Answer::Yes => Some(true),
        Answer::No(reason) => {
            reasons.set_item(name, reason)?;
            Some(false)
        }
        Answer::Unknown(reason) => {
            reasons.set_item(name, reason)?;
            None
        }
    })
}

fn trials<'py>(
    py: Python<'py>,
    trials: &Trials,
    reasons: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    for (name, found) in [
        ("open_direct", &trials.open_direct),
        ("read_direct", &trials.read_direct),
        ("write_direct", &trials.write_direct),
        ("uncached_read", &trials.uncached_read),
        ("uncached_new", &trials.uncached_new),
        ("uncached_overwrite", &trials.uncached_overwrite),
        ("atomic_write", &trials.atomic_write),
    ] {
        facts.set_item(name, answer(found, name, reasons)?)?;
    }
    let shared = match &trials.overwrites.sharing {
        Sharing::Shared => Some(true),
        Sharing::Exclusive => Some(false),
        Sharing::Unknown(reason) => {
            reasons.set_item("shared_overwrites", reason)?;
            None
        }
    };
    facts.set_item("shared_overwrites", shared)?;
    Ok(facts)
}

fn geometry<'py>(py: Python<'py>, geometry: &Geometry) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("memory_align", geometry.mem_align())?;
    facts.set_item("write_align", geometry.offset_align())?;
    facts.set_item("read_align", geometry.read_offset_align())?;
    facts.set_item("block", geometry.block())?;
    let direct = match geometry.directness() {
        Directness::Reported => "reported",
        Directness::Refused => "refused",
        Directness::Unknown => "unknown",
    };
    facts.set_item("direct", direct)?;
    Ok(facts)
}

fn device<'py>(py: Python<'py>, device: &Device) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("name", &device.name)?;
    facts.set_item("disk", &device.disk)?;
    facts.set_item("parts", &device.parts)?;
    facts.set_item("logical_block", device.logical_block)?;
    facts.set_item("physical_block", device.physical_block)?;
    facts.set_item("largest_request", device.largest_request)?;
    facts.set_item("queue_depth", device.queue_depth)?;
    facts.set_item("scheduler", &device.scheduler)?;
    facts.set_item("rotational", device.rotational)?;
    facts.set_item("volatile_write_cache", device.volatile_write_cache)?;
    Ok(facts)
}

/// Makes an empty striped file.
#[pyfunction]
#[pyo3(signature = (path, targets, stripe=None, count=None, force=false))]
pub(crate) fn stripe_create(
    py: Python<'_>,
    path: PathBuf,
    targets: Vec<PathBuf>,
    stripe: Option<u64>,
    count: Option<usize>,
    force: bool,
) -> PyResult<()> {
    let plan = StripePlan { stripe, count, targets, force };
    Ok(py.detach(|| stripe::create(&path, &plan)).map(drop).map_err(Failure::from)?)
}

/// What a striped file consists of; `None` for another file.
#[pyfunction]
pub(crate) fn stripe_inspect(py: Python<'_>, path: PathBuf) -> PyResult<Option<Bound<'_, PyDict>>> {
    let report = py.detach(|| stripe::inspect(&path)).map_err(Failure::from)?;
    let Some(report) = report else { return Ok(None) };
    let (facts, objects) = (PyDict::new(py), PyList::empty(py));
    for object in &report.objects {
        let entry = PyDict::new(py);
        entry.set_item("path", object.path.as_os_str())?;
        entry.set_item("size", object.size)?;
        entry.set_item("allocated", object.allocated)?;
        let state = match &object.state {
            ObjectState::Sound => "sound",
            ObjectState::Missing => "missing",
            ObjectState::Wrong(reason) => reason,
        };
        entry.set_item("state", state)?;
        objects.append(entry)?;
    }
    facts.set_item("size", report.size)?;
    facts.set_item("stripe", report.descriptor.layout.stripe())?;
    facts.set_item("sound", report.is_sound())?;
    facts.set_item("objects", objects)?;
    Ok(Some(facts))
}
