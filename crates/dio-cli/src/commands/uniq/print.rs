//! The ways in which `uniq` prints groups of lines: the action for each line of each of them.

/// Positions of empty lines with `--group`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyLines {
    /// Before every group.
    Prepend,
    /// After every group.
    Append,
    /// Between groups.
    Separate,
    /// Before the first group and after every group.
    Both,
}

/// Positions of empty lines with `--all-repeated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nowhere.
    None,
    /// Before every group.
    Prepend,
    /// Between groups.
    Separate,
}

/// The lines that are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrintedLines {
    /// The first line of each group.
    First,
    /// All lines, with empty lines around groups.
    Grouped(EmptyLines),
    /// The first line of each group, once the end of the group is known.
    Counted {
        /// The number of lines in the group is printed before it.
        count: bool,
        /// Groups of one line are printed.
        single: bool,
        /// Groups of more lines are printed.
        repeated: bool,
    },
    /// All lines of groups of more than one line.
    Repeated {
        /// The last line of a group is printed too; `-u` suppresses it.
        last: bool,
        /// Positions of empty lines.
        before: Before,
    },
}

/// State of the current group and the output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupState {
    /// Number of lines of the group so far, without its first.
    pub(super) more: u64,
    /// A group has been printed. With `--all-repeated`: a group of several lines has ended.
    pub(super) printed: bool,
}

/// How lines are printed: the action for each line, given the line before it.
pub(super) trait Print: Copy {
    /// Handles the very first line.
    fn start(self, state: &mut GroupState, line: &[u8], out: &mut Vec<u8>);
    /// Handles the next line; returns true if later lines are compared with it.
    fn next(
        self,
        same: bool,
        state: &mut GroupState,
        previous: &[u8],
        line: &[u8],
        out: &mut Vec<u8>,
    ) -> bool;
    /// Handles the end of the input.
    fn end(self, state: &GroupState, previous: &[u8], out: &mut Vec<u8>);
}

/// [`PrintedLines::First`]
#[derive(Clone, Copy)]
pub(super) struct First;

impl Print for First {
    #[inline(always)]
    fn start(self, _: &mut GroupState, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
    }

    #[inline(always)]
    fn next(
        self,
        same: bool,
        _: &mut GroupState,
        _: &[u8],
        line: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if !same {
            out.extend_from_slice(line);
        }
        !same
    }

    fn end(self, _: &GroupState, _: &[u8], _: &mut Vec<u8>) {}
}

/// [`PrintedLines::Grouped`]
#[derive(Clone, Copy)]
pub(super) struct Grouped {
    pub(super) around: EmptyLines,
    pub(super) delimiter: u8,
}

impl Print for Grouped {
    fn start(self, _: &mut GroupState, line: &[u8], out: &mut Vec<u8>) {
        if matches!(self.around, EmptyLines::Prepend | EmptyLines::Both) {
            out.push(self.delimiter);
        }
        out.extend_from_slice(line);
    }

    #[inline(always)]
    fn next(
        self,
        same: bool,
        _: &mut GroupState,
        _: &[u8],
        line: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if !same {
            out.push(self.delimiter);
        }
        out.extend_from_slice(line);
        true
    }

    fn end(self, _: &GroupState, _: &[u8], out: &mut Vec<u8>) {
        if matches!(self.around, EmptyLines::Append | EmptyLines::Both) {
            out.push(self.delimiter);
        }
    }
}

/// [`PrintedLines::Counted`]
#[derive(Clone, Copy)]
pub(super) struct Counted<const COUNT: bool> {
    pub(super) single: bool,
    pub(super) repeated: bool,
}

impl<const COUNT: bool> Counted<COUNT> {
    #[inline(always)]
    fn put(self, state: &GroupState, line: &[u8], out: &mut Vec<u8>) {
        if if state.more == 0 { self.single } else { self.repeated } {
            if COUNT {
                put_count(state.more, out);
            }
            out.extend_from_slice(line);
        }
    }
}

impl<const COUNT: bool> Print for Counted<COUNT> {
    #[inline(always)]
    fn start(self, _: &mut GroupState, _: &[u8], _: &mut Vec<u8>) {}

    #[inline(always)]
    fn next(
        self,
        same: bool,
        state: &mut GroupState,
        previous: &[u8],
        _: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if same {
            state.more += 1;
        } else {
            self.put(state, previous, out);
            state.more = 0;
        }
        !same
    }

    fn end(self, state: &GroupState, previous: &[u8], out: &mut Vec<u8>) {
        self.put(state, previous, out);
    }
}

/// [`PrintedLines::Repeated`]
#[derive(Clone, Copy)]
pub(super) struct Repeated {
    pub(super) last: bool,
    pub(super) before: Before,
    pub(super) delimiter: u8,
}

impl Print for Repeated {
    fn start(self, _: &mut GroupState, _: &[u8], _: &mut Vec<u8>) {}

    #[inline(always)]
    fn next(
        self,
        same: bool,
        state: &mut GroupState,
        previous: &[u8],
        _: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if same {
            let empty = match self.before {
                Before::None => false,
                Before::Prepend => true,
                Before::Separate => state.printed,
            };
            if state.more == 0 && empty {
                out.push(self.delimiter);
            }
            out.extend_from_slice(previous);
            state.more += 1;
        } else {
            self.end(state, previous, out);
            state.printed |= state.more > 0;
            state.more = 0;
        }
        true
    }

    #[inline(always)]
    fn end(self, state: &GroupState, previous: &[u8], out: &mut Vec<u8>) {
        if state.more > 0 && self.last {
            out.extend_from_slice(previous);
        }
    }
}

/// Appends the number of lines of a group, `more` plus one, right-aligned in seven columns, and a
/// blank.
#[inline(always)]
pub(crate) fn put_count(more: u64, out: &mut Vec<u8>) {
    if more < 9 {
        let mut text = *b"      1 ";
        text[6] += more as u8;
        out.extend_from_slice(&text);
    } else {
        put_large_count(more, out);
    }
}

#[inline(never)]
fn put_large_count(more: u64, out: &mut Vec<u8>) {
    let mut text = [b' '; 24];
    let mut at = text.len() - 1;
    // The sum cannot overflow in practice: that would need 2^64 lines.
    let mut number = more.saturating_add(1);
    while number > 0 {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&text[at.min(text.len() - 8)..]);
}
