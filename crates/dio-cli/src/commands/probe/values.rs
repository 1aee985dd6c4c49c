//! The objects that `dio probe --json` prints.

use dio::geometry::{Directness, Geometry};
use dio::probe::{Answer, Device, Mount, Overwrites, Sharing};
use serde_json::{Value, json};

use super::rows::suggested;

/// Returns the known value, or the reason why it is unknown.
pub(super) fn or_unknown<T>(known: &Result<T, String>, show: impl FnOnce(&T) -> Value) -> Value {
    known.as_ref().map_or_else(|reason| json!({ "unknown": reason }), show)
}

pub(super) fn mount_json(mount: &Mount) -> Value {
    json!({
        "point": mount.point.to_string_lossy(),
        "source": mount.source,
        "options": mount.options,
    })
}

pub(super) fn answer_json(answer: &Answer) -> Value {
    match answer {
        Answer::Yes => json!({ "answer": "yes" }),
        Answer::No(reason) => json!({ "answer": "no", "reason": reason }),
        Answer::Unknown(reason) => json!({ "answer": "unknown", "reason": reason }),
    }
}

pub(super) fn overwrites_json(overwrites: &Overwrites) -> Value {
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

pub(super) fn geometry_json(geometry: &Geometry, optimal: u64) -> Value {
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

pub(super) fn device_json(device: &Device) -> Value {
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
