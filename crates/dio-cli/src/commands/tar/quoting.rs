//! Names in lists and messages, as GNU tar shows them by default: bytes that cannot be printed
//! become C escapes.

use super::terms::Quoting;
use crate::locale;

/// Formats a name for a list.
pub(super) fn shown(name: &[u8], how: Quoting) -> Vec<u8> {
    match how {
        Quoting::Escape => escape(name, false, locale::is_utf8()),
        Quoting::Literal => name.to_vec(),
    }
}

/// Formats a name for the start of a message, where a colon in it would mislead; colons are escaped
/// too.
pub(super) fn escaped(name: &[u8]) -> String {
    // `escape` has already replaced every byte that is not part of a character.
    String::from_utf8_lossy(&escape(name, true, locale::is_utf8())).into_owned()
}

fn escape(name: &[u8], colon: bool, utf8: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            let mut bytes = [0; 4];
            let encoded = c.encode_utf8(&mut bytes).as_bytes();
            match c {
                '\\' => out.extend(b"\\\\"),
                ':' if colon => out.extend(b"\\:"),
                c if c.is_control() || !(utf8 || c.is_ascii()) => {
                    encoded.iter().for_each(|b| octal(&mut out, *b))
                }
                _ => out.extend(encoded),
            }
        }
        part.invalid().iter().for_each(|byte| octal(&mut out, *byte));
    }
    out
}

fn octal(out: &mut Vec<u8>, byte: u8) {
    match byte {
        7 => out.extend(b"\\a"),
        8 => out.extend(b"\\b"),
        9 => out.extend(b"\\t"),
        10 => out.extend(b"\\n"),
        11 => out.extend(b"\\v"),
        12 => out.extend(b"\\f"),
        13 => out.extend(b"\\r"),
        _ => out.extend(format!("\\{byte:03o}").as_bytes()),
    }
}

/// Escapes control characters in text that GNU tar lists unchanged, so that the terminal does not
/// act on them.
pub(super) fn harmless(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for part in text.utf8_chunks() {
        for c in part.valid().chars() {
            let mut bytes = [0; 4];
            let encoded = c.encode_utf8(&mut bytes).as_bytes();
            if c.is_control() {
                encoded.iter().for_each(|b| octal(&mut out, *b))
            } else {
                out.extend(encoded)
            }
        }
        for &byte in part.invalid() {
            // The bytes 0x80 to 0x9f are the control characters of ISO 8859.
            if matches!(byte, 0x80..0xa0) { octal(&mut out, byte) } else { out.push(byte) }
        }
    }
    out
}

/// Undoes the escapes in a given name, as GNU tar does by default. A backslash that begins no
/// escape is kept.
pub(super) fn unquoted(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let Some((&next, behind)) = after.split_first().filter(|_| byte == b'\\') else {
            out.push(byte);
            continue;
        };
        rest = behind;
        match next {
            b'\\' => out.push(b'\\'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'?' => out.push(127),
            b'0'..=b'7' => {
                let digits =
                    after.iter().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
                let value = after[..digits]
                    .iter()
                    .fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                out.push(value as u8);
                rest = &after[digits..];
            }
            _ => out.extend([b'\\', next]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_might_obey_is_escaped() {
        assert_eq!(harmless(b"D\\u: \x1b[1m\x9b1m\xff"), b"D\\u: \\033[1m\\2331m\xff");
        assert_eq!(harmless("é\u{9b}".as_bytes()), "é\\302\\233".as_bytes());
    }

    #[test]
    fn escapes_are_those_of_gnu_and_undone() {
        assert_eq!(escape(b"a b:\\\n\x01", true, false), b"a b\\:\\\\\\n\\001");
        assert_eq!(escape("é\u{ff}".as_bytes(), false, true), "é\u{ff}".as_bytes());
        assert_eq!(escape("é".as_bytes(), false, false), b"\\303\\251");
        assert_eq!(escape(b"\xff", false, true), b"\\377");
        for name in [&b"a\\\n\t\x07\x01\xffz"[..], b"\\d"] {
            assert_eq!(unquoted(&escape(name, false, false)), name);
        }
        assert_eq!(unquoted(b"c\\d\\"), b"c\\d\\");
    }
}
