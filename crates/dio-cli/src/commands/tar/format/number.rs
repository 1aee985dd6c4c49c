//! Numbers in header fields: octal text, or base 256 if the first bit is set.

/// The reason for which a field contains no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It contains only blanks and NULs.
    Blank,
    /// It contains other characters than octal digits.
    Text,
    /// The number has more than 63 bits.
    Range,
}

/// Parses the number in a field.
///
/// Octal digits may be preceded by blanks, and end with a blank, a NUL or the field. A NUL before
/// them is ignored: some old programs ended the previous field there. A first byte of 0x80 or 0xff
/// starts a number in two's complement, most significant byte first.
pub(super) fn parse(field: &[u8]) -> Result<i64, Bad> {
    match field.first() {
        Some(&first @ (0x80 | 0xff)) => return base_256(first, &field[1..]),
        // This is a base-256 number too large for an `i64`.
        Some(first) if first & 0x80 != 0 => return Err(Bad::Range),
        _ => {}
    }
    let field = field.strip_prefix(&[0]).unwrap_or(field);
    let start = field.iter().position(|byte| !byte.is_ascii_whitespace()).ok_or(Bad::Blank)?;
    let digits = &field[start..];
    let end = digits.iter().position(|byte| !(b'0'..=b'7').contains(byte)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    match rest.first() {
        Some(0) if digits.is_empty() => return Err(Bad::Blank),
        None | Some(0) => {}
        Some(byte) if byte.is_ascii_whitespace() => {}
        Some(_) => return Err(Bad::Text),
    }
    digits.iter().try_fold(0i64, |value, digit| {
        value
            .checked_mul(8)
            .and_then(|value| value.checked_add(i64::from(digit - b'0')))
            .ok_or(Bad::Range)
    })
}

fn base_256(first: u8, rest: &[u8]) -> Result<i64, Bad> {
    let sign = if first == 0xff { -1i64 } else { 0 };
    let value = rest.iter().try_fold(sign, |value, byte| {
        value.checked_mul(256).map(|value| value | i64::from(*byte)).ok_or(Bad::Range)
    })?;
    Ok(value)
}

/// The largest number that fits into a field of `width` bytes as octal digits and a NUL.
pub(super) fn max_octal(width: usize) -> u64 {
    (1u64 << (3 * (width - 1)).min(63)) - 1
}

/// Writes a number into a field as octal digits and a NUL. Returns `false` if it does not fit.
pub(super) fn put_octal(field: &mut [u8], value: u64) -> bool {
    if value > max_octal(field.len()) {
        return false;
    }
    let last = field.len() - 1;
    field[last] = 0;
    let mut value = value;
    for byte in field[..last].iter_mut().rev() {
        *byte = b'0' + (value & 7) as u8;
        value >>= 3;
    }
    true
}

/// Writes a number into a field in base 256. Returns `false` if it does not fit.
pub(super) fn put_base_256(field: &mut [u8], value: i64) -> bool {
    let bytes = value.to_be_bytes();
    let (sign, fill) = if value < 0 { (0xff, 0xff) } else { (0x80, 0) };
    let rest = &mut field[1..];
    if rest.len() < bytes.len() {
        let (cut, kept) = bytes.split_at(bytes.len() - rest.len());
        if cut.iter().any(|byte| *byte != fill) {
            return false;
        }
        rest.copy_from_slice(kept);
    } else {
        let (before, digits) = rest.split_at_mut(rest.len() - bytes.len());
        before.fill(fill);
        digits.copy_from_slice(&bytes);
    }
    field[0] = sign;
    true
}

/// Parses a number that consists of decimal digits only.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_fields_are_read_as_all_writers_write_them() {
        for (field, value) in [
            (&b"0000644\0"[..], 0o644),
            (b"   644 \0", 0o644),
            (b"00000644", 0o644),
            (b"644\0junk", 0o644),
            (b"0       ", 0),
            (b"\x00000644\0", 0o644),
            (b"777777777777", 0o777_777_777_777),
        ] {
            assert_eq!(parse(field), Ok(value), "{field:?}");
        }
        assert_eq!(parse(b"       \0"), Err(Bad::Blank));
        assert_eq!(parse(b"\0\0\0\0\0\0\0\0"), Err(Bad::Blank));
        assert_eq!(parse(b"0000648\0"), Err(Bad::Text));
        assert_eq!(parse(b"-644\0"), Err(Bad::Text));
        assert_eq!(parse(b"7777777777777777777777"), Err(Bad::Range));
        assert_eq!(parse(b""), Err(Bad::Blank));
    }

    #[test]
    fn numbers_survive_base_256() {
        for value in
            [0, 1, -1, 255, 256, -256, i64::from(u32::MAX), 1 << 40, -(1 << 40), i64::MAX, i64::MIN]
        {
            let mut field = [b'x'; 12];
            assert!(put_base_256(&mut field, value));
            assert_eq!(parse(&field), Ok(value));
            let mut narrow = [b'x'; 8];
            if put_base_256(&mut narrow, value) {
                assert_eq!(parse(&narrow), Ok(value));
            } else {
                assert!(!(-(1i64 << 55)..1 << 55).contains(&value));
            }
        }
        assert_eq!(parse(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"), Err(Bad::Range));
        assert_eq!(parse(b"\xc0\0\0\0\0\0\0\0"), Err(Bad::Range));
    }

    #[test]
    fn octal_is_written_with_a_nul_or_not_at_all() {
        let mut field = [b'x'; 8];
        assert!(put_octal(&mut field, 0o755));
        assert_eq!(&field, b"0000755\0");
        assert!(put_octal(&mut field, max_octal(8)));
        assert_eq!(&field, b"7777777\0");
        assert!(!put_octal(&mut field, max_octal(8) + 1));
    }
}
