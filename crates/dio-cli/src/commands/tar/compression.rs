//! How an archive is compressed, by the flags or by its name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::args::ArchiveArgs;
use super::options::{Compression, Operation, Refusal};
use super::split::split_string;

/// What the flags and the name of the archive say about its compression.
///
/// # Errors
/// There is more than one.
pub(super) fn compression_of(
    operation: Operation,
    args: &ArchiveArgs,
    archive: &OsStr,
) -> Result<Option<Compression>, Refusal> {
    let program = |name: &str| Compression::Program(vec![name.into()]);
    let own = args.use_compress_program.as_deref().map(|program| split_string(program.as_bytes())).transpose()?;
    if own.as_ref().is_some_and(Vec::is_empty) {
        return Err(Refusal::usage("-I needs the name of a program"));
    }
    let given = [
        args.gzip.then_some(Compression::Gzip),
        args.zstd.then_some(Compression::Zstd),
        args.bzip2.then(|| program("bzip2")),
        args.xz.then(|| program("xz")),
        args.lzma.then(|| program("lzma")),
        args.lzip.then(|| program("lzip")),
        args.lzop.then(|| program("lzop")),
        args.compress.then(|| program("compress")),
        own.map(Compression::Program),
    ];
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(_), Some(_)) => Err(Refusal::usage("Conflicting compression options")),
        (None, _) if args.auto_compress && operation == Operation::Create => Ok(by_suffix(archive.as_bytes())),
        (one, _) => Ok(one),
    }
}

/// What the end of an archive's name says about its compression.
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
