//! The names that tools are called by.

use std::sync::OnceLock;

/// The name of the link by which the program was called, if it is the name of a tool.
static LINK: OnceLock<&'static str> = OnceLock::new();

/// Records that the program was called through a link with a tool's name. A process is called once;
/// later calls, in tests, keep the first name.
pub(crate) fn set_link(name: &'static str) {
    let _ = LINK.set(name);
}

/// The name of the program, if it is not `dio`.
static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// Records that another program runs dio's commands, by whose name messages begin. Later calls keep
/// the first name.
pub(crate) fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// Returns the prefix of a command's messages: `dio cat`, or `cat` if the tool was called through a
/// link of that name.
pub(crate) fn called_as(command: &str) -> String {
    let command = family(command);
    match LINK.get() {
        Some(link) if family(link) == command => command.to_owned(),
        _ => format!("{} {command}", PROGRAM.get().unwrap_or(&"dio")),
    }
}

/// Returns the command that implements `command`: some names mean another command with certain
/// options.
pub(crate) fn family(command: &str) -> &str {
    match command {
        "gunzip" | "zcat" => "gzip",
        "unzstd" | "zstdcat" => "zstd",
        other => other,
    }
}
