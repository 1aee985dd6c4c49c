//! The grammar of `dio sum`, of the `md5sum` family, `cksum` and `sum`. Nothing is decided here; see `options`.

use std::ffi::OsString;

use clap::Args;

use crate::tool::{Found, InOrder, IoArgs, Ordered};

/// Compute or check digests, many of them in one read of each file
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct SumArgs {
    /// Files to read; standard input without any, or where FILE is -
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,

    /// Digests to compute, in this order: any of md5, sha1, sha224, sha256, sha384, sha512, blake2b, blake3, sm3, crc,
    /// crc32b, crc32c, xxh3, bsd, sysv; or all [default: sha256; of cksum, which makes one: crc]
    #[arg(short, long, value_name = "LIST", action = clap::ArgAction::Append)]
    pub algorithm: Vec<String>,

    /// Same as -a bsd: the 16-bit sum of BSD, in blocks of 1024 bytes
    #[arg(short, overrides_with = "sysv")]
    pub r: bool,

    /// Same as -a sysv: the 16-bit sum of System V, in blocks of 512 bytes
    #[arg(short, long, overrides_with = "r")]
    pub sysv: bool,

    /// Length of blake2b or blake3 in bits, a multiple of 8
    #[arg(short, long, value_name = "BITS", allow_hyphen_values = true)]
    pub length: Option<String>,

    /// Write the digests as they are, not in hexadecimal digits, and nothing else; of one file and digest only
    #[arg(long)]
    pub raw: bool,

    /// Write digests in base64
    #[arg(long)]
    pub base64: bool,

    /// Marks of a line
    #[command(flatten)]
    pub marks: Ordered<Mark>,

    /// Write lines without the digest's name: digest, two blanks, file
    #[arg(long, overrides_with = "tag")]
    pub untagged: bool,

    /// End lines with NUL, and write names as they are
    #[arg(short, long)]
    pub zero: bool,

    /// Say which instructions of the CPU are used
    #[arg(long)]
    pub debug: bool,

    /// Checking
    #[command(flatten)]
    pub checks: Checks,

    /// How bytes are read
    #[command(flatten)]
    pub io: IoArgs,
}

/// Compute or check digests of one kind
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct HashArgs {
    /// Files to read; standard input without any, or where FILE is -
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,

    /// Marks of a line
    #[command(flatten)]
    pub marks: Ordered<Mark>,

    /// End lines with NUL, and write names as they are
    #[arg(short, long)]
    pub zero: bool,

    /// Checking
    #[command(flatten)]
    pub checks: Checks,

    /// How bytes are read
    #[command(flatten)]
    pub io: IoArgs,
}

/// Compute or check BLAKE2b digests
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct B2Args {
    /// Length of the digest in bits, a multiple of 8
    #[arg(short, long, value_name = "BITS", allow_hyphen_values = true)]
    pub length: Option<String>,

    /// What it has in common with the others
    #[command(flatten)]
    pub hash: HashArgs,
}

/// Compute or check BLAKE3 digests
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct B3Args {
    /// Length of the digest in bytes
    #[arg(short, long, value_name = "BYTES", allow_hyphen_values = true)]
    pub length: Option<String>,

    /// Write digests without names
    #[arg(long)]
    pub no_names: bool,

    /// Write the digest as it is, not in hexadecimal digits; of one file only
    #[arg(long)]
    pub raw: bool,

    /// Threads to use at most [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub num_threads: Option<u32>,

    /// Accepted: files are never mapped
    #[arg(long)]
    pub no_mmap: bool,

    /// What it has in common with the others
    #[command(flatten)]
    pub hash: HashArgs,
}

/// Flags that only make sense when digests are checked.
#[derive(Args, Clone, Debug, Default)]
pub struct Checks {
    /// Read digests from the FILEs and check them; with --strict, an improperly formatted line is a failure
    #[arg(short, long)]
    pub check: bool,

    /// When checking, pass over files that do not exist
    #[arg(long)]
    pub ignore_missing: bool,

    /// When checking, do not print OK for files that match
    #[arg(long, overrides_with_all = ["status", "warn"])]
    pub quiet: bool,

    /// When checking, print nothing: the exit status says it
    #[arg(long, overrides_with_all = ["quiet", "warn"])]
    pub status: bool,

    /// When checking, name each improperly formatted line
    #[arg(short, long, overrides_with_all = ["quiet", "status"])]
    pub warn: bool,
}

/// The flags whose order matters, as clap declares them.
#[derive(Args, Clone, Debug)]
pub struct MarkFlags {
    /// Mark names as those of files read in binary mode, with *
    #[arg(short, long)]
    binary: bool,

    /// Mark names as those of files read in text mode, with a blank (the default without --tag)
    #[arg(short, long)]
    text: bool,

    /// Write lines with the digest's name: MD5 (FILE) = DIGEST
    #[arg(long)]
    tag: bool,
}

/// One of the flags whose order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `-b`
    Binary,
    /// `-t`
    Text,
    /// `--tag`
    Tag,
}

impl InOrder for Mark {
    type Flags = MarkFlags;

    fn find(found: &mut Found<'_, Mark>) {
        found.switch("binary", Mark::Binary);
        found.switch("text", Mark::Text);
        found.switch("tag", Mark::Tag);
    }
}
