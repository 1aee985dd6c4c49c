//! The grammar of `dio split`: GNU split's options and those of every tool. `options` combines and
//! checks them.

use std::os::unix::ffi::OsStrExt;

use super::names::Alphabet;
use super::number::SIZES;
use super::options::{SplitMethod, chunks, positive, size, suffix_length};
use crate::grammar::{Flag, Grammar, checked, help, hidden, switch, value, version};
use crate::tool::io_flags;

pub(super) use super::options::SplitArgs;

const DETAILS: &str = "\
The pieces are called PREFIXaa, PREFIXab and so on; PREFIX is x unless it is given. Without -b, \
-C, -l or -n a piece has 1000 lines.

SIZE is a number and an optional unit: K, M, G, T, P and E are powers of 1024, KB, MB and so on \
powers of 1000; KiB is K, b is 512.

CHUNKS is one of: N, so many files by size; K/N, the Kth of them to standard output; l/N and \
l/K/N, the same without splitting lines; r/N and r/K/N, lines in turn.

-NUMBER means -l NUMBER.";

pub(super) fn grammar() -> Grammar<SplitArgs> {
    Grammar::<SplitArgs>::new(
        "split",
        "Put pieces of a file into files of their own, past the page cache",
        DETAILS,
    )
    .flags([
        checked("-b, --bytes=SIZE", "Put SIZE bytes into each file", |split, given| {
            split.cut(|| Ok(SplitMethod::Bytes(size(&given.take())?)))
        }),
        checked("-l, --lines=NUMBER", "Put NUMBER lines into each file", |split, given| {
            split.cut(|| {
                Ok(SplitMethod::Lines(positive(
                    "invalid number of lines",
                    given.take().as_bytes(),
                    "",
                )?))
            })
        }),
        hidden(checked("-0123456789", "A digit of the number of lines", |split, given| {
            split.digit(given.letter.unwrap_or(b'0') - b'0', given.line.number())
        })),
        checked(
            "-C, --line-bytes=SIZE",
            "Put at most SIZE bytes of whole lines into each file",
            |split, given| split.cut(|| Ok(SplitMethod::LineBytes(size(&given.take())?))),
        ),
        checked("-n, --number=CHUNKS", "Make CHUNKS files", |split, given| {
            split.cut(|| chunks(&given.take()))
        }),
    ])
    .flags(name_flags())
    .flags([
        checked(
            "-t, --separator=SEP",
            "Lines end in SEP; '\\0' is the byte zero",
            |split, given| split.separator(&given.take()),
        ),
        switch("-e, --elide-empty-files", "Make no empty files with -n", |split| {
            split.elide_empty = true
        }),
        switch("-u, --unbuffered", "Copy input to output at once with -n r/…", |split| {
            split.unbuffered = true
        }),
        value(
            "--filter=COMMAND",
            "Write to COMMAND, run by the shell; the name is $FILE",
            |split, command| {
                split.filter = Some(command);
            },
        ),
        switch("--verbose", "Say when an output file is opened", |split| split.verbose = true),
        // GNU split does not document this option; its name there has three dashes.
        hidden(checked(
            "--io-blksize, ---io-blksize=SIZE",
            "Without effect: see --block",
            |_, given| positive("invalid IO block size", given.take().as_bytes(), SIZES).map(drop),
        )),
        help("--help"),
        version("--version"),
    ])
    .flags(io_flags(|split| &mut split.io))
    .operands(
        &[
            ("FILE", "The file to split; standard input without it or for -"),
            ("PREFIX", "How the names of the pieces begin"),
        ],
        |split, operand| {
            split.operands.push(operand);
            Ok(())
        },
    )
}

/// The options that make the names of the files.
fn name_flags() -> [Flag<SplitArgs>; 6] {
    [
        checked(
            "-a, --suffix-length=N",
            "Make suffixes of length N (2, and longer ones as they are needed)",
            |split, given| {
                split.suffix_length = suffix_length(&given.take())?;
                Ok(())
            },
        ),
        checked(
            "--additional-suffix=SUFFIX",
            "Put SUFFIX behind the names of the files",
            |split, given| split.additional_suffix(given.take()),
        ),
        switch("-d", "Number the files from 0", |split| split.alphabet = Some(Alphabet::Decimal)),
        checked("--numeric-suffixes[=FROM]", "Number the files, from FROM or 0", |split, given| {
            split.suffixes(Alphabet::Decimal, given.value.take())
        }),
        switch("-x", "Number the files from 0 in hexadecimal", |split| {
            split.alphabet = Some(Alphabet::Hex)
        }),
        checked(
            "--hex-suffixes[=FROM]",
            "Number the files in hexadecimal, from FROM or 0",
            |split, given| split.suffixes(Alphabet::Hex, given.value.take()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::options::SplitOptions;
    use super::*;
    use crate::grammar::{Line, Refusal, Stop};
    use crate::quote::marked;

    fn read(line: &str) -> Result<SplitArgs, Stop> {
        let mut args = SplitArgs::default();
        let words = line.split(if line.contains('|') { '|' } else { ' ' }).map(OsString::from);
        grammar().fold(&mut args, &mut Line::new(words)).map(|()| args)
    }

    #[test]
    fn arguments_may_look_like_options_and_be_empty() {
        let args =
            read("--filter|-v|-t|-|--filter=|-d|--hex-suffixes=a|--separator=-|-C|1||--|-p|-q")
                .unwrap();
        assert_eq!(
            (args.separator, args.alphabet, args.from),
            (Some(b'-'), Some(Alphabet::Hex), Some(b"a".to_vec()))
        );
        assert_eq!((args.filter, args.way), (Some("".into()), Some(SplitMethod::LineBytes(1))));
        assert_eq!(args.operands, ["", "-p", "-q"]);
        assert!(read("-a|-1").is_err() && read("-b|-d").is_err());
        let args = read("-d|--hex-suffixes=1|--numeric-suffixes|in").unwrap();
        assert_eq!((args.alphabet, args.from), (Some(Alphabet::Decimal), Some(b"1".to_vec())));
    }

    #[test]
    fn digits_among_options_are_a_number_of_lines() {
        for (line, lines, decimal, operands) in [
            ("-5", 5, false, &[][..]),
            ("-5 in", 5, false, &["in"]),
            ("in -12d -", 12, true, &["in", "-"]),
            ("-d5", 5, true, &[]),
            ("-2d3", 23, true, &[]),
            ("-1 -e -02", 2, false, &[]),
            ("-0 -1", 1, false, &[]),
            ("--verbose -5", 5, false, &[]),
            ("--numeric-suffixes -5", 5, true, &[]),
            ("--progress -5", 5, false, &[]),
            ("-18446744073709551615", u64::MAX, false, &[]),
        ] {
            let args = read(line).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
            let is_decimal = args.alphabet == Some(Alphabet::Decimal);
            assert_eq!(
                (args.way, is_decimal),
                (Some(SplitMethod::Lines(lines)), decimal),
                "{line}"
            );
            assert_eq!(args.operands, operands, "{line}");
        }
        for twice in ["-5b3", "-5b 3", "-1 -l 3 -2", "--lines=3 -5", "-n 3 -5"] {
            let told = Refusal::usage("cannot split in more than one way");
            assert_eq!(read(twice).err(), Some(Stop::Refused(told)), "{twice}");
        }
        let told = Refusal::usage("invalid option -- 'Z'");
        assert_eq!(read("-5Z").err(), Some(Stop::Unreadable(told)));
    }

    #[test]
    fn digits_elsewhere_are_not() {
        for (line, operands) in [
            ("-a5 -d", &[][..]),
            ("-a 5 -da 6", &[]),
            ("--filter -5", &[]),
            ("--fil -5 -t 1", &[]),
            ("-- -5", &["-5"]),
            ("-d -- -5", &["-5"]),
            ("in 5", &["in", "5"]),
            ("---io-blksize=5 ---io-blksize 6", &[]),
        ] {
            let args = read(line).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
            assert_eq!(
                (args.way, &args.operands[..]),
                (None, &operands.iter().map(OsString::from).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
    }

    #[test]
    fn no_number_of_lines_is_refused() {
        let refusal = |line| SplitOptions::of(read(line).unwrap()).err();
        let zero = Refusal::usage(format!("invalid number of lines: {}", marked(b"0")));
        assert_eq!((refusal("-00"), refusal("-1 -0")), (Some(zero.clone()), Some(zero)));
        let told = "line count option -18446744073709551616... is too large";
        assert_eq!(read("-184467440737095516161").err(), Some(Stop::Refused(Refusal::plain(told))));
    }
}
