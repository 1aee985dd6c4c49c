//! Judges whether a disk is honest, as far as that is possible without pulling the plug: a pure
//! function of the kernel's facts and the measurements.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::facts::{Disk, StorageFacts, VirtualReason};
use super::sweep::{Measured, SamePlace};
use dio_common::units::{seconds, size};

/// Rotations per second of the fastest disk that was ever sold: 15,000 rpm. A synced overwrite of
/// one block takes at least one rotation.
pub const FASTEST_TURNS: f64 = 250.0;

/// The shortest time in seconds for programming a page of flash (SLC; other kinds take five to
/// twenty times as long).
const FLASH_PROGRAM: f64 = 50e-6;

/// A time in seconds that is too short for a flush of a volatile cache on any medium.
const NO_TIME: f64 = 20e-6;

/// The verdict about the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It certainly acknowledges writes that it cannot have made durable.
    Lies,
    /// Acknowledged writes are lost at a power failure, and the storage does not claim otherwise.
    NotDurable,
    /// It is faster than the medium should be, for which there are honest explanations too.
    Suspect,
    /// No observation indicates a problem.
    NothingAgainst,
    /// No statement is possible.
    Unknown,
}

/// The confidence of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Other explanations are equally likely.
    Low,
    /// Other explanations are unlikely.
    Medium,
    /// No other explanation is known.
    High,
}

/// One observation and its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The subject of the observation.
    pub what: Cow<'static, str>,
    /// The observed value.
    pub found: String,
    /// Its meaning.
    pub means: String,
    /// The confidence of the observation: a statement of the disk counts less than a measurement.
    pub confidence: Confidence,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Honesty {
    /// The verdict.
    pub verdict: Verdict,
    /// The confidence of the verdict.
    pub confidence: Confidence,
    /// The reason, in one sentence.
    pub reason: String,
    /// The observations behind it.
    pub evidence: Vec<Evidence>,
}

impl Honesty {
    /// Whether the disk lied. This verdict is given only with high confidence.
    pub fn is_a_lie(&self) -> bool {
        self.verdict == Verdict::Lies
    }

    /// Whether no setting of any program can make a commit durable.
    pub fn leaves_no_setting(&self) -> bool {
        matches!(self.verdict, Verdict::Lies | Verdict::NotDurable)
    }
}

/// Judges a disk.
pub fn judge(facts: &StorageFacts, measured: &Measured) -> Honesty {
    let (verdict, confidence, reason) = decide(facts, measured);
    Honesty { verdict, confidence, reason, evidence: evidence(facts, measured) }
}

type Decision = (Verdict, Confidence, String);

fn decide(facts: &StorageFacts, measured: &Measured) -> Decision {
    if let Some(decision) = by_mount(facts) {
        return decision;
    }
    let Some(disk) = &facts.disk else {
        let words = "what is below is no block device of this machine; whoever serves it decides \
                     what a sync means";
        return (Verdict::Unknown, Confidence::High, words.to_owned());
    };
    if disk.unreal() == Some(VirtualReason::Memory) {
        let words = format!("{} is memory: what is written is gone with the power", disk.name);
        return (Verdict::NotDurable, Confidence::High, words);
    }
    let Some(place) = &measured.same_place else {
        return (Verdict::Unknown, Confidence::High, "nothing was measured".to_owned());
    };
    if let Some(decision) = by_flushes(disk, place) {
        return decision;
    }
    if let Some(unreal) = disk.unreal() {
        return of_unreal(disk, unreal, place, measured);
    }
    let mut decision = match disk.rotational {
        Some(true) => of_rotational(disk, place),
        Some(false) => of_flash(disk, place, measured),
        None => {
            let words = "the kernel does not say what kind of medium this is, so there is no limit \
                         to compare with";
            (Verdict::Unknown, Confidence::High, words.to_owned())
        }
    };
    // In a virtual machine even a disk that looks physical may be a file of the host.
    if facts.virtual_machine && decision.1 > Confidence::Low {
        if decision.0 == Verdict::Lies {
            decision.0 = Verdict::Suspect;
        }
        decision.1 = Confidence::Low;
        decision.2.push_str("; but the machine is virtual, and so may the disk be");
    }
    decision
}

/// The verdict that follows from the mount alone, if any.
fn by_mount(facts: &StorageFacts) -> Option<Decision> {
    let memory = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
    let not_durable = |words: String| Some((Verdict::NotDurable, Confidence::High, words));
    if let Some(name) = facts.file_system.as_deref().filter(|name| memory.contains(name)) {
        return not_durable(format!(
            "{name} is memory: what is written is gone with the power, synced or not"
        ));
    }
    if let Some(option) = facts.mounted_with(&["volatile"]) {
        return not_durable(format!(
            "the mount option {option} makes overlayfs leave out every sync"
        ));
    }
    let cached = facts.disk.as_ref().is_none_or(|disk| disk.volatile_cache != Some(false));
    match facts.mounted_with(&["nobarrier", "barrier=0"]) {
        Some(option) if cached => not_durable(format!(
            "the mount option {option} keeps the file system from flushing the disk's cache, which \
             is volatile"
        )),
        _ => None,
    }
}

/// The verdict if syncs do not reach the disk as flushes. A device that is composed of others is
/// exempt, since its flushes are not counted.
fn by_flushes(disk: &Disk, place: &SamePlace) -> Option<Decision> {
    let counts = disk.queued && disk.unreal() != Some(VirtualReason::Composed);
    let none = counts && place.flushes == Some(0) && place.syncs >= 8;
    (none && disk.volatile_cache == Some(true)).then(|| {
        let words = format!(
            "{} says that its cache is volatile, and during {} syncs it got no flush: something \
             above it leaves them out",
            disk.name, place.syncs
        );
        (Verdict::NotDurable, Confidence::Medium, words)
    })
}

fn of_rotational(disk: &Disk, place: &SamePlace) -> Decision {
    let rate = place.per_second;
    // Ten per cent allow for inaccuracies of clock and spindle.
    if rate <= FASTEST_TURNS * 1.1 {
        let words =
            format!("{rate:.0} syncs of one place a second are no more than the medium can turn");
        return (Verdict::NothingAgainst, Confidence::Medium, words);
    }
    let too_fast = format!(
        "{rate:.0} syncs of one place a second, and even at 15,000 rpm there are \
         {FASTEST_TURNS:.0} turns: they are not on the medium when they are acknowledged"
    );
    match disk.volatile_cache {
        Some(true) if rate > 4.0 * FASTEST_TURNS => (
            Verdict::Lies,
            Confidence::High,
            format!("{too_fast}, and the disk says that its cache is volatile"),
        ),
        Some(true) => (
            Verdict::Suspect,
            Confidence::Medium,
            format!(
                "{too_fast}; a disk that writes elsewhere first (shingled, hybrid) could do that \
                 honestly"
            ),
        ),
        _ => (
            Verdict::Suspect,
            Confidence::Low,
            format!(
                "{too_fast}; a controller with a battery does that honestly, and the disk claims \
                 no volatile cache"
            ),
        ),
    }
}

fn of_flash(disk: &Disk, place: &SamePlace, measured: &Measured) -> Decision {
    let quick = place.p50 < FLASH_PROGRAM;
    let free = flushes_cost_nothing(measured);
    match disk.volatile_cache {
        Some(true) if quick && free => (
            Verdict::Suspect,
            Confidence::Medium,
            "its cache is volatile by its own word, yet flushing it takes less than flash can be \
             programmed in and no longer with more to flush: either flushes are ignored, or the \
             cache is protected and the disk does not say so"
            .to_owned(),
        ),
        Some(true) if quick || free => (
            Verdict::Suspect,
            Confidence::Low,
            "its cache is volatile by its own word, and flushing it costs little; it may write as \
             fast as it is given data"
                .to_owned(),
        ),
        Some(true) => (
            Verdict::NothingAgainst,
            Confidence::Medium,
            "flushing its volatile cache takes the time that flash takes".to_owned(),
        ),
        Some(false) => (
            Verdict::NothingAgainst,
            Confidence::Low,
            "it claims to have no volatile cache, so the kernel never asks it to flush: this rests \
             on its word alone"
                .to_owned(),
        ),
        None => {
            let words = "the kernel does not say whether it has a volatile cache";
            (Verdict::Unknown, Confidence::High, words.to_owned())
        }
    }
}

fn of_unreal(
    disk: &Disk,
    unreal: VirtualReason,
    place: &SamePlace,
    measured: &Measured,
) -> Decision {
    let below = match unreal {
        VirtualReason::Virtual => "the host decides what a flush means, and may lie",
        VirtualReason::Loop => {
            "the file system and the disk below its file decide what a flush means"
        }
        VirtualReason::Composed => "the devices below decide what a flush means: test each of them",
        VirtualReason::Remote | VirtualReason::Memory => {
            "whoever serves it decides what a flush means"
        }
    };
    if disk.volatile_cache == Some(true) && place.p50 < NO_TIME && flushes_cost_nothing(measured) {
        let words = format!(
            "{}: {below}; a sync takes {}, in which no medium is written, so flushes may end in \
             somebody's memory",
            disk.name,
            seconds(place.p50)
        );
        return (Verdict::Suspect, Confidence::Medium, words);
    }
    let words = format!(
        "{}: {below}; nothing seen here speaks against it, and nothing could prove it",
        disk.name
    );
    (Verdict::Unknown, Confidence::High, words)
}

/// Whether the time of a flush does not grow with the amount to flush. `false` if that was not
/// measured.
fn flushes_cost_nothing(measured: &Measured) -> bool {
    match (measured.flush_after.first(), measured.flush_after.last()) {
        (Some((_, nothing)), Some((amount, much))) if *amount >= 8 << 20 && measured.direct => {
            *much < 2.0 * nothing + FLASH_PROGRAM
        }
        _ => false,
    }
}

fn evidence(facts: &StorageFacts, measured: &Measured) -> Vec<Evidence> {
    let mut list = Vec::new();
    let mut add = |what, found: String, means: &str, confidence| {
        list.push(Evidence {
            what: Cow::Borrowed(what),
            found,
            means: means.to_owned(),
            confidence,
        });
    };
    if let Some(disk) = &facts.disk {
        let kind = match disk.unreal() {
            Some(VirtualReason::Virtual) => "a virtual disk",
            Some(VirtualReason::Loop) => "a file of another file system",
            Some(VirtualReason::Memory) => "memory",
            Some(VirtualReason::Composed) => "made of other devices",
            Some(VirtualReason::Remote) => "served by somebody else",
            None if disk.rotational == Some(true) => "a medium that turns",
            None if disk.rotational == Some(false) => "flash, or another medium that does not turn",
            None => "not said what it is",
        };
        add("disk", name_of(disk), kind, Confidence::Medium);
        let cache = match disk.volatile_cache {
            Some(true) => {
                ("write back", "what was written is lost with the power unless it is flushed")
            }
            Some(false) => (
                "write through",
                "it claims that nothing is lost with the power; the kernel sends no flushes",
            ),
            None => ("not known", "the kernel does not say whether flushes are needed"),
        };
        add("write cache (queue/write_cache)", cache.0.to_owned(), cache.1, Confidence::Medium);
        let fua = match disk.fua {
            Some(true) => (
                "yes",
                "O_DSYNC and RWF_DSYNC can make a direct write durable without flushing everything",
            ),
            Some(false) => ("no", "each durable write is a write and a flush of everything"),
            None => ("not known", "the kernel does not say"),
        };
        add("forced unit access (queue/fua)", fua.0.to_owned(), fua.1, Confidence::Medium);
        let barriers = match facts.mounted_with(&["nobarrier", "barrier=0"]) {
            Some(option) => (option, "the file system sends no flushes"),
            None => ("on", "no mount option turns them off"),
        };
        add("barriers (mount options)", barriers.0.to_owned(), barriers.1, Confidence::High);
    }
    if let Some(place) = &measured.same_place {
        measured_evidence(place, measured, &mut add);
    }
    list
}

fn measured_evidence(
    place: &SamePlace,
    measured: &Measured,
    add: &mut impl FnMut(&'static str, String, &str, Confidence),
) {
    add(
        "syncs of one place",
        format!("{:.0}/s, median {}", place.per_second, seconds(place.p50)),
        "a disk that turns can do one a turn: 120/s at 7,200 rpm, 250/s at 15,000; flash takes \
         0.05 to 3 ms to program",
        Confidence::High,
    );
    if let Some(flushes) = place.flushes {
        let means = if flushes >= place.syncs / 2 {
            "syncs reach the disk as flushes"
        } else {
            "fewer than syncs: it needs none, they go another way (FUA), or somebody leaves them \
             out"
        };
        add(
            "flush requests meanwhile",
            format!("{flushes} during {} syncs, of everybody", place.syncs),
            means,
            Confidence::Medium,
        );
    }
    if measured.flush_after.len() > 1 {
        let each =
            |(amount, time): &(u64, f64)| format!("{} after {}", seconds(*time), size(*amount));
        let found: Vec<String> = measured.flush_after.iter().map(each).collect();
        let means = if !measured.direct {
            "through the page cache, so most of it is the time to write"
        } else if flushes_cost_nothing(measured) {
            "more unsynced bytes cost nothing: the cache is written as fast as it fills, \
             protected, or not flushed"
        } else {
            "more unsynced bytes take longer, as when a cache is really written out"
        };
        let confidence = if measured.direct { Confidence::Medium } else { Confidence::Low };
        add("time of a flush", found.join(", "), means, confidence);
    }
}

fn name_of(disk: &Disk) -> String {
    let mut name = disk.name.clone();
    if let Some(model) = &disk.model {
        name.push_str(&format!(", {model}"));
    }
    if let Some(driver) = disk.driver.as_ref().filter(|_| disk.model.is_none()) {
        name.push_str(&format!(", driver {driver}"));
    }
    if let Some(file) = &disk.backing_file {
        name.push_str(&format!(", {}", file.display()));
    }
    if !disk.parts.is_empty() {
        name.push_str(&format!(", made of {}", disk.parts.join(", ")));
    }
    name
}

#[cfg(test)]
mod tests;
