//! One program under many names: a link called `cat` is `dio cat`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::commands::mount::helper;
use crate::commands::run;
use crate::grammar::set_link;

/// The commands that have a GNU model, which are also the names that a link can have; and the exit status of a command line
/// that makes no sense.
const GNU: &[(&str, u8)] = &[
    ("cat", 1),
    ("cp", 1),
    ("dd", 1),
    ("tar", 64),
    ("tee", 1),
    ("split", 1),
    ("sum", 1),
    ("md5sum", 1),
    ("sha1sum", 1),
    ("sha224sum", 1),
    ("sha256sum", 1),
    ("sha384sum", 1),
    ("sha512sum", 1),
    ("b2sum", 1),
    ("b3sum", 1),
    ("cksum", 1),
    ("sort", 2),
    ("uniq", 1),
    ("gzip", 1),
    ("gunzip", 1),
    ("zcat", 1),
    ("zstd", 1),
    ("unzstd", 1),
    ("zstdcat", 1),
];

/// The commands that have a model elsewhere, with the same status; a link of such a name is none of ours.
const OTHERS: &[(&str, u8)] = &[("mount", 1), ("umount", 1), ("install-mount-helper", 1), ("run", run::FAILED)];

/// The command of that name, if it has a model, and the status of a command line that makes no sense.
pub(crate) fn model(name: &OsStr) -> Option<(&'static str, u8)> {
    GNU.iter().chain(OTHERS).copied().find(|(command, _)| name == *command)
}

/// The command of that name, if it has a GNU model.
pub(crate) fn gnu(name: &OsStr) -> Option<(&'static str, u8)> {
    GNU.iter().copied().find(|(command, _)| name == *command)
}

/// The command line with the command in its second place, as if the program had been called as `dio`.
pub fn resolve(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if let Some(args) = helper::translated(&args) {
        return args;
    }
    let called = args.first().and_then(|name| Path::new(name).file_name());
    if let Some((name, _)) = called.and_then(gnu) {
        args[0] = "dio".into();
        args.insert(1, name.into());
        set_link(name);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_tools_are_tools() {
        let words = |line: &str| -> Vec<OsString> { line.split_whitespace().map(OsString::from).collect() };
        assert_eq!(resolve(words("dio cat x")), words("dio cat x"));
        assert_eq!(resolve(words("/bin/dio-1 cat")), words("/bin/dio-1 cat"));
        assert_eq!(resolve(words("/some/where/tee -a x")), words("dio tee -a x"));
    }
}
