//! Names by which it is known again what was looked at.

/// A number that another path has only by chance (FNV-1a, 64 bits).
pub fn name_number(path: &[u8]) -> u64 {
    path.iter().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::name_number;

    #[test]
    fn numbers_are_those_of_the_algorithm() {
        assert_eq!(name_number(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(name_number(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
