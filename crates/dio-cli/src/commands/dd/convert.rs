//! The conversions, which transform a stream that comes in pieces of any size: swapping of bytes,
//! code page and case, then records.

use super::ebcdic::{TO_ASCII, TO_EBCDIC, TO_IBM};
use super::flags::{Set, conv};

/// The conversions of a stream.
#[derive(Debug)]
pub(super) struct Converter {
    table: Option<Box<[u8; 256]>>,
    swap: Option<Swap>,
    records: Records,
    newline: u8,
    space: u8,
    /// Number of records that `block` has truncated so far.
    truncated: u64,
    /// Buffer for bytes between two steps.
    translated: Vec<u8>,
}

/// Exchanges the bytes of each pair. Pairs may span two pieces.
#[derive(Debug, Default)]
struct Swap {
    odd: Option<u8>,
}

/// Conversion of records of `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Records {
    /// No conversion.
    None,
    /// Lines become records: they are padded with spaces, or truncated.
    Block { size: u64, column: u64 },
    /// Records become lines, without the spaces at their ends.
    Unblock { size: u64, column: u64, spaces: u64 },
}

impl Converter {
    /// Makes the conversions for `symbols`; `None` if bytes are not changed. `cbs` is the size of a
    /// record.
    pub(super) fn new(symbols: Set, cbs: u64) -> Option<Converter> {
        if !symbols.any(conv::CHANGING) {
            return None;
        }
        let records = match () {
            () if symbols.any(conv::BLOCK) => Records::Block { size: cbs, column: 0 },
            () if symbols.any(conv::UNBLOCK) => {
                Records::Unblock { size: cbs, column: 0, spaces: 0 }
            }
            () => Records::None,
        };
        let page = match () {
            () if symbols.any(conv::EBCDIC) => Some(&TO_EBCDIC),
            () if symbols.any(conv::IBM) => Some(&TO_IBM),
            () => None,
        };
        let in_page = |byte: u8| page.map_or(byte, |page| page[usize::from(byte)]);
        Some(Converter {
            table: table(symbols),
            swap: symbols.any(conv::SWAB).then(Swap::default),
            records,
            newline: in_page(b'\n'),
            space: in_page(b' '),
            truncated: 0,
            translated: Vec::new(),
        })
    }

    /// Number of records truncated so far.
    pub(super) fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Maximum number of bytes to feed at a time, so that the output takes no more than about
    /// `room` bytes, or one record.
    pub(super) fn portion(&self, room: usize) -> usize {
        match self.records {
            Records::Block { size, .. } => {
                (room / usize::try_from(size).unwrap_or(room).max(1)).max(1)
            }
            _ => room,
        }
    }

    /// Converts the next bytes and appends the result to `out`.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut translated = std::mem::take(&mut self.translated);
        translated.clear();
        match &mut self.swap {
            Some(swap) => swap.feed(bytes, &mut translated),
            None => translated.extend_from_slice(bytes),
        }
        if let Some(table) = &self.table {
            translated.iter_mut().for_each(|byte| *byte = table[usize::from(*byte)]);
        }
        self.pass_on(&translated, out);
        self.translated = translated;
    }

    /// Ends the stream: appends the bytes that were held back.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(odd) = self.swap.as_mut().and_then(|swap| swap.odd.take()) {
            let odd = self.table.as_ref().map_or(odd, |table| table[usize::from(odd)]);
            self.pass_on(&[odd], out);
        }
        match self.records {
            Records::Block { size, column } if column > 0 => {
                fill(out, self.space, size.saturating_sub(column))
            }
            Records::Unblock { column, .. } if column > 0 => out.push(self.newline),
            _ => {}
        }
    }

    fn pass_on(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.records {
            Records::None => out.extend_from_slice(bytes),
            Records::Block { size, column } => {
                let column = self.block(bytes, size, column, out);
                self.records = Records::Block { size, column };
            }
            Records::Unblock { size, column, spaces } => {
                let (column, spaces) = self.unblock(bytes, size, column, spaces, out);
                self.records = Records::Unblock { size, column, spaces };
            }
        }
    }

    fn block(&mut self, bytes: &[u8], size: u64, mut column: u64, out: &mut Vec<u8>) -> u64 {
        for &byte in bytes {
            if byte == self.newline {
                fill(out, self.space, size.saturating_sub(column));
                column = 0;
                continue;
            }
            match column.cmp(&size) {
                std::cmp::Ordering::Less => out.push(byte),
                // The record is counted once, at its first surplus byte.
                std::cmp::Ordering::Equal => self.truncated += 1,
                std::cmp::Ordering::Greater => {}
            }
            column += 1;
        }
        column
    }

    fn unblock(
        &self,
        bytes: &[u8],
        size: u64,
        mut column: u64,
        mut spaces: u64,
        out: &mut Vec<u8>,
    ) -> (u64, u64) {
        for &byte in bytes {
            if column == size {
                out.push(self.newline);
                (column, spaces) = (0, 0);
            }
            column += 1;
            if byte == self.space {
                spaces += 1;
            } else {
                fill(out, self.space, std::mem::take(&mut spaces));
                out.push(byte);
            }
        }
        (column, spaces)
    }
}

impl Swap {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if let (Some(odd), Some((&first, after))) = (self.odd, rest.split_first()) {
            out.extend_from_slice(&[first, odd]);
            (self.odd, rest) = (None, after);
        }
        let pairs = rest.chunks_exact(2);
        if let [odd] = pairs.remainder() {
            self.odd = Some(*odd);
        }
        pairs.for_each(|pair| out.extend_from_slice(&[pair[1], pair[0]]));
    }
}

fn fill(out: &mut Vec<u8>, byte: u8, count: u64) {
    let length = out.len() + usize::try_from(count).expect("a record fits memory");
    out.resize(length, byte);
}

/// Combines code page and case in one table. Case applies to ASCII, so it is changed after the
/// conversion from EBCDIC and before the conversion to it.
fn table(symbols: Set) -> Option<Box<[u8; 256]>> {
    if !symbols.any(conv::ASCII.and(conv::EBCDIC).and(conv::IBM).and(conv::LCASE).and(conv::UCASE))
    {
        return None;
    }
    let mut table = Box::new([0; 256]);
    for (from, to) in table.iter_mut().enumerate() {
        let mut byte = if symbols.any(conv::ASCII) { TO_ASCII[from] } else { from as u8 };
        if symbols.any(conv::LCASE) {
            byte = byte.to_ascii_lowercase();
        }
        if symbols.any(conv::UCASE) {
            byte = byte.to_ascii_uppercase();
        }
        *to = match () {
            () if symbols.any(conv::EBCDIC) => TO_EBCDIC[usize::from(byte)],
            () if symbols.any(conv::IBM) => TO_IBM[usize::from(byte)],
            () => byte,
        };
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dio_test::Rng;

    /// The same conversions by their definition, on the whole input at once.
    fn model(input: &[u8], symbols: Set, cbs: usize) -> (Vec<u8>, u64) {
        let mut bytes: Vec<u8> = input
            .iter()
            .map(|byte| table(symbols).map_or(*byte, |t| t[usize::from(*byte)]))
            .collect();
        if symbols.any(conv::SWAB) {
            bytes.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        let in_page = |byte: u8| match () {
            () if symbols.any(conv::EBCDIC) => TO_EBCDIC[usize::from(byte)],
            () if symbols.any(conv::IBM) => TO_IBM[usize::from(byte)],
            () => byte,
        };
        let (newline, space) = (in_page(b'\n'), in_page(b' '));
        let mut out = Vec::new();
        let mut truncated = 0;
        if symbols.any(conv::BLOCK) {
            let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == newline).collect();
            // No line follows the last newline.
            if lines.last() == Some(&&[][..]) {
                lines.pop();
            }
            for line in lines {
                truncated += u64::from(line.len() > cbs);
                let mut record = line.to_vec();
                record.resize(cbs, space);
                out.extend(record);
            }
        } else if symbols.any(conv::UNBLOCK) {
            for record in bytes.chunks(cbs) {
                let end = record.iter().rposition(|byte| *byte != space).map_or(0, |last| last + 1);
                out.extend(&record[..end]);
                out.push(newline);
            }
        } else {
            out = bytes;
        }
        (out, truncated)
    }

    #[test]
    fn pieces_of_any_size_give_what_the_whole_gives() {
        let seed = dio_test::Seed::new();
        let mut rng = seed.stream(1);
        let pages = [Set::default(), conv::ASCII, conv::EBCDIC, conv::IBM];
        let cases = [Set::default(), conv::LCASE, conv::UCASE];
        let records = [Set::default(), conv::BLOCK, conv::UNBLOCK];
        for _ in 0..2000 {
            let mut symbols = *rng.pick(&pages);
            symbols.insert(*rng.pick(&cases));
            symbols.insert(*rng.pick(&records));
            if rng.bool(0.4) {
                symbols.insert(conv::SWAB);
            }
            let cbs = rng.range_usize(1..20);
            let length = rng.range_usize(0..200);
            let alphabet =
                [b"ab \n" as &[u8], b" @%\x40\x25z", b"ABC  \nxyz\xff\0"][rng.range_usize(0..3)];
            let input: Vec<u8> = (0..length).map(|_| *rng.pick(alphabet)).collect();
            let expected = model(&input, symbols, cbs);
            let Some(mut converter) = Converter::new(symbols, cbs as u64) else {
                assert_eq!(expected, (input, 0));
                continue;
            };
            let mut out = Vec::new();
            pieces(&mut rng, &input, |piece| converter.feed(piece, &mut out));
            converter.finish(&mut out);
            assert_eq!(
                (out, converter.truncated()),
                expected,
                "{symbols:?} cbs={cbs} of {input:?}, {seed:?}"
            );
        }
    }

    fn pieces(rng: &mut Rng, input: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = input;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rng.range_usize(0..rest.len().min(17) + 1));
            each(piece);
            rest = after;
        }
    }

    #[test]
    fn the_letters_of_both_codes() {
        let convert = |symbols: Set, input: &[u8]| {
            let mut converter = Converter::new(symbols, 0).unwrap();
            let mut out = Vec::new();
            converter.feed(input, &mut out);
            converter.finish(&mut out);
            out
        };
        // "HELLO" in EBCDIC.
        let hello = [0xc8, 0xc5, 0xd3, 0xd3, 0xd6];
        assert_eq!(convert(conv::EBCDIC, b"HELLO"), hello);
        assert_eq!(convert(conv::EBCDIC.and(conv::UCASE), b"hello"), hello);
        assert_eq!(convert(conv::ASCII.and(conv::LCASE), &hello), b"hello");
        assert_eq!(convert(conv::SWAB, b"abcde"), b"badce");
    }
}
