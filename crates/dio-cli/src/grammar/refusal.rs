//! Why nothing is done.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use super::name::{called_as, family};

/// What is wrong with a command line, in the words of the tool's model. The messages may hold bytes
/// that are no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    messages: Vec<Vec<u8>>,
    pub(crate) hint: bool,
    status: Option<u8>,
}

impl Refusal {
    /// A message.
    pub(crate) fn plain(message: impl Into<Vec<u8>>) -> Refusal {
        Refusal { messages: vec![message.into()], ..Refusal::default() }
    }

    /// A message with a hint to `--help`.
    pub(crate) fn usage(message: impl Into<Vec<u8>>) -> Refusal {
        Refusal { hint: true, ..Refusal::plain(message) }
    }

    /// The same with another message behind it.
    pub(crate) fn and(mut self, message: impl Into<Vec<u8>>) -> Refusal {
        self.messages.push(message.into());
        self
    }

    /// The same with messages in front of it.
    pub(crate) fn after(mut self, messages: impl IntoIterator<Item = String>) -> Refusal {
        self.messages.splice(0..0, messages.into_iter().map(String::into_bytes));
        self
    }

    /// The same without the hint.
    pub(crate) fn without_hint(self) -> Refusal {
        Refusal { hint: false, ..self }
    }

    /// The same with an exit status of its own.
    pub(crate) fn with_status(self, status: u8) -> Refusal {
        Refusal { status: Some(status), ..self }
    }

    /// Tells it as the tool `command` does; returns the exit status, which is `status` unless the
    /// refusal has its own.
    pub(crate) fn tell(&self, command: &str, status: u8) -> ExitCode {
        let name = called_as(command);
        let mut text = Vec::new();
        for message in &self.messages {
            text.extend([name.as_bytes(), b": ", message, b"\n"].concat());
        }
        if self.hint {
            // gzip quotes as the GNU project did once.
            let quote = if family(command) == "gzip" { '`' } else { '\'' };
            text.extend(format!("Try {quote}{name} --help' for more information.\n").into_bytes());
        }
        // Nobody can be told that standard error is closed.
        let _ = std::io::stderr().lock().write_all(&text);
        ExitCode::from(self.status.unwrap_or(status))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.messages.join(&b'\n')))
    }
}
