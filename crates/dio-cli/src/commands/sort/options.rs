//! Decides what the options of `dio sort` mean together, with GNU sort's error messages.

use std::ffi::OsString;

use super::args::SortArgs;
use super::engine::EngineOptions;
use super::key::{Order, WHOLE};
use super::locale::LocaleNeeds;
use super::spec::Spec;
use super::terms::SortCheck;
use super::{names, random};
use crate::grammar::Refusal;
use crate::quote::quoted;
use crate::tool::IoArgs;

/// The meaning of the command line.
#[derive(Debug)]
pub(super) struct SortOptions {
    pub(super) order: Order,
    /// The categories of the locale that the order depends on.
    pub(super) needs: LocaleNeeds,
    pub(super) check: Option<SortCheck>,
    /// Names of the inputs; `-` is standard input.
    pub(super) inputs: Vec<OsString>,
    /// `None` for standard output.
    pub(super) output: Option<OsString>,
    /// An existing output is overwritten in place.
    pub(super) in_place: bool,
    pub(super) engine: EngineOptions,
    pub(super) io: IoArgs,
}

impl SortOptions {
    /// Decides what the command line means.
    ///
    /// # Errors
    /// The command line is wrong.
    pub(super) fn of(mut args: SortArgs) -> Result<SortOptions, Refusal> {
        if args.debug {
            return Err(Refusal::plain("--debug is not supported: the keys cannot be shown"));
        }
        let inputs = inputs(&mut args)?;
        let (letters, separator, output) = (args.letters, args.separator(), args.output);
        let mut keys = args.keys;
        for key in keys.iter_mut().filter(|key| key.letters.is_default() && !key.letters.reverse) {
            key.letters = letters;
        }
        if keys.is_empty() && !letters.is_default() {
            keys.push(Spec { span: WHOLE, letters });
        }
        keys.iter().try_for_each(|key| key.letters.check())?;
        if let Some(check) = args.check {
            let letter = if check == SortCheck::Aloud { 'c' } else { 'C' };
            if let Some(extra) = inputs.get(1) {
                return Err(Refusal::plain(format!(
                    "extra operand {} not allowed with -{letter}",
                    quoted(extra)
                )));
            }
            if output.is_some() {
                return Err(Refusal::plain(format!("options '-{letter}o' are incompatible")));
            }
        }
        let shuffle = match keys.iter().any(|key| key.letters.random) {
            true => Some(random::shuffle(args.random_source.as_deref())?),
            false => None,
        };
        let stable = args.stable || args.unique;
        let needs = LocaleNeeds::of(&keys, keys.is_empty() || !stable);
        let keys = keys.iter().map(|key| key.key(shuffle.as_ref())).collect();
        let order = Order::by_keys(keys, separator, stable, letters.reverse);
        let engine = EngineOptions {
            memory: args.memory,
            directories: args.temporary_directories,
            compress: args.compress_program,
            terminator: if args.zero_terminated { 0 } else { b'\n' },
            unique: args.unique,
            merge: args.merge,
            batch_size: args.batch_size,
            parallel: args.parallel,
        };
        Ok(SortOptions {
            order,
            needs,
            check: args.check,
            inputs,
            output,
            in_place: args.in_place,
            engine,
            io: args.io,
        })
    }
}

/// The names of the inputs.
fn inputs(args: &mut SortArgs) -> Result<Vec<OsString>, Refusal> {
    let files = std::mem::take(&mut args.files);
    let Some(list) = &args.files0_from else {
        return Ok(if files.is_empty() { vec!["-".into()] } else { files });
    };
    match files.first() {
        Some(extra) => {
            let told = format!(
                "extra operand {}\nfile operands cannot be combined with --files0-from",
                quoted(extra)
            );
            Err(Refusal::usage(told))
        }
        None => names::read(list),
    }
}
