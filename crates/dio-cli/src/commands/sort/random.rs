//! Source of the order of `-R`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};

use super::key::Shuffle;
use super::locale;
use crate::grammar::Refusal;
use crate::quote::{marked, named, words};
use crate::tool::errno_of;

/// Makes an order that depends on the first 16 bytes of a file, or of `/dev/urandom`.
///
/// # Errors
/// The file has fewer bytes, or cannot be read.
pub(super) fn shuffle(source: Option<&OsStr>) -> Result<Shuffle, Refusal> {
    let source = source.unwrap_or(OsStr::new("/dev/urandom"));
    let mut salt = [0; 16];
    let mut file = File::open(source).map_err(|error| {
        Refusal::plain(format!("open failed: {}: {}", named(source), words(errno_of(&error))))
    })?;
    file.read_exact(&mut salt).map_err(|error| {
        Refusal::plain(match error.kind() {
            ErrorKind::UnexpectedEof => {
                format!("{}: end of file", marked(source.as_encoded_bytes()))
            }
            _ => format!("{}: read error: {}", named(source), words(errno_of(&error))),
        })
    })?;
    Ok(Shuffle::new(salt, !locale::is_posix()))
}
