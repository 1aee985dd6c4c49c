//! Zstandard compression.

use std::io::{self, Read, Write};
use std::sync::Arc;

use ::zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use ::zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use dio_sys::uninterrupted;

use super::words::words;
use crate::codec::{CodecTotals, EncodeError};

/// Options for compressing.
#[derive(Clone, Debug)]
pub struct Encode {
    /// The level: from -131072 (fastest) to 22 (smallest); 0 is the library's default, 3.
    pub level: i32,
    /// Threads that compress; with 0 the calling thread does.
    pub workers: u32,
    /// Bytes of the input, if known. They go into the header of the frame, and an input of another
    /// size is an error.
    pub size: Option<u64>,
    /// Whether a known size goes into the header.
    pub content_size: bool,
    /// Whether the frame ends in a checksum of the data.
    pub checksum: bool,
    /// Searches for matches as far back as 2 to this power bytes, with long distance matching.
    pub long: Option<u32>,
    /// Bytes that a thread compresses at a time; 0 for the library's default.
    pub job: u32,
    /// The dictionary, which the decoder must have too.
    pub dictionary: Option<Arc<Vec<u8>>>,
    /// Whether the ID of the dictionary goes into the header.
    pub dictionary_id: bool,
    /// Library parameters in addition to the level's, set in this order.
    pub advanced: Vec<CParameter>,
}

impl Default for Encode {
    /// The defaults of the `zstd` command, with one thread per core.
    fn default() -> Encode {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Encode {
            level: 3,
            workers: cores as u32,
            size: None,
            content_size: true,
            checksum: true,
            long: None,
            job: 0,
            dictionary: None,
            dictionary_id: true,
            advanced: Vec::new(),
        }
    }
}

/// Bytes that are read and written at a time; they are copied while they are in the cache.
const BLOCK: usize = 256 << 10;

/// Compresses `input` to its end into one frame.
///
/// # Errors
/// [`EncodeError`]. Parameters that the library rejects, and an input whose size differs from the
/// given one, are read errors of the kind `InvalidInput`. The output is then incomplete.
pub fn encode(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    how: &Encode,
) -> Result<CodecTotals, EncodeError> {
    let mut context = prepared(how)?;
    // The library starts its threads on the first call, and fails if it gets fewer than it asked
    // for.
    let mut starting = how.workers > 0;
    let (mut bytes, mut made) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut moved = CodecTotals { members: 1, ..CodecTotals::default() };
    loop {
        let count = uninterrupted(|| input.read(&mut bytes)).map_err(EncodeError::Read)?;
        moved.read += count as u64;
        let step = if count == 0 {
            ZSTD_EndDirective::ZSTD_e_end
        } else {
            ZSTD_EndDirective::ZSTD_e_continue
        };
        let mut from = InBuffer::around(&bytes[..count]);
        loop {
            let mut to = OutBuffer::around(&mut made[..]);
            let left = match context.compress_stream2(&mut to, &mut from, step) {
                Err(_) if starting => {
                    (context, starting) = (prepared(&Encode { workers: 0, ..how.clone() })?, false);
                    from = InBuffer::around(&bytes[..count]);
                    continue;
                }
                result => result.map_err(refused)?,
            };
            starting = false;
            let ready = to.pos();
            output.write_all(&made[..ready]).map_err(EncodeError::Write)?;
            moved.written += ready as u64;
            if if count == 0 { left == 0 } else { from.pos() == count } {
                break;
            }
        }
        if count == 0 {
            return Ok(moved);
        }
    }
}

/// Returns a context with its parameters set.
fn prepared<'a>(how: &Encode) -> Result<CCtx<'a>, EncodeError> {
    let mut context =
        CCtx::try_create().ok_or(EncodeError::Read(io::ErrorKind::OutOfMemory.into()))?;
    prepare(&mut context, how).map_err(refused)?;
    Ok(context)
}

/// Sets the parameters.
fn prepare(context: &mut CCtx<'_>, how: &Encode) -> Result<(), usize> {
    context.set_parameter(CParameter::CompressionLevel(how.level))?;
    context.set_parameter(CParameter::ChecksumFlag(how.checksum))?;
    context.set_parameter(CParameter::ContentSizeFlag(how.content_size))?;
    context.set_parameter(CParameter::DictIdFlag(how.dictionary_id))?;
    if how.workers > 0 {
        context.set_parameter(CParameter::NbWorkers(how.workers))?;
        context.set_parameter(CParameter::JobSize(how.job))?;
    }
    if let Some(window) = how.long {
        context.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
        context.set_parameter(CParameter::WindowLog(window))?;
    }
    for &parameter in &how.advanced {
        context.set_parameter(parameter)?;
    }
    context.set_pledged_src_size(how.size)?;
    if let Some(dictionary) = &how.dictionary {
        context.load_dictionary(dictionary)?;
    }
    Ok(())
}

fn refused(code: usize) -> EncodeError {
    EncodeError::Read(io::Error::new(io::ErrorKind::InvalidInput, words(code)))
}
