//! One program under many names: a link called `cat` is `dio cat`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::OnceLock;

use crate::commands::mount::helper;
use crate::commands::run;

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

/// The exit status of such a command where something goes wrong that is no matter of its grammar.
pub(super) fn trouble(command: &str) -> u8 {
    if matches!(command, "sort" | "tar") { 2 } else { 1 }
}

/// The name of the link by which the program was called, if it is one of a tool.
static LINK: OnceLock<&'static str> = OnceLock::new();

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
        // A process is called once; a second command line, in a test, keeps the first name.
        let _ = LINK.set(name);
    }
    args
}

/// The name that messages of a command start with.
pub fn called_as(command: &str) -> String {
    let command = family(command);
    match LINK.get() {
        Some(link) if family(link) == command => command.to_owned(),
        _ => format!("dio {command}"),
    }
}

/// The command by whose name others speak, which are the same with some of its options.
pub(crate) fn family(command: &str) -> &str {
    match command {
        "gunzip" | "zcat" => "gzip",
        "unzstd" | "zstdcat" => "zstd",
        other => other,
    }
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
