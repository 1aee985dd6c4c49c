//! Reads the header of the first member before anything is decompressed (RFC 1952, section 2.3).

/// The header of a stream's first member.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FirstHeader {
    /// The name in the header, if any.
    pub(super) name: Option<Vec<u8>>,
    /// The time in the header, in seconds since 1970, unless it is 0.
    pub(super) mtime: Option<u32>,
    /// Bytes of the header.
    pub(super) length: u64,
    /// Bytes of the extra field, unless it holds the size of the member, which is not ignored.
    pub(super) extra: Option<u16>,
}

/// Why GNU gzip refuses to decompress a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsupported {
    /// A compression method other than deflate.
    Method(u8),
    Encrypted,
    Flags(u8),
}

/// Reads the header at the beginning of `bytes`. If the header is longer, it reads the fields that
/// are present.
pub(super) fn first(bytes: &[u8]) -> Result<FirstHeader, Unsupported> {
    let mut first = FirstHeader::default();
    let [0x1f, 0x8b, method, flags, a, b, c, d, _, _, rest @ ..] = bytes else {
        return match bytes {
            [0x1f, 0x8b, method, ..] if *method != 8 => Err(Unsupported::Method(*method)),
            _ => Ok(first),
        };
    };
    if *method != 8 {
        return Err(Unsupported::Method(*method));
    }
    if flags & 0x20 != 0 {
        return Err(Unsupported::Encrypted);
    }
    if flags & 0xc0 != 0 {
        return Err(Unsupported::Flags(*flags));
    }
    first.mtime = Some(u32::from_le_bytes([*a, *b, *c, *d])).filter(|time| *time != 0);
    let mut rest = rest;
    if flags & 4 != 0 {
        let [low, high, behind @ ..] = rest else { return Ok(first) };
        let length = u16::from_le_bytes([*low, *high]);
        let known = behind.starts_with(b"IG") || behind.starts_with(b"BC");
        first.extra = Some(length).filter(|_| !known);
        rest = behind.get(usize::from(length)..).unwrap_or_default();
    }
    for is_name in [true, false] {
        if flags & if is_name { 8 } else { 16 } == 0 {
            continue;
        }
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { return Ok(first) };
        if is_name {
            first.name = Some(rest[..end].to_vec());
        }
        rest = &rest[end + 1..];
    }
    first.length = (bytes.len() - rest.len()) as u64 + if flags & 2 != 0 { 2 } else { 0 };
    Ok(first)
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_header(bytes: &[u8]) -> Option<(u64, Option<Vec<u8>>)> {
    first(bytes).ok().map(|first| (first.length, first.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let header =
            |flags: u8, rest: &[u8]| [&[0x1f, 0x8b, 8, flags, 1, 0, 0, 0, 0, 3], rest].concat();
        let read = |flags, rest: &[u8]| first(&header(flags, rest)).unwrap();
        assert_eq!(
            read(0, b"xx"),
            FirstHeader { mtime: Some(1), length: 10, ..FirstHeader::default() }
        );
        let named = read(8 | 4 | 16, b"\x02\0ABname\0comment\0xx");
        assert_eq!(
            (named.name.as_deref(), named.length, named.extra),
            (Some(&b"name"[..]), 27, Some(2))
        );
        assert_eq!(read(8, b"no end").name, None);
        assert_eq!(first(&header(0x20, b"")), Err(Unsupported::Encrypted));
        assert_eq!(first(&header(0xc0, b"")), Err(Unsupported::Flags(0xc0)));
        assert_eq!(first(b"\x1f\x8b\x07"), Err(Unsupported::Method(7)));
        assert_eq!(first(b"\x1f"), Ok(FirstHeader::default()));
    }
}
