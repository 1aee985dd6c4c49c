//! Finds where the last block of a deflate stream (RFC 1951) begins. It reads the headers and
//! symbols without decoding them, which costs about a tenth of compressing at level 6.
//!
//! libdeflate only makes complete streams. To continue one, the bit that marks the last block has
//! to be cleared, and the only method to find that bit is to read all symbols before it.

/// Bits of the stream that one table look-up uses.
const STEP_BITS: u32 = 11;
/// Entries of one table; the table of literals and lengths comes first, that of distances behind
/// it.
const TABLE: usize = 1 << STEP_BITS;
/// The longest code that deflate allows.
const CODE_BITS_MAX: usize = 15;

const LITERAL_CODES: usize = 288;
const DISTANCE_CODES: usize = 32;
const END: usize = 256;

/// The order of the lengths of the length code in a block header: RFC 1951 section 3.2.7.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The last block of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// The position of the bit that marks this block as the last.
    pub(super) start_bit: usize,
    /// The length of the whole stream in bits.
    pub(super) end_bit: usize,
}

/// A table entry: how many of the next bits to skip, and which table to use for the bits behind
/// them.
///
/// Bits 0 to 5 are the number of bits to skip, bits 6 to 9 how many of those are the code. Bit 11
/// is set if a distance follows. Higher bits are set if the entry is not a symbol to skip.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TableEntry(u16);

impl TableEntry {
    /// The code is longer than the index of the table.
    const LONG: TableEntry = TableEntry(1 << 12);
    /// No code begins with these bits.
    const INVALID: TableEntry = TableEntry(2 << 12);
    /// The end of a block; the other bits of the entry hold its length as usual.
    const END: u16 = 3 << 12;

    fn new(code: u32, extra: u32) -> TableEntry {
        TableEntry((code + extra) as u16 | (code as u16) << 6)
    }

    fn bits(self) -> u32 {
        u32::from(self.0 & 0x3f)
    }

    fn code_bits(self) -> u32 {
        u32::from(self.0 >> 6 & 0xf)
    }

    /// Returns the offset of the table for the next bits.
    fn table(self) -> usize {
        usize::from(self.0) & TABLE
    }

    fn is_special(self) -> bool {
        self.0 >= TableEntry::LONG.0
    }

    fn is_end(self) -> bool {
        self.0 >= TableEntry::END
    }
}

/// A canonical code, for symbols whose codes are too long for the tables.
#[derive(Default)]
struct Canonical {
    /// The number of codes of each length.
    counts: [u16; CODE_BITS_MAX + 1],
    /// The symbols in the order of their codes: by length, then value.
    symbols: Vec<u16>,
}

impl Canonical {
    /// Builds the code; `None` if there are more codes than their lengths allow.
    fn set(&mut self, lengths: &[u8]) -> Option<()> {
        self.counts = [0; CODE_BITS_MAX + 1];
        for &length in lengths {
            self.counts[usize::from(length)] += 1;
        }
        self.counts[0] = 0;
        let mut left = 1i32;
        let mut offsets = [0u16; CODE_BITS_MAX + 2];
        for length in 1..=CODE_BITS_MAX {
            left = (left << 1) - i32::from(self.counts[length]);
            offsets[length + 1] = offsets[length] + self.counts[length];
        }
        if left < 0 {
            return None;
        }
        self.symbols.clear();
        self.symbols.resize(usize::from(offsets[CODE_BITS_MAX + 1]), 0);
        for (symbol, &length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let offset = &mut offsets[usize::from(length)];
            self.symbols[usize::from(*offset)] = symbol as u16;
            *offset += 1;
        }
        Some(())
    }

    /// Returns the symbol whose code `bits` begins with, and the length of that code.
    fn find(&self, mut bits: u64) -> Option<(usize, u32)> {
        let (mut code, mut first, mut index) = (0usize, 0usize, 0usize);
        for length in 1..=CODE_BITS_MAX {
            code |= (bits & 1) as usize;
            bits >>= 1;
            let count = usize::from(self.counts[length]);
            if code < first + count {
                return Some((usize::from(self.symbols[index + code - first]), length as u32));
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }

    /// Fills a table; `entry` makes the entry of a symbol from the length of its code.
    fn fill(&self, table: &mut [TableEntry], entry: impl Fn(usize, u32) -> TableEntry) {
        let long = self.counts[STEP_BITS as usize + 1..].iter().any(|&count| count > 0);
        table.fill(if long { TableEntry::LONG } else { TableEntry::INVALID });
        let (mut code, mut index) = (0usize, 0);
        for length in 1..=STEP_BITS {
            for _ in 0..self.counts[length as usize] {
                let entry = entry(usize::from(self.symbols[index]), length);
                let reversed = code.reverse_bits() >> (usize::BITS - length);
                table[reversed..].iter_mut().step_by(1 << length).for_each(|place| *place = entry);
                (code, index) = (code + 1, index + 1);
            }
            code <<= 1;
        }
    }
}

/// Returns the entry of a symbol of the literal and length code.
fn literal_entry(symbol: usize, code: u32) -> TableEntry {
    let match_of = |extra| TableEntry(TableEntry::new(code, extra).0 | TABLE as u16);
    match symbol {
        0..END => TableEntry::new(code, 0),
        END => TableEntry(TableEntry::new(code, 0).0 | TableEntry::END),
        257..=264 | 285 => match_of(0),
        265..=284 => match_of((symbol as u32 - 261) / 4),
        _ => TableEntry::INVALID,
    }
}

/// Returns the entry of a symbol of the distance code.
fn distance_entry(symbol: usize, code: u32) -> TableEntry {
    match symbol {
        0..=1 => TableEntry::new(code, 0),
        2..=29 => TableEntry::new(code, (symbol as u32 - 2) / 2),
        _ => TableEntry::INVALID,
    }
}

/// Reads the bits of a stream.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// The offset of the next byte that is not in `buffer`.
    at: usize,
    buffer: u64,
    /// Valid bits of `buffer`.
    count: u32,
}

impl BitReader<'_> {
    /// Makes 56 bits available; behind the end they are zeros.
    #[inline(always)]
    fn refill(&mut self) {
        let word = match self.bytes.get(self.at..self.at + 8).and_then(<[u8]>::first_chunk) {
            Some(word) => u64::from_le_bytes(*word),
            None => self.word_at_end(),
        };
        self.buffer |= word << self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    #[cold]
    fn word_at_end(&self) -> u64 {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    #[inline(always)]
    fn consume(&mut self, count: u32) {
        self.buffer >>= count;
        self.count -= count;
    }

    /// Returns the next bits, at most 32, as a number.
    fn take(&mut self, count: u32) -> usize {
        self.refill();
        let value = self.buffer & ((1 << count) - 1);
        self.consume(count);
        value as usize
    }

    fn position(&self) -> usize {
        self.at * 8 - self.count as usize
    }

    /// Continues at a byte.
    fn seek(&mut self, byte: usize) {
        (self.at, self.buffer, self.count) = (byte, 0, 0);
    }
}

/// Reads streams; it is reused because its tables are large.
pub(super) struct Walker {
    /// The tables, indexed by the next bits. An entry for literals and lengths covers all symbols
    /// whose codes lie within the index, up to the first length; an entry for distances covers one
    /// symbol.
    steps: Vec<TableEntry>,
    literal_code: Canonical,
    distance_code: Canonical,
}

impl Walker {
    pub(super) fn new() -> Walker {
        Walker {
            steps: vec![TableEntry::INVALID; 2 * TABLE],
            literal_code: Canonical::default(),
            distance_code: Canonical::default(),
        }
    }

    /// Returns the last block of the stream in `deflate`; `None` if the stream is not complete.
    /// Distances are not verified.
    pub(super) fn last(&mut self, deflate: &[u8]) -> Option<Last> {
        let mut bits = BitReader { bytes: deflate, at: 0, buffer: 0, count: 0 };
        loop {
            let start_bit = bits.position();
            let is_last = bits.take(1) == 1;
            match bits.take(2) {
                0 => self.stored(&mut bits)?,
                1 => {
                    let lengths: [u8; LITERAL_CODES] = std::array::from_fn(|symbol| match symbol {
                        0..=143 | 280.. => 8,
                        144..=255 => 9,
                        _ => 7,
                    });
                    self.set_codes(&lengths, &[5; DISTANCE_CODES])?;
                    self.symbols(&mut bits)?;
                }
                2 => {
                    self.codes(&mut bits)?;
                    self.symbols(&mut bits)?;
                }
                _ => return None,
            }
            if bits.position() > deflate.len() * 8 {
                return None;
            }
            if is_last {
                return Some(Last { start_bit, end_bit: bits.position() });
            }
        }
    }

    fn stored(&mut self, bits: &mut BitReader<'_>) -> Option<()> {
        let at = bits.position().div_ceil(8);
        let [a, b, c, d] = *bits.bytes.get(at..)?.first_chunk()?;
        let (length, complement) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        bits.seek(at + 4 + usize::from(length));
        (length == !complement).then_some(())
    }

    /// Reads the codes at the beginning of a block: RFC 1951 section 3.2.7.
    fn codes(&mut self, bits: &mut BitReader<'_>) -> Option<()> {
        let (literals, distances, count) = (bits.take(5) + 257, bits.take(5) + 1, bits.take(4) + 4);
        let mut lengths = [0; 19];
        for &symbol in &ORDER[..count] {
            lengths[symbol] = bits.take(3) as u8;
        }
        self.literal_code.set(&lengths)?;
        let mut lengths = [0u8; LITERAL_CODES + DISTANCE_CODES];
        let mut at = 0;
        while at < literals + distances {
            bits.refill();
            let (symbol, length) = self.literal_code.find(bits.buffer)?;
            bits.consume(length);
            let (value, times) = match symbol {
                16 => (*lengths.get(at.checked_sub(1)?)?, 3 + bits.take(2)),
                17 => (0, 3 + bits.take(3)),
                18 => (0, 11 + bits.take(7)),
                length => (length as u8, 1),
            };
            lengths.get_mut(at..at + times)?.fill(value);
            at += times;
        }
        self.set_codes(&lengths[..literals], &lengths[literals..literals + distances])
    }

    fn set_codes(&mut self, literals: &[u8], distances: &[u8]) -> Option<()> {
        self.literal_code.set(literals)?;
        self.distance_code.set(distances)?;
        let steps: &mut [TableEntry; 2 * TABLE] = self.steps.first_chunk_mut()?;
        self.distance_code.fill(&mut steps[TABLE..], distance_entry);
        self.literal_code.fill(&mut steps[..TABLE], literal_entry);
        // `joined` reads entries of literals and lengths at lower indexes or at its own, and
        // entries of distances. Going from the highest index down, all of these still hold one
        // symbol each.
        for index in (0..TABLE).rev() {
            steps[index] = joined(steps, index);
        }
        Some(())
    }

    /// Skips the symbols of a block.
    fn symbols(&self, bits: &mut BitReader<'_>) -> Option<()> {
        let steps: &[TableEntry; 2 * TABLE] = self.steps.first_chunk()?;
        let mut table = 0;
        loop {
            // Behind the end of the input only zeros are read, and an end of a block may never
            // come.
            if bits.at > bits.bytes.len() + 16 {
                return None;
            }
            bits.refill();
            // At most one of two entries is a distance, of up to 28 bits; the other has up to 20.
            for _ in 0..2 {
                let mut entry = steps[(bits.buffer as usize % TABLE) | table];
                if entry.is_special() {
                    if entry == TableEntry::LONG {
                        entry = self.long(bits.buffer, table)?;
                    }
                    if entry.is_special() {
                        bits.consume(entry.bits());
                        return entry.is_end().then_some(());
                    }
                }
                bits.consume(entry.bits());
                table = entry.table();
            }
        }
    }

    /// Returns the entry of a symbol whose code is longer than the index of the table.
    #[cold]
    fn long(&self, buffer: u64, table: usize) -> Option<TableEntry> {
        let (code, entry): (_, fn(usize, u32) -> TableEntry) = if table == 0 {
            (&self.literal_code, literal_entry)
        } else {
            (&self.distance_code, distance_entry)
        };
        let (symbol, length) = code.find(buffer)?;
        Some(entry(symbol, length))
    }
}

/// Returns the entry for an index that skips several symbols, at most three, if their codes lie
/// within the index.
///
/// It has no branches, because they could not be predicted and tables are made for every block.
fn joined(steps: &[TableEntry; 2 * TABLE], index: usize) -> TableEntry {
    let mut entry = steps[index];
    for _ in 0..2 {
        // If a symbol's bits do not all lie within the index, the next symbol cannot either: its
        // code has at least one bit.
        let next = steps[((index >> entry.bits()) % TABLE) | entry.table()];
        let is_whole = entry.bits() + next.code_bits() <= STEP_BITS;
        let is_joined = is_whole & !entry.is_special() & (!next.is_special() | next.is_end());
        let both = TableEntry(next.0 & !0x3ff | TableEntry::new(entry.bits(), next.bits()).0);
        entry = if is_joined { both } else { entry };
    }
    entry
}
