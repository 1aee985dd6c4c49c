//! Compressed streams. The decoded bytes are compared with those of another decoder.

use std::io::{self, Read, Write};

use dio_cli::codec::{self, CodecTotals, DecodeError};

/// Largest number of decompressed bytes, because a few compressed bytes can stand for very many.
const OUTPUT_MAX: usize = 5 << 20;

/// Stores everything that is written, up to a limit beyond which writing fails.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of another decoder for a stream: the bytes, and whether the whole stream was sound.
/// Returns `None` if there are too many bytes.
fn reference(decoder: impl Read) -> Option<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let ended = decoder.take(OUTPUT_MAX as u64 + 1).read_to_end(&mut bytes);
    (bytes.len() <= OUTPUT_MAX).then(|| (bytes, ended.is_ok()))
}

/// Compares the decoded bytes with those of another decoder, as far as both streams are sound. With
/// `strict`, a stream that the other decoder accepts must be accepted here too.
fn compare(
    strict: bool,
    decoded: &Result<CodecTotals, DecodeError>,
    bytes: &[u8],
    other: Option<(Vec<u8>, bool)>,
) {
    let written = match decoded {
        Ok(moved) => Some(moved.written),
        Err(DecodeError::TrailingGarbage { moved, .. }) => Some(moved.written),
        Err(DecodeError::Damaged { sound, moved, .. }) => {
            assert!(*sound <= moved.written, "more is sound than was written");
            None
        }
        Err(_) => None,
    };
    let Some((expected, is_whole)) = other else { return };
    if let Some(written) = written {
        assert_eq!(written, bytes.len() as u64);
        let same = if is_whole {
            expected == bytes
        } else {
            bytes.starts_with(&expected) || expected.starts_with(bytes)
        };
        assert!(same, "two decoders make different bytes of it");
    }
    if is_whole && strict {
        assert!(
            !matches!(decoded, Err(DecodeError::Damaged { .. })),
            "another decoder takes it: {decoded:?}"
        );
    }
}

/// Decodes gzip: the result must be the same with and without workers, and the same as another
/// decoder's.
pub(super) fn gzip(input: &[u8]) {
    dio_cli::fuzz::gzip_header(input);
    let decode = |workers, keep_damaged| {
        let how = codec::gzip::Decode { workers, keep_damaged, ..codec::gzip::Decode::default() };
        let mut output = Bounded::default();
        let decoded = codec::gzip::decode(&mut &*input, &mut output, &how);
        (decoded, output.0)
    };
    let (decoded, bytes) = decode(0, false);
    compare(true, &decoded, &bytes, reference(flate2::bufread::MultiGzDecoder::new(input)));
    // Threads cost more than everything else, so they are not used for each input.
    if input.len() % 16 == 0 {
        let (beside, same) = decode(2, false);
        assert_eq!(format!("{decoded:?}"), format!("{beside:?}"));
        assert!(bytes == same, "with workers it becomes other bytes");
        let (_, kept) = decode(0, true);
        assert!(kept.len() >= bytes.len(), "less is kept of a damaged stream than is sound");
    }
}

/// Decodes Zstandard: the result must be the same as that of the library's own stream. The library
/// accepts some frames as a whole that it refuses in parts (one without contents that repeats a
/// byte zero times), so the decoder may be stricter here.
pub(super) fn zstd(input: &[u8]) {
    let how = codec::zstd::Decode { memory: 8 << 20, ..codec::zstd::Decode::default() };
    let mut output = Bounded::default();
    let decoded = codec::zstd::decode(&mut &*input, &mut output, &how);
    let other = zstd::stream::read::Decoder::with_buffer(input).ok().and_then(|mut decoder| {
        decoder.window_log_max(23).ok()?;
        reference(decoder)
    });
    compare(false, &decoded, &output.0, other);
    let _ = codec::zstd::frame::begins(input);
}
