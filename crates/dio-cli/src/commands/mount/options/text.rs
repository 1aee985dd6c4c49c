//! Settings as the text of options.

use dio_mount::Settings;

use super::list;

/// The settings in the form that [`parse_change`](super::parse_change) reads, complete.
pub fn text_of(settings: &Settings) -> String {
    let mut options = vec![format!("mode={}", settings.rules.default.name())];
    if settings.rules.rules.is_empty() {
        options.push("norules".to_owned());
    }
    for rules in settings.rules.rules.chunk_by(|a, b| a.mode == b.mode) {
        let patterns: Vec<&str> = rules.iter().map(|rule| of_pattern(rule.pattern.glob().glob())).collect();
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
    options.join(",")
}

/// A pattern of slashes alone has lost them, since paths are relative, and would be none.
fn of_pattern(pattern: &str) -> &str {
    if pattern.is_empty() { "/" } else { pattern }
}

/// Patterns in quotes, where they would otherwise be divided, lose a blank at an end, or hide what
/// follows. None has a quote inside.
fn quoted(patterns: &str) -> String {
    let is_whole = list::split(&format!("{patterns},x")) == [patterns, "x"];
    if is_whole { patterns.to_owned() } else { format!("\"{patterns}\"") }
}

/// With the largest suffix that leaves a whole number.
fn size(bytes: u64) -> String {
    let suffixes = [(30, "G"), (20, "M"), (10, "K")];
    let fits = |(power, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << power);
    suffixes.into_iter().find(fits).map_or(bytes.to_string(), |(power, suffix)| format!("{}{suffix}", bytes >> power))
}
