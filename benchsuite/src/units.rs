//! Sizes as people write them.

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Bytes of `4096`, `512K`, `256M` or `4G` (powers of 1024).
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" | "k" | "KiB" => KIB,
        "M" | "MiB" => MIB,
        "G" | "GiB" => GIB,
        other => return Err(format!("unknown unit '{other}': use K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|e| format!("'{digits}': {e}"))?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0).ok_or_else(|| format!("'{text}' is not a usable size"))
}

/// The shortest exact way to write `bytes`, the inverse of [`parse_size`].
pub(crate) fn size_text(bytes: u64) -> String {
    for (unit, letter) in [(GIB, "G"), (MIB, "M"), (KIB, "K")] {
        if bytes >= unit && bytes % unit == 0 {
            return format!("{}{letter}", bytes / unit);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::{parse_size, size_text};

    #[test]
    fn sizes_go_both_ways() {
        for (text, bytes) in [("1", 1), ("512K", 512 << 10), ("256M", 256 << 20), ("4G", 4 << 30), ("1025", 1025)] {
            assert_eq!(parse_size(text), Ok(bytes));
            assert_eq!(size_text(bytes), text);
        }
        for wrong in ["", "G", "0", "4T", "-1", "99999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
