//! Lines of output, in the formats of GNU `cksum`, the `md5sum` family and `sum`.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::encode::{base64, hex};
use dio_digest::{Algorithm, DigestKind, Sum};

/// A part of a file that has a digest of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The offset of its first byte.
    pub(crate) start: u64,
    /// The number of its bytes.
    pub(crate) length: u64,
    /// The number of bytes of the whole file.
    pub(crate) size: u64,
}

impl Piece {
    /// Divides a file of `size` bytes into pieces of `length` bytes, of which the last may have
    /// fewer.
    pub(crate) fn all(size: u64, length: u64) -> impl Iterator<Item = Piece> + Clone {
        (0..size.div_ceil(length)).map(move |number| Piece::number(number, size, length))
    }

    /// Returns one of these pieces, by its number from 0.
    pub(crate) fn number(number: u64, size: u64, length: u64) -> Piece {
        let start = number * length;
        Piece { start, length: length.min(size - start), size }
    }

    /// Parses what [`fmt::Display`] writes; `None` if `text` is anything else.
    pub(crate) fn parse(text: &[u8]) -> Option<Piece> {
        let text = std::str::from_utf8(text).ok()?;
        let (start, rest) = text.strip_prefix('[')?.strip_suffix(']')?.split_once('+')?;
        let (length, size) = rest.split_once('/')?;
        let number = |text: &str| text.parse::<u64>().ok();
        let piece = Piece { start: number(start)?, length: number(length)?, size: number(size)? };
        let end = piece.start.checked_add(piece.length)?;
        // Other spellings of the same numbers are refused.
        (end <= piece.size && piece.length > 0 && piece.to_string() == text).then_some(piece)
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}+{}/{}]", self.start, self.length, self.size)
    }
}

/// How digests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `MD5 (name) = digest`
    Tagged,
    /// `digest  name`, or `digest *name` in binary mode.
    Reversed {
        /// Whether the mark before the name says that the file was read in binary mode.
        binary: bool,
    },
    /// The digest and nothing else.
    Bare,
    /// The raw bytes of the digest.
    Raw,
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// The arrangement of the line.
    pub(crate) style: Style,
    /// Base64 instead of hexadecimal digits.
    pub(crate) base64: bool,
    /// Lines end with NUL, and names are not escaped.
    pub(crate) zero: bool,
    /// Whether lines of [numbers](Algorithm::is_number) contain the name, because there was an
    /// operand.
    pub(crate) named: bool,
}

impl Format {
    /// Writes the line for one digest of the file `name`, or of a piece of it.
    pub(crate) fn write(
        &self,
        out: &mut impl Write,
        kind: DigestKind,
        sum: &Sum,
        (name, piece): (&[u8], Option<Piece>),
    ) -> io::Result<()> {
        if self.style == Style::Raw {
            return out.write_all(&sum.bytes);
        }
        if kind.algorithm.is_number() {
            self.write_number(out, kind.algorithm, sum, name)?;
            return out.write_all(self.end());
        }
        let digest = if self.base64 { base64(&sum.bytes) } else { hex(&sum.bytes) };
        let shown = if self.zero { Cow::Borrowed(name) } else { escaped(name) };
        // A backslash at the start of the line says that the name is escaped.
        if matches!(shown, Cow::Owned(_)) && self.style != Style::Bare {
            out.write_all(b"\\")?;
        }
        match self.style {
            Style::Tagged => {
                out.write_all(tag(kind).as_bytes())?;
                out.write_all(b" (")?;
                out.write_all(&shown)?;
                match piece {
                    None => write!(out, ") = {digest}")?,
                    Some(piece) => write!(out, ") {piece} = {digest}")?,
                }
            }
            Style::Reversed { binary } => {
                write!(out, "{digest} {}", if binary { '*' } else { ' ' })?;
                out.write_all(&shown)?;
            }
            Style::Bare | Style::Raw => out.write_all(digest.as_bytes())?,
        }
        out.write_all(self.end())
    }

    fn write_number(
        &self,
        out: &mut impl Write,
        algorithm: Algorithm,
        sum: &Sum,
        name: &[u8],
    ) -> io::Result<()> {
        let number = sum.bytes.iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte));
        match algorithm {
            Algorithm::Bsd => write!(out, "{number:05} {:5}", sum.length.div_ceil(1024))?,
            Algorithm::Sysv => write!(out, "{number} {}", sum.length.div_ceil(512))?,
            _ => write!(out, "{number} {}", sum.length)?,
        }
        if self.named && self.style != Style::Bare {
            out.write_all(b" ")?;
            out.write_all(name)?;
        }
        Ok(())
    }

    fn end(&self) -> &'static [u8] {
        if self.zero { b"\0" } else { b"\n" }
    }
}

/// Returns the tag of a digest. An unusual length of BLAKE2b is part of the tag, one of BLAKE3 is
/// not, as in those algorithms' own tools.
fn tag(kind: DigestKind) -> String {
    match kind.algorithm {
        Algorithm::Blake2b if kind.bytes != Algorithm::Blake2b.bytes() => {
            format!("BLAKE2b-{}", kind.bytes * 8)
        }
        algorithm => algorithm.tag().to_owned(),
    }
}

/// Returns `name` with backslashes, newlines and carriage returns written as `\\`, `\n` and `\r`;
/// borrowed if it contains none.
pub(crate) fn escaped(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        return Cow::Borrowed(name);
    }
    let mut out = Vec::with_capacity(name.len() + 1);
    for &byte in name {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte => out.push(byte),
        }
    }
    Cow::Owned(out)
}

/// Returns the name that [`escaped`] wrote as `text`; `None` if it never writes that.
pub(crate) fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        name.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            0 => return None,
            byte => byte,
        });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: Format, algorithm: Algorithm, name: &str) -> String {
        let sum = Sum { bytes: [1, 0xfe].repeat(algorithm.bytes() / 2), length: 1025 };
        let mut out = Vec::new();
        format.write(&mut out, algorithm.into(), &sum, (name.as_bytes(), None)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines() {
        let format = Format { style: Style::Tagged, base64: false, zero: false, named: true };
        assert_eq!(line(format, Algorithm::Crc32c, "a"), "CRC32C (a) = 01fe01fe\n");
        assert_eq!(line(format, Algorithm::Crc32c, "a\\b\n"), "\\CRC32C (a\\\\b\\n) = 01fe01fe\n");
        assert_eq!(
            line(Format { zero: true, ..format }, Algorithm::Crc32c, "a\n"),
            "CRC32C (a\n) = 01fe01fe\0"
        );
        assert_eq!(
            line(Format { base64: true, ..format }, Algorithm::Crc32c, "a"),
            "CRC32C (a) = Af4B/g==\n"
        );
        let reversed = Format { style: Style::Reversed { binary: true }, ..format };
        assert_eq!(line(reversed, Algorithm::Crc32c, "a\r"), "\\01fe01fe *a\\r\n");
        assert_eq!(
            line(Format { style: Style::Bare, ..format }, Algorithm::Crc32c, "a\n"),
            "01fe01fe\n"
        );
        assert_eq!(line(format, Algorithm::Bsd, "a"), "00510     2 a\n");
        assert_eq!(line(format, Algorithm::Sysv, "a\n"), "510 3 a\n\n");
        assert_eq!(line(Format { named: false, ..format }, Algorithm::Crc, "-"), "33423870 1025\n");
    }

    #[test]
    fn pieces_have_one_spelling() {
        let pieces: Vec<Piece> = Piece::all(10, 4).collect();
        let texts: Vec<String> = pieces.iter().map(Piece::to_string).collect();
        assert_eq!(texts, ["[0+4/10]", "[4+4/10]", "[8+2/10]"]);
        let parsed: Vec<_> = texts.iter().map(|text| Piece::parse(text.as_bytes())).collect();
        assert_eq!(parsed, pieces.into_iter().map(Some).collect::<Vec<_>>());
        for bad in [
            "[0+4]",
            "[0+4/3]",
            "[00+4/10]",
            "[+0+4/10]",
            "[0+0/10]",
            "0+4/10",
            "[0+4/10] ",
            "[18446744073709551615+1/18446744073709551615]",
        ] {
            assert_eq!(Piece::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn names_survive_escaping() {
        for name in ["a", "a\\b", "\n", "\r\\n", "é"] {
            assert_eq!(unescaped(&escaped(name.as_bytes())).as_deref(), Some(name.as_bytes()));
        }
        for bad in ["\\", "\\x", "a\0b"] {
            assert_eq!(unescaped(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
