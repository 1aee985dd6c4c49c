//! The operands, `name=value`, as given on the command line. `plan` decides what they mean
//! together.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::flags::{CONVERSIONS, FLAGS, LEVELS, Level, Set, flag};
use super::number::{self, NumberError};
use crate::grammar::Refusal;
use crate::quote::marked;

/// An amount of blocks, or of bytes if `bytes` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) value: u64,
    pub(super) bytes: bool,
}

/// The given operands. The last of several counts, but symbols add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operands {
    pub(super) input: Option<OsString>,
    pub(super) output: Option<OsString>,
    pub(super) bs: Option<u64>,
    pub(super) ibs: Option<u64>,
    pub(super) obs: Option<u64>,
    pub(super) cbs: Option<u64>,
    pub(super) count: Option<Amount>,
    pub(super) skip: Amount,
    pub(super) seek: Amount,
    pub(super) conv: Set,
    pub(super) iflag: Set,
    pub(super) oflag: Set,
    pub(super) level: Level,
    /// Warnings to print; they are no errors.
    pub(super) warnings: Vec<String>,
}

/// Maximum size of a block: the largest offset less one.
const MOST_BLOCK: u64 = i64::MAX as u64 - 1;
const MOST: u64 = i64::MAX as u64;

/// Parses the operands from left to right, up to the first invalid one.
pub(super) fn parse(operands: &[OsString]) -> Result<Operands, Refusal> {
    let mut given = Operands::default();
    for operand in operands {
        if let Err(refusal) = given.take(operand) {
            return Err(refusal.after(given.warnings));
        }
    }
    Ok(given)
}

impl Operands {
    fn take(&mut self, operand: &OsStr) -> Result<(), Refusal> {
        let unknown =
            || Refusal::usage(format!("unrecognized operand {}", marked(operand.as_bytes())));
        let bytes = operand.as_bytes();
        let at = bytes.iter().position(|&byte| byte == b'=').ok_or_else(unknown)?;
        let (name, value) = (&bytes[..at], OsStr::from_bytes(&bytes[at + 1..]));
        match name {
            b"if" => self.input = Some(value.to_owned()),
            b"of" => self.output = Some(value.to_owned()),
            b"conv" => symbols(value, CONVERSIONS, &mut self.conv, "invalid conversion")?,
            b"iflag" => symbols(value, FLAGS, &mut self.iflag, "invalid input flag")?,
            b"oflag" => {
                symbols(value, FLAGS, &mut self.oflag, "invalid output flag")?;
                if self.oflag.any(flag::FULLBLOCK) {
                    return Err(Refusal::usage(format!(
                        "invalid output flag: {}",
                        marked("fullblock")
                    )));
                }
            }
            b"status" => {
                for symbol in value.as_bytes().split(|&byte| byte == b',') {
                    let level = LEVELS.iter().find(|(name, _)| name.as_bytes() == symbol);
                    self.level =
                        level.ok_or_else(|| unknown_symbol("invalid status level", symbol))?.1;
                }
            }
            b"bs" => self.bs = Some(self.number(value, 1, MOST_BLOCK)?.value),
            b"ibs" => self.ibs = Some(self.number(value, 1, MOST_BLOCK)?.value),
            b"obs" => self.obs = Some(self.number(value, 1, MOST_BLOCK)?.value),
            b"cbs" => self.cbs = Some(self.number(value, 1, MOST)?.value),
            b"count" => self.count = Some(self.number(value, 0, MOST)?),
            b"skip" | b"iseek" => self.skip = self.number(value, 0, MOST)?,
            b"seek" | b"oseek" => self.seek = self.number(value, 0, MOST)?,
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn number(&mut self, text: &OsStr, min: u64, max: u64) -> Result<Amount, Refusal> {
        let invalid = || Refusal::plain(format!("invalid number: {}", marked(text.as_bytes())));
        let number = number::parse(text.as_bytes(), max).map_err(|error| match error {
            NumberError::Invalid => invalid(),
            NumberError::TooLarge => {
                Refusal::plain(format!("{}: Value too large for defined data type", invalid()))
            }
        })?;
        if number.zero_multiplier {
            let (zero, two) = (marked("0x"), marked("00x"));
            self.warnings.push(format!(
                "warning: {zero} is a zero multiplier; use {two} if that is intended"
            ));
        }
        if number.value < min {
            Err(invalid())
        } else {
            Ok(Amount { value: number.value, bytes: number.bytes })
        }
    }
}

/// Adds the symbols of a list.
fn symbols(
    list: &OsStr,
    known: &[(&str, Set)],
    into: &mut Set,
    wrong: &str,
) -> Result<(), Refusal> {
    for symbol in list.as_bytes().split(|&byte| byte == b',') {
        let found = known.iter().find(|(name, _)| name.as_bytes() == symbol);
        into.insert(found.ok_or_else(|| unknown_symbol(wrong, symbol))?.1);
    }
    Ok(())
}

fn unknown_symbol(wrong: &str, symbol: &[u8]) -> Refusal {
    Refusal::usage(format!("{wrong}: {}", marked(symbol)))
}

#[cfg(test)]
mod tests {
    use super::super::flags::conv;
    use super::*;

    fn given(line: &str) -> Result<Operands, Refusal> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_operand_counts_and_symbols_add_up() {
        let all = given(
            "bs=3 bs=4 conv=swab conv=sync,lcase status=progress status=none count=3B iseek=2",
        )
        .unwrap();
        assert_eq!((all.bs, all.level, all.skip.value), (Some(4), Level::None, 2));
        assert_eq!(all.count, Some(Amount { value: 3, bytes: true }));
        assert_eq!(all.conv, conv::SWAB.and(conv::SYNC).and(conv::LCASE));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, message, usage) in [
            ("foo", "unrecognized operand", true),
            ("f=1", "unrecognized operand", true),
            ("conv=lcase,", "invalid conversion", true),
            ("iflag=text", "invalid input flag", true),
            ("oflag=fullblock", "invalid output flag", true),
            ("status=all", "invalid status level", true),
            ("bs=0", "invalid number", false),
            ("count=-1 status=foo", "invalid number", false),
        ] {
            let wrong = given(line).unwrap_err();
            assert!(wrong.to_string().starts_with(message), "{wrong:?}");
            assert_eq!(wrong.hint, usage, "{line}");
        }
        assert_eq!(given("count=0x1 bs=0").unwrap_err().to_string().lines().count(), 2);
    }
}
