//! How `dio advise` complains, and where it writes its reports.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

pub(super) fn complain(text: &str) {
    // Files are put back also where nobody reads this any more.
    let _ = writeln!(io::stderr(), "dio advise: {text}");
}

/// Writes a report, as text or as JSON, to the file that was asked for, or to `otherwise`.
pub(super) fn write_report(
    report: &(impl Serialize + ToString),
    json: bool,
    output: Option<&PathBuf>,
    mut otherwise: impl Write,
) -> io::Result<()> {
    let text = match json {
        true => serde_json::to_string_pretty(report)? + "\n",
        false => report.to_string(),
    };
    match output {
        Some(path) => std::fs::write(path, text),
        None => otherwise.write_all(text.as_bytes()).and_then(|()| otherwise.flush()),
    }
}
