//! The evidence, in words that a person can check.

use dio_common::units::size;

use super::facts::{Facts, History, Moved};
use super::model::{Advised, CachePoint, WayEstimate};
use crate::replay::planned::Plan;

/// A page cache has at least one page.
const PAGE: u64 = 4096;

/// Part of the requests from which on they are in order, or at random places.
const MOSTLY: f64 = 0.9;

/// What the requests of a group are like.
pub(super) fn of(facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(moved("read", &facts.read));
    if facts.read.bytes > 0 {
        let again = facts.read_again();
        lines.push(match again {
            // Headers and such are read again by every program.
            again if again < facts.read.bytes / 50 => "nothing is read again".to_owned(),
            _ => format!(
                "{} read again, nine tenths of it within {} of memory",
                size(again),
                size(facts.memory_for_reuse())
            ),
        });
    }
    lines.extend(moved("written", &facts.written));
    if facts.writers_of_one > 1 {
        lines.push(format!("up to {} threads write one file", facts.writers_of_one));
    }
    if facts.syncs > 0 {
        let bytes = facts.written.bytes.saturating_add(facts.written_mapped);
        let each = bytes.checked_div(facts.syncs).unwrap_or(0);
        lines.push(format!("synced {} times, every {}", facts.syncs, size(each)));
    }
    if facts.unsynced > 0 {
        lines.push(format!("{} not synced at the end", size(facts.unsynced)));
    }
    if facts.new_to_cache > 0 {
        lines.push(format!("{} new to the page cache", size(facts.new_to_cache)));
    }
    if facts.direct > 0 {
        lines.push(format!("{} requests direct already", facts.direct));
    }
    if facts.mapped > 0 {
        lines.push(format!("{} touched in mapped memory", size(facts.mapped)));
    }
    if facts.written_mapped > 0 {
        lines.push(format!("{} written in mapped memory", size(facts.written_mapped)));
    }
    lines
}

fn moved(what: &str, moved: &Moved) -> Option<String> {
    let (usual, part) = moved.usual_size().filter(|_| moved.bytes > 0)?;
    let order = match moved.order() {
        order if order >= MOSTLY => "in order".to_owned(),
        order if order <= 1.0 - MOSTLY => "at random places".to_owned(),
        order => format!("{:.0} % in order", order * 100.0),
    };
    let usual = if part > 0.5 { size(usual) } else { size(moved.bytes / moved.requests.max(1)) };
    Some(format!("{} {what} {order}, {} requests of {usual}", size(moved.bytes), moved.requests))
}

/// Why a way is advised, by the seconds that each takes.
pub(super) fn reasons(
    advised: Advised,
    estimates: &[WayEstimate],
    seconds: impl Fn(&WayEstimate) -> f64,
) -> Vec<String> {
    let of = |way| estimates.iter().find(|one| one.way == way);
    let (Some(as_is), Some(then)) = (of(Advised::Cached), of(advised)) else { return Vec::new() };
    let ratio_of = |one: &WayEstimate| seconds(one) / seconds(as_is).max(1e-9);
    if advised == Advised::Cached {
        let others = estimates.iter().filter(|one| one.way != Advised::Cached);
        let Some(ratio) = others.map(ratio_of).min_by(f64::total_cmp) else { return Vec::new() };
        let line = match ratio {
            ratio if ratio == f64::INFINITY => "no other way could be run".to_owned(),
            ratio if ratio > 1.1 => {
                format!("any other way takes {ratio:.1} times as long or longer")
            }
            _ => format!(
                "another way is not faster, and would leave only {} of the page cache to others",
                size(as_is.cache_bytes)
            ),
        };
        return vec![line];
    }
    let ratio = ratio_of(then);
    let mut lines = vec![if ratio < 0.9 {
        format!("{ratio:.2} times as long as it is")
    } else {
        format!("about as fast ({ratio:.2} times as long)")
    }];
    let left = as_is.cache_bytes.saturating_sub(then.cache_bytes);
    if left > 0 {
        lines.push(format!("{} of the page cache stay with others", size(left)));
    }
    lines
}

/// Why nothing can be advised.
pub(super) fn unsure(missing: &[String]) -> Vec<String> {
    let mut lines = vec![
        "the model is further from what was recorded than the ways are from each other".to_owned(),
    ];
    lines.extend(missing.iter().cloned());
    lines
}

/// What a trace does not have.
pub(super) fn missing(plan: &Plan) -> Vec<String> {
    let line = |(reason, count): (&&str, &u64)| match *reason {
        "to pipes, sockets and terminals" => None,
        "failed" => None,
        other => Some(format!("{count} requests are not in the prediction: {other}")),
    };
    let mut lines: Vec<String> = plan.left_out.iter().filter_map(line).collect();
    let files = plan.files.iter().filter(|file| file.is_used && file.is_cache_unseen).count();
    if files > 0 {
        lines.push(format!(
            "files whose pages in the page cache could not be seen, and which count as not cached: \
             {files}"
        ));
    }
    if plan.unseen_mappings > 0 {
        lines.push(format!(
            "files were mapped {} times: what is read and written in memory could not be seen",
            plan.unseen_mappings
        ));
    }
    lines
}

/// How much of what is read a page cache of some size would not have.
pub(super) fn miss_ratios(history: &History) -> Vec<CachePoint> {
    let read: u64 = history
        .files
        .iter()
        .fold(0, |sum, facts| facts.read.bytes.saturating_add(facts.mapped).saturating_add(sum));
    let mut hits = 0_u64;
    let mut points = Vec::new();
    for (power, bytes) in history.distances.iter().enumerate().take(48) {
        hits = hits.saturating_add(*bytes);
        if *bytes > 0 && 1_u64 << power >= PAGE {
            let miss_ratio = 1.0 - (hits as f64 / read.max(1) as f64).min(1.0);
            points.push(CachePoint { memory_bytes: 1 << power, miss_ratio });
        }
    }
    points
}
