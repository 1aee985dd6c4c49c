//! Combines the flags into the options of the codec.

use std::path::Path;
use std::sync::Arc;

use ::zstd::zstd_safe::{CParameter, Strategy};

use super::args::ZstdArgs;
use crate::codec::zstd::{Decode, Encode};
use crate::quote::{named, words};
use crate::tool::{Tool, errno_of};
use dio::names::FileId;

/// Options for compressing and decompressing.
#[derive(Debug)]
pub(super) struct CodecOptions {
    pub(super) encode: Encode,
    pub(super) decode: Decode,
    /// Whether uncompressed data is passed on. With `None`, it is passed on only with `-f` to
    /// standard output.
    pub(super) pass_through: Option<bool>,
    pub(super) dictionary_file: Option<FileId>,
}

/// The highest level without `--ultra`, and with it.
const HIGHEST: u32 = 19;
const ULTRA: u32 = 22;

/// The fastest level of the library, as a positive number.
const FASTEST: i64 = 1 << 17;

/// The window sizes that the library supports on 64 bits, as powers of 2.
const LONGEST: std::ops::RangeInclusive<u32> = 10..=31;

impl CodecOptions {
    /// Creates the plan.
    ///
    /// # Errors
    /// A message why the flags are invalid.
    pub(super) fn new(tool: &Tool, args: &ZstdArgs) -> Result<CodecOptions, String> {
        let variable =
            |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let threads = args
            .threads
            .or_else(|| variable("ZSTD_NBTHREADS").map(|count| count.max(0) as u32))
            .unwrap_or(0);
        let level = match args.level {
            Some(level) => level.clamp(-FASTEST, i64::from(i32::MAX)) as i32,
            None => variable("ZSTD_CLEVEL").unwrap_or(3),
        };
        let most = if args.ultra { ULTRA } else { HIGHEST } as i32;
        if level > most && args.quiet < 2 {
            tool.note(format_args!(
                "Warning : compression level higher than max, reduced to {most}"
            ));
        }
        if args.output_dir_flat.is_some() && args.output_dir_mirror.is_some() {
            return Err("--output-dir-flat cannot be used with --output-dir-mirror".to_owned());
        }
        if let Some(window) = args.long.filter(|window| !LONGEST.contains(window)) {
            return Err(format!("--long={window}: Parameter is out of bound: it is from 10 to 31"));
        }
        let dictionary = args.dictionary.as_deref().map(dictionary).transpose()?;
        let (dictionary, dictionary_file) = dictionary.unzip();
        let mut advanced = Vec::new();
        if let Some(size) = args.target_compressed_block_size {
            advanced.push(CParameter::TargetCBlockSize(
                u32::try_from(size).map_err(|_| "the block is too large")?,
            ));
        }
        for parameter in args.parameters.iter().flat_map(|list| list.split(',')) {
            advanced.push(advanced_parameter(parameter)?);
        }
        let job = u32::try_from(args.job.unwrap_or(0))
            .ok()
            .filter(|job| *job <= 1 << 30)
            .ok_or("-B: the size is too large")?;
        let encode = Encode {
            level: level.min(most),
            workers: if args.single_thread {
                0
            } else {
                [threads, cores][usize::from(threads == 0)].min(256)
            },
            size: None,
            content_size: !args.no_content_size,
            checksum: !args.no_check,
            long: args.long,
            job,
            dictionary: dictionary.clone(),
            dictionary_id: !args.no_dictionary_id,
            advanced,
        };
        // A window set by --long must be decompressible with the same flag.
        let memory = match (args.memory.filter(|memory| *memory > 0), args.long) {
            (Some(memory), _) => memory,
            (None, Some(window)) => (1u64 << window).max(Decode::default().memory),
            (None, None) => Decode::default().memory,
        };
        let decode = Decode { memory, dictionary, ..Decode::default() };
        Ok(CodecOptions { encode, decode, pass_through: args.pass_through, dictionary_file })
    }
}

/// The largest dictionary in bytes.
const LARGEST_DICTIONARY: u64 = 32 << 20;

/// Returns the contents of a dictionary and the identity of the file. A file that is not regular
/// has no known end, and may be the input; it is rejected, as by the zstd command.
fn dictionary(path: &Path) -> Result<(Arc<Vec<u8>>, FileId), String> {
    let failed =
        |error: std::io::Error| format!("dictionary {}: {}", named(path), words(errno_of(&error)));
    let meta = std::fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return Err(format!("error 32 : Dictionary {} must be a regular file.", path.display()));
    }
    if meta.len() > LARGEST_DICTIONARY {
        return Err(format!("dictionary {}: larger than 32 MiB", named(path)));
    }
    Ok((Arc::new(std::fs::read(path).map_err(failed)?), FileId::of_metadata(&meta)))
}

/// Parses one parameter of `--zstd=`.
fn advanced_parameter(text: &str) -> Result<CParameter, String> {
    let wrong = || format!("--zstd={text}: not a parameter of the library");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value: u32 = value.parse().map_err(|_| wrong())?;
    Ok(match name {
        "windowLog" | "wlog" => CParameter::WindowLog(value),
        "chainLog" | "clog" => CParameter::ChainLog(value),
        "hashLog" | "hlog" => CParameter::HashLog(value),
        "searchLog" | "slog" => CParameter::SearchLog(value),
        "minMatch" | "mml" => CParameter::MinMatch(value),
        "targetLength" | "tlen" => CParameter::TargetLength(value),
        "overlapLog" | "ovlog" => CParameter::OverlapSizeLog(value),
        "ldmHashLog" | "lhlog" => CParameter::LdmHashLog(value),
        "ldmMinMatch" | "lmml" => CParameter::LdmMinMatch(value),
        "ldmBucketSizeLog" | "lblog" => CParameter::LdmBucketSizeLog(value),
        "ldmHashRateLog" | "lhrlog" => CParameter::LdmHashRateLog(value),
        "strategy" | "strat" => CParameter::Strategy(match value {
            1 => Strategy::ZSTD_fast,
            2 => Strategy::ZSTD_dfast,
            3 => Strategy::ZSTD_greedy,
            4 => Strategy::ZSTD_lazy,
            5 => Strategy::ZSTD_lazy2,
            6 => Strategy::ZSTD_btlazy2,
            7 => Strategy::ZSTD_btopt,
            8 => Strategy::ZSTD_btultra,
            9 => Strategy::ZSTD_btultra2,
            _ => return Err(wrong()),
        }),
        _ => return Err(wrong()),
    })
}
