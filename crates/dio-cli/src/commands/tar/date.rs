//! Dates on the command line (`--mtime`, `-N`), given as text or as a file that has the date.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::format::Time;
use super::quoting::escaped;
use super::terms::fatal;
use crate::grammar::Refusal;
use crate::quote::{marked, words};

/// A time: seconds since 1970 and nanoseconds, from 0 to 999,999,999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// Seconds, negative before 1970.
    pub(super) seconds: i64,
    /// Nanoseconds after them.
    pub(super) nanoseconds: u32,
}

/// A date that the command line gives as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    option: &'static str,
    text: OsString,
    moment: Moment,
}

impl Written {
    /// Returns the date of an option, or `None` if `text` names a file.
    pub(super) fn of(option: &'static str, text: &OsStr, moment: Moment) -> Option<Written> {
        (!is_file(text)).then(|| Written { option, text: text.to_owned(), moment })
    }

    /// The message with which GNU tar shows how it understood the date, or `None` if the text
    /// already has that form.
    pub(super) fn understood(&self, utc: bool) -> Option<String> {
        let Written { option, text, moment } = self;
        let time = Time { seconds: moment.seconds, nanos: moment.nanoseconds };
        let meant = shown(&zone(utc), time, true);
        (*text != *meant).then(|| {
            format!("Option {option}: Treating date '{}' as {meant}", text.to_string_lossy())
        })
    }
}

fn is_file(text: &OsStr) -> bool {
    matches!(text.as_bytes().first(), Some(b'/' | b'.'))
}

/// Parses a date: `@SECONDS`, an ISO 8601 date with or without a time and a zone, `now`, or the
/// name of a file (beginning with `/` or `.`), which stands for its modification time. GNU tar
/// accepts more formats, and takes the year −292 billion for a text that it does not understand;
/// here that is an error.
///
/// # Errors
/// The text is no date; `stat(2)` of the file fails.
pub(super) fn parse(text: &OsStr) -> Result<Moment, Refusal> {
    if is_file(text) {
        let stat = rustix::fs::stat(text);
        let stat = stat.map_err(|errno| {
            fatal(format!("{}: Cannot stat: {}", escaped(text.as_bytes()), words(errno)))
        })?;
        return Ok(Moment { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 });
    }
    let unknown = || Refusal::plain(format!("unknown date format {}", marked(text.as_bytes())));
    let text = text.to_str().map(str::trim).ok_or_else(unknown)?;
    match text.strip_prefix('@') {
        Some(seconds) => since_1970(seconds),
        None => moment(text),
    }
    .ok_or_else(unknown)
}

fn of(timestamp: Timestamp) -> Option<Moment> {
    let nanoseconds = timestamp.as_nanosecond();
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
    Some(Moment { seconds, nanoseconds: nanoseconds.rem_euclid(1_000_000_000) as u32 })
}

fn moment(text: &str) -> Option<Moment> {
    if text == "now" {
        return of(Timestamp::now());
    }
    let zulu = text.strip_suffix(" UTC").map(|time| format!("{}Z", time.replacen(' ', "T", 1)));
    let timestamp = text.parse::<Timestamp>().ok();
    if let Some(timestamp) = timestamp.or_else(|| zulu?.parse().ok()) {
        return of(timestamp);
    }
    let civil: DateTime = match text.parse::<DateTime>() {
        Ok(time) => time,
        Err(_) => text.parse::<Date>().ok()?.at(0, 0, 0, 0),
    };
    of(civil.to_zoned(TimeZone::system()).ok()?.timestamp())
}

/// Parses `SECONDS[.FRACTION]`.
fn since_1970(text: &str) -> Option<Moment> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once(['.', ',']).unwrap_or((digits, ""));
    if whole.is_empty()
        || !(whole.bytes().chain(fraction.bytes())).all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanoseconds: u32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(match (negative, nanoseconds) {
        (false, _) => Moment { seconds, nanoseconds },
        (true, 0) => Moment { seconds: -seconds, nanoseconds },
        (true, _) => Moment { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

/// The time zone in which times are shown.
pub(super) fn zone(utc: bool) -> TimeZone {
    if utc { TimeZone::UTC } else { TimeZone::system() }
}

/// Formats a time in a zone; with `full`, to its last digit. A time beyond all calendars is given
/// in seconds since 1970.
pub(super) fn shown(zone: &TimeZone, time: Time, full: bool) -> String {
    let Ok(stamp) = Timestamp::new(time.seconds, 0) else { return time.seconds.to_string() };
    let local = zone.to_datetime(stamp);
    let day = format!(
        "{:04}-{:02}-{:02} {:02}:{:02}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute()
    );
    if !full {
        return day;
    }
    let mut full = format!("{day}:{:02}", local.second());
    if time.nanos != 0 {
        full.push_str(format!(".{:09}", time.nanos).trim_end_matches('0'));
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        let read = |text: &str| {
            parse(OsStr::new(text)).ok().map(|moment| (moment.seconds, moment.nanoseconds))
        };
        assert_eq!(read("@0"), Some((0, 0)));
        assert_eq!(read("@1700000000.25"), Some((1_700_000_000, 250_000_000)));
        assert_eq!(read("@-1.5"), Some((-2, 500_000_000)));
        assert_eq!(read("2020-01-02T03:04:05Z"), Some((1_577_934_245, 0)));
        assert_eq!(read("2020-01-02 03:04:05 UTC"), Some((1_577_934_245, 0)));
        assert_eq!(read("2020-01-02 03:04:05+01:00"), Some((1_577_930_645, 0)));
        assert!(read("2020-01-02").is_some() && read("2020-01-02 03:04:05").is_some());
        assert_eq!((read("foo"), read("@x"), read("")), (None, None, None));
        assert!(read("/").is_some() && read("/nothing here").is_none());
    }

    #[test]
    fn times_are_full_where_they_are_wanted() {
        let moment = Time { seconds: -1, nanos: 120_000_000 };
        assert_eq!(shown(&TimeZone::UTC, moment, false), "1969-12-31 23:59");
        assert_eq!(shown(&TimeZone::UTC, moment, true), "1969-12-31 23:59:59.12");
        let never = Time { seconds: i64::MAX, nanos: 0 };
        assert_eq!(shown(&TimeZone::UTC, never, false), i64::MAX.to_string());
    }
}
