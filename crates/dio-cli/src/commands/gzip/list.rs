//! `gzip -l`: lists the contents of compressed files.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::args::GzipArgs;
use crate::codec::CodecTotals;

/// The totals of the rows so far.
#[derive(Debug, Default)]
pub(super) struct Listed {
    rows: usize,
    compressed: u64,
    uncompressed: u64,
    /// Bytes of the header of the last file's first member, which do not count as compressed data.
    header: u64,
}

/// The width of a size.
const WIDTH: usize = 19;

/// Formats how much was saved, in percent with one decimal: `saved` bytes of `original`.
pub(super) fn ratio(saved: i128, original: u64) -> String {
    let part = if original == 0 { 0.0 } else { 100.0 * saved as f64 / original as f64 };
    format!("{part:5.1}%")
}

impl Listed {
    /// Returns the line of a file, with the heading before the first line.
    pub(super) fn row(
        &mut self,
        args: &GzipArgs,
        name: &Path,
        moved: &CodecTotals,
        header: u64,
        mtime: Option<i64>,
    ) -> Vec<u8> {
        let mut text = Vec::new();
        if self.rows == 0 {
            if args.verbose > 0 {
                text.extend_from_slice(b"method  crc     date  time  ");
            }
            if !args.quiet {
                let (compressed, uncompressed) = ("compressed", "uncompressed");
                let _ = writeln!(
                    text,
                    "{compressed:>WIDTH$} {uncompressed:>WIDTH$}  ratio uncompressed_name"
                );
            }
        }
        if args.verbose > 0 {
            let time = mtime.and_then(|seconds| Timestamp::from_second(seconds).ok()).map_or_else(
                || "??? ?? ??:??".to_owned(),
                |time| time.to_zoned(TimeZone::system()).strftime("%b %e %H:%M").to_string(),
            );
            let _ = write!(text, "defla {:08x} {time} ", moved.check.unwrap_or(0));
        }
        let saved = i128::from(moved.written) - (i128::from(moved.read) - i128::from(header));
        let _ = write!(
            text,
            "{:>WIDTH$} {:>WIDTH$} {} ",
            moved.read,
            moved.written,
            ratio(saved, moved.written)
        );
        text.extend_from_slice(name.as_os_str().as_bytes());
        text.push(b'\n');
        self.rows += 1;
        self.compressed += moved.read;
        self.uncompressed += moved.written;
        self.header = header;
        text
    }

    /// Returns the last line, for several operands; `None` if nothing was listed.
    pub(super) fn totals(&self, args: &GzipArgs, operands: usize) -> Option<String> {
        let Listed { compressed, uncompressed, header, .. } = *self;
        if !args.list || args.quiet || operands < 2 || compressed == 0 || uncompressed == 0 {
            return None;
        }
        let saved = i128::from(uncompressed) - (i128::from(compressed) - i128::from(header));
        let indent = if args.verbose > 0 { 28 } else { 0 };
        let ratio = ratio(saved, uncompressed);
        Some(format!(
            "{:indent$}{compressed:>WIDTH$} {uncompressed:>WIDTH$} {ratio} (totals)\n",
            ""
        ))
    }
}
