//! The flags with which every tool controls how bytes move.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use dio::Need;
use dio::stream::StreamOptions;

use crate::grammar::{Choice, Flag, among, by_default, exact, own, parsed, switch, value};
use crate::size::parse_positive_size;

/// A WHEN argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// If it is useful
    Auto,
    /// Always
    Always,
    /// Never
    #[default]
    Never,
}

/// The argument of `--mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Direct for large files, uncached for small ones
    #[default]
    Auto,
    /// Between the disk and dio's buffers
    Direct,
    /// Through the page cache, dropped at once
    Uncached,
    /// Through the page cache
    Cached,
}

/// The largest source that `--mode auto` reads uncached.
const SMALL: u64 = 64 << 10;

/// The most bytes in the buffers of one stream.
const MOST_BUFFERS: u64 = 64 << 20;

/// The default request size and number of requests in flight. Measured: reads of 1 MiB × 8 reach
/// the disk's limit; more only takes memory.
const BLOCK: u64 = 1 << 20;
const DEPTH: usize = 8;

/// The heading in the help for options that dio adds to those of the original tool.
pub(crate) const OWN: &str = "Direct I/O";

/// The options for how bytes move.
#[derive(Clone, Debug, Default)]
pub struct IoArgs {
    pub(crate) mode: Mode,
    pub(crate) strict: bool,
    /// Whether files must be read from the disk, whatever the mode is.
    pub(crate) medium: bool,
    pub(crate) block: Option<u64>,
    pub(crate) depth: Option<u32>,
    pub(crate) progress: When,
    pub(crate) receipt: Option<PathBuf>,
}

/// Parses a block size; two blocks must fit into the buffers.
fn parse_block(text: &str) -> Result<u64, String> {
    match parse_positive_size(text) {
        Ok(size) if size > MOST_BUFFERS / 2 => Err("the block must not exceed 32M".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

const MODES: &[Choice<Mode>] = &[
    ("auto", Mode::Auto, "Direct for large files, uncached for small ones"),
    ("direct", Mode::Direct, "Between the disk and dio's buffers"),
    ("uncached", Mode::Uncached, "Through the page cache, dropped at once"),
    ("cached", Mode::Cached, "Through the page cache"),
];

const WHENS: &[Choice<When>] = &[
    ("auto", When::Auto, "Where it is useful"),
    ("always", When::Always, "In every case"),
    ("never", When::Never, "In no case"),
];

/// Returns the options for how a tool moves bytes; `part` selects them in the tool's parsed command
/// line.
pub(crate) fn io_flags<L: 'static>(part: fn(&mut L) -> &mut IoArgs) -> [Flag<L>; 6] {
    let flags: [Flag<IoArgs>; 6] = [
        mode_flag(|io, mode| io.mode = mode.unwrap_or_default()),
        strict_flag(|io| io.strict = true),
        parsed(
            "--block=SIZE",
            "Size of one request, 32M at most [default: 1M]",
            parse_block,
            |io, block| {
                io.block = block;
            },
        ),
        depth_flag(
            "Requests kept in flight, as far as 64M of buffers go [default: 8; of a striped file, \
             4 for each target if that is more]",
            |io, depth| io.depth = depth,
        ),
        by_default(
            "never",
            progress_flag("Show how far the work is", |io, when| {
                io.progress = when.unwrap_or(When::Always)
            }),
        ),
        receipt_flag(
            "Write a JSON account of what was moved and how to FILE, or to standard output if FILE \
             is -",
            |io, file| io.receipt = Some(file.into()),
        ),
    ];
    flags.map(|flag| flag.within(part).below(OWN))
}

pub(crate) fn mode_flag<L: 'static>(set: fn(&mut L, Option<Mode>)) -> Flag<L> {
    let help = "How bytes of files move: past the page cache (direct), through it and out again at \
                once (uncached), through it (cached), or chosen by size (auto)";
    by_default("auto", among(MODES, parsed("--mode=MODE", help, |text| exact(text, MODES), set)))
}

pub(crate) fn strict_flag<L: 'static>(set: fn(&mut L)) -> Flag<L> {
    own(switch("--strict", "Fail where --mode cannot be had instead of falling back", set))
}

/// Returns the option that reads files from the disk or fails.
pub(crate) fn medium_flag<L: 'static>(part: fn(&mut L) -> &mut IoArgs) -> Flag<L> {
    let help = "Read files from the disk and not from the page cache, and fail where that is \
                impossible: finds what has changed on the medium since it was written";
    own(switch("--medium", help, |io: &mut IoArgs| io.medium = true)).within(part).below(OWN)
}

pub(crate) fn depth_flag<L: 'static>(help: &'static str, set: fn(&mut L, Option<u32>)) -> Flag<L> {
    parsed("--depth=N", help, |text| number(text, 1..=4096), set)
}

pub(crate) fn progress_flag<L: 'static>(
    help: &'static str,
    set: fn(&mut L, Option<When>),
) -> Flag<L> {
    among(WHENS, parsed("--progress[=WHEN]", help, |text| exact(text, WHENS), set))
}

pub(crate) fn receipt_flag<L: 'static>(help: &'static str, set: fn(&mut L, OsString)) -> Flag<L> {
    own(value("--receipt=FILE", help, set))
}

/// Returns the option that overwrites an existing output instead of replacing it.
pub(crate) fn in_place_flag<L: 'static>(set: fn(&mut L)) -> Flag<L> {
    let help = "Overwrite an existing output instead of replacing it when its successor is \
                complete: needs no room for both, and loses the old contents with a run that is \
                cut short";
    own(switch("--in-place", help, set)).below(OWN)
}

/// Parses a number within a range.
pub(crate) fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let wrong = || format!("it is a number from {} to {}", range.start(), range.end());
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}

impl IoArgs {
    /// Returns these options in the form that the library's streams take.
    pub(crate) fn stream_options(&self) -> StreamOptions {
        let page = 4096;
        let block = dio::geometry::align_up(self.block.unwrap_or(BLOCK), page);
        let depth =
            self.depth.map_or(DEPTH, |depth| depth as usize).min((MOST_BUFFERS / block) as usize);
        let mode = match self.mode {
            _ if self.medium => dio::Mode::Direct,
            Mode::Auto | Mode::Direct => dio::Mode::Direct,
            Mode::Uncached => dio::Mode::Uncached,
            Mode::Cached => dio::Mode::Cached,
        };
        StreamOptions {
            mode,
            need: if self.strict || self.medium { Need::Required } else { Need::Preferred },
            block: block as usize,
            depth,
            small: if self.mode == Mode::Auto && !self.medium { SMALL } else { 0 },
            striped_bytes_max: if self.depth.is_none() { MOST_BUFFERS as usize } else { 0 },
            on_threads: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_whatever_is_asked() {
        for (block, depth) in [(1, 4096), (32 << 20, 4096), (1 << 20, 1)] {
            let options = IoArgs { block: Some(block), depth: Some(depth), ..IoArgs::default() }
                .stream_options();
            assert!(
                options.block * options.depth <= MOST_BUFFERS as usize && options.depth >= 1,
                "{options:?}"
            );
        }
        assert!(parse_block("33M").is_err() && parse_block("0").is_err());
    }
}
