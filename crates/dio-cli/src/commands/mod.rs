//! One module for each command: its flags, and what it does.

pub mod bench;
pub mod cache;
pub mod cp;
pub mod probe;

/// The kernel's words for an error, without its number.
pub(crate) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// A number of bytes as people read it: exact up to 1023, then three digits and a binary unit.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024 goes to the next unit.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.95 { 1 } else { 0 };
    let number = format!("{value:.decimals$}");
    format!("{} {}", number.trim_end_matches(".0"), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_or_short() {
        assert_eq!(human_size(0), "0 B");
        assert_eq!(human_size(1023), "1023 B");
        assert_eq!(human_size(4096), "4 KiB");
        assert_eq!(human_size(1536), "1.5 KiB");
        assert_eq!(human_size(1024 * 1024 - 1), "1 MiB");
        assert_eq!(human_size(1280 * 1024), "1.2 MiB");
        assert_eq!(human_size((2 << 40) - 4096), "2 TiB");
        assert_eq!(human_size(u64::MAX), "16 EiB");
    }

    #[test]
    fn words_have_no_number() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(words(&error), "No such file or directory");
        let own = std::io::Error::other("no number here");
        assert_eq!(words(&own), "no number here");
    }
}
