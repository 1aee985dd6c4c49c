//! Formats names as GNU tar does with gnulib's quoting style `escape`.

use dio::quote::push_escape;

/// Escapes a name: bytes that cannot be printed and the backslash become C escapes. Bytes that are
/// not text in the user's locale become octal escapes.
#[must_use]
pub fn escaped(name: &[u8]) -> String {
    escaped_in(name, crate::locale::is_utf8())
}

fn escaped_in(name: &[u8], utf8: bool) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() || !(utf8 || c.is_ascii()) => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escape(&mut out, byte));
                }
                c => out.push(c),
            }
        }
        part.invalid().iter().for_each(|&byte| push_escape(&mut out, byte));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_in_c() {
        assert_eq!(escaped_in(b"a b'\"c", true), "a b'\"c");
        assert_eq!(escaped_in(b"a\nb\t\\\x1b\x7f", true), "a\\nb\\t\\\\\\033\\177");
        assert_eq!(escaped_in("é".as_bytes(), true), "é");
        assert_eq!(escaped_in("é".as_bytes(), false), "\\303\\251");
        assert_eq!(escaped_in(b"\xff", true), "\\377");
    }
}
