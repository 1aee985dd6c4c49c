//! Whole numbers of any size, with the operations that reading numbers needs.

use std::cmp::Ordering;

/// A whole number. The lowest word comes first; the highest word is not zero.
#[derive(Clone, Debug)]
pub(super) struct WholeNumber {
    words: Vec<u64>,
}

impl From<u64> for WholeNumber {
    fn from(value: u64) -> WholeNumber {
        WholeNumber { words: if value == 0 { Vec::new() } else { vec![value] } }
    }
}

impl WholeNumber {
    /// Computes `self * factor + summand`.
    pub(super) fn multiply_add(&mut self, factor: u64, summand: u64) {
        let mut carry = u128::from(summand);
        for word in &mut self.words {
            carry += u128::from(*word) * u128::from(factor);
            *word = carry as u64;
            carry >>= 64;
        }
        if carry != 0 {
            self.words.push(carry as u64);
        }
    }

    /// Computes `self * other`.
    pub(super) fn multiply(&mut self, other: &WholeNumber) {
        let mut product = vec![0u64; self.words.len() + other.words.len()];
        for (at, word) in self.words.iter().enumerate() {
            let mut carry = 0;
            for (place, factor) in
                product[at..].iter_mut().zip(other.words.iter().chain(std::iter::repeat(&0)))
            {
                carry += u128::from(*place) + u128::from(*word) * u128::from(*factor);
                *place = carry as u64;
                carry >>= 64;
            }
        }
        self.words = product;
        self.trim();
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn bits(&self) -> u64 {
        self.words
            .last()
            .map_or(0, |top| 64 * self.words.len() as u64 - u64::from(top.leading_zeros()))
    }

    /// Returns the highest 128 bits, whether any lower bit is set, and the power of two to multiply
    /// the former by.
    pub(super) fn top(&self) -> (u128, bool, i64) {
        let Some(above) = self.words.len().checked_sub(2) else {
            return (self.words.first().map_or(0, |word| u128::from(*word)), false, 0);
        };
        let pair = u128::from(self.words[above + 1]) << 64 | u128::from(self.words[above]);
        let Some(below) = above.checked_sub(1) else { return (pair, false, 0) };
        // A third word fills the bits that are empty at the top of the pair: at most 63.
        let empty = pair.leading_zeros();
        let third = self.words[below];
        let more = if empty == 0 { 0 } else { third >> (64 - empty) };
        let sticky = third.checked_shl(empty).unwrap_or(0) != 0
            || self.words[..below].iter().any(|word| *word != 0);
        (pair << empty | u128::from(more), sticky, 64 * above as i64 - i64::from(empty))
    }

    fn shift_left(&mut self, by: u64) {
        let (words, bits) = ((by / 64) as usize, (by % 64) as u32);
        if bits > 0 {
            let mut carry = 0;
            for word in &mut self.words {
                let above = *word >> (64 - bits);
                *word = *word << bits | carry;
                carry = above;
            }
            if carry != 0 {
                self.words.push(carry);
            }
        }
        self.words.splice(..0, std::iter::repeat_n(0, words));
    }

    fn compare(&self, other: &WholeNumber) -> Ordering {
        let length = self.words.len().cmp(&other.words.len());
        length.then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
    }

    /// Computes `self - other`. `other` must not be greater.
    fn subtract(&mut self, other: &WholeNumber) {
        let mut borrow = false;
        for (at, word) in self.words.iter_mut().enumerate() {
            let (less, under) = word.overflowing_sub(other.words.get(at).copied().unwrap_or(0));
            let (less, again) = less.overflowing_sub(u64::from(borrow));
            *word = less;
            borrow = under || again;
        }
        self.trim();
    }

    /// Returns the first 67 or 68 bits of `self / divisor`, whether there is a remainder, and the
    /// power of two to multiply the bits by. Neither number is zero.
    pub(super) fn divide(mut self, mut divisor: WholeNumber) -> (u128, bool, i64) {
        let (mine, its) = (self.bits(), divisor.bits());
        // Both numbers get the same length, so that the quotient's first set bit is the first or
        // the second one computed.
        self.shift_left(its.saturating_sub(mine));
        divisor.shift_left(mine.saturating_sub(its));
        let power = mine as i64 - its as i64;
        let mut quotient = 0u128;
        const STEPS: u32 = 68;
        for _ in 0..STEPS {
            quotient <<= 1;
            if self.compare(&divisor) != Ordering::Less {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.shift_left(1);
        }
        (quotient, !self.words.is_empty(), power - i64::from(STEPS - 1))
    }
}
