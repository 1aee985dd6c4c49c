//! From flags to decisions: everything that can be known to be wrong before a file is looked at.

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;

use super::args::{B2Args, B3Args, Checks, HashArgs, Mark, SumArgs};
use super::digest::{Algorithm, Kind};
use super::format::{Format, Style};
use super::list::Accept;
use crate::quote::marked;
use crate::tool::Mode;

/// A command line that makes no sense, found before any file is looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("invalid argument {} for {}\nValid arguments are:{}", marked(.0), marked("--algorithm"), algorithm_list())]
    Algorithm(String),
    #[error("invalid length: {}", marked(.0))]
    Length(String),
    #[error("invalid length: {}: Value too large for defined data type", marked(.0))]
    HugeLength(String),
    #[error("length is not a multiple of 8")]
    NotWholeBytes(String),
    #[error("maximum digest length for {} is {} bits", marked(.1), .2)]
    TooLong(String, &'static str, usize),
    #[error("--length is only supported with --algorithm=blake2b")]
    LengthWithout,
    #[error("--check is not supported with --algorithm={{bsd,sysv,crc}}")]
    CheckNumbers,
    #[error("--tag does not support --text mode")]
    TagText,
    #[error("the --zero option is not supported when verifying checksums")]
    CheckZero,
    #[error("the --tag option is meaningless when verifying checksums")]
    CheckTag,
    #[error("the --binary and --text options are meaningless when verifying checksums")]
    CheckBinary,
    #[error("the --{0} option is meaningful only when verifying checksums")]
    OnlyCheck(&'static str),
    #[error("the --raw option is not supported with multiple files")]
    RawFiles,
    #[error("the --raw option is not supported with several digests")]
    RawDigests,
}

impl UsageError {
    /// Whether GNU points at `--help` after it.
    pub(crate) fn wants_help(&self) -> bool {
        !matches!(
            self,
            Self::Length(_)
                | Self::HugeLength(_)
                | Self::NotWholeBytes(_)
                | Self::TooLong(..)
                | Self::LengthWithout
                | Self::CheckNumbers
                | Self::RawFiles
                | Self::RawDigests
        )
    }

    /// The message that GNU prints before this one.
    pub(crate) fn first(&self) -> Option<Self> {
        match self {
            Self::NotWholeBytes(text) | Self::TooLong(text, ..) => Some(Self::Length(text.clone())),
            _ => None,
        }
    }
}

fn algorithm_list() -> String {
    Algorithm::ALL.iter().map(|algorithm| format!("\n  - {}", marked(algorithm.name()))).collect()
}

/// How lists are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Which lines count.
    pub(crate) accept: Accept,
    /// Files that do not exist are passed over.
    pub(crate) ignore_missing: bool,
    /// Files that match are not named.
    pub(crate) quiet: bool,
    /// Nothing is printed.
    pub(crate) status: bool,
    /// An improperly formatted line is a failure.
    pub(crate) strict: bool,
    /// Improperly formatted lines are named.
    pub(crate) warn: bool,
}

/// A validated command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The digests to compute, in the order of output.
    pub(crate) kinds: Vec<Kind>,
    /// How they are written.
    pub(crate) format: Format,
    /// To check lists instead.
    pub(crate) check: Option<Check>,
    /// The operands; `-` if there were none.
    pub(crate) files: Vec<PathBuf>,
    /// Most threads at work; all CPUs if not said.
    pub(crate) threads: Option<usize>,
}

/// Which command takes `-a`: they differ in the digest that they compute when none is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// `dio sum`: of any number of digests, SHA-256 by default.
    Dio,
    /// `sum`, called by a link of that name.
    Sum,
    /// `cksum`: of one digest, the last that is said.
    Cksum,
}

impl Family {
    fn default_algorithm(self) -> Algorithm {
        match self {
            Self::Dio => Algorithm::Sha256,
            Self::Sum => Algorithm::Bsd,
            Self::Cksum => Algorithm::Crc,
        }
    }
}

/// A command line in the terms that all of these commands share.
struct Given {
    kinds: Vec<Kind>,
    /// Whether the algorithms were said, in the options or by the command's name.
    specified: bool,
    /// Whether the command is `dio sum` or `cksum` rather than one of the `md5sum` family.
    general: bool,
    marks: Vec<Mark>,
    untagged: bool,
    zero: bool,
    bare: bool,
    raw: bool,
    base64: bool,
    checks: Checks,
    strict: bool,
    strict_elsewhere: bool,
    files: Vec<OsString>,
    threads: Option<usize>,
}

impl Given {
    fn hash(kind: Kind, args: HashArgs) -> Self {
        let HashArgs { files, marks, zero, checks, io } = args;
        Self {
            kinds: vec![kind],
            specified: true,
            general: false,
            marks: marks.0,
            untagged: false,
            zero,
            bare: false,
            raw: false,
            base64: false,
            checks,
            strict: io.strict,
            strict_elsewhere: io.mode != Mode::Auto,
            files,
            threads: None,
        }
    }

    fn resolve(self) -> Result<Options, UsageError> {
        let mut tag = self.general;
        let mut binary = None;
        for mark in &self.marks {
            match mark {
                Mark::Binary => binary = Some(true),
                Mark::Text => binary = Some(false),
                Mark::Tag => (tag, binary) = (true, Some(true)),
            }
        }
        tag &= !self.untagged;
        let check = self.checks.check;
        if check && self.specified && self.kinds.iter().any(|kind| kind.algorithm.is_number()) {
            return Err(UsageError::CheckNumbers);
        }
        if tag && binary == Some(false) {
            return Err(UsageError::TagText);
        }
        let tag_said = self.marks.contains(&Mark::Tag);
        self.check_consistency(binary.is_some() && !(self.general && tag_said), tag_said)?;
        let style = match () {
            () if self.raw => Style::Raw,
            () if self.bare => Style::Bare,
            () if tag => Style::Tagged,
            () => Style::Reversed { binary: binary == Some(true) },
        };
        let named = !self.files.is_empty();
        let format = Format { style, base64: self.base64, zero: self.zero, named };
        let algorithms = if self.specified { self.kinds.iter().map(|kind| kind.algorithm).collect() } else { vec![] };
        let accept = Accept { algorithms, general: self.general };
        let Checks { ignore_missing, quiet, status, warn, .. } = self.checks;
        let check = check.then_some(Check { accept, ignore_missing, quiet, status, strict: self.strict, warn });
        let files = if named { self.files.into_iter().map(PathBuf::from).collect() } else { vec!["-".into()] };
        Ok(Options { kinds: self.kinds, format, check, files, threads: self.threads })
    }

    /// Refuses what contradicts itself, in GNU's order.
    fn check_consistency(&self, marked: bool, tagged: bool) -> Result<(), UsageError> {
        let Checks { check, ignore_missing, quiet, status, warn } = self.checks;
        let only = |given, name| if given && !check { Err(UsageError::OnlyCheck(name)) } else { Ok(()) };
        if check && self.zero {
            return Err(UsageError::CheckZero);
        }
        if check && tagged && !self.general {
            return Err(UsageError::CheckTag);
        }
        if check && marked {
            return Err(UsageError::CheckBinary);
        }
        only(ignore_missing, "ignore-missing")?;
        only(status, "status")?;
        only(warn, "warn")?;
        only(quiet, "quiet")?;
        only(self.strict && !self.strict_elsewhere, "strict")?;
        if self.raw && self.files.len() > 1 {
            return Err(UsageError::RawFiles);
        }
        if self.raw && self.kinds.len() > 1 {
            return Err(UsageError::RawDigests);
        }
        Ok(())
    }
}

impl Options {
    /// Of `dio sum` and `cksum`.
    pub(crate) fn sum(args: SumArgs, family: Family) -> Result<Self, UsageError> {
        let bits = args.length.as_deref().map(bits).transpose()?.filter(|&bits| bits != 0);
        let mut algorithms = match family {
            Family::Cksum => args.algorithm.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
            Family::Dio | Family::Sum => algorithms(&args.algorithm)?,
        };
        algorithms.extend(args.r.then_some(Algorithm::Bsd));
        algorithms.extend(args.sysv.then_some(Algorithm::Sysv));
        if family == Family::Cksum {
            algorithms.drain(..algorithms.len().saturating_sub(1));
        }
        let specified = !algorithms.is_empty();
        if !specified {
            algorithms.push(family.default_algorithm());
        }
        let kinds = with_length(&algorithms, bits, args.length.as_deref())?;
        let hash = HashArgs { files: args.files, marks: args.marks, zero: args.zero, checks: args.checks, io: args.io };
        let given = Given::hash(Algorithm::Crc.into(), hash);
        Given { kinds, specified, general: true, untagged: args.untagged, raw: args.raw, base64: args.base64, ..given }
            .resolve()
    }

    /// Of one of the `md5sum` family.
    pub(crate) fn hash(algorithm: Algorithm, args: HashArgs) -> Result<Self, UsageError> {
        Given::hash(algorithm.into(), args).resolve()
    }

    /// Of `b2sum`.
    pub(crate) fn b2(args: B2Args) -> Result<Self, UsageError> {
        let bits = args.length.as_deref().map(bits).transpose()?.filter(|&bits| bits != 0);
        let kinds = with_length(&[Algorithm::Blake2b], bits, args.length.as_deref())?;
        Given { kinds, ..Given::hash(Algorithm::Blake2b.into(), args.hash) }.resolve()
    }

    /// Of `b3sum`, whose length is in bytes.
    pub(crate) fn b3(args: B3Args) -> Result<Self, UsageError> {
        let algorithm = Algorithm::Blake3;
        let bytes = match args.length {
            None => algorithm.bytes(),
            Some(text) => match text.parse() {
                Ok(0) | Err(_) => return Err(UsageError::Length(text)),
                Ok(bytes) if bytes > algorithm.most_bytes() => {
                    return Err(UsageError::TooLong(text, algorithm.tag(), algorithm.most_bytes() * 8));
                }
                Ok(bytes) => bytes,
            },
        };
        let threads = args.num_threads.filter(|&threads| threads > 0).map(|threads| threads as usize);
        let given = Given::hash(Kind { algorithm, bytes }, args.hash);
        Given { bare: args.no_names, raw: args.raw, threads, ..given }.resolve()
    }
}

fn named(name: &str) -> Result<Algorithm, UsageError> {
    Algorithm::named(name).ok_or_else(|| UsageError::Algorithm(name.to_owned()))
}

/// The algorithms of several LISTs, each once, in the order said.
fn algorithms(lists: &[String]) -> Result<Vec<Algorithm>, UsageError> {
    let mut found = Vec::new();
    for name in lists.iter().flat_map(|list| list.split(',')) {
        let these = if name == "all" { Algorithm::ALL.to_vec() } else { vec![named(name)?] };
        for algorithm in these {
            if !found.contains(&algorithm) {
                found.push(algorithm);
            }
        }
    }
    Ok(found)
}

/// The argument of `--length`.
fn bits(text: &str) -> Result<usize, UsageError> {
    let bits: usize = text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => UsageError::HugeLength(text.to_owned()),
        _ => UsageError::Length(text.to_owned()),
    })?;
    if bits % 8 == 0 { Ok(bits) } else { Err(UsageError::NotWholeBytes(text.to_owned())) }
}

/// The algorithms with the length asked for, if any, on those that come in several.
fn with_length(algorithms: &[Algorithm], bits: Option<usize>, text: Option<&str>) -> Result<Vec<Kind>, UsageError> {
    let Some(bits) = bits else { return Ok(algorithms.iter().map(|&algorithm| algorithm.into()).collect()) };
    if !algorithms.iter().any(|algorithm| algorithm.any_length()) {
        return Err(UsageError::LengthWithout);
    }
    let kind = |&algorithm: &Algorithm| match algorithm.any_length() {
        false => Ok(algorithm.into()),
        true if bits / 8 > algorithm.most_bytes() => {
            let text = text.unwrap_or_default().to_owned();
            Err(UsageError::TooLong(text, algorithm.tag(), algorithm.most_bytes() * 8))
        }
        true => Ok(Kind { algorithm, bytes: bits / 8 }),
    };
    algorithms.iter().map(kind).collect()
}
