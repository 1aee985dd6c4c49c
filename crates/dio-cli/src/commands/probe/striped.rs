//! The rows of `dio probe` for a striped file.

use std::path::{Path, PathBuf};

use dio::probe::{Object, Stripes};
use dio::stripe::ObjectState;
use dio_common::units::size as human_size;
use serde_json::{Value, json};

use super::rows::{Table, answer_words, file_system_name, geometry_rows, optimal, place_rows};
use super::values::{answer_json, device_json, geometry_json, mount_json, or_unknown};
use crate::commands::stripe::state_words;
use crate::quote::named;

/// Adds the layout of the file, which precedes the alignments and trials of the whole file.
pub(super) fn layout_rows(table: &mut Table, stripes: &Result<Stripes, String>) {
    let stripes = match stripes {
        Ok(stripes) => stripes,
        Err(reason) => {
            return table.row("striped", format!("the descriptor cannot be used: {reason}"));
        }
    };
    let count = stripes.layout.objects();
    let plural = if count == 1 { "" } else { "s" };
    let stripe = human_size(stripes.layout.stripe());
    table.row("striped", format!("stripes of {stripe} over {count} object{plural}"));
    table.row("size", format!("{} ({})", human_size(stripes.size), stripes.size));
    if stripes.copy {
        table.row("copy", "of the descriptor: it can be read by, and not written");
    }
    table.heading("the whole, as its strictest object");
}

/// Adds the results for each target.
pub(super) fn target_rows(table: &mut Table, stripes: &Result<Stripes, String>) {
    let Ok(stripes) = stripes else { return };
    for group in groups(&stripes.objects) {
        let first = &stripes.objects[group.objects[0]];
        table.heading(&format!("target {} ({})", named(&group.target), numbered(&group.objects)));
        if first.state != ObjectState::Sound {
            table.row("nothing was tried", state_words(&first.state));
            continue;
        }
        place_rows(table, first.file_system, first.mount.as_ref());
        match &first.device {
            Ok(device) => table.row("device", &device.name),
            Err(reason) => table.row("device", format!("unknown: {reason}")),
        }
        match &first.geometry {
            Ok(geometry) => geometry_rows(table, geometry, optimal(&first.device)),
            Err(reason) => table.row("alignments", format!("unknown: {reason}")),
        }
        table.row("opens direct", answer_words(&first.trials.open_direct));
        table.row("direct reads are direct", answer_words(&first.trials.read_direct));
        table.row("RWF_DONTCACHE, reads", answer_words(&first.trials.uncached_read));
    }
}

/// Objects of one target with equal results.
struct ObjectGroup {
    target: PathBuf,
    objects: Vec<usize>,
}

fn target_of(object: &Object) -> &Path {
    object.path.parent().unwrap_or(Path::new("/"))
}

fn groups(objects: &[Object]) -> Vec<ObjectGroup> {
    let mut groups: Vec<ObjectGroup> = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let same = |group: &&mut ObjectGroup| {
            let other = &objects[group.objects[0]];
            group.target == target_of(object)
                && (&other.state, &other.geometry, &other.trials)
                    == (&object.state, &object.geometry, &object.trials)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.objects.push(index),
            None => groups
                .push(ObjectGroup { target: target_of(object).to_owned(), objects: vec![index] }),
        }
    }
    groups
}

/// Returns the numbers of objects: `object 1`, `objects 0, 3`.
fn numbered(objects: &[usize]) -> String {
    let numbers: Vec<String> = objects.iter().map(usize::to_string).collect();
    format!("object{} {}", if objects.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// Returns the result as a JSON object.
pub(super) fn to_json(stripes: &Result<Stripes, String>) -> Value {
    let stripes = match stripes {
        Ok(stripes) => stripes,
        Err(reason) => return json!({ "unknown": reason }),
    };
    let objects: Vec<Value> = stripes
        .objects
        .iter()
        .enumerate()
        .map(|(index, object)| of_object(index, object))
        .collect();
    json!({
        "id": stripes.id.to_string(),
        "bytes": stripes.size,
        "stripe_bytes": stripes.layout.stripe(),
        "stripe_count": stripes.layout.objects(),
        "copy": stripes.copy,
        "objects": objects,
    })
}

fn of_object(index: usize, object: &Object) -> Value {
    let sound = object.state == ObjectState::Sound;
    json!({
        "index": index,
        "path": object.path.to_string_lossy(),
        "target": target_of(object).to_string_lossy(),
        "sound": sound,
        "state": state_words(&object.state),
        "bytes": object.held,
        "file_system": sound.then(|| file_system_name(object.file_system, object.mount.as_ref())),
        "mount": object.mount.as_ref().map(mount_json),
        "geometry": or_unknown(&object.geometry, |known| {
            geometry_json(known, optimal(&object.device))
        }),
        "tried": {
            "open_direct": answer_json(&object.trials.open_direct),
            "read_direct": answer_json(&object.trials.read_direct),
            "dontcache_read": answer_json(&object.trials.uncached_read),
        },
        "device": or_unknown(&object.device, device_json),
    })
}
