//! One program under many names: a link called `cat` is `dio cat`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::OnceLock;

/// The names that are tools of their own, each the command of the same name.
const NAMES: &[&str] = &[
    "cat",
    "cp",
    "dd",
    "tee",
    "split",
    "sum",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "b2sum",
    "b3sum",
    "cksum",
];

/// The name of the link by which the program was called, if it is one of a tool.
static LINK: OnceLock<&'static str> = OnceLock::new();

/// The command line with the command in its second place, as if the program had been called as `dio`.
pub fn resolve(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let called = args.first().and_then(|name| Path::new(name).file_name()).and_then(OsStr::to_str);
    if let Some(name) = NAMES.iter().copied().find(|name| Some(*name) == called) {
        args[0] = "dio".into();
        args.insert(1, name.into());
        // A process is called once; a second command line, in a test, keeps the first name.
        let _ = LINK.set(name);
    }
    args
}

/// The name that messages of a command start with.
pub fn called_as(command: &str) -> String {
    match LINK.get() {
        Some(link) if *link == command => command.to_owned(),
        _ => format!("dio {command}"),
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
