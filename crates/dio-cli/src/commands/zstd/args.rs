//! The grammar of `dio zstd`, `unzstd` and `zstdcat`: the zstd command's options and those of every
//! tool.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::grammar::{
    Choice, Flag, GivenFlag, Grammar, Refusal, accepted, among, attached, checked, exact, help,
    hidden, own, parsed, repeated, switch, value, version,
};
use crate::tool::{IoArgs, io_flags};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct ZstdArgs {
    pub(super) decompress: bool,
    pub(super) test: bool,
    pub(super) list: bool,
    pub(super) stdout: bool,
    pub(super) output: Option<PathBuf>,
    pub(super) force: bool,
    pub(super) rm: bool,
    pub(super) recursive: bool,
    pub(super) filelist: Vec<PathBuf>,
    pub(super) output_dir_flat: Option<PathBuf>,
    pub(super) output_dir_mirror: Option<PathBuf>,
    pub(super) quiet: u8,
    pub(super) verbose: u8,
    /// Negative for a fast level.
    pub(super) level: Option<i64>,
    pub(super) ultra: bool,
    pub(super) threads: Option<u32>,
    pub(super) single_thread: bool,
    pub(super) long: Option<u32>,
    pub(super) parameters: Option<String>,
    pub(super) job: Option<u64>,
    pub(super) target_compressed_block_size: Option<u64>,
    pub(super) dictionary: Option<PathBuf>,
    pub(super) no_dictionary_id: bool,
    pub(super) no_check: bool,
    pub(super) no_content_size: bool,
    pub(super) stream_size: Option<u64>,
    pub(super) exclude_compressed: bool,
    pub(super) memory: Option<u64>,
    pub(super) sparse: Option<bool>,
    pub(super) pass_through: Option<bool>,
    pub(super) salvage: bool,
    pub(super) sync: bool,
    pub(super) files: Vec<OsString>,
    pub(super) io: IoArgs,
}

const DETAILS: &str = "\
Each file gets a compressed one beside it with the suffix .zst, or the reverse with -d. Without \
FILE, or when FILE is -, standard input goes to standard output.

-1 to -19 are from fast to small, 3 is the default; -20 to -22 are smaller and want much memory.";

pub(super) fn grammar(name: &'static str) -> Grammar<ZstdArgs> {
    let about = match name {
        "unzstd" => "Decompress files in the format of Zstandard",
        "zstdcat" => "Decompress files in the format of Zstandard to standard output",
        _ => {
            "Compress files, or decompress them, in the format of Zstandard, on all cores and past \
             the page cache"
        }
    };
    Grammar::<ZstdArgs>::new(name, about, DETAILS)
        .literal()
        .flags(operations())
        .flags(targets())
        .flags(strength())
        .flags(frames())
        .flags(contents())
        .section(
            "Compression",
            [
                own(switch(
                    "--salvage",
                    "Keep what was decompressed before the damage in a damaged file",
                    |zstd| {
                        zstd.salvage = true;
                    },
                )),
                own(switch("--sync", "Sync what was written", |zstd| zstd.sync = true)),
            ],
        )
        .flags([help("-h, -H, --help"), version("-V, --version")])
        .flags(io_flags(|zstd| &mut zstd.io))
        .files("The files", |zstd| &mut zstd.files)
}

/// The options for the operation; the last one given counts.
fn operations() -> [Flag<ZstdArgs>; 4] {
    [
        switch("-z, --compress", "Compress: the default", |zstd| {
            (zstd.decompress, zstd.test, zstd.list) = (false, false, false);
        }),
        switch("-d, --decompress, --uncompress", "Decompress", |zstd| {
            (zstd.decompress, zstd.test, zstd.list) = (true, false, false);
        }),
        switch("-t, --test", "Test whether compressed files are sound", |zstd| {
            (zstd.decompress, zstd.test, zstd.list) = (false, true, false);
        }),
        switch("-l, --list", "List what compressed files contain", |zstd| {
            (zstd.decompress, zstd.test, zstd.list) = (false, false, true);
        }),
    ]
}

fn targets() -> [Flag<ZstdArgs>; 11] {
    [
        switch("-c, --stdout, --to-stdout", "Write to standard output", |zstd| {
            (zstd.stdout, zstd.output) = (true, None);
        }),
        checked("-o FILE", "Write to FILE", |zstd, given| {
            (zstd.stdout, zstd.output) = (false, Some(file(given)));
            Ok(())
        }),
        switch(
            "-f, --force",
            "Overwrite files, follow links, use terminals; with -d and -c, pass on what is not \
             compressed",
            |zstd| zstd.force = true,
        ),
        switch("-k, --keep", "Keep the files: the default", |zstd| zstd.rm = false),
        switch("--rm", "Remove each file when its target is on the medium", |zstd| zstd.rm = true),
        switch("-r", "Go through directories", |zstd| zstd.recursive = true),
        repeated(value(
            "--filelist=FILE",
            "Read the names of more files from FILE, a line each",
            |zstd, list| {
                zstd.filelist.push(list.into());
            },
        )),
        value(
            "--output-dir-flat=DIR",
            "Put the files that are made into DIR",
            |zstd, directory| {
                zstd.output_dir_flat = Some(directory.into());
            },
        ),
        value(
            "--output-dir-mirror=DIR",
            "Put the files that are made into DIR, in directories as those they come from",
            |zstd, directory| zstd.output_dir_mirror = Some(directory.into()),
        ),
        repeated(switch("-q, --quiet", "Tell less; twice, no errors either", |zstd| {
            zstd.quiet = zstd.quiet.saturating_add(1);
        })),
        repeated(switch("-v, --verbose", "Tell more", |zstd| {
            zstd.verbose = zstd.verbose.saturating_add(1)
        })),
    ]
}

fn strength() -> [Flag<ZstdArgs>; 9] {
    let digits = |text: &[u8]| text.iter().take_while(|letter| letter.is_ascii_digit()).count();
    [
        parsed(
            "--fast[=N]",
            "Compress fast: 1 is the slowest of these levels",
            fast,
            |zstd, level| {
                zstd.level = Some(-i64::from(level.unwrap_or(1)));
            },
        ),
        switch("--ultra", "Allow the levels from 20 to 22", |zstd| zstd.ultra = true),
        hidden(checked("-0123456789", "A digit of the level", level)),
        attached(
            digits,
            parsed(
                "-T, --threads=N",
                "Use N threads; 0 is one for each core, which is the default",
                str::parse,
                |zstd, count: Option<u32>| zstd.threads = count,
            ),
        ),
        switch("--single-thread", "Compress in the thread that reads and writes", |zstd| {
            zstd.single_thread = true
        }),
        hidden(value(
            "--auto-threads=KIND",
            "Accepted: there is one kind of cores here",
            |_, _| (),
        )),
        parsed(
            "--long[=N]",
            "Look for matches as far back as 2 to the power of N [default: 27]",
            str::parse,
            |zstd, window: Option<u32>| zstd.long = window.or(Some(27)),
        ),
        value(
            "--zstd=PARAMETERS",
            "Set parameters of the library, wlog, clog, hlog, slog, mml, tlen, strat, ovlog, \
             lhlog, lmml, lblog, lhrlog: NAME=N,…",
            |zstd, list| zstd.parameters = Some(list.to_string_lossy().into_owned()),
        ),
        attached(
            sized,
            parsed("-B SIZE", "Give a thread SIZE bytes at a time", size, |zstd, bytes| {
                zstd.job = bytes
            }),
        ),
    ]
}

fn frames() -> [Flag<ZstdArgs>; 9] {
    [
        parsed(
            "--target-compressed-block-size=SIZE",
            "Make compressed blocks of about SIZE bytes",
            size,
            |zstd, bytes| zstd.target_compressed_block_size = bytes,
        ),
        checked("-D FILE", "Use the dictionary FILE", |zstd, given| {
            zstd.dictionary = Some(file(given));
            Ok(())
        }),
        switch("--no-dictID", "Do not store the number of the dictionary", |zstd| {
            zstd.no_dictionary_id = true
        }),
        switch("-C, --check", "Store a checksum: the default", |zstd| zstd.no_check = false),
        switch(
            "--no-check",
            "Store no checksum; one that is there is verified all the same",
            |zstd| {
                zstd.no_check = true;
            },
        ),
        switch(
            "--content-size",
            "Store the size of the contents where it is known: the default",
            |zstd| {
                zstd.no_content_size = false;
            },
        ),
        switch("--no-content-size", "Do not store the size of the contents", |zstd| {
            zstd.no_content_size = true
        }),
        parsed("--stream-size=SIZE", "Standard input has SIZE bytes", size, |zstd, bytes| {
            zstd.stream_size = bytes
        }),
        hidden(parsed(
            "--size-hint=SIZE",
            "Accepted: a hint changes nothing here",
            size,
            |_, _| (),
        )),
    ]
}

fn contents() -> [Flag<ZstdArgs>; 10] {
    [
        switch(
            "--exclude-compressed",
            "Leave out files whose names say that they are compressed",
            |zstd| {
                zstd.exclude_compressed = true;
            },
        ),
        attached(
            sized,
            parsed(
                "-M, --memory, --memlimit, --memlimit-decompress=SIZE",
                "Decompress frames whose window is of SIZE bytes at most [default: 128M]",
                size,
                |zstd, bytes| zstd.memory = bytes,
            ),
        ),
        switch(
            "--sparse",
            "Make files with holes where there are zeros: the default, but for standard output",
            |zstd| {
                zstd.sparse = Some(true);
            },
        ),
        switch("--no-sparse", "Write zeros", |zstd| zstd.sparse = Some(false)),
        switch("--pass-through", "Pass on what is not compressed", |zstd| {
            zstd.pass_through = Some(true)
        }),
        switch("--no-pass-through", "Do not, even with -f and -c", |zstd| {
            zstd.pass_through = Some(false)
        }),
        among(
            FORMATS,
            parsed(
                "--format=FORMAT",
                "The format of what is made: zstd",
                |text| exact(text, FORMATS),
                |_, _| (),
            ),
        ),
        hidden(accepted(
            "--no-progress",
            "Accepted: no progress is shown unless --progress is given",
        )),
        hidden(accepted("--asyncio", "Accepted: it is always so")),
        hidden(accepted("--no-asyncio", "Accepted without effect")),
    ]
}

const FORMATS: &[Choice<()>] = &[("zstd", (), "")];

/// Returns the value of `-o` or `-D`, which may follow a `=`.
fn file(given: &mut GivenFlag<'_>) -> PathBuf {
    let value = given.take().into_vec();
    match value.strip_prefix(b"=").filter(|_| !given.separate) {
        Some(value) => OsStr::from_bytes(value).into(),
        None => OsString::from_vec(value).into(),
    }
}

/// Takes a run of digits as a level.
fn level(zstd: &mut ZstdArgs, given: &mut GivenFlag<'_>) -> Result<(), Refusal> {
    let count = given.line.letters().iter().take_while(|letter| letter.is_ascii_digit()).count();
    let digits = [vec![given.short()], given.line.take_letters(count)].concat();
    let level = str::from_utf8(&digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    zstd.level = Some(level.ok_or_else(|| Refusal::usage(OVERFLOW))?.into());
    Ok(())
}

const OVERFLOW: &str = "numeric value overflows 32-bit unsigned int";

/// Returns how many of the next letters form a size.
fn sized(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|letter| letter.is_ascii_digit()).count();
    let unit = text[digits..].iter().take_while(|letter| b"KMGiB".contains(letter)).count();
    if digits == 0 { 0 } else { digits + unit }
}

/// Parses a fast level as the zstd command does, with the syntax of sizes; a level beyond the
/// fastest is clamped later.
fn fast(text: &str) -> Result<u32, String> {
    match size(text).map(u32::try_from) {
        Ok(Ok(0)) | Err(_) => Err("the level is a number from 1 on".to_owned()),
        Ok(Ok(level)) => Ok(level),
        Ok(Err(_)) => Err(OVERFLOW.to_owned()),
    }
}

/// Parses a size as the zstd command does: K, KB, KiB, M, MB and MiB are powers of 1024, and so is
/// G.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits]
        .parse()
        .map_err(|_| "a size is a number with K, M or G behind it".to_owned())?;
    let shift = match text[digits..].trim_end_matches('B').trim_end_matches('i') {
        "" if text.len() == digits => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("a size is a number with K, M or G behind it".to_owned()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "the size is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Line;

    #[test]
    fn letters_stand_behind_numbers() {
        let read = |line: &str| {
            let mut args = ZstdArgs::default();
            let mut words = Line::new(line.split(' ').map(OsString::from));
            grammar("zstd")
                .fold(&mut args, &mut words)
                .unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
            args
        };
        let args = read("-19T0f a");
        assert_eq!(
            (args.level, args.threads, args.force, args.files),
            (Some(19), Some(0), true, vec!["a".into()])
        );
        let args = read("-dfo x");
        assert_eq!((args.decompress, args.force, args.output), (true, true, Some("x".into())));
        let args = read("-o=x -D=d");
        assert_eq!((args.output, args.dictionary), (Some("x".into()), Some("d".into())));
        let args = read("-M128MBv");
        assert_eq!((args.memory, args.verbose), (Some(128 << 20), 1));
        let args = read("-T4M1");
        assert_eq!((args.threads, args.memory), (Some(4), Some(1)));
        assert_eq!(read("-- -3").files, ["-3"]);
        let args = read("- --ultra -22");
        assert_eq!((args.files, args.ultra, args.level), (vec!["-".into()], true, Some(22)));
    }

    #[test]
    fn sizes_are_powers_of_two() {
        for (text, bytes) in
            [("5", 5), ("1K", 1024), ("3KB", 3072), ("2MiB", 2 << 20), ("1G", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "1X", "1B", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!((fast("5"), fast("1K"), fast("4294967295")), (Ok(5), Ok(1024), Ok(u32::MAX)));
        assert!(["", "0", "x", "4294967296", "-1"].iter().all(|text| fast(text).is_err()));
    }
}
