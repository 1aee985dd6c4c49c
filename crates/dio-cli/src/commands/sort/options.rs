//! The flags of `dio sort`, validated, with GNU sort's words for what is wrong with them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::args::{KeyText, SortArgs};
use super::engine::{EngineOptions, physical_memory};
use super::key::{Order, Separator, WHOLE};
use super::locale::Needs;
use super::spec::{At, Letters, Spec};
use super::words::{CHECKS, SORTS, meant};
use super::{names, number, random};
use crate::quote::{marked, quoted};

/// Whether a file is sorted, instead of sorting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// `-c`: the first line that is not in its place is told.
    Aloud,
    /// `-C`
    Silently,
}

/// Everything that was asked for.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) order: Order,
    /// What the order takes from the locale.
    pub(super) needs: Needs,
    pub(super) check: Option<Check>,
    /// `-` is standard input.
    pub(super) inputs: Vec<OsString>,
    /// None for standard output.
    pub(super) output: Option<OsString>,
    /// An existing output is overwritten.
    pub(super) in_place: bool,
    pub(super) engine: EngineOptions,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What is wrong.
    Plain(String),
    /// What is wrong, with a hint to `--help`.
    Hint(String),
    /// A word that means nothing, with a hint to `--help`: GNU sort takes its status from elsewhere.
    Word(String),
    /// What is wrong, in several messages.
    Several(Vec<String>),
}

fn plain<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Plain(message.into()))
}

impl Options {
    /// What the command line says.
    ///
    /// # Errors
    /// Something that is wrong with it.
    pub(super) fn of(args: SortArgs) -> Result<Options, Refusal> {
        let (letters, mut keys) = keys(&args)?;
        let check = check(&args)?;
        let engine = engine(&args)?;
        let separator = separator(&args.field_separator)?;
        let source = once(&args.random_source, "multiple random sources specified")?;
        let output = once(&args.output, "multiple output files specified")?.cloned();
        if args.debug {
            return plain("--debug is not supported: the keys cannot be shown");
        }
        let inputs = inputs(&args)?;
        for key in keys.iter_mut().filter(|key| key.letters.is_default() && !key.letters.reverse) {
            key.letters = letters;
        }
        if keys.is_empty() && !letters.is_default() {
            keys.push(Spec { span: WHOLE, letters });
        }
        keys.iter().try_for_each(|key| key.letters.check())?;
        if let Some(check) = check {
            let letter = if check == Check::Aloud { 'c' } else { 'C' };
            if let Some(extra) = inputs.get(1) {
                return plain(format!("extra operand {} not allowed with -{letter}", quoted(extra)));
            }
            if output.is_some() {
                return plain(format!("options '-{letter}o' are incompatible"));
            }
        }
        let shuffle = match keys.iter().any(|key| key.letters.random) {
            true => Some(random::shuffle(source.map(OsString::as_os_str))?),
            false => None,
        };
        let stable = args.stable || args.unique;
        let needs = Needs::of(&keys, keys.is_empty() || !stable);
        let keys = keys.iter().map(|key| key.key(shuffle.as_ref())).collect();
        let order = Order::by_keys(keys, separator, stable, letters.reverse);
        Ok(Options { order, needs, check, inputs, output, in_place: args.in_place.in_place, engine })
    }
}

/// The letters that hold for all keys, and the keys.
fn keys(args: &SortArgs) -> Result<(Letters, Vec<Spec>), Refusal> {
    let mut letters = Letters::default();
    for (given, letter) in [
        (args.ignore_leading_blanks, b'b'),
        (args.dictionary_order, b'd'),
        (args.ignore_case, b'f'),
        (args.general_numeric_sort, b'g'),
        (args.human_numeric_sort, b'h'),
        (args.ignore_nonprinting, b'i'),
        (args.month_sort, b'M'),
        (args.numeric_sort, b'n'),
        (args.random_sort, b'R'),
        (args.reverse, b'r'),
        (args.version_sort, b'V'),
    ] {
        let _ = given && letters.add(letter, At::Both);
    }
    for word in &args.sort {
        letters.add(b"ghMnRV"[meant(word, SORTS, "--sort")?], At::Both);
    }
    let read = |key: &KeyText| match key {
        KeyText::Key(text) => Spec::of(text.as_bytes()),
        KeyText::Obsolete(text) => Spec::of_obsolete(text.as_bytes()),
    };
    Ok((letters, args.keys.0.iter().map(read).collect::<Result<_, _>>()?))
}

fn check(args: &SortArgs) -> Result<Option<Check>, Refusal> {
    let (mut aloud, mut silently) = (args.check, args.check_silently);
    for word in &args.check_as {
        match meant(word, CHECKS, "--check")? {
            0 => silently = true,
            _ => aloud = true,
        }
    }
    match (aloud, silently) {
        (true, true) => plain("options '-cC' are incompatible"),
        (true, false) => Ok(Some(Check::Aloud)),
        (false, true) => Ok(Some(Check::Silently)),
        (false, false) => Ok(None),
    }
}

fn engine(args: &SortArgs) -> Result<EngineOptions, Refusal> {
    let physical = physical_memory();
    // The largest of several counts, the last of all others.
    let memory = args.buffer_size.iter().map(|size| number::memory(size, physical)).collect::<Result<Vec<_>, _>>()?;
    let parallel = args.parallel.iter().map(|text| number::threads(text)).collect::<Result<Vec<_>, _>>()?;
    let batch = args.batch_size.iter().map(|text| number::batch(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(EngineOptions {
        memory: memory.into_iter().max(),
        directories: args.temporary_directory.iter().map(PathBuf::from).collect(),
        compress: once(&args.compress_program, "multiple compress programs specified")?.cloned(),
        terminator: if args.zero_terminated { 0 } else { b'\n' },
        unique: args.unique,
        merge: args.merge,
        batch_size: batch.last().copied(),
        parallel: parallel.last().copied(),
    })
}

/// The separator of fields.
fn separator(given: &[OsString]) -> Result<Separator, Refusal> {
    let mut separator = None;
    for text in given {
        let byte = match text.as_bytes() {
            [] => return plain("empty tab"),
            [byte] => *byte,
            b"\\0" => 0,
            several => return plain(format!("multi-character tab {}", marked(several))),
        };
        if separator.is_some_and(|before| before != byte) {
            return plain("incompatible tabs");
        }
        separator = Some(byte);
    }
    Ok(separator.map_or(Separator::Blanks, Separator::Byte))
}

/// The value of an option that may be given more than once, but always with the same value.
fn once<'a>(given: &'a [OsString], otherwise: &str) -> Result<Option<&'a OsString>, Refusal> {
    match given.first().filter(|first| given.iter().any(|one| one != *first)) {
        Some(_) => plain(otherwise),
        None => Ok(given.first()),
    }
}

/// The names of the inputs.
fn inputs(args: &SortArgs) -> Result<Vec<OsString>, Refusal> {
    let Some(list) = args.files0_from.last() else {
        return Ok(if args.files.is_empty() { vec!["-".into()] } else { args.files.clone() });
    };
    if let Some(extra) = args.files.first() {
        let shown = quoted(extra);
        return Err(Refusal::Hint(format!(
            "extra operand {shown}\nfile operands cannot be combined with --files0-from"
        )));
    }
    names::read(OsStr::new(list))
}
