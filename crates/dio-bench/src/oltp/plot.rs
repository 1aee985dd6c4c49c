//! Plots of the time series and of what came out: those of the page of `dio report`.

use std::path::Path;

use super::Report;
use crate::page::study::{Study, plots};
use crate::{BenchError, plot};

/// Writes plots into a directory, which is made; those of figures that nobody measured are left out.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(report: &Report, directory: &Path) -> Result<(), BenchError> {
    let unknown = |error: serde_json::Error| BenchError::Asked(format!("cannot plot the result: {error}"));
    let text = serde_json::to_string(report).map_err(unknown)?;
    plot::write(&plots(&Study::read(&text).map_err(unknown)?, "transactions"), directory)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn plots_have_all_contenders_and_leave_out_what_was_not_measured() {
        let directory = tempfile::tempdir().unwrap();
        write(&report(), directory.path()).unwrap();
        let text = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        let throughput = text("throughput.svg");
        assert!(throughput.starts_with("<svg") && throughput.contains("concurrent") && throughput.contains("raw"));
        assert!(text("share.svg").contains("0.95") && text("share.svg").contains("published 0.92"));
        assert!(text("cpu-concurrent.svg").contains("user") && text("utilisation.svg").contains("<polyline"));
        assert!(text("response-times.svg").contains("<polygon"));
        assert!(!directory.path().join("io-rate.svg").exists(), "nobody counted requests");
    }
}
