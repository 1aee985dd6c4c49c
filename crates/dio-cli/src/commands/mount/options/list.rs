//! Splits the list of options, and parses the options that a running mount can change.

use std::path::PathBuf;
use std::time::Duration;

use dio_common::time::parse_time;
use dio_mount::options::{Rule, ThrottleSettings};
use dio_mount::{Mode, Settings};

use super::option::OptionError;
use super::pattern;
use crate::size::{parse_rate, parse_size};

/// Splits at commas, except within quotes or braces: `cio=*.{ibd,dbf},context="a,b"`. Empty options
/// are dropped.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut quoted, mut depth) = (false, 0_usize);
    let at_comma = |c: char| {
        match c {
            '"' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && !quoted && depth == 0
    };
    text.split(at_comma).map(str::trim).filter(|option| !option.is_empty()).collect()
}

/// Returns the name and the value, without quotes around the value.
pub(super) fn parts(option: &str) -> (&str, Option<&str>) {
    let Some((name, value)) = option.split_once('=') else { return (option, None) };
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    (name, Some(bare.unwrap_or(value)))
}

/// Returns true if there is no value.
pub(super) fn without(name: &str, value: Option<&str>) -> Result<bool, OptionError> {
    match value {
        None => Ok(true),
        Some(_) => Err(OptionError::HasValue { option: name.to_owned() }),
    }
}

/// Returns the value, which is required.
pub(super) fn needed<'a>(
    name: &str,
    value: Option<&'a str>,
    example: &'static str,
) -> Result<&'a str, OptionError> {
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| OptionError::NoValue { option: name.to_owned(), example })
}

/// Returns the value as an absolute path; the server runs in the root directory.
pub(super) fn absolute(name: &str, value: Option<&str>) -> Result<PathBuf, OptionError> {
    let value = needed(name, value, "/run/dio/db.prom")?;
    if value.starts_with('/') {
        Ok(value.into())
    } else {
        Err(invalid(name, value, "a path that begins with /"))
    }
}

pub(super) fn invalid(name: &str, value: &str, possible: &'static str) -> OptionError {
    OptionError::Value { option: name.to_owned(), value: value.to_owned(), possible }
}

/// Returns the mode of that name, in the terms of JFS2 or in plain ones.
fn mode(word: &str) -> Option<Mode> {
    match word {
        "dio" | "direct" => Some(Mode::Direct),
        "cio" | "concurrent" => Some(Mode::Concurrent),
        "cached" => Some(Mode::Cached),
        "auto" | "hybrid" => Some(Mode::Auto),
        _ => None,
    }
}

/// Changes of settings whose old values are not known yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    default: Option<Mode>,
    /// `None` if no option concerns rules.
    rules: Option<Vec<Rule>>,
    read_ahead_min: Option<u64>,
    read_ahead_max: Option<u64>,
    write_behind: Option<u64>,
    direct_from: Option<u64>,
    limit: Option<u64>,
    gather: Option<bool>,
    native: Option<bool>,
    rate: Option<Option<u64>>,
    latency: Option<Option<Duration>>,
}

impl Changes {
    /// Takes an option; returns false if it is not a setting.
    pub(super) fn take(&mut self, name: &str, value: Option<&str>) -> Result<bool, OptionError> {
        match (mode(name), value) {
            (Some(mode), None) => self.set_default(mode),
            (Some(mode), Some(patterns)) => self.add_rules(name, mode, patterns)?,
            (None, _) => return self.take_number(name, value),
        }
        Ok(true)
    }

    fn take_number(&mut self, name: &str, value: Option<&str>) -> Result<bool, OptionError> {
        match name {
            "mode" => {
                let word = needed(name, value, "concurrent")?;
                let possible = "direct, concurrent, cached, auto";
                self.default = Some(mode(word).ok_or_else(|| invalid(name, word, possible))?);
            }
            "norules" => {
                without(name, value)?;
                self.rules = Some(Vec::new());
            }
            "gather" => self.gather = Some(without(name, value)?),
            "nogather" => self.gather = Some(!without(name, value)?),
            "native" => self.native = Some(without(name, value)?),
            "nonative" => self.native = Some(!without(name, value)?),
            "readahead_min" => self.read_ahead_min = Some(size(name, value)?),
            "readahead_max" => self.read_ahead_max = Some(size(name, value)?),
            "write_behind" => self.write_behind = Some(size(name, value)?),
            "direct_from" => self.direct_from = Some(size(name, value)?),
            "limit" => self.limit = Some(size(name, value)?),
            "rate" => self.rate = Some(rate(name, value)?),
            "latency" => self.latency = Some(latency(name, value)?),
            "profile" => self.set_profile(needed(name, value, PROFILES[0].name)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the options of a profile. Options that stand behind it change them.
    fn set_profile(&mut self, name: &str) -> Result<(), OptionError> {
        let profile = PROFILES.iter().find(|profile| profile.name == name);
        let profile = profile.ok_or_else(|| invalid("profile", name, "backup"))?;
        // A mode that stands before it is replaced too.
        self.default = None;
        for option in split(profile.options) {
            let (name, value) = parts(option);
            let is_known = self.take(name, value)?;
            debug_assert!(is_known, "profiles consist of settings");
        }
        Ok(())
    }

    /// Concurrent I/O implies direct I/O and overrides it, in either order.
    fn set_default(&mut self, mode: Mode) {
        if (self.default, mode) != (Some(Mode::Concurrent), Mode::Direct) {
            self.default = Some(mode);
        }
    }

    fn add_rules(&mut self, name: &str, mode: Mode, patterns: &str) -> Result<(), OptionError> {
        let patterns = needed(name, Some(patterns), "'*.ibd'")?;
        let rules = self.rules.get_or_insert_default();
        for pattern in patterns.split(':').filter(|pattern| !pattern.is_empty()) {
            rules.push(Rule { pattern: pattern::read(name, pattern)?, mode });
        }
        Ok(())
    }

    /// Returns the settings with the changes. If a new maximum of the read-ahead is below the
    /// minimum, the minimum follows it.
    pub(super) fn apply(self, mut settings: Settings) -> Result<Settings, OptionError> {
        let set = |to: &mut u64, value: Option<u64>| *to = value.unwrap_or(*to);
        settings.rules.default = self.default.unwrap_or(settings.rules.default);
        settings.rules.rules = self.rules.unwrap_or(settings.rules.rules);
        set(&mut settings.write_behind, self.write_behind);
        set(&mut settings.direct_from, self.direct_from);
        set(&mut settings.limit, self.limit);
        settings.gather = self.gather.unwrap_or(settings.gather);
        settings.native = self.native.unwrap_or(settings.native);
        let ThrottleSettings { rate, latency } = &mut settings.throttle;
        *rate = self.rate.unwrap_or(*rate);
        *latency = self.latency.unwrap_or(*latency);
        let (min, max) = &mut settings.read_ahead;
        set(max, self.read_ahead_max);
        match self.read_ahead_min {
            Some(wanted) if wanted > *max && self.read_ahead_max.is_some() => {
                return Err(OptionError::ReadAhead { min: wanted, max: *max });
            }
            // A new minimum above the old maximum moves the maximum.
            Some(wanted) => (*min, *max) = (wanted, wanted.max(*max)),
            None => *min = (*min).min(*max),
        }
        Ok(settings)
    }
}

/// A name for several options.
struct Profile {
    name: &'static str,
    options: &'static str,
}

/// The profiles.
///
/// A backup reads each file once and writes new ones. In the mode `auto` its writers would go
/// through the page cache, and leave as much there as a slow disk has not written yet.
const PROFILES: &[Profile] = &[Profile { name: "backup", options: "direct,limit=64M" }];

/// Parses a rate in bytes per second; 0 means none.
fn rate(name: &str, value: Option<&str>) -> Result<Option<u64>, OptionError> {
    const LEAST: u64 = ThrottleSettings::RATE_MIN;
    let value = needed(name, value, "100M")?;
    match parse_rate(value) {
        _ if value == "0" => Ok(None),
        Ok(..LEAST) => Err(invalid(name, value, "256K or more, or 0 for none")),
        Ok(rate) => Ok(Some(rate)),
        Err(error) => {
            Err(OptionError::Size { option: name.to_owned(), value: value.to_owned(), error })
        }
    }
}

/// Parses a latency; 0 means none.
fn latency(name: &str, value: Option<&str>) -> Result<Option<Duration>, OptionError> {
    let value = needed(name, value, "5ms")?;
    let time = parse_time(value)
        .map_err(|_| invalid(name, value, "a time such as 500us or 5ms, or 0 for none"))?;
    Ok(Some(time).filter(|time| !time.is_zero()))
}

/// Parses a size in bytes; 0 is allowed.
fn size(name: &str, value: Option<&str>) -> Result<u64, OptionError> {
    let value = needed(name, value, "8M")?;
    parse_size(value).map_err(|error| OptionError::Size {
        option: name.to_owned(),
        value: value.to_owned(),
        error,
    })
}
