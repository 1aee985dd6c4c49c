//! Tables with a number for each value of an enum, and the names of the values in reports.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use dio::Class;
use dio::file::Reason;
use dio::lock::LockClass;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Event, Gauge, Operation, RequestKind, Wait};

/// A type with a fixed list of values that have names.
pub trait Named: Copy + fmt::Debug + Eq + Send + Sync + 'static {
    /// An array with a number for each value.
    type Counts: AsRef<[u64]> + AsMut<[u64]> + Clone + Default + Eq + Send + Sync;

    /// An array with an atomic number for each value.
    type Cells: AsRef<[AtomicU64]> + Default + Send + Sync;

    /// The values, in the order of [`Named::index`].
    const LIST: &'static [Self];

    /// The name in reports: lower case, without spaces.
    fn label(self) -> &'static str;

    /// The index of the value in [`Named::LIST`].
    fn index(self) -> usize;
}

macro_rules! named {
    ($($kind:ty: $label:expr;)*) => {$(
        impl Named for $kind {
            type Counts = [u64; <$kind>::ALL.len()];
            type Cells = [AtomicU64; <$kind>::ALL.len()];

            const LIST: &'static [Self] = &<$kind>::ALL;

            fn label(self) -> &'static str {
                let label: fn($kind) -> &'static str = $label;
                label(self)
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

named! {
    Operation: Operation::name;
    RequestKind: RequestKind::name;
    Wait: Wait::name;
    Event: Event::name;
    Gauge: Gauge::name;
    Class: Class::name;
    LockClass: LockClass::name;
    Reason: reason_label;
}

/// Names for the reasons of the library, whose own texts are sentences.
fn reason_label(reason: Reason) -> &'static str {
    match reason {
        Reason::MisalignedRequest => "misaligned_request",
        Reason::MisalignedMemory => "misaligned_memory",
        Reason::EndOfFile => "end_of_file",
        Reason::NoDirectIo => "no_direct_io",
        Reason::KernelBuffers => "kernel_buffers",
        Reason::Small => "small",
    }
}

/// A number for each value of `K`. In JSON it is an object of the numbers that are not 0. Unknown
/// names are ignored when it is read, so that programs of different versions work together.
#[derive(Clone, PartialEq, Eq)]
pub struct Tally<K: Named> {
    counts: K::Counts,
}

impl<K: Named> Tally<K> {
    /// The number of one value.
    pub fn get(&self, key: K) -> u64 {
        self.counts.as_ref()[key.index()]
    }

    /// The sum over all values.
    pub fn total(&self) -> u64 {
        self.counts.as_ref().iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Increases the number of one value.
    pub fn add(&mut self, key: K, more: u64) {
        let count = &mut self.counts.as_mut()[key.index()];
        *count = count.wrapping_add(more);
    }

    /// Adds the other table's numbers.
    pub fn plus(&mut self, other: &Tally<K>) {
        self.combine(other, u64::wrapping_add);
    }

    /// Subtracts the numbers of an earlier reading; a number that would be negative becomes 0.
    pub fn minus(&mut self, earlier: &Tally<K>) {
        self.combine(earlier, u64::saturating_sub);
    }

    fn combine(&mut self, other: &Tally<K>, with: fn(u64, u64) -> u64) {
        for (count, other) in self.counts.as_mut().iter_mut().zip(other.counts.as_ref()) {
            *count = with(*count, *other);
        }
    }

    /// Whether no number is lower than in the other table.
    pub fn at_least(&self, other: &Tally<K>) -> bool {
        self.counts.as_ref().iter().zip(other.counts.as_ref()).all(|(count, other)| count >= other)
    }

    /// Iterates over values and their numbers, in the order of the values.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        K::LIST.iter().copied().zip(self.counts.as_ref().iter().copied())
    }
}

impl<K: Named> Default for Tally<K> {
    fn default() -> Self {
        Tally { counts: K::Counts::default() }
    }
}

impl<K: Named> fmt::Debug for Tally<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, count)| *count > 0)).finish()
    }
}

impl<K: Named> Serialize for Tally<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, count) in self.iter().filter(|(_, count)| *count > 0) {
            map.serialize_entry(key.label(), &count)?;
        }
        map.end()
    }
}

impl<'de, K: Named> Deserialize<'de> for Tally<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TallyVisitor(PhantomData))
    }
}

struct TallyVisitor<K>(PhantomData<K>);

impl<'de, K: Named> Visitor<'de> for TallyVisitor<K> {
    type Value = Tally<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of numbers by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tally<K>, A::Error> {
        let mut tally = Tally::default();
        while let Some((name, count)) = map.next_entry::<String, u64>()? {
            if let Some(key) = K::LIST.iter().find(|key| key.label() == name) {
                tally.add(*key, count);
            }
        }
        Ok(tally)
    }
}

/// A [`Tally`] that threads add to. For statistics only: there is no order between its numbers.
pub(super) struct Live<K: Named> {
    counts: K::Cells,
}

impl<K: Named> Live<K> {
    pub(super) fn add(&self, key: K, more: u64) {
        self.counts.as_ref()[key.index()].fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.as_ref().iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Adds the current numbers to `sum`.
    pub(super) fn add_to(&self, sum: &mut Tally<K>) {
        for (key, count) in K::LIST.iter().zip(self.counts.as_ref()) {
            sum.add(*key, count.load(Ordering::Relaxed));
        }
    }
}

impl<K: Named> Default for Live<K> {
    fn default() -> Self {
        Live { counts: K::Cells::default() }
    }
}

impl<K: Named> fmt::Debug for Live<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tally = Tally::default();
        self.add_to(&mut tally);
        tally.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_is_sound<K: Named>() {
        let mut names: Vec<&str> = K::LIST.iter().map(|key| key.label()).collect();
        for (place, key) in K::LIST.iter().enumerate() {
            assert_eq!(key.index(), place, "{key:?}");
        }
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), K::LIST.len(), "a name is used twice");
    }

    #[test]
    fn every_value_has_its_place_and_a_name_of_its_own() {
        list_is_sound::<Operation>();
        list_is_sound::<RequestKind>();
        list_is_sound::<Wait>();
        list_is_sound::<Event>();
        list_is_sound::<Gauge>();
        list_is_sound::<Class>();
        list_is_sound::<LockClass>();
        list_is_sound::<Reason>();
    }

    #[test]
    fn json_has_what_is_not_nought_and_unknown_names_do_no_harm() {
        let mut tally = Tally::<Class>::default();
        tally.add(Class::Direct, 7);
        assert_eq!(serde_json::to_string(&tally).unwrap(), r#"{"direct":7}"#);
        let read: Tally<Class> = serde_json::from_str(r#"{"direct":7,"quantum":3}"#).unwrap();
        assert_eq!(read, tally);
        assert!(serde_json::from_str::<Tally<Class>>(r#"{"direct":-7}"#).is_err());
    }

    #[test]
    fn differences_are_never_negative() {
        let mut tally = Tally::<RequestKind>::default();
        tally.add(RequestKind::Read, 5);
        let mut less = Tally::<RequestKind>::default();
        less.add(RequestKind::Read, 3);
        assert!(tally.at_least(&less) && !less.at_least(&tally));
        less.minus(&tally);
        assert_eq!(less.total(), 0);
    }
}
