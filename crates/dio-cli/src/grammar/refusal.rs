//! Why a command line is rejected.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use super::name::{called_as, family};

/// The messages about a rejected command line, in the wording of the original tool. They may
/// contain bytes that are not UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    messages: Vec<Vec<u8>>,
    pub(crate) hint: bool,
    status: Option<u8>,
}

impl Refusal {
    /// Creates a refusal with one message.
    pub(crate) fn plain(message: impl Into<Vec<u8>>) -> Refusal {
        Refusal { messages: vec![message.into()], ..Refusal::default() }
    }

    /// Creates a refusal with one message and a hint to `--help`.
    pub(crate) fn usage(message: impl Into<Vec<u8>>) -> Refusal {
        Refusal { hint: true, ..Refusal::plain(message) }
    }

    /// Appends a message.
    pub(crate) fn and(mut self, message: impl Into<Vec<u8>>) -> Refusal {
        self.messages.push(message.into());
        self
    }

    /// Inserts messages at the front.
    pub(crate) fn after(mut self, messages: impl IntoIterator<Item = String>) -> Refusal {
        self.messages.splice(0..0, messages.into_iter().map(String::into_bytes));
        self
    }

    /// Removes the hint.
    pub(crate) fn without_hint(self) -> Refusal {
        Refusal { hint: false, ..self }
    }

    /// Sets the exit status.
    pub(crate) fn with_status(self, status: u8) -> Refusal {
        Refusal { status: Some(status), ..self }
    }

    /// Prints the messages as the tool `command` does; returns the exit status, which is `status`
    /// unless the refusal has its own.
    pub(crate) fn tell(&self, command: &str, status: u8) -> ExitCode {
        let name = called_as(command);
        let mut text = Vec::new();
        for message in &self.messages {
            text.extend([name.as_bytes(), b": ", message, b"\n"].concat());
        }
        if self.hint {
            // gzip uses the quotes that the GNU project used formerly.
            let quote = if family(command) == "gzip" { '`' } else { '\'' };
            text.extend(format!("Try {quote}{name} --help' for more information.\n").into_bytes());
        }
        // If standard error is closed, there is nowhere to report that.
        let _ = std::io::stderr().lock().write_all(&text);
        ExitCode::from(self.status.unwrap_or(status))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.messages.join(&b'\n')))
    }
}
