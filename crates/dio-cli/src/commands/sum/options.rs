//! Combines and checks the options: finds all errors that can be found before a file is read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::args::{Command, SumArgs};
use super::format::{Format, Piece, Style};
use super::list::Accept;
use crate::grammar::Refusal;
use crate::quote::marked;
use crate::tool::{IoArgs, Mode};
use dio_digest::{Algorithm, DigestKind, Sum};

/// How lists are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckOptions {
    /// The lines that are accepted.
    pub(crate) accept: Accept,
    /// Whether files that do not exist are skipped.
    pub(crate) ignore_missing: bool,
    /// Whether matching files are not printed.
    pub(crate) quiet: bool,
    /// Whether nothing is printed.
    pub(crate) status: bool,
    /// Whether an improperly formatted line is a failure.
    pub(crate) strict: bool,
    /// Whether improperly formatted lines are reported.
    pub(crate) warn: bool,
}

/// A validated command line.
#[derive(Clone, Debug)]
pub(crate) struct SumOptions {
    /// The digests to compute, in the order of output.
    pub(crate) kinds: Vec<DigestKind>,
    /// The format of the lines.
    pub(crate) format: Format,
    /// How to check lists, if digests are checked instead of computed.
    pub(crate) check: Option<CheckOptions>,
    /// The operands; `-` if there were none.
    pub(crate) files: Vec<PathBuf>,
    /// The size of the pieces that have digests of their own.
    pub(crate) parts: Option<u64>,
    /// The most threads; all CPUs if not given.
    pub(crate) threads: Option<usize>,
    /// Whether to print which instructions are used.
    pub(crate) debug: bool,
    /// How bytes are read.
    pub(crate) io: IoArgs,
}

impl SumOptions {
    /// Adds the lines for the digests of a file, or of a piece of it.
    pub(super) fn lines(
        &self,
        lines: &mut Vec<u8>,
        file: &OsStr,
        piece: Option<Piece>,
        sums: &[Sum],
    ) {
        for (kind, sum) in self.kinds.iter().zip(sums) {
            self.format
                .write(lines, *kind, sum, (file.as_bytes(), piece))
                .expect("memory can be written to");
        }
    }

    /// Checks the command line.
    pub(super) fn of(args: SumArgs) -> Result<Self, Refusal> {
        let (kinds, specified) = kinds(&args)?;
        let general = !matches!(args.command, Command::Of(_));
        let (tagged, binary) = (args.tag.unwrap_or(general), args.binary);
        if args.check && specified && kinds.iter().any(|kind| kind.algorithm.is_number()) {
            return Err(Refusal::plain("--check is not supported with --algorithm={bsd,sysv,crc}"));
        }
        if tagged && binary == Some(false) {
            return Err(Refusal::usage("--tag does not support --text mode"));
        }
        args.check_consistency(general, kinds.len())?;
        let style = match () {
            () if args.raw => Style::Raw,
            () if args.bare => Style::Bare,
            () if tagged => Style::Tagged,
            () => Style::Reversed { binary: binary == Some(true) },
        };
        args.check_parts(style, &kinds)?;
        let named = !args.files.is_empty();
        let format = Format { style, base64: args.base64, zero: args.zero, named };
        let algorithms =
            if specified { kinds.iter().map(|kind| kind.algorithm).collect() } else { vec![] };
        let SumArgs { ignore_missing, quiet, status, warn, parts, .. } = args;
        let accept = Accept { algorithms, general, pieces: args.command == Command::Dio };
        let check =
            CheckOptions { accept, ignore_missing, quiet, status, strict: args.io.strict, warn };
        let files = if named {
            args.files.into_iter().map(PathBuf::from).collect()
        } else {
            vec!["-".into()]
        };
        let threads = args.threads.filter(|&threads| threads > 0).map(|threads| threads as usize);
        let check = args.check.then_some(check);
        Ok(SumOptions {
            kinds,
            format,
            check,
            files,
            parts,
            threads,
            debug: args.debug,
            io: args.io,
        })
    }
}

impl SumArgs {
    /// Rejects `--parts` where it would write lines that cannot be checked.
    fn check_parts(&self, style: Style, kinds: &[DigestKind]) -> Result<(), Refusal> {
        let is_number = kinds.iter().any(|kind| kind.algorithm.is_number());
        let refused = [
            (self.check, "the --parts option is meaningless when verifying checksums"),
            (style != Style::Tagged, "the --parts option needs lines with the digest's name"),
            (is_number, "--parts is not supported with --algorithm={bsd,sysv,crc}"),
        ];
        match refused.into_iter().find(|(is_refused, _)| self.parts.is_some() && *is_refused) {
            Some((_, why)) => Err(Refusal::usage(why)),
            None => Ok(()),
        }
    }

    /// Rejects contradictory options, in GNU's order.
    fn check_consistency(&self, general: bool, kinds: usize) -> Result<(), Refusal> {
        let only = |given: bool, name: &str| match given && !self.check {
            true => Err(Refusal::usage(format!(
                "the --{name} option is meaningful only when verifying checksums"
            ))),
            false => Ok(()),
        };
        let tagged = self.tag == Some(true);
        if self.check && self.zero {
            return Err(Refusal::usage(
                "the --zero option is not supported when verifying checksums",
            ));
        }
        if self.check && tagged && !general {
            return Err(Refusal::usage("the --tag option is meaningless when verifying checksums"));
        }
        if self.check && self.binary.is_some() && !(general && tagged) {
            return Err(Refusal::usage(
                "the --binary and --text options are meaningless when verifying checksums",
            ));
        }
        only(self.ignore_missing, "ignore-missing")?;
        only(self.status, "status")?;
        only(self.warn, "warn")?;
        only(self.quiet, "quiet")?;
        // With a mode of dio's, `--strict` applies to the mode.
        only(self.io.strict && self.io.mode == Mode::Auto, "strict")?;
        if self.raw && self.files.len() > 1 {
            return Err(Refusal::plain("the --raw option is not supported with multiple files"));
        }
        if self.raw && kinds > 1 {
            return Err(Refusal::plain("the --raw option is not supported with several digests"));
        }
        Ok(())
    }
}

/// Returns the digests to compute, with the requested length for those that have several, and
/// whether they were chosen explicitly, by options or by the command's name.
fn kinds(args: &SumArgs) -> Result<(Vec<DigestKind>, bool), Refusal> {
    let mut algorithms = args.algorithms.clone();
    algorithms.extend(args.old);
    let default = match args.command {
        Command::Dio => Algorithm::Sha256,
        Command::Sum => Algorithm::Bsd,
        Command::Cksum => {
            algorithms.drain(..algorithms.len().saturating_sub(1));
            Algorithm::Crc
        }
        Command::Of(algorithm) => {
            algorithms.push(algorithm);
            algorithm
        }
    };
    let specified = !algorithms.is_empty();
    if !specified {
        algorithms.push(default);
    }
    let Some((bytes, text)) = &args.length else {
        return Ok((algorithms.into_iter().map(DigestKind::from).collect(), specified));
    };
    if !algorithms.iter().any(|algorithm| algorithm.any_length()) {
        return Err(Refusal::plain("--length is only supported with --algorithm=blake2b"));
    }
    let kind = |&algorithm: &Algorithm| match algorithm.any_length() {
        false => Ok(algorithm.into()),
        true if *bytes > algorithm.most_bytes() => {
            let (tag, most) = (marked(algorithm.tag()), algorithm.most_bytes() * 8);
            Err(Refusal::plain(format!("invalid length: {}", marked(text)))
                .and(format!("maximum digest length for {tag} is {most} bits")))
        }
        true => Ok(DigestKind { algorithm, bytes: *bytes }),
    };
    Ok((algorithms.iter().map(kind).collect::<Result<_, _>>()?, specified))
}
