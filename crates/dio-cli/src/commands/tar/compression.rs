//! Derives the compression of an archive from its name.

use super::terms::Compression;

/// The compression that the suffix of an archive's name stands for.
pub(super) fn by_suffix(name: &[u8]) -> Option<Compression> {
    let suffix = &name[name.iter().rposition(|byte| *byte == b'.')? + 1..];
    Some(match suffix {
        b"gz" | b"tgz" | b"taz" => Compression::Gzip,
        b"zst" | b"tzst" => Compression::Zstd,
        b"Z" | b"taZ" => Compression::Program(vec!["compress".into()]),
        b"bz2" | b"tbz" | b"tbz2" | b"tz2" => Compression::Program(vec!["bzip2".into()]),
        b"lz" => Compression::Program(vec!["lzip".into()]),
        b"lzma" | b"tlz" => Compression::Program(vec!["lzma".into()]),
        b"lzo" => Compression::Program(vec!["lzop".into()]),
        b"xz" | b"txz" => Compression::Program(vec!["xz".into()]),
        _ => return None,
    })
}
