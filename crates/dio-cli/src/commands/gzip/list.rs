//! `gzip -l`: what is in compressed files.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Fatal, Run};
use crate::codec::Moved;
use crate::quote::as_shown_on;

/// What was listed so far.
#[derive(Debug, Default)]
pub(super) struct Listed {
    rows: usize,
    compressed: u64,
    uncompressed: u64,
    /// Bytes of the header of the last first member, which does not count as compressed data.
    header: u64,
}

/// The width of a size.
const WIDTH: usize = 19;

/// How much smaller it is, in percent with a place: of `original`, `saved` are gone.
pub(super) fn ratio(saved: i128, original: u64) -> String {
    let part = if original == 0 { 0.0 } else { 100.0 * saved as f64 / original as f64 };
    format!("{part:5.1}%")
}

impl Listed {
    /// A line for a file, and the heading before the first.
    pub(super) fn row(run: &mut Run, name: &Path, moved: &Moved, header: u64, mtime: Option<i64>) -> Result<(), Fatal> {
        let mut text = Vec::new();
        if run.listed.rows == 0 {
            if run.verbose() {
                text.extend_from_slice(b"method  crc     date  time  ");
            }
            if !run.quiet() {
                let (compressed, uncompressed) = ("compressed", "uncompressed");
                let _ = writeln!(text, "{compressed:>WIDTH$} {uncompressed:>WIDTH$}  ratio uncompressed_name");
            }
        }
        if run.verbose() {
            let time = mtime.and_then(|seconds| Timestamp::from_second(seconds).ok()).map_or_else(
                || "??? ?? ??:??".to_owned(),
                |time| time.to_zoned(TimeZone::system()).strftime("%b %e %H:%M").to_string(),
            );
            let _ = write!(text, "defla {:08x} {time} ", moved.check.unwrap_or(0));
        }
        let saved = i128::from(moved.written) - (i128::from(moved.read) - i128::from(header));
        let _ = write!(text, "{:>WIDTH$} {:>WIDTH$} {} ", moved.read, moved.written, ratio(saved, moved.written));
        text.extend_from_slice(name.as_os_str().as_bytes());
        text.push(b'\n');
        run.listed.rows += 1;
        run.listed.compressed += moved.read;
        run.listed.uncompressed += moved.written;
        run.listed.header = header;
        run.print(&text)
    }

    /// The last line, for several operands.
    pub(super) fn totals(&self, run: &Run, operands: usize) -> Result<(), Fatal> {
        let Listed { compressed, uncompressed, header, .. } = *self;
        if !run.args.list || run.quiet() || operands < 2 || compressed == 0 || uncompressed == 0 {
            return Ok(());
        }
        let saved = i128::from(uncompressed) - (i128::from(compressed) - i128::from(header));
        let indent = if run.verbose() { 28 } else { 0 };
        let ratio = ratio(saved, uncompressed);
        run.print(format!("{:indent$}{compressed:>WIDTH$} {uncompressed:>WIDTH$} {ratio} (totals)\n", "").as_bytes())
    }
}

impl Run {
    fn print(&self, text: &[u8]) -> Result<(), Fatal> {
        self.tool.print(&as_shown_on(&std::io::stdout(), text)).map_err(|error| {
            self.output_failed(crate::tool::errno_of(&error));
            Fatal
        })
    }
}
