//! The parts that all stored texts share: lines of keys and values, the checksum, and escaped
//! paths.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Why a stored text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// It is no such text: it begins differently.
    #[error("it is none")]
    Foreign,
    /// It has a version that this program does not support.
    #[error("it is of version {0}, which this program does not know")]
    Version(String),
    /// Its checksum is wrong, or it is cut off.
    #[error("it is damaged: its checksum is wrong")]
    Damaged,
    /// It is complete, but followed by more bytes.
    #[error("it is damaged: something was written behind it")]
    Longer,
    /// It is complete, but its contents are invalid.
    #[error("it makes no sense: {0}")]
    Senseless(&'static str),
    /// The names of the targets do not fit into it.
    #[error("the names of the targets are too long together")]
    TooLong,
}

pub(in crate::stripe) fn push(text: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{key} {value}");
}

/// Adds the checksum and the padding.
pub(in crate::stripe) fn seal(mut text: String, len: u64) -> Result<Vec<u8>, FormatError> {
    let sum = crc32c::crc32c(text.as_bytes());
    push(&mut text, "sum", format_args!("{sum:08x}"));
    let mut bytes = text.into_bytes();
    if bytes.len() as u64 > len {
        return Err(FormatError::TooLong);
    }
    bytes.resize(len as usize, b'\n');
    Ok(bytes)
}

/// The version in the first line of a text that begins with `magic`.
pub(in crate::stripe) fn version_in<'a>(bytes: &'a [u8], magic: &str) -> Option<&'a str> {
    let rest = bytes.strip_prefix(magic.as_bytes())?;
    std::str::from_utf8(rest.split(|byte| *byte == b'\n').next()?).ok()
}

/// Checks the first line and the checksum. Returns the keys and values between them.
pub(in crate::stripe) fn fields<'a>(
    bytes: &'a [u8],
    magic: &str,
    known: u32,
    len: u64,
) -> Result<Vec<(&'a str, &'a str)>, FormatError> {
    if !bytes.starts_with(magic.as_bytes()) {
        return Err(FormatError::Foreign);
    }
    if bytes.len() as u64 != len {
        return Err(FormatError::Damaged);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::Damaged)?;
    let (first, _) = text.split_once('\n').ok_or(FormatError::Damaged)?;
    let version = &first[magic.len()..];
    if version != known.to_string() {
        // In other versions only the first line is known to have this meaning.
        let is_number = !version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit());
        return Err(if is_number {
            FormatError::Version(version.to_owned())
        } else {
            FormatError::Damaged
        });
    }
    let (body, rest) = text.split_once("\nsum ").ok_or(FormatError::Damaged)?;
    let sealed = &bytes[..body.len() + 1];
    let (sum, padding) = rest.split_once('\n').ok_or(FormatError::Damaged)?;
    let sound = sum == format!("{:08x}", crc32c::crc32c(sealed))
        && padding.bytes().all(|byte| byte == b'\n');
    if !sound {
        return Err(FormatError::Damaged);
    }
    let lines = body.lines().skip(1).filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').ok_or(FormatError::Senseless("a line without a value")))
        .collect()
}

pub(in crate::stripe) fn number(text: &str) -> Result<u64, FormatError> {
    text.parse().map_err(|_| FormatError::Senseless("a number"))
}

pub(in crate::stripe) fn escape(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => text.push_str("%25"),
            b'!'..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text
}

pub(in crate::stripe) fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}
