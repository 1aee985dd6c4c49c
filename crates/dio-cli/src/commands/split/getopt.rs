//! The command line as `getopt_long(3)` reads it: options in their order, which decides what a user is told first.
//!
//! Which options there are comes from the definitions that help and man pages are made from.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command};

/// Whether an option takes an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// Only as `--option=argument`.
    Optional,
    Required,
}

#[derive(Debug)]
struct Known {
    id: String,
    long: Option<String>,
    short: Option<u8>,
    takes: Takes,
}

impl Known {
    fn new(id: &str, long: &str, takes: Takes) -> Known {
        Known { id: id.to_owned(), long: Some(long.to_owned()), short: None, takes }
    }

    fn of(arg: &Arg) -> Known {
        Known {
            id: arg.get_id().to_string(),
            long: arg.get_long().map(str::to_owned),
            short: arg.get_short().and_then(|c| u8::try_from(c).ok()),
            takes: match (arg.get_action().takes_values(), arg.get_num_args().map_or(1, |n| n.min_values())) {
                (false, _) => Takes::Nothing,
                (true, 0) => Takes::Optional,
                (true, _) => Takes::Required,
            },
        }
    }
}

/// What was found on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// An option, by the name of its definition, with its argument.
    Option(String, Option<OsString>),
    /// A digit that stands where an option would, and which argument of the command line it is in.
    Digit(u8, usize),
}

/// The options of a command.
#[derive(Debug)]
pub(super) struct Grammar {
    known: Vec<Known>,
    /// So many from the front may be abbreviated at the cost of the others.
    first: usize,
}

impl Grammar {
    /// The options of `command` in the order of their definition. Those up to the one called `last` are GNU's, and after
    /// them come those that GNU tools have besides; an abbreviation that fits one of them means it, whatever other
    /// options are called.
    pub(super) fn of(command: &Command, last: &str) -> Grammar {
        let mut known: Vec<Known> = command.get_arguments().filter(|arg| !arg.is_positional()).map(Known::of).collect();
        let gnu = known.iter().position(|option| option.id == last).map_or(known.len(), |at| at + 1);
        let others = known.split_off(gnu);
        // Undocumented: the size of requests, which here is that of --block.
        known.push(Known::new("io_blksize", "-io-blksize", Takes::Required));
        known.push(Known::new("help", "help", Takes::Nothing));
        known.push(Known::new("version", "version", Takes::Nothing));
        let first = known.len();
        known.extend(others);
        Grammar { known, first }
    }

    /// Reads the command line: calls `found` for each option in turn, and returns the operands.
    ///
    /// # Errors
    /// What is wrong, in the words of getopt; or what `found` answers. Nothing behind the error has been looked at.
    pub(super) fn read<E: From<String>>(
        &self,
        args: &[OsString],
        mut found: impl FnMut(Word) -> Result<(), E>,
    ) -> Result<Vec<OsString>, E> {
        let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
        let mut operands = Vec::new();
        let mut args = args.iter().enumerate();
        while let Some((index, arg)) = args.next() {
            match arg.as_bytes() {
                b"--" => break,
                [b'-', b'-', long @ ..] => {
                    let (option, value) = self.long(long)?;
                    let value = match (option.takes, value) {
                        (Takes::Required, None) => {
                            Some(args.next().map(|(_, value)| value.clone()).ok_or_else(|| {
                                format!(
                                    "option '--{}' requires an argument",
                                    option.long.as_deref().unwrap_or_default()
                                )
                            })?)
                        }
                        (_, value) => value,
                    };
                    found(Word::Option(option.id.clone(), value))?;
                }
                [b'-', cluster @ ..] if !cluster.is_empty() => {
                    self.cluster(cluster, index, || args.next().map(|(_, value)| value.clone()), &mut found)?;
                }
                _ => {
                    operands.push(arg.clone());
                    if posix {
                        break;
                    }
                }
            }
        }
        operands.extend(args.map(|(_, arg)| arg.clone()));
        Ok(operands)
    }

    /// Options of one letter, in one argument.
    fn cluster<E: From<String>>(
        &self,
        mut letters: &[u8],
        index: usize,
        next: impl FnOnce() -> Option<OsString>,
        found: &mut impl FnMut(Word) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((&letter, rest)) = letters.split_first() {
            if letter.is_ascii_digit() {
                found(Word::Digit(letter - b'0', index))?;
                letters = rest;
                continue;
            }
            let shown = OsStr::from_bytes(&[letter]).to_string_lossy().into_owned();
            let Some(option) = self.known.iter().find(|option| option.short == Some(letter)) else {
                return Err(format!("invalid option -- '{shown}'").into());
            };
            if option.takes != Takes::Required {
                found(Word::Option(option.id.clone(), None))?;
                letters = rest;
                continue;
            }
            let value = if rest.is_empty() { next() } else { Some(OsStr::from_bytes(rest).to_owned()) };
            let value = value.ok_or_else(|| format!("option requires an argument -- '{shown}'"))?;
            return found(Word::Option(option.id.clone(), Some(value)));
        }
        Ok(())
    }

    /// The option that `--text` means, possibly shortened, and what stands behind its `=`.
    fn long(&self, text: &[u8]) -> Result<(&Known, Option<OsString>), String> {
        let (name, value) = match text.iter().position(|b| *b == b'=') {
            Some(at) => (&text[..at], Some(OsString::from_vec(text[at + 1..].to_vec()))),
            None => (text, None),
        };
        let told = String::from_utf8_lossy(text);
        let option = self.by_name(name).map_err(|candidates| match candidates.as_slice() {
            [] => format!("unrecognized option '--{told}'"),
            several => format!("option '--{told}' is ambiguous; possibilities:{}", several.concat()),
        })?;
        if option.takes == Takes::Nothing && value.is_some() {
            let name = option.long.as_deref().unwrap_or_default();
            return Err(format!("option '--{name}' doesn't allow an argument"));
        }
        Ok((option, value))
    }

    /// The option of that name, or the only one whose name begins so; else those that it could be.
    fn by_name(&self, name: &[u8]) -> Result<&Known, Vec<String>> {
        let long = |option: &&Known| option.long.as_ref().is_some_and(|long| long.as_bytes() == name);
        if let Some(exact) = self.known.iter().find(long) {
            return Ok(exact);
        }
        let begins = |option: &&Known| option.long.as_ref().is_some_and(|long| long.as_bytes().starts_with(name));
        let mut fitting: Vec<&Known> = self.known[..self.first].iter().filter(begins).collect();
        if fitting.is_empty() {
            fitting = self.known[self.first..].iter().filter(begins).collect();
        }
        match fitting.as_slice() {
            [only] => Ok(only),
            several => Err(several.iter().map(|o| format!(" '--{}'", o.long.as_deref().unwrap_or_default())).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn grammar() -> Grammar {
        let command = Command::new("x")
            .arg(Arg::new("bytes").long("bytes").short('b'))
            .arg(Arg::new("number").long("number").short('n'))
            .arg(Arg::new("numeric").long("numeric-suffixes").num_args(0..=1).require_equals(true))
            .arg(Arg::new("d").short('d').action(ArgAction::SetTrue))
            .arg(Arg::new("verbose").long("verbose").action(ArgAction::SetTrue))
            .arg(Arg::new("block").long("block"))
            .arg(Arg::new("mode").long("mode"))
            .arg(Arg::new("file"));
        Grammar::of(&command, "verbose")
    }

    fn read(args: &str) -> Result<String, String> {
        let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
        let mut told = Vec::new();
        let operands = grammar().read::<String>(&args, |word| {
            told.push(match word {
                Word::Option(id, None) => id,
                Word::Option(id, Some(value)) => format!("{id}={}", value.display()),
                Word::Digit(digit, index) => format!("{digit}@{index}"),
            });
            Ok(())
        })?;
        told.extend(operands.iter().map(|operand| format!("[{}]", operand.display())));
        Ok(told.join(" "))
    }

    #[test]
    fn options_and_operands() {
        for (args, told) in [
            ("a -b 3 c", "bytes=3 [a] [c]"),
            ("-b3 -dd -", "bytes=3 d d [-]"),
            ("-db 3 -- -b", "d bytes=3 [-b]"),
            ("-12d -3", "1@0 2@0 d 3@1"),
            ("--bytes=3 --bytes 4 --by=", "bytes=3 bytes=4 bytes="),
            ("--b=3", "bytes=3"),
            ("--bl=3 --m 4", "block=3 mode=4"),
            ("--numer 5 --numeric-suffixes=5", "numeric numeric=5 [5]"),
            ("-b -d", "bytes=-d"),
        ] {
            assert_eq!(read(args).as_deref(), Ok(told), "{args}");
        }
    }

    #[test]
    fn refusals() {
        for (args, told) in [
            ("-x", "invalid option -- 'x'"),
            ("-db", "option requires an argument -- 'b'"),
            ("--bytes", "option '--bytes' requires an argument"),
            ("--foo=3", "unrecognized option '--foo=3'"),
            ("--verbose=3", "option '--verbose' doesn't allow an argument"),
            ("--num=3", "option '--num=3' is ambiguous; possibilities: '--number' '--numeric-suffixes'"),
        ] {
            assert_eq!(read(args), Err(told.to_owned()), "{args}");
        }
    }
}
