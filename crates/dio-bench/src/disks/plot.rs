//! Plots: throughput and processors' time over the number of disks, a line for each way.

use std::path::Path;

use super::{Direction, Report, Row, Way};
use crate::plot::{Axis, Kind, Lines, Plot, Series};
use crate::quantity::Unit;
use crate::{BenchError, plot};

/// Colours of the ways, those that cached and direct have in other plots.
fn tone(way: Way) -> usize {
    match way {
        Way::Cached => 1,
        Way::Direct => 4,
        Way::Raw => 0,
    }
}

/// A figure of each direction that was measured, over the number of disks.
fn over_disks(report: &Report, name: &str, y: Unit, about: &str, figure: fn(&Row) -> f64) -> Vec<Plot> {
    let of = |direction: Direction| {
        let series = |way: Way| {
            let rows = report.rows.iter().filter(|row| row.case.direction == direction && row.case.way == way);
            let mut points: Vec<(f64, f64)> = rows.map(|row| (row.case.targets as f64, figure(row))).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            Series { name: way.name().to_owned(), tone: tone(way), points }
        };
        let series: Vec<Series> = Way::ALL.map(series).into_iter().filter(|line| !line.points.is_empty()).collect();
        let kind =
            Lines { x: Axis { unit: Unit::Count, logarithmic: false }, y, bands: Vec::new(), series, filled: false };
        let title = format!("{} {}, by disks", direction.name(), name);
        (!kind.series.is_empty()).then(|| Plot {
            name: format!("{name}-{}", direction.name()),
            title: title[..1].to_uppercase() + &title[1..],
            about: about.to_owned(),
            kind: Kind::Lines(kind),
        })
    };
    Direction::ALL.into_iter().filter_map(of).collect()
}

/// All plots of a report.
pub fn plots(report: &Report) -> Vec<Plot> {
    let rate = "Medians over the number of disks; each disk has the same limit.";
    let busy = "Part of all processors' time, the kernel's threads included: at the same throughput, lower is better.";
    let mut all = over_disks(report, "throughput", Unit::BytesPerSecond, rate, |row| row.bytes_per_second.median);
    all.extend(over_disks(report, "cpu", Unit::Part, busy, |row| row.busy));
    all
}

/// Writes them into a directory, which is made.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(report: &Report, directory: &Path) -> Result<(), BenchError> {
    plot::write(&plots(report), directory)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn there_is_a_plot_of_each_figure_and_direction_with_a_line_for_each_way() {
        let directory = tempfile::tempdir().unwrap();
        write(&report(), directory.path()).unwrap();
        for name in ["throughput-read", "throughput-write", "cpu-read", "cpu-write"] {
            let text = std::fs::read_to_string(directory.path().join(format!("{name}.svg"))).unwrap();
            assert!(Way::ALL.iter().all(|way| text.contains(way.name())), "{name}: {text}");
        }
        let plot = &plots(&report())[0];
        assert_eq!(plot.title, "Read throughput, by disks");
        assert!(plot.csv().lines().count() == 1 + 3 * 2 && plot.csv().contains("784000000"), "{}", plot.csv());
    }
}
