//! The grammar of `dio zstd`, `unzstd` and `zstdcat`: the zstd command's flags and those of every tool.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::{ArgAction, ValueHint};

use crate::tool::IoArgs;

/// Compress files, or decompress them, in the format of Zstandard, on all cores and past the page cache
///
/// Each file gets a compressed one beside it with the suffix .zst, or the reverse with -d. Without FILE, or when FILE is -, standard input goes to standard output.
///
/// -1 to -19 are from fast to small, 3 is the default; -20 to -22 are smaller and want much memory.
#[derive(clap::Args, Clone, Debug)]
#[command(args_override_self = true, disable_help_flag = true, disable_version_flag = true)]
pub struct ZstdArgs {
    /// Compress: the default
    #[arg(short = 'z', long, overrides_with_all = ["decompress", "test", "list"])]
    pub compress: bool,

    /// Decompress
    #[arg(short = 'd', long, alias = "uncompress", overrides_with_all = ["compress", "test", "list"])]
    pub decompress: bool,

    /// Test whether compressed files are sound
    #[arg(short = 't', long, overrides_with_all = ["compress", "decompress", "list"])]
    pub test: bool,

    /// List what compressed files contain
    #[arg(short = 'l', long, overrides_with_all = ["compress", "decompress", "test"])]
    pub list: bool,

    /// Write to standard output
    #[arg(short = 'c', long, alias = "to-stdout", overrides_with = "output")]
    pub stdout: bool,

    /// Write to FILE
    #[arg(short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath, overrides_with = "stdout")]
    pub output: Option<PathBuf>,

    /// Overwrite files, follow links, use terminals; with -d and -c, pass on what is not compressed
    #[arg(short = 'f', long)]
    pub force: bool,

    /// Keep the files: the default
    #[arg(short = 'k', long, overrides_with = "rm")]
    pub keep: bool,

    /// Remove each file when its target is on the medium
    #[arg(long, overrides_with = "keep")]
    pub rm: bool,

    /// Go through directories
    #[arg(short = 'r')]
    pub recursive: bool,

    /// Read the names of more files from FILE, a line each
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub filelist: Vec<PathBuf>,

    /// Put the files that are made into DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "output_dir_mirror")]
    pub output_dir_flat: Option<PathBuf>,

    /// Put the files that are made into DIR, in directories as those they come from
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output_dir_mirror: Option<PathBuf>,

    /// Tell less; twice, no errors either
    #[arg(short = 'q', long, action = ArgAction::Count)]
    pub quiet: u8,

    /// Tell more
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Compress fast: 1 is the slowest of these levels
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = fast, overrides_with = "compression_level")]
    pub fast: Option<u32>,

    /// Allow the levels from 20 to 22
    #[arg(long)]
    pub ultra: bool,

    /// What -1 to -22 stand for
    #[arg(long, hide = true, value_name = "N", overrides_with = "fast")]
    pub compression_level: Option<u32>,

    /// Use N threads; 0 is one for each core, which is the default
    #[arg(short = 'T', long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..))]
    pub threads: Option<u32>,

    /// Compress in the thread that reads and writes
    #[arg(long)]
    pub single_thread: bool,

    /// Accepted: there is one kind of cores here
    #[arg(long, hide = true, value_name = "KIND")]
    pub auto_threads: Option<OsString>,

    /// Look for matches as far back as 2 to the power of N [default: 27]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "27")]
    pub long: Option<u32>,

    /// Set parameters of the library, wlog, clog, hlog, slog, mml, tlen, strat, ovlog, lhlog, lmml, lblog, lhrlog: NAME=N,…
    #[arg(long = "zstd", value_name = "PARAMETERS", require_equals = true)]
    pub parameters: Option<String>,

    /// Give a thread SIZE bytes at a time
    #[arg(short = 'B', value_name = "SIZE", value_parser = size)]
    pub job: Option<u64>,

    /// Make compressed blocks of about SIZE bytes
    #[arg(long, value_name = "SIZE", require_equals = true, value_parser = size)]
    pub target_compressed_block_size: Option<u64>,

    /// Use the dictionary FILE
    #[arg(short = 'D', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub dictionary: Option<PathBuf>,

    /// Do not store the number of the dictionary
    #[arg(long = "no-dictID")]
    pub no_dictionary_id: bool,

    /// Store a checksum: the default
    #[arg(short = 'C', long, overrides_with = "no_check")]
    pub check: bool,

    /// Store no checksum; one that is there is verified all the same
    #[arg(long, overrides_with = "check")]
    pub no_check: bool,

    /// Store the size of the contents where it is known: the default
    #[arg(long, overrides_with = "no_content_size")]
    pub content_size: bool,

    /// Do not store the size of the contents
    #[arg(long, overrides_with = "content_size")]
    pub no_content_size: bool,

    /// Standard input has SIZE bytes
    #[arg(long, value_name = "SIZE", require_equals = true, value_parser = size)]
    pub stream_size: Option<u64>,

    /// Accepted: a hint changes nothing here
    #[arg(long, hide = true, value_name = "SIZE", require_equals = true, value_parser = size)]
    pub size_hint: Option<u64>,

    /// Leave out files whose names say that they are compressed
    #[arg(long)]
    pub exclude_compressed: bool,

    /// Decompress frames whose window is of SIZE bytes at most [default: 128M]
    #[arg(short = 'M', long, aliases = ["memlimit", "memlimit-decompress"], value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,

    /// Make files with holes where there are zeros: the default, but for standard output
    #[arg(long, overrides_with = "no_sparse")]
    pub sparse: bool,

    /// Write zeros
    #[arg(long, overrides_with = "sparse")]
    pub no_sparse: bool,

    /// Pass on what is not compressed
    #[arg(long, overrides_with = "no_pass_through")]
    pub pass_through: bool,

    /// Do not, even with -f and -c
    #[arg(long, overrides_with = "pass_through")]
    pub no_pass_through: bool,

    /// The format of what is made: zstd
    #[arg(long, value_name = "FORMAT", require_equals = true, value_parser = ["zstd"])]
    pub format: Option<String>,

    /// Accepted: no progress is shown unless --progress is given
    #[arg(long, hide = true)]
    pub no_progress: bool,

    /// Accepted: it is always so
    #[arg(long, hide = true)]
    pub asyncio: bool,

    /// Accepted without effect
    #[arg(long, hide = true)]
    pub no_asyncio: bool,

    /// Keep what was decompressed before the damage in a damaged file
    #[arg(long, help_heading = "Compression")]
    pub salvage: bool,

    /// Sync what was written
    #[arg(long, help_heading = "Compression")]
    pub sync: bool,

    /// Print help
    #[arg(short = 'h', short_alias = 'H', long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// The files
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<OsString>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,
}

/// Reads a fast level as the zstd command does, which has one number for levels and sizes; what is beyond the fastest is
/// the fastest.
fn fast(text: &str) -> Result<u32, String> {
    match size(text).map(u32::try_from) {
        Ok(Ok(0)) | Err(_) => Err("the level is a number from 1 on".to_owned()),
        Ok(Ok(level)) => Ok(level),
        Ok(Err(_)) => Err("numeric value overflows 32-bit unsigned int".to_owned()),
    }
}

/// Reads a size as the zstd command does: K, KB, KiB, M, MB and MiB are powers of 1024, and so is G.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| "a size is a number with K, M or G behind it".to_owned())?;
    let shift = match text[digits..].trim_end_matches('B').trim_end_matches('i') {
        "" if text.len() == digits => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("a size is a number with K, M or G behind it".to_owned()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "the size is too large".to_owned())
}

/// The option that a level becomes.
const LEVEL: &str = "--compression-level";

/// The command line `dio zstd …` in a form that clap can read: levels as an option of their own, `-o=FILE` and `-D=FILE` as
/// two words, numbers apart from the letters behind them (`-T4f`).
pub fn modern(args: Vec<OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = args[..2].to_vec();
    let mut words = args.into_iter().skip(2);
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            break;
        }
        match word.as_bytes() {
            [b'-', b'-', ..] | [b'-'] => out.push(word),
            [b'-', shorts @ ..] => {
                if cluster(shorts, &mut out) {
                    out.extend(words.next());
                }
            }
            _ => out.push(word),
        }
    }
    out
}

/// Takes short options that stand together apart; true if the next word is the argument of the last.
fn cluster(shorts: &[u8], out: &mut Vec<OsString>) -> bool {
    let mut at = 0;
    while at < shorts.len() {
        let rest = &shorts[at + 1..];
        let number = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match shorts[at] {
            b'0'..=b'9' => {
                let digits = number(&shorts[at..]);
                out.push(format!("{LEVEL}={}", String::from_utf8_lossy(&shorts[at..at + digits])).into());
                at += digits;
            }
            letter @ (b'T' | b'M' | b'B') if rest.first().is_some_and(u8::is_ascii_digit) => {
                let digits = number(rest);
                let unit = rest[digits..].iter().take_while(|byte| b"KMGiB".contains(byte)).count();
                let unit = if letter == b'T' { 0 } else { unit };
                let mut word = vec![b'-', letter];
                word.extend_from_slice(&rest[..digits + unit]);
                out.push(OsString::from_vec(word));
                at += 1 + digits + unit;
            }
            letter @ (b'o' | b'D') => {
                out.push(OsString::from_vec(vec![b'-', letter]));
                return match rest {
                    [] => true,
                    [b'=', value @ ..] | value => {
                        out.push(OsStr::from_bytes(value).to_owned());
                        false
                    }
                };
            }
            letter => {
                out.push(OsString::from_vec(vec![b'-', letter]));
                at += 1;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_options_are_taken_apart() {
        for (line, expected) in [
            ("-19T0f a", "L=19 -T0 -f a"),
            ("-dfo x", "-d -f -o x"),
            ("-o=x -D=d", "-o x -D d"),
            ("-M128MBv", "-M128MB -v"),
            ("-T4M1", "-T4 -M1"),
            ("-- -3", "-- -3"),
            ("- --ultra -22", "- --ultra L=22"),
        ] {
            let words = ["dio", "zstd"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let out: Vec<_> =
                modern(words)[2..].iter().map(|word| word.to_str().unwrap().replace(LEVEL, "L")).collect();
            assert_eq!(out.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        for (text, bytes) in [("5", 5), ("1K", 1024), ("3KB", 3072), ("2MiB", 2 << 20), ("1G", 1 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "1X", "1B", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!((fast("5"), fast("1K"), fast("4294967295")), (Ok(5), Ok(1024), Ok(u32::MAX)));
        assert!(["", "0", "x", "4294967296", "-1"].iter().all(|text| fast(text).is_err()));
    }
}
