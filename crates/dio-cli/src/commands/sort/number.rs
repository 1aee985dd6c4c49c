//! Numbers on the command line, with GNU sort's error messages.

use std::ffi::OsStr;

use crate::grammar::Refusal;
use crate::quote::marked;

/// Reads a decimal number; returns it with the text behind it. A unit without a number counts as
/// one of that unit. The number is `None` if it does not fit in 64 bits.
///
/// # Errors
/// The text does not start with a number.
fn decimal<'t>(
    text: &'t OsStr,
    name: &str,
    units: &[u8],
) -> Result<(Option<u64>, &'t [u8]), Refusal> {
    let bytes = text.as_encoded_bytes();
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let rest = bytes[blanks..].strip_prefix(b"+").unwrap_or(&bytes[blanks..]);
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 && units.contains(bytes.first().unwrap_or(&b' ')) {
        return Ok((Some(1), bytes));
    }
    if count == 0 {
        return Err(Refusal::plain(format!("invalid {name} argument {}", plainly(text))));
    }
    let value = rest[..count].iter().try_fold(0u64, |value, digit| {
        value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')))
    });
    Ok((value, &rest[count..]))
}

/// The text in quotes that do not depend on the locale.
fn plainly(text: &OsStr) -> String {
    format!("'{}'", text.display())
}

fn suffix(text: &OsStr, name: &str) -> Refusal {
    Refusal::plain(format!("invalid suffix in {name} argument {}", plainly(text)))
}

fn too_large(text: &OsStr, name: &str) -> Refusal {
    Refusal::plain(format!("{name} argument {} too large", plainly(text)))
}

/// Letters of units of memory, which are powers of 1024.
const UNITS: &[u8] = b"EgGkKmMPQRtTYZ";

/// Reads the argument of `-S`, given as the option `name`, and returns bytes. Without a unit the
/// number counts KiB.
pub(super) fn memory(text: &OsStr, name: &str, physical: u64) -> Result<u64, Refusal> {
    let (value, rest) = decimal(text, name, UNITS)?;
    let power = match rest {
        b"" => 1,
        b"b" => 0,
        b"%" => {
            let share = value.map(|value| u128::from(value) * u128::from(physical) / 100);
            return share
                .and_then(|share| share.try_into().ok())
                .ok_or_else(|| too_large(text, name));
        }
        [letter] if UNITS.contains(letter) => {
            let at = b"KMGTPEZYRQ".iter().position(|unit| unit.eq_ignore_ascii_case(letter));
            at.expect("the units are these letters") as u32 + 1
        }

        _ => return Err(suffix(text, name)),
    };
    let bytes = value.and_then(|value| match value {
        0 => Some(0),
        _ => value.checked_mul(1024u64.checked_pow(power)?),
    });
    bytes.ok_or_else(|| too_large(text, name))
}

/// Reads the argument of `--parallel`.
pub(super) fn threads(text: &OsStr) -> Result<usize, Refusal> {
    let name = "--parallel";
    match decimal(text, name, b"")? {
        (_, [_, ..]) => Err(suffix(text, name)),
        (Some(0), _) => Err(Refusal::plain("number in parallel must be nonzero")),
        (value, _) => Ok(value.and_then(|value| value.try_into().ok()).unwrap_or(usize::MAX)),
    }
}

/// Reads the argument of `--batch-size`. Its maximum is the limit of descriptors less the three
/// standard ones.
pub(super) fn batch(text: &OsStr) -> Result<usize, Refusal> {
    let name = "--batch-size";
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(i32::MAX as u64);
    let most = most.saturating_sub(3);
    match decimal(text, name, b"")? {
        (_, [_, ..]) => Err(suffix(text, name)),
        (Some(0 | 1), _) => Err(Refusal::plain(format!(
            "invalid {name} argument {}",
            marked(text.as_encoded_bytes())
        ))
        .and(format!("minimum {name} argument is {}", marked("2")))),
        (Some(value), _) if value <= most => Ok(value as usize),
        _ => Err(Refusal::plain(format!(
            "{name} argument {} too large",
            marked(text.as_encoded_bytes())
        ))
        .and(format!("maximum {name} argument with current rlimit is {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_memory() {
        for (text, bytes) in [
            ("0", 0),
            ("5", 5 << 10),
            ("5b", 5),
            (" +5K", 5 << 10),
            ("5k", 5 << 10),
            ("K", 1 << 10),
            ("m", 1 << 20),
            ("2m", 2 << 20),
            ("1G", 1 << 30),
            ("1t", 1 << 40),
            ("3P", 3 << 50),
            ("0Q", 0),
            ("50%", 500),
            ("200%", 2000),
        ] {
            assert_eq!(memory(text.as_ref(), "-S", 1000).unwrap(), bytes, "{text}");
        }
        for text in [
            "",
            "b",
            "%",
            "x",
            "-1",
            "1x",
            "1KB",
            "1p",
            "1e",
            "1%%",
            "1Z",
            "16E",
            "99999999999999999999",
        ] {
            assert!(memory(text.as_ref(), "-S", 1000).is_err(), "{text}");
        }
    }
}
