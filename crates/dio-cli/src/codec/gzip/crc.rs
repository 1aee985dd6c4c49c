//! Combines the check values of contents that were checked in parts.

/// The polynomial of CRC-32, in the bit order of check values: the highest bit is the coefficient
/// of x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;
const ONE: u32 = 1 << 31;

/// x to the power of 2^n for each n, modulo the polynomial.
const POWERS: [u32; 32] = {
    let mut powers = [ONE >> 1; 32];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = product(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
};

/// Returns the product of two polynomials, modulo the polynomial.
const fn product(first: u32, mut second: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit > 0 {
        if first & bit > 0 {
            product ^= second;
        }
        bit >>= 1;
        second = (second >> 1) ^ (POLYNOMIAL * (second & 1));
    }
    product
}

/// Returns the CRC-32 of two parts together, from the CRC-32 of each and the length of the second
/// in bytes.
///
/// It takes one step per set bit of the length. The general function of `crc_fast` takes some 80
/// µs, about 6 % of the time to decompress a piece of text.
pub(super) fn joined_crc(first: u32, second: u32, second_length: u64) -> u32 {
    // A byte shifts by eight powers of x, and x^(2^32) equals x, so the powers repeat.
    let set = (0..u64::BITS).filter(|bit| second_length >> bit & 1 == 1);
    set.fold(first, |crc, bit| product(POWERS[(bit as usize + 3) % POWERS.len()], crc)) ^ second
}

#[cfg(test)]
mod tests {
    use dio_test::Rng;

    use super::*;

    #[test]
    fn two_parts_have_the_check_value_of_both() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let size = rng.range_usize(0..10_000);
            let data = rng.bytes(size);
            let (first, second) = data.split_at(rng.range_usize(0..data.len() + 1));
            let [whole, first, tail] = [&data[..], first, second].map(libdeflater::crc32);
            assert_eq!(joined_crc(first, tail, second.len() as u64), whole);
        }
    }

    #[test]
    fn long_parts_are_as_another_library_has_them() {
        let mut rng = Rng::new(2);
        for bits in 0..64 {
            let [first, second] = [0; 2].map(|_: u32| rng.range(0..1 << 32) as u32);
            let length = rng.range(0..1 << 32) << 32 >> bits;
            let algorithm = crc_fast::CrcAlgorithm::Crc32IsoHdlc;
            let theirs =
                crc_fast::checksum_combine(algorithm, first.into(), second.into(), length) as u32;
            assert_eq!(joined_crc(first, second, length), theirs, "{length}");
        }
    }
}
