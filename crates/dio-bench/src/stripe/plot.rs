//! Plots of throughput: over the size of a request, one plot for each rig, layout and direction;
//! and over the layout, for the largest requests.

use std::path::Path;

use super::report::MIB;
use super::{Direction, Rig, StripeBenchReport, StripeRow};
use crate::BenchError;
use crate::plot::{self, Axis, LinePlot, Plot, PlotKind, Series};
use crate::quantity::Unit;
use dio_common::units::size;

/// Writes plots into a directory, which is created. A quantity with a single measured value gets no
/// plot over it.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(report: &StripeBenchReport, directory: &Path) -> Result<(), BenchError> {
    let rigs = [Rig::Modelled, Rig::Real, Rig::Network];
    let of = |rig| {
        [Direction::Write, Direction::Read]
            .into_iter()
            .flat_map(move |direction| plots(&report.rows, rig, direction))
    };
    plot::write(&rigs.into_iter().flat_map(of).collect::<Vec<Plot>>(), directory)
}

/// The plots of one direction on one rig: first over the layout, then over the size of a request
/// for each layout.
pub(crate) fn plots(rows: &[StripeRow], rig: Rig, direction: Direction) -> Vec<Plot> {
    let rows: Vec<&StripeRow> =
        rows.iter().filter(|row| row.rig == rig && row.direction == direction).collect();
    let mut layouts: Vec<Vec<&StripeRow>> = Vec::new();
    for row in &rows {
        let same = |layout: &&mut Vec<&StripeRow>| {
            (layout[0].stripe_bytes, layout[0].stripes) == (row.stripe_bytes, row.stripes)
        };
        match layouts.iter_mut().find(same) {
            Some(layout) => layout.push(row),
            None => layouts.push(vec![row]),
        }
    }
    let by_transfer =
        layouts.iter().filter(|layout| layout.len() > 1).map(|layout| by_transfer(layout));
    by_layout(&rows).into_iter().chain(by_transfer).collect()
}

/// The targets in words.
fn targets(rig: Rig) -> &'static str {
    match rig {
        Rig::Modelled => "modelled disks",
        Rig::Real => "directories of the real disk",
        Rig::Network => "mounts of a network file system",
    }
}

/// Colours of waiting for each stripe, submitting all, and asynchronous I/O.
pub(crate) const TONES: [usize; 3] = [2, 1, 6];

/// The lines of a plot, one for each way.
fn lines(rows: &[&StripeRow], x: Axis, place: fn(&StripeRow) -> f64) -> PlotKind {
    let series = |tone: usize, name: &str, rate: fn(&StripeRow) -> f64| {
        let mut points: Vec<(f64, f64)> =
            rows.iter().map(|row| (place(row), rate(row) * MIB)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series { name: name.to_owned(), tone, points }
    };
    let series = vec![
        series(TONES[0], "wait each", |row| row.wait_each_mib_s),
        series(TONES[1], "submit all", |row| row.submit_all_mib_s),
        series(TONES[2], "asynchronous", |row| row.async_mib_s),
    ];
    PlotKind::Lines(LinePlot {
        x,
        y: Unit::BytesPerSecond,
        bands: Vec::new(),
        series,
        filled: false,
    })
}

fn by_transfer(rows: &[&StripeRow]) -> Plot {
    let (row, largest) =
        (rows[0], rows.iter().max_by_key(|row| row.transfer_bytes).unwrap_or(&rows[0]));
    let (direction, stripe) = (row.direction.name(), size(row.stripe_bytes));
    Plot {
        name: format!("{}-{direction}-{}-{}", row.rig.name(), row.stripes, row.stripe_bytes),
        title: format!(
            "Striped {direction}, {} {}, stripes of {stripe}",
            row.stripes,
            targets(row.rig)
        ),
        about: format!(
            "Throughput by the size of a request: a loop that waits for each stripe, the striped \
             file, which waits once for each request, and asynchronous I/O with as many bytes in \
             flight. The largest requests gain {:.1} times.",
            largest.gain.median
        ),
        kind: lines(rows, Axis { unit: Unit::Bytes, logarithmic: true }, |row| {
            row.transfer_bytes as f64
        }),
    }
}

/// A plot of the largest requests over the number of targets or over the stripe size, whichever was
/// varied. `rows` are those of one rig and direction.
fn by_layout(rows: &[&StripeRow]) -> Option<Plot> {
    let most = rows.iter().map(|row| row.transfer_bytes).max()?;
    let rows: Vec<&StripeRow> =
        rows.iter().filter(|row| row.transfer_bytes == most).copied().collect();
    let first = rows[0];
    let varies =
        |figure: fn(&StripeRow) -> u64| rows.iter().any(|row| figure(row) != figure(first));
    let (name, words, kind) =
        match (varies(|row| row.stripes as u64), varies(|row| row.stripe_bytes)) {
            (true, false) => {
                let x = Axis { unit: Unit::Count, logarithmic: false };
                let words = format!("by {}", targets(first.rig));
                ("targets", words, lines(&rows, x, |row| row.stripes as f64))
            }
            (false, true) => {
                let x = Axis { unit: Unit::Bytes, logarithmic: true };
                let words = format!("{} {}, by size of stripes", first.stripes, targets(first.rig));
                ("stripes", words, lines(&rows, x, |row| row.stripe_bytes as f64))
            }
            _ => return None,
        };
    let direction = first.direction.name();
    Some(Plot {
        name: format!("{}-{direction}-{name}", first.rig.name()),
        title: format!("Striped {direction}, requests of {}, {words}", size(most)),
        about: "Throughput of the largest requests by the layout of the file: a loop that waits \
                for each stripe, the striped file, and asynchronous I/O at the same depth."
            .to_owned(),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{run, tests::plan};
    use super::*;

    #[test]
    fn a_plot_has_all_ways() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let out = tempfile::tempdir().unwrap();
        write(&run(&plan(directory.path())).unwrap(), out.path()).unwrap();
        let text = std::fs::read_to_string(out.path().join("real-read-3-65536.svg")).unwrap();
        assert!(
            text.starts_with("<svg")
                && text.contains("submit all")
                && text.contains("asynchronous"),
            "{text}"
        );
        // Two stripe sizes in two directions, and a plot over the stripe sizes for each direction.
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 6);
        let text = std::fs::read_to_string(out.path().join("real-write-stripes.svg")).unwrap();
        assert!(
            text.contains("requests of 4 MiB") && text.contains("by size of stripes"),
            "{text}"
        );
    }
}
