//! The command line as tar had it before options had dashes: `tar cvbf 40 archive file`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Args, Command};

use super::args::TarArgs;
use super::options::Refusal;

/// The arguments behind the name of the tool, with letters of old in today's form: each becomes an option, with its
/// argument from behind the first word if it takes one.
///
/// # Errors
/// An argument is missing, in GNU's words.
pub(super) fn modern(args: Vec<OsString>) -> Result<Vec<OsString>, Refusal> {
    let letters = match args.first().map(|first| first.as_bytes()) {
        Some(letters) if !letters.starts_with(b"-") && !letters.is_empty() => letters.to_vec(),
        _ => return Ok(args),
    };
    let grammar = TarArgs::augment_args(Command::new(super::NAME));
    let takes = |letter: u8| {
        let named = |arg: &&Arg| arg.get_short() == Some(char::from(letter));
        let arg = grammar.get_arguments().find(named);
        arg.is_some_and(|arg| {
            arg.get_action().takes_values() && arg.get_num_args().is_none_or(|count| count.max_values() > 0)
        })
    };
    let mut rest = args.into_iter().skip(1);
    let mut out = Vec::new();
    for letter in letters {
        out.push(OsString::from_vec(vec![b'-', letter]));
        if takes(letter) {
            let missing = || Refusal::usage(format!("Old option '{}' requires an argument.", char::from(letter)));
            out.push(rest.next().ok_or_else(missing)?);
        }
    }
    out.extend(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<String, Refusal> {
        let words = modern(line.split(' ').map(OsString::from).collect())?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn letters_become_options() {
        assert_eq!(read("cvzf a.tgz dir").unwrap(), "-c -v -z -f a.tgz dir");
        assert_eq!(read("xbfC 40 a d name -v").unwrap(), "-x -b 40 -f a -C d name -v");
        assert_eq!(read("-cf a b").unwrap(), "-cf a b");
        assert_eq!(read("cf"), Err(Refusal::usage("Old option 'f' requires an argument.")));
    }
}
