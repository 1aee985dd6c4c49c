//! Groups lines: a state machine over bytes. The input may come in pieces of any size; the output
//! is the same.
//!
//! Lines are compared in place in the input. Only the last line of a piece that still matters, and
//! the beginning of a line that continues in the next piece, are copied.

use super::key::{CompareRule, ComparedPart, WholeLine};
use super::lines::each_end;
use super::print::{Counted, First, GroupState, Grouped, Print, PrintedLines, Repeated};

/// A line that has to be kept does not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoMemory;

/// Groups lines that come in pieces.
#[derive(Debug)]
pub(super) struct Filter {
    what: PrintedLines,
    part: ComparedPart,
    delimiter: u8,
    state: GroupState,
    /// The line that the next one is compared with; `None` before the first.
    previous: Option<Vec<u8>>,
    /// The beginning of a line whose end has not been read yet.
    partial: Vec<u8>,
    /// An empty buffer that is reused.
    spare: Vec<u8>,
}

impl Filter {
    /// Makes a filter for lines that end in `delimiter`.
    pub(super) fn new(what: PrintedLines, part: ComparedPart, delimiter: u8) -> Filter {
        let (state, partial, spare) = (GroupState::default(), Vec::new(), Vec::new());
        Filter { what, part, delimiter, state, previous: None, partial, spare }
    }

    /// Takes the next piece of the input and appends the resulting output to `out`.
    ///
    /// # Errors
    /// [`NoMemory`]
    pub(super) fn push(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), NoMemory> {
        match self.part {
            ComparedPart::WHOLE => self.push_by(WholeLine, text, out),
            part => self.push_by(part, text, out),
        }
    }

    fn push_by(
        &mut self,
        key: impl CompareRule,
        text: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NoMemory> {
        let delimiter = self.delimiter;
        match self.what {
            PrintedLines::First => self.pass(First, key, text, out),
            PrintedLines::Grouped(around) => {
                self.pass(Grouped { around, delimiter }, key, text, out)
            }
            PrintedLines::Counted { count: true, single, repeated } => {
                self.pass(Counted::<true> { single, repeated }, key, text, out)
            }
            PrintedLines::Counted { count: false, single, repeated } => {
                self.pass(Counted::<false> { single, repeated }, key, text, out)
            }
            PrintedLines::Repeated { last, before } => {
                self.pass(Repeated { last, before, delimiter }, key, text, out)
            }
        }
    }

    /// Ends the input: a line without a delimiter gets one, and the output of the last group is
    /// completed.
    ///
    /// # Errors
    /// [`NoMemory`]
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), NoMemory> {
        if !self.partial.is_empty() {
            self.push(&[self.delimiter], out)?;
        }
        let Some(previous) = self.previous.take() else { return Ok(()) };
        let (state, delimiter) = (&self.state, self.delimiter);
        match self.what {
            PrintedLines::First => {}
            PrintedLines::Grouped(around) => {
                Grouped { around, delimiter }.end(state, &previous, out)
            }
            PrintedLines::Counted { count: true, single, repeated } => {
                Counted::<true> { single, repeated }.end(state, &previous, out);
            }
            PrintedLines::Counted { count: false, single, repeated } => {
                Counted::<false> { single, repeated }.end(state, &previous, out);
            }
            PrintedLines::Repeated { last, before } => {
                Repeated { last, before, delimiter }.end(state, &previous, out)
            }
        }
        Ok(())
    }

    fn pass(
        &mut self,
        print: impl Print,
        key: impl CompareRule,
        text: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NoMemory> {
        let text = match self.partial.is_empty() {
            true => text,
            false => match self.complete(print, key, text, out)? {
                Some(rest) => rest,
                None => return Ok(()),
            },
        };
        let (mut start, kept) = (0, self.previous.take());
        let mut state = self.state;
        // The line to compare with, and the part of it that is compared.
        let mut previous: &[u8] = kept.as_deref().unwrap_or_default();
        let mut compared = key.of(without_end(previous));
        let mut begun = kept.is_some();
        each_end(text, self.delimiter, |end| {
            let (line, this) = (&text[start..=end], key.of(&text[start..end]));
            start = end + 1;
            let becomes = if begun {
                print.next(key.same(this, compared), &mut state, previous, line, out)
            } else {
                print.start(&mut state, line, out);
                begun = true;
                true
            };
            if becomes {
                (previous, compared) = (line, this);
            }
        });
        self.state = state;
        let moved = !std::ptr::eq(previous, kept.as_deref().unwrap_or_default());
        if moved {
            keep(&mut self.spare, previous)?;
        }
        self.previous = kept;
        if moved {
            let spare = std::mem::take(&mut self.spare);
            self.spare = self.previous.replace(spare).unwrap_or_default();
            self.spare.clear();
        }
        keep(&mut self.partial, &text[start..])
    }

    /// Completes the line whose beginning was kept. Returns the text after it, or `None` if its end
    /// is not in the text.
    fn complete<'a>(
        &mut self,
        print: impl Print,
        key: impl CompareRule,
        text: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, NoMemory> {
        let Some(end) = memchr::memchr(self.delimiter, text) else {
            keep(&mut self.partial, text)?;
            return Ok(None);
        };
        let (rest, text) = (&text[end + 1..], &text[..=end]);
        keep(&mut self.partial, text)?;
        let line = &self.partial;
        let becomes = match &self.previous {
            None => {
                print.start(&mut self.state, line, out);
                true
            }
            Some(previous) => {
                let same = key.same(key.of(without_end(line)), key.of(without_end(previous)));
                print.next(same, &mut self.state, previous, line, out)
            }
        };
        if becomes {
            std::mem::swap(self.previous.get_or_insert_default(), &mut self.partial);
        }
        self.partial.clear();
        Ok(Some(rest))
    }
}

/// The line without its delimiter.
fn without_end(line: &[u8]) -> &[u8] {
    &line[..line.len().saturating_sub(1)]
}

/// Appends `text` to a kept line, which may be as long as memory allows.
fn keep(line: &mut Vec<u8>, text: &[u8]) -> Result<(), NoMemory> {
    line.try_reserve(text.len()).map_err(|_| NoMemory)?;
    line.extend_from_slice(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use dio_test::{Rng, Seed};

    use super::super::print::{Before, EmptyLines, put_count};
    use super::*;

    /// Compares `one` and `other` byte by byte.
    fn alike(part: ComparedPart, one: &[u8], other: &[u8]) -> bool {
        let compared = |line: &[u8]| -> Vec<u8> {
            let blank = |byte: &u8| b" \t\n".contains(byte);
            let (mut line, mut fields) = (line.to_vec(), part.fields);
            while fields > 0 && !line.is_empty() {
                while line.first().is_some_and(blank) {
                    line.remove(0);
                }
                while line.first().is_some_and(|byte| !blank(byte)) {
                    line.remove(0);
                }
                fields -= 1;
            }
            let line =
                line.into_iter().skip(part.skip as usize).take(part.width.min(1 << 20) as usize);
            line.map(|byte| if part.fold { byte.to_ascii_uppercase() } else { byte }).collect()
        };
        compared(one) == compared(other)
    }

    /// The rules for whole groups, as the manual states them.
    fn model(what: PrintedLines, part: ComparedPart, delimiter: u8, input: &[u8]) -> Vec<u8> {
        let text = input.strip_suffix(&[delimiter]).unwrap_or(input);
        let mut groups: Vec<Vec<&[u8]>> = Vec::new();
        for line in text.split(|byte| *byte == delimiter).take(if input.is_empty() {
            0
        } else {
            usize::MAX
        }) {
            match groups.last_mut() {
                Some(group) if alike(part, group[0], line) => group.push(line),
                _ => groups.push(vec![line]),
            }
        }
        let mut out: Vec<Vec<u8>> = Vec::new();
        let several = |group: &&Vec<&[u8]>| group.len() > 1;
        let whole = |group: &[&[u8]]| group.iter().map(|line| line.to_vec()).collect::<Vec<_>>();
        match what {
            PrintedLines::First => out.extend(groups.iter().map(|group| group[0].to_vec())),
            PrintedLines::Grouped(around) => {
                for (at, group) in groups.iter().enumerate() {
                    if at > 0 || matches!(around, EmptyLines::Prepend | EmptyLines::Both) {
                        out.push(Vec::new());
                    }
                    out.extend(whole(group));
                }
                if matches!(around, EmptyLines::Append | EmptyLines::Both) && !groups.is_empty() {
                    out.push(Vec::new());
                }
            }
            PrintedLines::Counted { count, single, repeated } => {
                for group in
                    groups.iter().filter(|group| if group.len() == 1 { single } else { repeated })
                {
                    let number = if count { format!("{:7} ", group.len()) } else { String::new() };
                    out.push([number.as_bytes(), group[0]].concat());
                }
            }
            PrintedLines::Repeated { last, before } => {
                for (at, group) in groups.iter().filter(several).enumerate() {
                    if before == Before::Prepend || before == Before::Separate && at > 0 {
                        out.push(Vec::new());
                    }
                    out.extend(whole(if last { group } else { &group[..group.len() - 1] }));
                }
            }
        }
        out.into_iter().flat_map(|line| [&*line, &[delimiter]].concat()).collect()
    }

    fn everything() -> Vec<PrintedLines> {
        let mut all = vec![PrintedLines::First];
        all.extend(
            [EmptyLines::Prepend, EmptyLines::Append, EmptyLines::Separate, EmptyLines::Both]
                .map(PrintedLines::Grouped),
        );
        for bits in 0..8 {
            all.push(PrintedLines::Counted {
                count: bits & 1 != 0,
                single: bits & 2 != 0,
                repeated: bits & 4 != 0,
            });
        }
        for before in [Before::None, Before::Prepend, Before::Separate] {
            all.extend([true, false].map(|last| PrintedLines::Repeated { last, before }));
        }
        all
    }

    fn random_part(rng: &mut Rng) -> ComparedPart {
        let mut few = |chance, other| if rng.bool(chance) { rng.range(0..4) } else { other };
        let (fields, skip, width) = (few(0.3, 0), few(0.3, 0), few(0.3, u64::MAX));
        ComparedPart { fields, skip, width, fold: rng.bool(0.3) }
    }

    /// Makes lines that are often the same, sometimes long, sometimes in groups that need a wider
    /// count.
    fn text(rng: &mut Rng, delimiter: u8) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..rng.range(0..30) {
            let line: Vec<u8> = match rng.range(0..6) {
                0 => Vec::new(),
                1 => vec![b'x'; rng.range_usize(0..200)],
                2 => [&[b'y'; 90], &rng.bytes(1)[..]].concat(),
                _ => (0..rng.range(1..5)).map(|_| *rng.pick(b"aAbB \t\n\0\xe9\xc9")).collect(),
            };
            let times = if rng.bool(0.1) { rng.range_usize(8..120) } else { rng.range_usize(1..4) };
            text.extend([&line[..], &[delimiter]].concat().repeat(times));
        }
        if rng.bool(0.3) {
            text.pop();
        }
        text
    }

    #[test]
    fn pieces_of_any_size_give_what_the_whole_gives() {
        let seed = Seed::new();
        let mut rng = seed.rng();
        for round in 0..300 {
            let delimiter = *rng.pick(b"\n\n\0");
            let (text, longest) = (text(&mut rng, delimiter), *rng.pick(&[1, 3, 70, 5000]));
            for what in everything() {
                let part = random_part(&mut rng);
                let (mut filter, mut out) = (Filter::new(what, part, delimiter), Vec::new());
                let mut rest = &text[..];
                while !rest.is_empty() {
                    let (piece, left) =
                        rest.split_at(rng.range_usize(0..longest.min(rest.len()) + 1));
                    filter.push(piece, &mut out).unwrap();
                    rest = left;
                }
                filter.finish(&mut out).unwrap();
                let expected = model(what, part, delimiter, &text);
                assert!(
                    out == expected,
                    "round {round} {what:?} {part:?} {seed:?}\n{}\ngave {}\nnot  {}",
                    text.escape_ascii(),
                    out.escape_ascii(),
                    expected.escape_ascii()
                );
            }
        }
    }

    #[test]
    fn counts_are_as_wide_as_they_must_be() {
        for more in
            [0, 1, 8, 9, 98, 999_998, 999_999, 9_999_998, 9_999_999, 12_345_678_900, u64::MAX]
        {
            let mut out = Vec::new();
            put_count(more, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{:7} ", more.saturating_add(1)));
        }
    }

    #[test]
    fn what_is_decided_does_not_wait() {
        let (mut filter, mut out) =
            (Filter::new(PrintedLines::First, ComparedPart::WHOLE, b'\n'), Vec::new());
        for (piece, shown) in
            [("a\n", "a\n"), ("a\nb", ""), ("\n", "b\n"), ("b\nc\nc", "c\n"), ("", "")]
        {
            out.clear();
            filter.push(piece.as_bytes(), &mut out).unwrap();
            assert_eq!(out, shown.as_bytes(), "{piece:?}");
        }
    }
}
