//! The time series of runs as CSV.

use std::fmt::Write;

use super::{ContenderRow, Point};
use crate::plot::csv_line;

/// Names of the columns.
const COLUMNS: &str = "storage,round,seconds,phase,tps,device_reads_per_second,device_writes_per_second,\
    device_bytes_per_second,utilisation,user,system,iowait,idle,steal\n";

/// The time series of all runs, a line for each slot.
pub(crate) fn csv(rows: &[ContenderRow]) -> String {
    beside("", [("", rows)])
}

/// The time series of several parts, with additional columns in front. `names` are the names of
/// these columns. Each part comes with the text that its lines begin with.
pub(crate) fn beside<'a>(
    names: &str,
    parts: impl IntoIterator<Item = (&'a str, &'a [ContenderRow])>,
) -> String {
    let mut text = format!("{names}{COLUMNS}");
    for (before, rows) in parts {
        for row in rows {
            for (round, run) in row.runs.iter().enumerate() {
                for point in &run.points {
                    let _ = write!(
                        text,
                        "{before}{}",
                        csv_line(&slot(row.contender.name(), round, point))
                    );
                }
            }
        }
    }
    text
}

/// The fields of one slot of a contender in a round (from 0), in the order of [`COLUMNS`].
fn slot(name: &str, round: usize, point: &Point) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let used = &point.used;
    let mut fields =
        vec![name.to_owned(), (round + 1).to_string(), format!("{:.3}", point.seconds)];
    fields.extend([point.phase.name().to_owned(), format!("{:.2}", point.tps)]);
    let device =
        [used.device_reads_per_second, used.device_writes_per_second, used.device_bytes_per_second];
    fields.extend(device.map(shown));
    fields.push(shown(used.utilisation));
    let parts = [used.user, used.system, used.iowait, used.idle, used.steal];
    fields.extend(parts.map(|part| format!("{part:.4}")));
    fields
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::rows;
    use crate::study::section::tests::report;

    #[test]
    fn the_series_has_a_line_for_each_slot_and_as_many_fields_as_headings() {
        let csv = super::csv(&rows());
        let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(fields, vec![14; 1 + 2 * 3 * 5]);
        assert!(csv.contains("\nconcurrent,3,5.000,steady,505.00,,,,0.5000,0.2500,"), "{csv}");
        let csv = super::csv(&report().rows);
        assert!(
            csv.lines().all(|line| line.split(',').count() == 14)
                && csv.lines().count() == 1 + 3 * 2 * 2
        );
        assert!(csv.contains("\nconcurrent,2,2.000,steady,2000.00,,,,0.7500,0.5000,"), "{csv}");
    }
}
