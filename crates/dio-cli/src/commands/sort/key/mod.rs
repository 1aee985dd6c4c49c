//! The order that lines are brought into.

use std::cmp::Ordering;

/// An order of lines: keys, what happens where they are equal, and whether all is reversed.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    reverse: bool,
}

impl Order {
    /// Lines as strings of bytes, ascending, or descending if `reverse`.
    pub(crate) fn bytes(reverse: bool) -> Order {
        Order { reverse }
    }

    /// What can be said of the line's place in 64 bits: `prefix(a) < prefix(b)` implies that `a` comes before `b`. Where
    /// they are equal, [`Order::compare_rest`] decides.
    pub(crate) fn prefix(&self, line: &[u8]) -> u64 {
        let mut first = [0; 8];
        let length = line.len().min(8);
        first[..length].copy_from_slice(&line[..length]);
        let prefix = u64::from_be_bytes(first);
        if self.reverse { !prefix } else { prefix }
    }

    /// How two lines, without their terminators, compare: by the keys, then as GNU's last resort by all bytes unless the
    /// order is stable. Where this is `Equal`, whichever came first in the input comes first in the output.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = a.cmp(b);
        if self.reverse { order.reverse() } else { order }
    }

    /// The same as [`Order::compare`] for two lines whose prefixes are equal: what these showed need not be looked at again.
    pub(crate) fn compare_rest(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(a, b)
    }

    /// Whether the keys are equal: such lines are one to `-u`.
    pub(crate) fn same(&self, a: &[u8], b: &[u8]) -> bool {
        a == b
    }

    /// Whether this is the order of whole lines as bytes, and if so whether it is reversed; then `prefix` is the first eight
    /// bytes (inverted if reversed, zeros behind the end).
    pub(crate) fn is_bytes(&self) -> Option<bool> {
        Some(self.reverse)
    }
}
