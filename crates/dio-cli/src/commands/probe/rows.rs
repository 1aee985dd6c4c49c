//! The table that `dio probe` prints, row by row.

use dio::geometry::{Directness, FileSystem, Geometry};
use dio::probe::{Answer, Device, Mount, Overwrites, Ring, Sharing, Trials};
use dio::quote::printable;
use dio::stream::ReadAhead;
use dio_common::units::size as human_size;

use crate::quote::named;

/// Lines of a label and a value under a heading.
pub(super) struct Table(pub(super) String);

impl Table {
    pub(super) fn heading(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    pub(super) fn row(&mut self, label: &str, value: impl AsRef<str>) {
        self.0.push_str(&format!("  {label:<26} {}\n", value.as_ref()));
    }

    /// Adds a row if the value is known.
    pub(super) fn known<T>(
        &mut self,
        label: &str,
        value: Option<T>,
        show: impl FnOnce(T) -> String,
    ) {
        if let Some(value) = value {
            self.row(label, show(value));
        }
    }
}

/// Adds the file system and the mount.
pub(super) fn place_rows(
    table: &mut Table,
    file_system: Option<FileSystem>,
    mount: Option<&Mount>,
) {
    table.row("file system", file_system_name(file_system, mount));
    if let Some(mount) = mount {
        table.row("mounted", format!("{} on {}", printable(&mount.source), named(&mount.point)));
        table.row("mount options", printable(&mount.options));
    }
}

pub(super) fn file_system_name(file_system: Option<FileSystem>, mount: Option<&Mount>) -> String {
    let by_magic = file_system.and_then(|found| found.name());
    match (mount, by_magic) {
        (Some(mount), _) => mount.file_system.clone(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

/// Returns the optimal request size of a device in bytes; 0 if it is unknown.
pub(super) fn optimal(device: &Result<Device, String>) -> u64 {
    device.as_ref().ok().and_then(|device| device.optimal_io).unwrap_or(0)
}

/// Returns the request size in bytes that dio uses for a file there.
pub(super) fn suggested(geometry: &Geometry, optimal: u64) -> u64 {
    ReadAhead::for_device(optimal, geometry.preferred()).request as u64
}

/// Adds the geometry; `optimal` is the optimal request size of the device.
pub(super) fn geometry_rows(table: &mut Table, geometry: &Geometry, optimal: u64) {
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
        Some(atomic) => {
            format!("{} to {}", human_size(atomic.unit_min), human_size(atomic.unit_max))
        }
        None => "none reported".to_owned(),
    };
    table.row("atomic write unit", atomic);
}

pub(super) fn trial_rows(table: &mut Table, trials: &Trials) {
    table.heading("tried");
    if let Answer::Unknown(reason) = &trials.open_direct {
        // Opening was not tried, so nothing else was.
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

pub(super) fn answer_words(answer: &Answer) -> String {
    match answer {
        Answer::Yes => "yes".to_owned(),
        Answer::No(reason) => format!("no: {reason}"),
        Answer::Unknown(reason) => format!("unknown: {reason}"),
    }
}

pub(super) fn overwrites_words(overwrites: &Overwrites) -> String {
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

pub(super) fn device_rows(table: &mut Table, device: &Device) {
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

pub(super) fn ring_rows(table: &mut Table, ring: &Ring) {
    table.heading("io_uring");
    table.row("available", answer_words(&ring.available));
    let limit = ring.memory_lock.map_or("unlimited".to_owned(), human_size);
    let exempt = match ring.exempt {
        Some(true) => " (this process is exempt)",
        Some(false) | None => "",
    };
    table.row("locked memory limit", format!("{limit}{exempt}"));
}
