//! The stamp of an object: which state of the file the object belongs to, and how long it is. Only
//! this module compares stamps.
//!
//! A header identifies the file of an object, but a copy of yesterday has the same header. So each
//! object has, behind its header, a stamp of [`STAMP_LEN`] bytes at [`STAMP_AT`], which every
//! writing session changes in all objects:
//!
//! ```text
//! dio stripe stamp 1
//! id 0f…
//! index 1
//! generation 7
//! phase closed
//! durable 5242880
//! length 5242880
//! boot 8e1f2c52-…
//! sum 0b3c88e1
//! ```
//!
//! - `generation` is raised by the first change after the file was closed: in all objects, durably,
//!   before that change.
//! - `durable` bytes of the object survive a power cut; the object is never shorter.
//! - `length` is the exact length of a closed object. If it exceeds `durable`, the object was
//!   closed without a sync, and `length` counts only while the system named by `boot` runs.
//!
//! # Phases
//!
//! A session goes through four phases. Each is written to all objects before the next one is
//! written to any:
//!
//! 1. *opening*, with the new generation, durably;
//! 2. *open*: from now on bytes may change;
//! 3. *closing*, when the last writer closes the file, with the final lengths;
//! 4. *closed*.
//!
//! So an interrupted writer leaves two neighbouring phases, and every other combination is damage.
//! Example: an object of generation 6 beside objects of generation 7 that are *open* was restored
//! from an old copy. Beside objects that are all *opening*, it is one that the writer had not
//! reached yet, before anything changed.

use rustix::io::Errno;

use super::format::{FormatError, Id, fields, number, push, seal};

/// Offset of the stamp in an object, in bytes. It has a sector of its own, so that no disk rewrites
/// a part of the header with it.
pub const STAMP_AT: u64 = 512;

/// Length of a stamp in bytes.
pub(super) const STAMP_LEN: u64 = 512;

const MAGIC: &str = "dio stripe stamp ";
const VERSION: u32 = 1;

/// The phase of a writing session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all objects have the new generation yet; no byte has changed.
    Opening,
    /// Objects may be longer than their stamps say.
    Open,
    /// Not all objects have their final lengths yet.
    Closing,
    /// The session has ended: the objects have the lengths in their stamps.
    Closed,
}

impl Phase {
    const NAMES: [(Phase, &str); 4] = [
        (Phase::Opening, "opening"),
        (Phase::Open, "open"),
        (Phase::Closing, "closing"),
        (Phase::Closed, "closed"),
    ];

    fn name(self) -> &'static str {
        Phase::NAMES[self as usize].1
    }

    fn parse(text: &str) -> Option<Phase> {
        Phase::NAMES.iter().find(|(_, name)| *name == text).map(|(phase, _)| *phase)
    }
}

/// The stamp of an object. Lengths are in bytes, the header included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Identity of the file.
    pub id: Id,
    /// Index of the object.
    pub index: usize,
    /// Raised by each writing session before its first change.
    pub generation: u64,
    /// The phase of that session.
    pub phase: Phase,
    /// Bytes of the object that are durable.
    pub durable: u64,
    /// Length of the object when the stamp was written.
    pub length: u64,
    /// Boot ID of the system that wrote it; empty if unknown.
    pub boot: String,
}

impl Stamp {
    /// The stamp of a new object, whose data begin at `start`.
    pub fn first(id: Id, index: usize, start: u64) -> Stamp {
        Stamp {
            id,
            index,
            generation: 1,
            phase: Phase::Closed,
            durable: start,
            length: start,
            boot: String::new(),
        }
    }

    /// The bytes of the stamp in an object.
    ///
    /// # Errors
    /// [`FormatError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut text = format!("{MAGIC}{VERSION}\n");
        push(&mut text, "id", self.id);
        push(&mut text, "index", self.index);
        push(&mut text, "generation", self.generation);
        push(&mut text, "phase", self.phase.name());
        push(&mut text, "durable", self.durable);
        push(&mut text, "length", self.length);
        if !self.boot.is_empty() {
            push(&mut text, "boot", &self.boot);
        }
        seal(text, STAMP_LEN)
    }

    /// Reads what [`Stamp::encode`] has made.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Stamp, FormatError> {
        let (mut id, mut phase, mut numbers, mut boot) = (None, None, [None; 4], String::new());
        for (key, value) in fields(bytes, MAGIC, VERSION, STAMP_LEN)? {
            match ["index", "generation", "durable", "length"]
                .iter()
                .position(|known| *known == key)
            {
                Some(place) => numbers[place] = Some(number(value)?),
                None if key == "id" => id = Id::parse(value),
                None if key == "phase" => phase = Phase::parse(value),
                None if key == "boot" => boot = value.to_owned(),
                None => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        let (Some(id), Some(phase), [Some(index), Some(generation), Some(durable), Some(length)]) =
            (id, phase, numbers)
        else {
            return Err(FormatError::Senseless("a key is missing"));
        };
        Ok(Stamp { id, index: index as usize, generation, phase, durable, length, boot })
    }

    /// Reads the stamp from the first bytes of an object whose header says that it has one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn within(bytes: &[u8]) -> Result<Stamp, FormatError> {
        let (from, to) = (STAMP_AT as usize, (STAMP_AT + STAMP_LEN) as usize);
        bytes.get(from..to).ok_or(FormatError::Damaged).and_then(Stamp::decode)
    }

    /// The length of an object that was found `length` bytes long, if only dio has written to it.
    pub fn length_of(&self, length: u64, is_local: bool, boot: &str) -> u64 {
        match self.is_exact(boot) && is_local {
            true => self.length,
            false => length.max(self.least_length(boot)),
        }
    }

    /// The least length of the object, on the system with this boot ID.
    fn least_length(&self, boot: &str) -> u64 {
        if self.is_exact(boot) { self.length } else { self.durable }
    }

    /// Whether the object has exactly the length in the stamp.
    fn is_exact(&self, boot: &str) -> bool {
        self.phase == Phase::Closed
            && (self.durable == self.length || (!boot.is_empty() && self.boot == boot))
    }
}

/// The state of an object as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundState {
    /// Index of the object.
    pub index: usize,
    /// Its stamp; `None` in the format without stamps.
    pub stamp: Option<Result<Stamp, FormatError>>,
    /// Its length in bytes, header included.
    pub length: u64,
    /// Whether the locks of all its writers are visible on this machine.
    pub is_local: bool,
}

impl FoundState {
    /// Its stamp, if it is valid.
    pub fn stamp(&self) -> Option<&Stamp> {
        self.stamp.as_ref().and_then(|stamp| stamp.as_ref().ok())
    }

    /// The generation of its stamp; 0 without one.
    pub fn generation(&self) -> u64 {
        self.stamp().map_or(0, |stamp| stamp.generation)
    }

    fn phase(&self) -> Option<Phase> {
        self.stamp().map(|stamp| stamp.phase)
    }
}

/// A fault of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFault {
    /// Index of the object.
    pub index: usize,
    /// The fault as an error number.
    pub errno: Errno,
    /// The fault in words.
    pub what: String,
}

/// The state of the writing session, by the stamps of all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The generation; 0 for a file without stamps.
    pub generation: u64,
    /// Whether a session is open: a process writes, or was interrupted.
    pub is_open: bool,
    /// Whether all objects are open in this generation, so that another writer may join the
    /// session.
    pub may_join: bool,
    /// The generation of the next session.
    pub next: u64,
}

/// Compares the stamps of all objects of a file, on the system with this boot ID.
///
/// # Errors
/// The faults of all wrong objects.
pub fn compare_stamps(
    id: Id,
    seen: &[FoundState],
    boot: &str,
) -> Result<SessionState, Vec<ObjectFault>> {
    let generation = seen.iter().map(FoundState::generation).max().unwrap_or(0);
    let newest = |seen: &&FoundState| seen.generation() == generation;
    let begun = seen.iter().filter(newest).all(|seen| seen.phase() == Some(Phase::Opening));
    // Within one boot the page cache keeps the order of the phases; after a power cut the disks
    // need not.
    let ordered = !boot.is_empty()
        && seen
            .iter()
            .filter(newest)
            .all(|seen| seen.stamp().is_some_and(|stamp| stamp.boot == boot));
    let is_closed = seen.iter().filter(newest).any(|seen| seen.phase() == Some(Phase::Closed));
    let mut faults = Vec::new();
    for object in seen {
        let index = object.index;
        let wrong = match &object.stamp {
            Some(Err(error)) => {
                Some((Errno::BADMSG, format!("has a stamp that cannot be used: {error}")))
            }
            Some(Ok(stamp)) if (stamp.id, stamp.index) != (id, index) => {
                Some((Errno::STALE, "has the stamp of another object".to_owned()))
            }
            _ if object.generation() < generation
                && !(begun && object.generation() + 1 == generation) =>
            {
                Some((Errno::STALE, older(object, generation)))
            }
            Some(Ok(stamp)) if ordered && is_closed && stamp.phase == Phase::Open => {
                let what = "is a copy that was made before the file was closed, restored since";
                Some((Errno::STALE, what.to_owned()))
            }
            Some(Ok(stamp)) => judge_length(stamp, object, boot).map(|what| (Errno::UCLEAN, what)),
            None => None,
        };
        faults.extend(wrong.map(|(errno, what)| ObjectFault { index, errno, what }));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let all = |phase: Phase| seen.iter().all(|seen| newest(&seen) && seen.phase() == Some(phase));
    let is_complete = seen.iter().all(|seen| newest(&seen));
    Ok(SessionState {
        generation,
        is_open: generation > 0 && !all(Phase::Closed),
        may_join: generation > 0 && all(Phase::Open),
        // An interrupted beginning keeps its generation: with a higher one, the objects that it had
        // not reached would be too old.
        next: if is_complete { generation + 1 } else { generation },
    })
}

fn older(object: &FoundState, generation: u64) -> String {
    match object.stamp() {
        Some(stamp) => format!(
            "is older than the others: a copy of generation {} among objects of generation \
             {generation}",
            stamp.generation
        ),
        None => format!(
            "is older than the others: it has no stamp, and they are of generation {generation}"
        ),
    }
}

fn judge_length(stamp: &Stamp, object: &FoundState, boot: &str) -> Option<String> {
    let (length, exact) = (object.length, stamp.is_exact(boot));
    let least = stamp.least_length(boot);
    match () {
        () if length < least => {
            Some(format!("was cut off: it is {length} bytes long, and was {least}"))
        }
        // On a network, another machine may be extending it whose lock is not visible here.
        () if exact && length > least && object.is_local => Some(format!(
            "was made longer by something else: it is {length} bytes long, and was {least}"
        )),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Id = Id([7; 16]);

    fn seen(index: usize, generation: u64, phase: Phase, durable: u64, length: u64) -> FoundState {
        let stamp = Stamp { id: ID, index, generation, phase, durable, length, boot: "one".into() };
        FoundState { index, stamp: Some(Ok(stamp)), length, is_local: true }
    }

    fn old(length: u64) -> FoundState {
        FoundState { index: 0, stamp: None, length, is_local: true }
    }

    fn at_fault(objects: &[FoundState], boot: &str) -> Vec<usize> {
        compare_stamps(ID, objects, boot)
            .map_or_else(|faults| faults.iter().map(|fault| fault.index).collect(), |_| Vec::new())
    }

    #[test]
    fn a_stamp_is_read_back_and_no_changed_byte_goes_unnoticed() {
        let stamp = Stamp {
            id: ID,
            index: 255,
            generation: u64::MAX,
            phase: Phase::Closing,
            durable: u64::MAX,
            length: u64::MAX,
            boot: "01234567-89ab-cdef-0123-456789abcdef".into(),
        };
        let bytes = stamp.encode().unwrap();
        assert_eq!(Stamp::decode(&bytes).as_ref(), Ok(&stamp));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            Stamp::decode(&damaged).unwrap_err();
        }
    }

    /// Every state that a writer leaves when it is stopped between two writes of stamps.
    #[test]
    fn an_interrupted_session_is_no_damage() {
        use Phase::{Closed, Closing, Open, Opening};
        let steps = [(4, Closed), (5, Opening), (5, Open), (5, Closing), (5, Closed), (6, Opening)];
        for pair in steps.windows(2) {
            for reached in 0..=3 {
                let at = |index: usize| pair[usize::from(index < reached)];
                let objects: Vec<FoundState> =
                    (0..3).map(|index| seen(index, at(index).0, at(index).1, 9000, 9000)).collect();
                let standing = compare_stamps(ID, &objects, "one").unwrap();
                let whole = reached == 0 || reached == 3;
                assert_eq!(standing.is_open, !(whole && at(0).1 == Closed), "{objects:?}");
                assert_eq!(standing.may_join, whole && at(0).1 == Open);
                // A writer that comes next can be interrupted as well.
                let mut next = objects.clone();
                next[1] = seen(1, standing.next, Opening, 9000, 9000);
                assert_eq!(at_fault(&next, "one"), [0; 0], "{next:?}");
            }
        }
        // What had no stamps gets them.
        assert_eq!(at_fault(&[old(5000), seen(1, 1, Opening, 5000, 5000)], "one"), [0; 0]);
        assert_eq!(at_fault(&[old(5000), seen(1, 1, Open, 5000, 5000)], "one"), [0]);
        // A power cut leaves stamps of one session in any order.
        assert_eq!(
            at_fault(&[seen(0, 5, Open, 9000, 9000), seen(1, 5, Closed, 9000, 9000)], "two"),
            [0; 0]
        );
    }

    #[test]
    fn an_object_of_another_time_is_damage() {
        use Phase::{Closed, Closing, Open, Opening};
        for phase in [Open, Closing, Closed] {
            let objects = [seen(0, 5, phase, 9000, 9000), seen(1, 4, Closed, 9000, 9000)];
            assert_eq!(at_fault(&objects, "one"), [1], "{phase:?}");
        }
        assert_eq!(
            at_fault(&[seen(0, 5, Opening, 9000, 9000), seen(1, 3, Closed, 9000, 9000)], "one"),
            [1]
        );
        assert_eq!(
            at_fault(&[seen(0, 5, Open, 9000, 9000), seen(1, 5, Closed, 9000, 9000)], "one"),
            [0]
        );
        let mut doubled = seen(1, 5, Closed, 9000, 9000);
        doubled.index = 0;
        assert_eq!(at_fault(&[doubled, seen(1, 5, Closed, 9000, 9000)], "one"), [0]);
    }

    #[test]
    fn an_object_of_another_length_is_damage() {
        let with = |length: u64, phase, durable, recorded, is_local| {
            let stamp = Stamp {
                id: ID,
                index: 0,
                generation: 5,
                phase,
                durable,
                length: recorded,
                boot: "one".into(),
            };
            [FoundState { index: 0, stamp: Some(Ok(stamp)), length, is_local }]
        };
        // Synced before it was closed.
        for boot in ["one", "two", ""] {
            assert_eq!(at_fault(&with(9000, Phase::Closed, 9000, 9000, true), boot), [0; 0]);
            assert_eq!(at_fault(&with(8999, Phase::Closed, 9000, 9000, true), boot), [0]);
            assert_eq!(at_fault(&with(9001, Phase::Closed, 9000, 9000, true), boot), [0]);
            assert_eq!(at_fault(&with(9001, Phase::Closed, 9000, 9000, false), boot), [0; 0]);
        }
        // Closed without a sync.
        assert_eq!(at_fault(&with(8999, Phase::Closed, 4096, 9000, true), "one"), [0]);
        assert_eq!(at_fault(&with(8999, Phase::Closed, 4096, 9000, true), "two"), [0; 0]);
        assert_eq!(at_fault(&with(4095, Phase::Closed, 4096, 9000, true), "two"), [0]);
        // Open: no shorter than what was synced.
        assert_eq!(at_fault(&with(20_000, Phase::Open, 9000, 9000, true), "one"), [0; 0]);
        assert_eq!(at_fault(&with(8999, Phase::Open, 9000, 9000, true), "one"), [0]);
    }
}
