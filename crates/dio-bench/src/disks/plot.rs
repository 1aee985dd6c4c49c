//! Plots of throughput and processor time over the number of disks, with a line for each way.

use std::path::Path;

use super::{AccessPath, Direction, DisksReport, DisksRow};
use crate::plot::{Axis, LinePlot, Plot, PlotKind, Series};
use crate::quantity::Unit;
use crate::{BenchError, plot};

/// Colours of the ways; cached and direct have the same colours as in other plots.
pub(crate) fn tone(way: AccessPath) -> usize {
    match way {
        AccessPath::Cached => 1,
        AccessPath::Direct => 4,
        AccessPath::Raw => 0,
    }
}

/// Colour of the line for the disks' combined limits.
const IDEAL: usize = 6;

/// A figure that is plotted over the number of disks.
struct Figure<'a> {
    name: &'a str,
    about: &'a str,
    y: Unit,
    of: fn(&DisksRow) -> f64,
    /// The throughput that each disk adds at best.
    ideal: Option<f64>,
}

impl Figure<'_> {
    /// A plot of one direction, if that direction was measured.
    fn plot(&self, rows: &[DisksRow], direction: Direction) -> Option<Plot> {
        let sorted = |rows: &mut dyn Iterator<Item = (f64, f64)>| {
            let mut points: Vec<(f64, f64)> = rows.collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let all = || rows.iter().filter(|row| row.case.direction == direction);
        let line = |way: AccessPath| {
            let rows = all().filter(|row| row.case.way == way);
            let points = sorted(&mut rows.map(|row| (row.case.targets as f64, (self.of)(row))));
            Series { name: way.name().to_owned(), tone: tone(way), points }
        };
        let mut series: Vec<Series> =
            AccessPath::ALL.map(line).into_iter().filter(|line| !line.points.is_empty()).collect();
        if series.is_empty() {
            return None;
        }
        if let Some(each) = self.ideal {
            let mut points = sorted(
                &mut all().map(|row| (row.case.targets as f64, row.case.targets as f64 * each)),
            );
            points.dedup();
            // Drawn first, so that the measured lines cover it where they reach it.
            series.insert(
                0,
                Series { name: "limits of the disks together".to_owned(), tone: IDEAL, points },
            );
        }
        let title = format!("{} {}, by disks", direction.name(), self.name);
        let x = Axis { unit: Unit::Count, logarithmic: false };
        Some(Plot {
            name: format!("{}-{}", self.name, direction.name()),
            title: title[..1].to_uppercase() + &title[1..],
            about: self.about.to_owned(),
            kind: PlotKind::Lines(LinePlot {
                x,
                y: self.y,
                bands: Vec::new(),
                series,
                filled: false,
            }),
        })
    }
}

/// Plots throughput in each direction over the number of disks, each of which has the limit `rate`,
/// and the processor time for it.
pub(crate) fn plots(rows: &[DisksRow], rate: u64) -> Vec<Plot> {
    let figures = [
        Figure {
            name: "throughput",
            about: "Medians over the number of disks. Each disk has the same limit; the grey line \
                    is that of all together.",
            y: Unit::BytesPerSecond,
            of: |row| row.bytes_per_second.median,
            ideal: Some(rate as f64),
        },
        Figure {
            name: "cpu",
            about: "Part of all processors' time, the kernel's threads included: at the same \
                    throughput, lower is better.",
            y: Unit::Part,
            of: |row| row.busy,
            ideal: None,
        },
    ];
    let of = |figure: &Figure<'_>| Direction::ALL.map(|direction| figure.plot(rows, direction));
    figures.iter().flat_map(of).flatten().collect()
}

/// Writes the plots into a directory, which is created.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(report: &DisksReport, directory: &Path) -> Result<(), BenchError> {
    plot::write(&plots(&report.rows, report.settings.rate_bytes_per_second), directory)
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
            let text =
                std::fs::read_to_string(directory.path().join(format!("{name}.svg"))).unwrap();
            assert!(AccessPath::ALL.iter().all(|way| text.contains(way.name())), "{name}: {text}");
        }
        let plot = &plots(&report().rows, 100 << 20)[0];
        assert_eq!(plot.title, "Read throughput, by disks");
        assert!(
            plot.csv().lines().count() == 1 + 4 * 2 && plot.csv().contains("784000000"),
            "{}",
            plot.csv()
        );
        assert!(plot.csv().contains("limits of the disks together,8,838860800"), "{}", plot.csv());
    }
}
