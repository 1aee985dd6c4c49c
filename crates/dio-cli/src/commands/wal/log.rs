//! The log that a command works on: its location, and the text of its errors.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio_wal::storage::{Directory, Storage};
use dio_wal::{Lsn, Method, WalError};

use crate::commands::words;
use crate::quote::quoted;

/// The log, or the work done with it, is sound.
pub(super) const SOUND: u8 = 0;
/// The log is damaged, or records are missing.
pub(super) const DAMAGED: u8 = 1;
/// The command could not do its work.
pub(super) const TROUBLE: u8 = 2;

/// Where the log is, and how it is read.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Directory of the log
    #[arg(value_name = "DIR")]
    pub(super) directory: PathBuf,

    /// Read through the page cache; otherwise past it, where the file system can
    #[arg(long)]
    pub(super) cached: bool,
}

impl LogArgs {
    pub(super) fn storage(&self) -> Result<Arc<dyn Storage>, CommandError> {
        open(&self.directory, !self.cached)
    }

    /// Wraps an error of the log together with its directory.
    pub(super) fn failed(&self) -> impl Fn(WalError) -> CommandError + '_ {
        |source| CommandError::Log { directory: self.directory.clone(), source }
    }
}

pub(super) fn open(path: &Path, direct: bool) -> Result<Arc<dyn Storage>, CommandError> {
    let directory = Directory::open(path, direct, Method::Fdatasync);
    let directory = directory.map_err(CommandError::system("open", path))?;
    Ok(Arc::new(directory))
}

/// The reason for which a command ends early.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("{}", explain(.directory, .source))]
    Log { directory: PathBuf, source: WalError },
    #[error("cannot {operation} {}: {}", quoted(.path), words(.source))]
    System { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {}", words(.0))]
    Standard(io::Error),
    #[error("{0}")]
    Other(String),
}

impl CommandError {
    pub(super) fn system(
        operation: &'static str,
        path: &Path,
    ) -> impl Fn(io::Error) -> CommandError {
        let path = path.to_owned();
        move |source| CommandError::System { operation, path: path.clone(), source }
    }

    pub(super) fn status(&self) -> u8 {
        match self {
            CommandError::Log { source, .. } if is_damage(source) => DAMAGED,
            _ => TROUBLE,
        }
    }
}

/// Whether the error says that records are missing which existed.
pub(super) fn is_damage(error: &WalError) -> bool {
    matches!(error, WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. })
}

/// Describes an error of a log, with its position and, where possible, the remedy.
pub(super) fn explain(directory: &Path, error: &WalError) -> String {
    let at = quoted(directory);
    match error {
        WalError::Io { source, name, .. }
            if source.kind() == io::ErrorKind::NotFound && name == "." =>
        {
            format!("{at} holds no log: there are no segments in it")
        }
        WalError::Io { operation, name, offset, source } => {
            let path = if name == "." { directory.to_owned() } else { directory.join(name) };
            let offset = offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
            format!("cannot {operation} {}{offset}: {}", quoted(path), words(&**source))
        }
        WalError::Damaged { segment, offset, lsn, durable } => {
            let path = directory.join(segment);
            format!(
                "the log is damaged in {} at byte {offset}: LSN {lsn} cannot be read, and up to \
                 LSN {durable} it was durable ('dio wal salvage' takes what is sound)",
                quoted(path)
            )
        }
        WalError::Missing { segment, offset, lsn } => {
            let path = directory.join(segment);
            format!(
                "segment {} is missing, and with it the log from its byte {offset} (LSN {lsn}) on \
                 ('dio wal salvage' takes what is sound)",
                quoted(path)
            )
        }
        WalError::Header { segment, fault } => {
            let path = directory.join(segment);
            let offset = fault.offset();
            format!(
                "{} is not a segment of this log: {fault}, at byte {offset} ('dio wal salvage' \
                 takes what is sound)",
                quoted(path)
            )
        }
        WalError::Truncated { lsn, start } => {
            format!(
                "LSN {lsn} of {at} was truncated: the log starts at LSN {start} (ask for that, or \
                 a later one)"
            )
        }
        WalError::InUse => format!("{at} is in use by a program that writes to it"),
        other => format!("{at}: {other}"),
    }
}

/// Parses a log sequence number: decimal, or hexadecimal after `0x`.
pub(super) fn parse_lsn(text: &str) -> Result<Lsn, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map(Lsn).map_err(|_| "an LSN is a number, decimal or with 0x in front".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_numbers() {
        assert_eq!(parse_lsn("17"), Ok(Lsn(17)));
        assert_eq!(parse_lsn("0xff"), Ok(Lsn(255)));
        for wrong in ["", "-1", "0x", "1K", "18446744073709551616"] {
            assert!(parse_lsn(wrong).is_err(), "{wrong}");
        }
    }
}
