//! The grammars of `dio sum`, of the `md5sum` family, `cksum` and `sum`. `options` combines and
//! checks the options.

use std::ffi::OsString;
use std::num::IntErrorKind;

use crate::grammar::{
    Flag, Grammar, Refusal, accepted, checked, help, own, parsed, repeated, switch, version,
};
use crate::quote::marked;
use crate::size::parse_positive_size;
use crate::tool::{IoArgs, OWN, io_flags, medium_flag, number};
use dio_digest::Algorithm;

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct SumArgs {
    pub(super) command: Command,
    /// The algorithms of `-a`.
    pub(super) algorithms: Vec<Algorithm>,
    /// The algorithm of `-r` or `-s`.
    pub(super) old: Option<Algorithm>,
    /// The length in bytes, with the text of the option; `None` for the usual length.
    pub(super) length: Option<(usize, String)>,
    pub(super) tag: Option<bool>,
    pub(super) binary: Option<bool>,
    pub(super) zero: bool,
    pub(super) bare: bool,
    pub(super) raw: bool,
    pub(super) base64: bool,
    pub(super) debug: bool,
    pub(super) check: bool,
    pub(super) ignore_missing: bool,
    pub(super) quiet: bool,
    pub(super) status: bool,
    pub(super) warn: bool,
    pub(super) threads: Option<u32>,
    /// The size of the pieces that have digests of their own.
    pub(super) parts: Option<u64>,
    pub(super) files: Vec<OsString>,
    pub(super) io: IoArgs,
}

/// The command that was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Command {
    /// `dio sum`: any number of digests, SHA-256 by default.
    #[default]
    Dio,
    /// `sum`, called by a link of that name.
    Sum,
    /// `cksum`: one digest, the last that is given.
    Cksum,
    /// A command of the `md5sum` family.
    Of(Algorithm),
}

/// Returns the grammar of the command of that name.
pub(super) fn grammar(name: &'static str) -> Grammar<SumArgs> {
    let about = match name {
        "sum" => "Compute or check digests, many of them in one read of each file",
        "cksum" => "Compute or check a digest, by default the CRC of POSIX",
        "md5sum" => "Compute or check MD5 digests",
        "sha1sum" => "Compute or check SHA-1 digests",
        "sha224sum" => "Compute or check SHA-224 digests",
        "sha256sum" => "Compute or check SHA-256 digests",
        "sha384sum" => "Compute or check SHA-384 digests",
        "sha512sum" => "Compute or check SHA-512 digests",
        "b2sum" => "Compute or check BLAKE2b digests",
        "b3sum" => "Compute or check BLAKE3 digests",
        _ => "Compute or check digests of one kind",
    };
    let grammar = Grammar::<SumArgs>::new(name, about, "");
    let grammar = match name {
        "sum" => {
            grammar.flags(general()).flags(marks()).flags([untagged(), zero(), debug(), parts()])
        }
        "cksum" => grammar.flags(general()).flags(marks()).flags([untagged(), zero(), debug()]),
        "b2sum" => grammar
            .flags([bits("Length of the digest in bits, a multiple of 8")])
            .flags(marks())
            .flags([zero()]),
        "b3sum" => grammar.flags(blake3()).flags(marks()).flags([zero()]),
        _ => grammar.flags(marks()).flags([zero()]),
    };
    let of_sum = |option: &str| matches!(option, "-r" | "--sysv");
    let is_own = |option: &str| match name {
        "sum" => !of_sum(option) && !matches!(option, "--help" | "--version"),
        "cksum" if of_sum(option) => true,
        // With --check, --strict is GNU's option too.
        _ => matches!(
            option,
            "--mode" | "--medium" | "--block" | "--depth" | "--progress" | "--receipt"
        ),
    };
    grammar
        .flags(checks())
        .flags([help("-h, --help"), version("-V, --version")])
        .flags(io_flags(|sum| &mut sum.io))
        .flags([medium_flag(|sum| &mut sum.io)])
        .own(is_own)
        .files("Files to read; standard input without any, or where FILE is -", |sum| {
            &mut sum.files
        })
}

/// Returns the options of commands that compute any digest.
fn general() -> [Flag<SumArgs>; 6] {
    [
        repeated(checked(
            "-a, --algorithm=LIST",
            "Digests to compute, in this order: any of md5, sha1, sha224, sha256, sha384, sha512, \
             blake2b, blake3, sm3, crc, crc32b, crc32c, xxh3, bsd, sysv; or all [default: sha256; \
             of cksum, which makes one: crc]",
            |sum, given| sum.add(&given.take().to_string_lossy()),
        )),
        switch("-r", "Same as -a bsd: the 16-bit sum of BSD, in blocks of 1024 bytes", |sum| {
            sum.old = Some(Algorithm::Bsd);
        }),
        switch(
            "-s, --sysv",
            "Same as -a sysv: the 16-bit sum of System V, in blocks of 512 bytes",
            |sum| {
                sum.old = Some(Algorithm::Sysv);
            },
        ),
        bits("Length of blake2b or blake3 in bits, a multiple of 8"),
        switch(
            "--raw",
            "Write the digests as they are, not in hexadecimal digits, and nothing else; of one \
             file and digest only",
            |sum| sum.raw = true,
        ),
        switch("--base64", "Write digests in base64", |sum| sum.base64 = true),
    ]
}

fn parts() -> Flag<SumArgs> {
    let flag = parsed(
        "--parts=SIZE",
        "Write digests of the parts of SIZE bytes that longer files consist of, one a line: each \
         is computed and checked by itself, several at a time",
        |text| parse_positive_size(text).map_err(|error| error.to_string()),
        |sum: &mut SumArgs, parts| sum.parts = parts,
    );
    own(flag).below(OWN)
}

fn bits(text: &'static str) -> Flag<SumArgs> {
    checked("-l, --length=BITS", text, |sum, given| {
        let text = given.take().to_string_lossy().into_owned();
        let invalid = || format!("invalid length: {}", marked(&text));
        let bits = match text.parse::<usize>() {
            Ok(bits) => bits,
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
                return Err(Refusal::plain(format!(
                    "{}: Value too large for defined data type",
                    invalid()
                )));
            }
            Err(_) => return Err(Refusal::plain(invalid())),
        };
        if bits % 8 != 0 {
            return Err(Refusal::plain(invalid()).and("length is not a multiple of 8"));
        }
        sum.length = Some((bits / 8, text)).filter(|_| bits != 0);
        Ok(())
    })
}

fn blake3() -> [Flag<SumArgs>; 5] {
    [
        checked("-l, --length=BYTES", "Length of the digest in bytes", |sum, given| {
            let text = given.take().to_string_lossy().into_owned();
            let invalid = || Refusal::plain(format!("invalid length: {}", marked(&text)));
            let bytes =
                text.parse::<usize>().ok().filter(|bytes| *bytes > 0).ok_or_else(invalid)?;
            sum.length = Some((bytes, text));
            Ok(())
        }),
        switch("--no-names", "Write digests without names", |sum| sum.bare = true),
        switch(
            "--raw",
            "Write the digest as it is, not in hexadecimal digits; of one file only",
            |sum| {
                sum.raw = true;
            },
        ),
        parsed(
            "--num-threads=N",
            "Threads to use at most [default: one for each CPU]",
            |text| number(text, 0..=4096),
            |sum, threads| sum.threads = threads,
        ),
        accepted("--no-mmap", "Accepted: files are never mapped"),
    ]
}

fn marks() -> [Flag<SumArgs>; 3] {
    [
        switch("-b, --binary", "Mark names as those of files read in binary mode, with *", |sum| {
            sum.binary = Some(true);
        }),
        switch("--tag", "Write lines with the digest's name: MD5 (FILE) = DIGEST", |sum| {
            (sum.tag, sum.binary) = (Some(true), Some(true));
        }),
        switch(
            "-t, --text",
            "Mark names as those of files read in text mode, with a blank (the default without \
             --tag)",
            |sum| sum.binary = Some(false),
        ),
    ]
}

fn untagged() -> Flag<SumArgs> {
    switch("--untagged", "Write lines without the digest's name: digest, two blanks, file", |sum| {
        if sum.tag.replace(false) == Some(true) {
            sum.binary = None;
        }
    })
}

fn zero() -> Flag<SumArgs> {
    switch("-z, --zero", "End lines with NUL, and write names as they are", |sum| sum.zero = true)
}

fn debug() -> Flag<SumArgs> {
    switch("--debug", "Say which instructions of the CPU are used", |sum| sum.debug = true)
}

/// Returns the options that only make sense with --check. Of the three that set the verbosity, the
/// last one counts.
fn checks() -> [Flag<SumArgs>; 5] {
    [
        switch(
            "-c, --check",
            "Read digests from the FILEs and check them; with --strict, an improperly formatted \
             line is a failure",
            |sum| sum.check = true,
        ),
        switch("--ignore-missing", "When checking, pass over files that do not exist", |sum| {
            sum.ignore_missing = true
        }),
        switch("--quiet", "When checking, do not print OK for files that match", |sum| {
            (sum.quiet, sum.status, sum.warn) = (true, false, false);
        }),
        switch("--status", "When checking, print nothing: the exit status says it", |sum| {
            (sum.quiet, sum.status, sum.warn) = (false, true, false);
        }),
        switch("-w, --warn", "When checking, name each improperly formatted line", |sum| {
            (sum.quiet, sum.status, sum.warn) = (false, false, true);
        }),
    ]
}

impl SumArgs {
    /// Adds the digests of a LIST, each once, in the given order. For `cksum`, the LIST is a single
    /// digest that replaces the previous one.
    fn add(&mut self, list: &str) -> Result<(), Refusal> {
        if self.command == Command::Cksum {
            self.algorithms = vec![named(list)?];
            return Ok(());
        }
        for name in list.split(',') {
            let these = if name == "all" { Algorithm::ALL.to_vec() } else { vec![named(name)?] };
            for algorithm in these {
                if !self.algorithms.contains(&algorithm) {
                    self.algorithms.push(algorithm);
                }
            }
        }
        Ok(())
    }
}

fn named(name: &str) -> Result<Algorithm, Refusal> {
    Algorithm::named(name).ok_or_else(|| {
        let all: String = Algorithm::ALL
            .iter()
            .map(|algorithm| format!("\n  - {}", marked(algorithm.name())))
            .collect();
        let (name, option) = (marked(name), marked("--algorithm"));
        Refusal::usage(format!("invalid argument {name} for {option}\nValid arguments are:{all}"))
    })
}
