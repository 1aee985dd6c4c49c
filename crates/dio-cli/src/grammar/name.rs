//! The names that tools are called by.

use std::sync::OnceLock;

/// The name of the link by which the program was called, if it is one of a tool.
static LINK: OnceLock<&'static str> = OnceLock::new();

/// Notes that the program was called by a link with a tool's name. A process is called once; a
/// second command line, in a test, keeps the first name.
pub(crate) fn set_link(name: &'static str) {
    let _ = LINK.set(name);
}

/// The name that messages of a command start with: `dio cat`, or `cat` for a tool that was called
/// by a link of that name.
pub(crate) fn called_as(command: &str) -> String {
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
