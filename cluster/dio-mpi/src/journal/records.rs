//! The records of a file of marks, and what they note.
//!
//! The file begins with [`HEAD`]. A record of marks is their number, the marks, and a digest of
//! both. A record of values is the number of bytes that they take, with [`OF_VALUES`], the values,
//! each behind its mark and its length, and a digest of all. Numbers are little-endian.

use dio_cli::tool::Mark;

/// The beginning of a file of marks.
pub(super) const HEAD: &[u8; 16] = b"dio-mpi marks 1\n";

/// Bytes of a mark, and of the digest of a record.
const MARK: usize = 16;

/// Maximum number of marks in one record: more would be a mistake of ours or damage.
const RECORD_MARKS_MAX: usize = 1 << 20;

/// Maximum number of bytes of the values in one record.
const RECORD_BYTES_MAX: usize = RECORD_MARKS_MAX * MARK;

/// Says that a record is of values.
const OF_VALUES: u32 = 1 << 31;

/// Bytes before a value: its mark and its length.
const VALUE_HEAD: usize = MARK + 2;

/// What is noted.
#[derive(Debug, Default)]
pub(super) struct Noted {
    marks: Vec<Mark>,
    /// Marks of values, and where the lengths of these begin in `bytes`.
    values: Vec<(Mark, usize)>,
    bytes: Vec<u8>,
}

impl Noted {
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.values.is_empty()
    }

    /// How many notes there are.
    pub(super) fn len(&self) -> usize {
        self.marks.len() + self.values.len()
    }

    pub(super) fn add_mark(&mut self, mark: Mark) {
        self.marks.push(mark);
    }

    /// Adds a value.
    ///
    /// # Panics
    /// If it has 64 KiB or more.
    pub(super) fn add_value(&mut self, mark: Mark, value: &[u8]) {
        let length = u16::try_from(value.len()).expect("values are short");
        self.values.push((mark, self.bytes.len()));
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(value);
    }

    /// Prepares for [`Noted::has_mark`] and [`Noted::value`], when all is added.
    pub(super) fn sort(&mut self) {
        self.marks.sort_unstable();
        self.marks.dedup();
        let mut values = std::mem::take(&mut self.values);
        // Of several values for a mark the greatest stays.
        values.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.value_at(other.1).cmp(self.value_at(one.1)))
        });
        values.dedup_by_key(|(mark, _)| *mark);
        self.values = values;
    }

    pub(super) fn has_mark(&self, mark: &Mark) -> bool {
        self.marks.binary_search(mark).is_ok()
    }

    pub(super) fn value(&self, mark: &Mark) -> Option<&[u8]> {
        let found = self.values.binary_search_by_key(mark, |(mark, _)| *mark).ok()?;
        Some(self.value_at(self.values[found].1))
    }

    fn value_at(&self, at: usize) -> &[u8] {
        let length = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
        &self.bytes[at + 2..][..usize::from(length)]
    }

    /// Returns records of all notes.
    pub(super) fn records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for marks in self.marks.chunks(RECORD_MARKS_MAX) {
            let count = u32::try_from(marks.len()).expect("it is a part");
            let body: Vec<u8> = marks.iter().flat_map(|mark| mark.0).collect();
            bytes.extend(record(count, &body));
        }
        let mut body = Vec::new();
        for (mark, at) in &self.values {
            let value = self.value_at(*at);
            if body.len() + VALUE_HEAD + value.len() > RECORD_BYTES_MAX {
                bytes.extend(record_of_values(&std::mem::take(&mut body)));
            }
            body.extend(mark.0);
            body.extend(&self.bytes[*at..][..2 + value.len()]);
        }
        if !body.is_empty() {
            bytes.extend(record_of_values(&body));
        }
        bytes
    }
}

fn record_of_values(body: &[u8]) -> Vec<u8> {
    record(u32::try_from(body.len()).expect("it is a part") | OF_VALUES, body)
}

fn record(first: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = first.to_le_bytes().to_vec();
    bytes.extend(body);
    let digest = blake3::hash(&bytes);
    bytes.extend(&digest.as_bytes()[..MARK]);
    bytes
}

/// Reads the records of a file of marks. Returns where the valid ones end, and whether what follows
/// is more than a record that was cut short.
pub(super) fn read(bytes: &[u8], noted: &mut Noted) -> (usize, bool) {
    if !bytes.starts_with(HEAD) {
        return (0, !HEAD.starts_with(bytes));
    }
    let mut at = HEAD.len();
    while let Some(first) = bytes.get(at..at + 4) {
        let first = u32::from_le_bytes(first.try_into().expect("four bytes"));
        let (count, is_of_values) = ((first & !OF_VALUES) as usize, first & OF_VALUES != 0);
        let (length, most) = match is_of_values {
            true => (count, RECORD_BYTES_MAX),
            false => (count * MARK, RECORD_MARKS_MAX * MARK),
        };
        let end = at + 4 + length;
        if length > most || bytes.len() < end + MARK {
            return (at, length > most);
        }
        let (record, digest) = (&bytes[at..end], &bytes[end..end + MARK]);
        if blake3::hash(record).as_bytes()[..MARK] != *digest {
            // After a crash, the last record may have its length but not its bytes.
            return (at, bytes.len() > end + MARK);
        }
        let body = &record[4..];
        if is_of_values {
            if !read_values(body, noted) {
                return (at, true);
            }
        } else {
            let found = body.chunks_exact(MARK);
            noted.marks.extend(found.map(|mark| Mark(mark.try_into().expect("a whole mark"))));
        }
        at = end + MARK;
    }
    (at, false)
}

/// Reads the values of a record; returns false if they do not fill it.
fn read_values(mut body: &[u8], noted: &mut Noted) -> bool {
    while let Some((head, rest)) = body.split_at_checked(VALUE_HEAD) {
        let (mark, length) = head.split_at(MARK);
        let length = u16::from_le_bytes(length.try_into().expect("two bytes"));
        let Some((value, rest)) = rest.split_at_checked(length.into()) else { return false };
        noted.add_value(Mark(mark.try_into().expect("a whole mark")), value);
        body = rest;
    }
    body.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes of these numbers: of each a mark, or if it is odd a value of some bytes.
    fn notes(numbers: std::ops::Range<u8>) -> Noted {
        let mut noted = Noted::default();
        for number in numbers {
            let mark = Mark([number; MARK]);
            match number % 2 {
                0 => noted.add_mark(mark),
                _ => noted.add_value(mark, &vec![number; number.into()]),
            }
        }
        noted
    }

    fn assert_same(found: &Noted, expected: &Noted, told: &str) {
        let all = |noted: &Noted| {
            let values =
                noted.values.iter().map(|(mark, at)| (*mark, noted.value_at(*at).to_vec()));
            (noted.marks.clone(), values.collect::<Vec<_>>())
        };
        assert_eq!(all(found), all(expected), "{told}");
    }

    #[test]
    fn a_journal_cut_anywhere_or_changed_anywhere_is_believed_up_to_there() {
        let mut whole = HEAD.to_vec();
        let mut ends = vec![HEAD.len()];
        // Each of them makes one record: those of marks and those of values take turns.
        for part in 0..9 {
            whole.extend(notes(part..part + 1).records());
            ends.push(whole.len());
        }
        let valid_at = |at: usize| ends.iter().filter(|end| **end <= at).count();
        for cut in 0..=whole.len() {
            let mut found = Noted::default();
            let (valid, damaged) = read(&whole[..cut], &mut found);
            let records = valid_at(cut);
            assert_same(
                &found,
                &notes(0..records.saturating_sub(1) as u8),
                &format!("cut at {cut}"),
            );
            assert!(!damaged, "cut at {cut}");
            assert_eq!(valid, if records == 0 { 0 } else { ends[records - 1] });
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let mut found = Noted::default();
            read(&changed, &mut found);
            let records = valid_at(at).saturating_sub(1);
            assert_same(&found, &notes(0..records as u8), &format!("changed at {at}"));
        }
    }

    #[test]
    fn random_damage_adds_no_notes() {
        let mut rng = dio_test::Seed::new().rng();
        let mut written = HEAD.to_vec();
        for part in [0..20, 20..21, 21..60, 60..200] {
            written.extend(notes(part).records());
        }
        for _ in 0..2000 {
            let mut bytes = written.clone();
            for _ in 0..rng.range(1..4) {
                let (at, count) = (rng.range_usize(0..bytes.len()), rng.range_usize(0..100));
                match rng.range(0..4) {
                    0 => bytes[at] ^= 1 << rng.range(0..8),
                    1 => bytes.truncate(at + 1),
                    2 => drop(bytes.splice(at..at, rng.bytes(count))),
                    _ => bytes.extend_from_within(at..bytes.len().min(at + count)),
                }
            }
            let mut found = Noted::default();
            let (valid, _) = read(&bytes, &mut found);
            assert!(valid <= bytes.len());
            let is_written = |mark: &Mark| mark.0[0] < 200 && mark.0 == [mark.0[0]; MARK];
            assert!(found.marks.iter().all(|mark| is_written(mark) && mark.0[0] % 2 == 0));
            assert!(found.values.iter().all(|(mark, at)| {
                is_written(mark) && found.value_at(*at) == vec![mark.0[0]; mark.0[0].into()]
            }));
        }
    }

    #[test]
    fn of_several_values_the_greatest_counts() {
        let mut noted = Noted::default();
        for value in [&b"2b"[..], b"1", b"2c", b"2", b""] {
            noted.add_value(Mark([7; MARK]), value);
            noted.add_value(Mark([value.len() as u8; MARK]), value);
        }
        let mut bytes = HEAD.to_vec();
        bytes.extend(noted.records());
        let mut found = Noted::default();
        assert_eq!(read(&bytes, &mut found), (bytes.len(), false));
        found.sort();
        let value = |number| found.value(&Mark([number; MARK]));
        assert_eq!(value(7), Some(&b"2c"[..]));
        assert_eq!((value(0), value(1), value(2)), (Some(&b""[..]), Some(&b"2"[..]), value(7)));
        assert_eq!(value(3), None);
    }

    #[test]
    fn many_values_are_several_records() {
        let mut noted = Noted::default();
        let value = vec![1; 60_000];
        (0..=255).for_each(|number| noted.add_value(Mark([number; MARK]), &value));
        (0..=255).for_each(|number| noted.add_value(Mark([number; MARK]), &value[..59_999]));
        let mut bytes = HEAD.to_vec();
        bytes.extend(noted.records());
        let mut found = Noted::default();
        assert_eq!(read(&bytes, &mut found), (bytes.len(), false));
        assert_eq!(found.len(), 512);
        found.sort();
        assert!((0..=255).all(|number| found.value(&Mark([number; MARK])) == Some(&value)));
    }
}
