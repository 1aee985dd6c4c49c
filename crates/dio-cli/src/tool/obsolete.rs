//! Command lines of old, brought into a form that can be declared: what the tools that have some share.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Args, Command};

/// What is declared of a tool's options, to be asked before anything is parsed.
pub(crate) struct Grammar(Command);

impl Grammar {
    /// The flags of a tool.
    pub(crate) fn of<F: Args>() -> Grammar {
        Grammar(F::augment_args(Command::new("tool")))
    }

    /// Whether a short option takes a value, which is the rest of its argument or the next one.
    pub(crate) fn short_takes(&self, letter: u8) -> bool {
        self.0.get_arguments().any(|arg| arg.get_short() == Some(char::from(letter)) && takes(arg))
    }

    /// Whether a long option, of which `name` is the beginning, takes the next argument. One with a value behind `=` does not.
    pub(crate) fn long_takes(&self, name: &[u8]) -> bool {
        // Of options that begin alike, either all that are meant take a value or clap refuses them.
        let meant = |arg: &&Arg| arg.get_long().is_some_and(|long| long.as_bytes().starts_with(name));
        self.0.get_arguments().filter(meant).any(takes)
    }
}

fn takes(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// The short options of one argument, up to and with the first at which they `end`, and what is attached to it.
pub(crate) fn cut(letters: &[u8], end: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    letters.split_at(letters.iter().position(|letter| end(*letter)).map_or(letters.len(), |at| at + 1))
}

/// Adds the argument of short options with the value attached to the last. A value that begins with `=` becomes the next
/// argument: clap would take the sign for a part of the syntax.
pub(crate) fn put(flags: &[u8], value: &[u8], out: &mut Vec<OsString>) {
    let apart = value.starts_with(b"=");
    let attached = if apart { &[][..] } else { value };
    if !flags.is_empty() {
        out.push(OsString::from_vec([b"-", flags, attached].concat()));
    }
    out.extend(apart.then(|| OsStr::from_bytes(value).to_owned()));
}

/// Whether the environment asks for POSIX of 2001, which took obsolete usage away (`_POSIX2_VERSION`); that of 2008 let it be
/// again.
pub(crate) fn posix_of_2001() -> bool {
    let version = std::env::var("_POSIX2_VERSION").ok().and_then(|version| version.parse::<i64>().ok());
    version.is_some_and(|version| (200_112..200_809).contains(&version))
}
