//! Digests as text: hexadecimal, and base64 (RFC 4648, section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns `bytes` in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|&byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
        .collect()
}

/// Decodes hexadecimal digits of either case; `None` if `text` contains anything else.
pub(crate) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs.iter().map(|&[high, low]| u8::try_from(digit(high)? << 4 | digit(low)?).ok()).collect()
}

/// Returns `bytes` in base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte))
            << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Decodes base64 with padding.
pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (number, group) in groups.iter().enumerate() {
        let digits = group.iter().position(|&byte| byte == b'=').unwrap_or(4);
        let padded = digits < 4;
        if digits < 2
            || padded && number + 1 < groups.len()
            || group[digits..].iter().any(|&byte| byte != b'=')
        {
            return None;
        }
        let mut word = 0u32;
        for byte in &group[..digits] {
            word = word << 6
                | u32::try_from(ALPHABET.iter().position(|letter| letter == byte)?).ok()?;
        }
        word <<= 6 * (4 - digits);
        let [_, bytes_of_word @ ..] = word.to_be_bytes();
        let (used, unused) = bytes_of_word.split_at(digits - 1);
        // The unused bits must be zero; otherwise one digest could be spelt in several ways.
        if unused.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(used);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        for bad in
            ["Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zh==", "Zm9=", "Z g=", "Zg=a", "Zm9vé"]
        {
            assert_eq!(from_base64(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(hex(&[0, 15, 255]), "000fff");
        assert_eq!(from_hex(b"000fFF"), Some(vec![0, 15, 255]));
        assert_eq!(from_hex(b"00f"), None);
        assert_eq!(from_hex(b"0x"), None);
    }
}
