//! Formats settings as the text of options.

use dio_mount::Settings;
use dio_mount::options::ThrottleSettings;

use super::list;

/// Returns all settings in the form that [`parse_change`](super::parse_change) accepts.
pub fn text_of(settings: &Settings) -> String {
    let mut options = vec![format!("mode={}", settings.rules.default.name())];
    if settings.rules.rules.is_empty() {
        options.push("norules".to_owned());
    }
    for rules in settings.rules.rules.chunk_by(|a, b| a.mode == b.mode) {
        let patterns: Vec<&str> =
            rules.iter().map(|rule| of_pattern(rule.pattern.glob().glob())).collect();
        options.push(format!("{}={}", rules[0].mode.name(), quoted(&patterns.join(":"))));
    }
    let (min, max) = settings.read_ahead;
    for (name, bytes) in [
        ("readahead_min", min),
        ("readahead_max", max),
        ("write_behind", settings.write_behind),
        ("direct_from", settings.direct_from),
        ("limit", settings.limit),
    ] {
        options.push(format!("{name}={}", size(bytes)));
    }
    options.push(if settings.gather { "gather" } else { "nogather" }.to_owned());
    options.push(if settings.native { "native" } else { "nonative" }.to_owned());
    let ThrottleSettings { rate, latency } = settings.throttle;
    options.push(format!("rate={}", size(rate.unwrap_or(0))));
    options.push(format!("latency={}us", latency.unwrap_or_default().as_micros()));
    options.join(",")
}

/// Returns the text of a pattern. A pattern of slashes alone is stored empty, because paths are
/// relative; its text must not be empty.
fn of_pattern(pattern: &str) -> &str {
    if pattern.is_empty() { "/" } else { pattern }
}

/// Quotes patterns that would otherwise be split, lose a blank at an end, or hide what follows. No
/// pattern contains a quotation mark.
fn quoted(patterns: &str) -> String {
    let is_whole = list::split(&format!("{patterns},x")) == [patterns, "x"];
    if is_whole { patterns.to_owned() } else { format!("\"{patterns}\"") }
}

/// Formats a size with the largest suffix that leaves a whole number.
fn size(bytes: u64) -> String {
    let suffixes = [(30, "G"), (20, "M"), (10, "K")];
    let fits = |(power, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << power);
    suffixes
        .into_iter()
        .find(fits)
        .map_or(bytes.to_string(), |(power, suffix)| format!("{}{suffix}", bytes >> power))
}
