//! The grammar of `dio sort`: GNU sort's options and those common to all tools. `options` decides
//! what they mean together.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::engine::physical_memory;
use super::key::Separator;
use super::number;
use super::spec::{KeyLetters, LetterPosition, Spec};
use super::terms::{SortCheck, TROUBLE};
use crate::grammar::{
    Choice, Flag, GivenFlag, Grammar, Line, Refusal, among, checked, help, hidden, meant,
    posix_of_2001, repeated, switch, value, version, word,
};
use crate::quote::marked;
use crate::tool::{IoArgs, in_place_flag, io_flags};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct SortArgs {
    /// Letters that apply to all keys.
    pub(super) letters: KeyLetters,
    pub(super) keys: Vec<Spec>,
    /// An obsolete key with an end has been read. From then on, one without an end is a key too,
    /// whatever the environment says.
    old_keys: bool,
    pub(super) check: Option<SortCheck>,
    pub(super) debug: bool,
    pub(super) merge: bool,
    pub(super) stable: bool,
    pub(super) unique: bool,
    pub(super) zero_terminated: bool,
    pub(super) separator: Option<u8>,
    pub(super) memory: Option<u64>,
    pub(super) parallel: Option<usize>,
    pub(super) batch_size: Option<usize>,
    pub(super) temporary_directories: Vec<PathBuf>,
    pub(super) compress_program: Option<OsString>,
    pub(super) random_source: Option<OsString>,
    pub(super) files0_from: Option<OsString>,
    pub(super) output: Option<OsString>,
    pub(super) in_place: bool,
    pub(super) files: Vec<OsString>,
    pub(super) io: IoArgs,
}

/// The words of `--sort`, with the letters that they stand for.
const SORTS: &[Choice<u8>] = &[
    ("general-numeric", b'g', ""),
    ("human-numeric", b'h', ""),
    ("month", b'M', ""),
    ("numeric", b'n', ""),
    ("random", b'R', ""),
    ("version", b'V', ""),
];

const CHECKS: &[Choice<SortCheck>] = &[
    ("quiet", SortCheck::Silently, ""),
    ("silent", SortCheck::Silently, ""),
    ("diagnose-first", SortCheck::Aloud, ""),
];

const DETAILS: &str = "\
All FILEs together are sorted to standard output, as bytes unless something else is asked for; \
without FILE, or for -, standard input.

KEYDEF is F[.C][OPTS][,F[.C][OPTS]]: the field and the byte in it where a key starts, and those \
where it ends, counted from 1; the end of the line if they are left out, and for C the start and \
the end of the field. OPTS are letters of bdfgiMhnRrV, which replace the options that hold for all \
keys. Without -t, fields are what is between a non-blank and a blank.

SIZE is a number and one of: % of the memory, b for bytes, K (as without any), M, G, T, P, E, Z, \
Y, R and Q.";

pub(super) fn grammar() -> Grammar<SortArgs> {
    Grammar::<SortArgs>::new("sort", "Sort lines of text, past the page cache", DETAILS)
        .flags(orders())
        .flags(sources())
        .flags(working())
        .flags([help("--help"), version("--version")])
        .flags(io_flags(|sort| &mut sort.io))
        .flags([in_place_flag(|sort| sort.in_place = true)])
        .files("The files to sort", |sort| &mut sort.files)
        .old(old_key)
        .statuses(TROUBLE, TROUBLE)
}

fn orders() -> [Flag<SortArgs>; 15] {
    [
        letter("-b, --ignore-leading-blanks", "Pass over blanks at the start of keys"),
        hidden(switch("--debug", "Not supported: GNU sort marks the keys with it", |sort| {
            sort.debug = true
        })),
        letter("-d, --dictionary-order", "Only blanks, letters and digits count"),
        letter("-f, --ignore-case", "Small letters count as capitals"),
        letter("-g, --general-numeric-sort", "By floating-point numbers"),
        letter("-i, --ignore-nonprinting", "Only bytes that can be printed count"),
        switch("-m, --merge", "Merge files that are sorted", |sort| sort.merge = true),
        letter("-M, --month-sort", "By the names of months"),
        letter("-h, --human-numeric-sort", "By numbers with units: 2K, 1G"),
        letter("-n, --numeric-sort", "By decimal numbers"),
        letter("-R, --random-sort", "At random, but equal keys together"),
        checked("--random-source=FILE", "Take random bytes from FILE", |sort, given| {
            once(&mut sort.random_source, given, "multiple random sources specified")
        }),
        letter("-r, --reverse", "In descending order"),
        word(
            "--sort=WORD",
            "By WORD: general-numeric (-g), human-numeric (-h), month (-M), numeric (-n), random \
             (-R) or version (-V)",
            SORTS,
            |sort, letter| {
                sort.letters.add(letter.unwrap_or_default(), LetterPosition::Both);
            },
        ),
        letter("-V, --version-sort", "By numbers within text"),
    ]
}

fn sources() -> [Flag<SortArgs>; 8] {
    [
        checked("--batch-size=N", "Merge at most N files at a time", |sort, given| {
            sort.batch_size = Some(number::batch(&given.take())?);
            Ok(())
        }),
        checked("-c", "Say where FILE is not sorted", |sort, _| check(sort, SortCheck::Aloud)),
        among(
            CHECKS,
            checked(
                "--check[=WORD]",
                "Say whether FILE is sorted: quiet or silent (-C), or diagnose-first (-c)",
                |sort, given| {
                    let how = given
                        .value
                        .take()
                        .map(|word| meant("--check", &word, CHECKS))
                        .transpose()?;
                    check(sort, how.unwrap_or(SortCheck::Aloud))
                },
            ),
        ),
        checked("-C", "The same as -c without words", |sort, _| check(sort, SortCheck::Silently)),
        checked(
            "--compress-program=PROG",
            "Compress temporary files with PROG; PROG -d decompresses",
            |sort, given| {
                once(&mut sort.compress_program, given, "multiple compress programs specified")
            },
        ),
        value(
            "--files0-from=F",
            "Read the names of files from F, each ended by NUL",
            |sort, list| {
                sort.files0_from = Some(list);
            },
        ),
        repeated(checked("-k, --key=KEYDEF", "Sort by a part of the line", |sort, given| {
            sort.keys.push(Spec::of(given.take().as_bytes())?);
            Ok(())
        })),
        checked(
            "-o, --output=FILE",
            "Write to FILE, which may be one that is read",
            |sort, given| once(&mut sort.output, given, "multiple output files specified"),
        ),
    ]
}

fn working() -> [Flag<SortArgs>; 8] {
    [
        switch("-s, --stable", "Lines with equal keys stay as they came", |sort| {
            sort.stable = true
        }),
        checked("-S, --buffer-size=SIZE", "Use so much memory", |sort, given| {
            let size = number::memory(&given.take(), &given.name(), physical_memory())?;
            // The largest of several sizes counts.
            sort.memory = sort.memory.max(Some(size));
            Ok(())
        }),
        checked(
            "-t, --field-separator=SEP",
            "Fields are separated by SEP; '\\0' is the byte zero",
            |sort, given| separator(&mut sort.separator, &given.take()),
        ),
        repeated(value(
            "-T, --temporary-directory=DIR",
            "Make temporary files in DIR, or in turn in several; $TMPDIR or /tmp without",
            |sort, directory| sort.temporary_directories.push(directory.into()),
        )),
        checked("--parallel=N", "Sort with N threads", |sort, given| {
            sort.parallel = Some(number::threads(&given.take())?);
            Ok(())
        }),
        switch(
            "-u, --unique",
            "Of lines with equal keys only the first; with -c, these are out of order",
            |sort| sort.unique = true,
        ),
        switch("-z, --zero-terminated", "Lines end in NUL instead of a newline", |sort| {
            sort.zero_terminated = true;
        }),
        // An option of Solaris that GNU sort accepts. A value in a word of its own belongs to the
        // option only if it consists of digits.
        hidden(checked("-y DIGITS", "Without effect", |_, given| {
            let value = given.take();
            if given.separate && !value.as_bytes().iter().all(u8::is_ascii_digit) {
                given.line.put_back(value);
            }
            Ok(())
        })),
    ]
}

/// Makes an option that is also a letter of keys.
fn letter(spec: &'static str, text: &'static str) -> Flag<SortArgs> {
    checked(spec, text, |sort, given| {
        sort.letters.add(given.short(), LetterPosition::Both);
        Ok(())
    })
}

fn check(sort: &mut SortArgs, how: SortCheck) -> Result<(), Refusal> {
    match sort.check.replace(how) {
        Some(before) if before != how => Err(Refusal::plain("options '-cC' are incompatible")),
        _ => Ok(()),
    }
}

/// Sets the value of an option that may be repeated only with the same value.
fn once(
    before: &mut Option<OsString>,
    given: &mut GivenFlag<'_>,
    otherwise: &str,
) -> Result<(), Refusal> {
    let value = given.take();
    match before.as_ref().is_some_and(|before| *before != value) {
        true => Err(Refusal::plain(otherwise)),
        false => {
            *before = Some(value);
            Ok(())
        }
    }
}

fn separator(before: &mut Option<u8>, text: &OsStr) -> Result<(), Refusal> {
    let byte = match text.as_bytes() {
        [] => return Err(Refusal::plain("empty tab")),
        [byte] => *byte,
        b"\\0" => 0,
        several => return Err(Refusal::plain(format!("multi-character tab {}", marked(several)))),
    };
    match before.replace(byte) {
        Some(before) if before != byte => Err(Refusal::plain("incompatible tabs")),
        _ => Ok(()),
    }
}

/// Reads a key given as `+POS1 [-POS2]`; returns `false` if the word is none and thus is a file.
fn old_key(sort: &mut SortArgs, word: &OsStr, line: &mut Line) -> Result<bool, Refusal> {
    let Some(start) = word.as_bytes().strip_prefix(b"+") else { return Ok(false) };
    let is_end = |next: &OsStr| matches!(next.as_bytes(), [b'-', b'0'..=b'9', ..]);
    let end = line.next_if(is_end);
    // POSIX of 2001 has such keys only with an end, and not at all where `POSIXLY_CORRECT` is set.
    sort.old_keys |=
        !posix_of_2001() || (end.is_some() && std::env::var_os("POSIXLY_CORRECT").is_none());
    match Spec::of_obsolete_start(start).filter(|_| sort.old_keys) {
        Some(key) => {
            sort.keys.push(match end {
                Some(end) => key.with_obsolete_end(&end.as_bytes()[1..])?,
                None => key,
            });
            Ok(true)
        }
        None => {
            end.into_iter().for_each(|end| line.put_back(end));
            Ok(false)
        }
    }
}

impl SortArgs {
    /// The separator of fields.
    pub(super) fn separator(&self) -> Separator {
        self.separator.map_or(Separator::Blanks, Separator::Byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> SortArgs {
        let mut args = SortArgs::default();
        let mut words = Line::new(line.split(' ').map(OsString::from));
        grammar().fold(&mut args, &mut words).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
        args
    }

    #[test]
    fn old_keys_are_keys() {
        for (line, keys, files) in [
            ("+1", &["+1"][..], &[][..]),
            ("+1 -2 in", &["+1 -2"], &["in"]),
            ("in +1.2n -3.4b -n", &["+1.2n -3.4b"], &["in"]),
            ("+1 -n", &["+1"], &[]),
            ("-k 1 +2", &["-k1", "+2"], &[]),
            ("-nk 1 +2", &["-k1", "+2"], &[]),
            ("--key 1 +1", &["-k1", "+1"], &[]),
            ("--key=3 +1", &["-k3", "+1"], &[]),
            ("+x", &[], &["+x"]),
            ("-- +1 -2", &[], &["+1", "-2"]),
            ("-y 5 in", &[], &["in"]),
            ("-y5 in", &[], &["in"]),
            ("-ny x", &[], &["x"]),
            ("--check +1", &["+1"], &[]),
        ] {
            let args = read(line);
            let key = |text: &&str| match text.strip_prefix("-k") {
                Some(text) => Spec::of(text.as_bytes()).unwrap(),
                None => {
                    let mut positions = text[1..].split(" -");
                    let start =
                        Spec::of_obsolete_start(positions.next().unwrap().as_bytes()).unwrap();
                    positions.next().map_or(start.clone(), |end| {
                        start.with_obsolete_end(end.as_bytes()).unwrap()
                    })
                }
            };
            assert_eq!(args.keys, keys.iter().map(key).collect::<Vec<_>>(), "{line}");
            assert_eq!(args.files, files, "{line}");
        }
        let args = read("-t= -o=x");
        assert_eq!((args.separator, args.output), (Some(b'='), Some("=x".into())));
    }
}
