//! Finds the ends of lines.

use memchr::memchr_iter;

/// Number of bytes that are searched together.
const STEP: usize = 64;

/// Calls `found` with the position of each `delimiter` in `text`, in order.
///
/// Lines are short, so a search that starts again for each line would spend most of its time on
/// starting. Therefore the positions in 64 bytes are found at once, as the bits of a number.
#[inline(always)]
pub(super) fn each_end(text: &[u8], delimiter: u8, mut found: impl FnMut(usize)) {
    let (steps, rest) = text.as_chunks::<STEP>();
    let mut base = 0;
    for step in steps {
        let mut ends = ends(step, delimiter);
        while ends != 0 {
            found(base + ends.trailing_zeros() as usize);
            ends &= ends - 1;
        }
        base += STEP;
    }
    memchr_iter(delimiter, rest).for_each(|at| found(base + at));
}

/// Returns a number whose bit N is set if byte N is the delimiter. It works on eight bytes at a
/// time as one number, which compilers turn into vector instructions.
#[inline(always)]
fn ends(step: &[u8; STEP], delimiter: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    /// Moves the lowest bit of byte N to bit N of the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let wanted = u64::from_ne_bytes([delimiter; 8]);
    let (words, _) = step.as_chunks::<8>();
    let mut ends = 0;
    for (at, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ wanted;
        // Sets the highest bit of each byte that is zero, without carries between bytes.
        let zero = !(((differs & LOW) + LOW) | differs | LOW);
        ends |= ((zero >> 7).wrapping_mul(GATHER) >> 56) << (at * 8);
    }
    ends
}

#[cfg(test)]
mod tests {
    use dio_test::Seed;

    use super::*;

    #[test]
    fn every_end_is_found_in_order() {
        let seed = Seed::new();
        let mut rng = seed.rng();
        for _ in 0..500 {
            let length = rng.range_usize(0..400);
            let few = rng.range(1..256) as u8;
            let text: Vec<u8> = rng.bytes(length).into_iter().map(|byte| byte % few).collect();
            for delimiter in [0, 1, b'\n', 127, 128, 129, 254, 255] {
                let mut found = Vec::new();
                each_end(&text, delimiter, |at| found.push(at));
                let expected: Vec<usize> =
                    (0..length).filter(|at| text[*at] == delimiter).collect();
                assert_eq!(found, expected, "{delimiter} {seed:?}");
            }
        }
    }
}
