//! Decides what the options of `dio uniq` mean together, with GNU uniq's error messages.

use std::ffi::OsString;

use super::args::UniqArgs;
use super::key::ComparedPart;
use super::print::PrintedLines;
use crate::grammar::Refusal;
use crate::tool::IoArgs;

/// The meaning of the command line.
#[derive(Debug)]
pub(super) struct UniqOptions {
    pub(super) what: PrintedLines,
    pub(super) part: ComparedPart,
    pub(super) delimiter: u8,
    /// `-` is standard input.
    pub(super) input: OsString,
    /// `-` is standard output.
    pub(super) output: OsString,
    /// An existing output is overwritten in place.
    pub(super) in_place: bool,
    pub(super) io: IoArgs,
}

impl UniqOptions {
    /// Decides what the command line means.
    pub(super) fn of(args: UniqArgs) -> Result<UniqOptions, Refusal> {
        let UniqArgs { count, repeated, unique, all_repeated: all, part, in_place, io, .. } = args;
        let what = match (args.group, all) {
            (Some(_), _) if count || repeated || unique || all.is_some() => {
                return Err(Refusal::usage("--group is mutually exclusive with -c/-d/-D/-u"));
            }
            (_, Some(_)) if count => {
                return Err(Refusal::usage(
                    "printing all duplicated lines and repeat counts is meaningless",
                ));
            }
            (Some(around), _) => PrintedLines::Grouped(around),
            (None, Some(before)) => PrintedLines::Repeated { last: !unique, before },
            (None, None) if !repeated && !unique && !count => PrintedLines::First,
            (None, None) => PrintedLines::Counted { count, single: !repeated, repeated: !unique },
        };
        let file = |operand: Option<OsString>| operand.unwrap_or_else(|| "-".into());
        let delimiter = if args.zero_terminated { 0 } else { b'\n' };
        Ok(UniqOptions {
            what,
            part,
            delimiter,
            input: file(args.input),
            output: file(args.output),
            in_place,
            io,
        })
    }
}
