//! Reads the names of inputs from a file (`--files0-from`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;

use crate::grammar::Refusal;
use crate::quote::{named, quoted, words};
use crate::tool::errno_of;

/// Reads names that are ended, or separated, by NUL.
///
/// # Errors
/// The names cannot be read; there are none; or one is empty or is `-`.
pub(super) fn read(list: &OsStr) -> Result<Vec<OsString>, Refusal> {
    let standard = list == "-";
    let mut text = Vec::new();
    let read = if standard {
        io::stdin().lock().read_to_end(&mut text)
    } else {
        let mut file = File::open(list).map_err(|error| {
            Refusal::plain(format!("open failed: {}: {}", named(list), words(errno_of(&error))))
        })?;
        file.read_to_end(&mut text)
    };
    if read.is_err() {
        return Err(Refusal::plain(format!("cannot read file names from {}", quoted(list))));
    }
    let names = parse(text);
    if names.is_empty() {
        return Err(Refusal::plain(format!("no input from {}", quoted(list))));
    }
    for (number, name) in (1..).zip(&names) {
        // GNU sort prints this message whichever file the names come from.
        if name == "-" {
            let message = format!(
                "when reading file names from stdin, no file name of {} allowed",
                quoted(name)
            );
            return Err(Refusal::plain(message));
        }
        if name.is_empty() {
            return Err(Refusal::plain(format!(
                "{}:{number}: invalid zero-length file name",
                named(list)
            )));
        }
    }
    Ok(names)
}

fn parse(mut text: Vec<u8>) -> Vec<OsString> {
    if text.last() == Some(&0) {
        text.pop();
    } else if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(|name| OsString::from_vec(name.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_nul() {
        for (text, names) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("a\0", &["a"]),
            ("a\0b", &["a", "b"]),
            ("\0", &[""]),
            ("a\0\0", &["a", ""]),
        ] {
            assert_eq!(parse(text.into()), names, "{text:?}");
        }
    }
}
