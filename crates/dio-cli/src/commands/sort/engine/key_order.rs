//! Sorts entries.
//!
//! Entries are numbers that begin with the prefix, so most of the work is sorting numbers without
//! looking at the lines. Among equal prefixes the lines decide. Lines that compare as bytes are
//! sorted by their next eight bytes, and so on; other lines by [`Order::compare_rest`].

use std::hint::black_box;

use super::entry::LineEntry;
use crate::commands::sort::key::Order;

/// Groups of equal prefixes with at most this many lines are sorted by comparing the lines.
const COMPARE_GROUP_MAX: usize = 12;

/// Maximum recursion depth. Each level divides a group by the next eight bytes; below this
/// depth the lines are compared instead, because the stack is limited.
const DEPTH_MAX: u32 = 64;

/// Number of lines whose memory is fetched before the first of them is needed.
pub(super) const PREFETCH_LINES: usize = 16;

/// Sorts entries of lines in `bytes`. Lines that compare equal stay in the order of their offsets.
pub(super) fn arrange(entries: &mut [LineEntry], bytes: &[u8], terminator: u8, order: &Order) {
    entries.sort_unstable();
    let lines = EntryLines { bytes, terminator, order };
    for group in
        entries.chunk_by_mut(|a, b| a.prefix() == b.prefix()).filter(|group| group.len() > 1)
    {
        lines.tell_apart(group);
    }
}

/// The lines that entries refer to.
struct EntryLines<'a> {
    bytes: &'a [u8],
    terminator: u8,
    order: &'a Order,
}

impl EntryLines<'_> {
    /// Sorts entries whose prefixes are equal.
    fn tell_apart(&self, group: &mut [LineEntry]) {
        match self.order.is_bytes() {
            Some(reverse) if group.len() > COMPARE_GROUP_MAX => {
                let prefix = group[0].prefix();
                self.by_bytes(group, 8, reverse, DEPTH_MAX);
                group.iter_mut().for_each(|entry| *entry = entry.with_prefix(prefix));
            }
            _ => self.by_comparing(group),
        }
    }

    fn by_comparing(&self, group: &mut [LineEntry]) {
        let line = |entry: LineEntry| entry.line(self.bytes, self.terminator);
        group.sort_unstable_by(|a, b| {
            self.order.compare_rest(line(*a), line(*b)).then_with(|| a.offset().cmp(&b.offset()))
        });
    }

    /// Sorts lines as bytes. Their first `from` bytes are equal, if lines are padded with zeros.
    /// The prefixes of the entries are overwritten.
    fn by_bytes(&self, group: &mut [LineEntry], mut from: usize, reverse: bool, levels: u32) {
        loop {
            if !self.load_prefixes(group, from, reverse) {
                return self.by_length(group, reverse);
            }
            group.sort_unstable();
            if group[0].prefix() != group[group.len() - 1].prefix() {
                break;
            }
            from = self.common_prefix_length(group, from + 8);
        }
        for group in group.chunk_by_mut(|a, b| a.prefix() == b.prefix()) {
            match group.len() {
                0 | 1 => {}
                2..=COMPARE_GROUP_MAX => self.by_comparing(group),
                _ if levels == 0 => self.by_comparing(group),
                _ => self.by_bytes(group, from + 8, reverse, levels - 1),
            }
        }
    }

    /// Sets the prefix of each entry to the eight bytes of its line at `from`. Returns whether
    /// any line is longer than `from` bytes.
    fn load_prefixes(&self, group: &mut [LineEntry], from: usize, reverse: bool) -> bool {
        let mut longer = false;
        for part in 0..group.len().div_ceil(PREFETCH_LINES) {
            let part = part * PREFETCH_LINES..group.len().min((part + 1) * PREFETCH_LINES);
            fetch(&group[part.clone()], self.bytes, from);
            for entry in &mut group[part] {
                let line = entry.line(self.bytes, self.terminator);
                longer |= line.len() > from;
                let prefix = be_prefix(line.get(from..).unwrap_or_default());
                *entry = entry.with_prefix(if reverse { !prefix } else { prefix });
            }
        }
        longer
    }

    /// Sorts lines that differ only in length, that is, in the number of zeros at their ends.
    fn by_length(&self, group: &mut [LineEntry], reverse: bool) {
        group.sort_unstable_by_key(|entry| {
            let length = entry.line(self.bytes, self.terminator).len();
            (if reverse { !length } else { length }, entry.offset())
        });
    }

    /// Length of the common beginning of all lines. The first `from` bytes are known to be equal.
    fn common_prefix_length(&self, group: &[LineEntry], from: usize) -> usize {
        let rest = |entry: &LineEntry| {
            entry.line(self.bytes, self.terminator).get(from..).unwrap_or_default()
        };
        let mut common = rest(&group[0]);
        for entry in &group[1..] {
            let line = rest(entry);
            if !line.starts_with(common) {
                let same = common.iter().zip(line).take_while(|(a, b)| a == b).count();
                common = &common[..same];
            }
        }
        from + common.len()
    }
}

/// The first eight bytes, padded with zeros, as a number that compares as the bytes do.
#[inline]
fn be_prefix(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
                << (64 - 8 * bytes.len()).min(63)
        }
    }
}

/// Loads the byte at `from` of each line, all at once. The lines are scattered in memory, so
/// waiting for each cache miss in turn would cost more than all other work.
#[inline]
pub(super) fn fetch(entries: &[LineEntry], bytes: &[u8], from: usize) {
    let touched =
        entries.iter().fold(0, |all, entry| all ^ bytes.get(entry.offset() + from).unwrap_or(&0));
    black_box(touched);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(text: &[u8], order: &Order) -> (Vec<Vec<u8>>, Vec<u64>) {
        let (mut entries, mut at) = (Vec::new(), 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = &line[..line.len() - 1];
            entries.push(LineEntry::new(order.prefix(line), at, line.len()));
            at += line.len() + 1;
        }
        arrange(&mut entries, text, b'\n', order);
        let lines = entries.iter().map(|entry| entry.line(text, b'\n').to_vec()).collect();
        (lines, entries.iter().map(|entry| entry.prefix()).collect())
    }

    #[test]
    fn lines_that_begin_alike_are_told_apart_further_on() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for reverse in [false, true] {
            let mut text = Vec::new();
            for _ in 0..4000 {
                // Few different bytes, zeros among them, and lengths around the multiples of
                // eight.
                let length = random(28) as usize;
                text.extend((0..length).map(|_| [0, 0, b'a', 255][random(4) as usize]));
                text.extend(
                    [&b"the same beginning, for all of them"[..random(36) as usize], b"\n"]
                        .concat(),
                );
            }
            let order = Order::bytes(reverse);
            let (lines, prefixes) = sorted(&text, &order);
            let mut expected: Vec<Vec<u8>> = text
                .strip_suffix(b"\n")
                .unwrap()
                .split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            expected.sort_by(|a, b| order.compare(a, b));
            assert!(lines == expected, "reverse: {reverse}");
            assert!(
                prefixes.iter().zip(&lines).all(|(prefix, line)| *prefix == order.prefix(line))
            );
        }
    }

    #[test]
    fn long_lines_that_are_alike_need_little_stack() {
        for reverse in [false, true] {
            let mut text = Vec::new();
            for number in 0..40usize {
                // Lines are equal up to their ends, or some of them differ early; all have zeros at
                // their ends.
                let length = 100_000 + number * 7 % 5;
                let at = text.len();
                text.resize(at + length, b'x');
                if number % 3 == 0 {
                    text[at + 1000 + number] = b'w';
                }
                text.resize(at + length + number % 4 * 6, 0);
                text.push(b'\n');
            }
            let order = Order::bytes(reverse);
            let mut expected: Vec<Vec<u8>> = text
                .strip_suffix(b"\n")
                .unwrap()
                .split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            expected.sort_by(|a, b| order.compare(a, b));
            assert!(sorted(&text, &order).0 == expected, "reverse: {reverse}");
        }
    }

    #[test]
    fn lines_that_leave_the_others_one_by_one_need_little_stack() {
        // Line N differs after N times eight bytes.
        let order = Order::bytes(false);
        let lines: Vec<Vec<u8>> =
            (0..1500).map(|number| [vec![b'x'; 8 * number], b"a".to_vec()].concat()).collect();
        let text: Vec<u8> =
            lines.iter().flat_map(|line| [line, b"\n".as_slice()].concat()).collect();
        let expected: Vec<Vec<u8>> = lines;
        assert!(sorted(&text, &order).0 == expected);
        let small = std::thread::Builder::new().stack_size(256 << 10);
        small.spawn(move || sorted(&text, &Order::bytes(true))).unwrap().join().unwrap();
    }

    #[test]
    fn eight_bytes_compare_as_bytes_do() {
        assert_eq!(be_prefix(b""), 0);
        assert_eq!(be_prefix(b"\x01"), 1 << 56);
        assert_eq!(be_prefix(b"\x01\x02\x03\x04\x05\x06\x07"), 0x0102_0304_0506_0700);
        assert_eq!(be_prefix(b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"), 0x0102_0304_0506_0708);
    }
}
