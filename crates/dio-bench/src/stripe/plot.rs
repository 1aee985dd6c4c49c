//! Plots: throughput by the size of a request, one for each rig, layout and direction.

use std::path::Path;

use super::{Report, Rig, Row};
use crate::plot::{self, Axis, Kind, Lines, Plot, Series};
use crate::quantity::Unit;
use crate::units::size;
use crate::{BenchError, stripe::MIB};

/// Writes plots into a directory, which is made. A layout that has only one size of requests has none.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(report: &Report, directory: &Path) -> Result<(), BenchError> {
    plot::write(&plots(report), directory)
}

/// What rows of one plot have in common.
fn same(one: &Row, other: &Row) -> bool {
    let key = |row: &Row| (row.rig, row.stripe_bytes, row.stripes, row.direction.name());
    key(one) == key(other)
}

fn plots(report: &Report) -> Vec<Plot> {
    let groups = report.rows.chunk_by(same).filter(|rows| rows.len() > 1);
    groups.map(plot_of).collect()
}

fn plot_of(rows: &[Row]) -> Plot {
    let row = &rows[0];
    let series = |tone: usize, name: &str, rate: fn(&Row) -> f64| Series {
        name: name.to_owned(),
        tone,
        points: rows.iter().map(|row| (row.transfer_bytes as f64, rate(row) * MIB)).collect(),
    };
    let disks = match row.rig {
        Rig::Modelled => "modelled disks",
        Rig::Real => "directories of the real disk",
        Rig::Network => "mounts of a network file system",
    };
    let (direction, stripe) = (row.direction.name(), size(row.stripe_bytes));
    Plot {
        name: format!("{}-{direction}-{}-{}", row.rig.name(), row.stripes, row.stripe_bytes),
        title: format!("Striped {direction}, {} {disks}, stripes of {stripe}", row.stripes),
        about: format!(
            "Throughput by the size of a request: a loop that waits for each stripe, the striped file, which waits once for \
             each request, and asynchronous I/O with as many bytes in flight. The largest requests gain {:.1} times.",
            rows[rows.len() - 1].gain.median
        ),
        kind: Kind::Lines(Lines {
            x: Axis { unit: Unit::Bytes, logarithmic: true },
            y: Unit::BytesPerSecond,
            bands: Vec::new(),
            series: vec![
                series(2, "wait each", |row| row.wait_each_mib_s),
                series(1, "submit all", |row| row.submit_all_mib_s),
                series(6, "asynchronous", |row| row.async_mib_s),
            ],
            filled: false,
        }),
    }
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
        assert!(text.starts_with("<svg") && text.contains("submit all") && text.contains("asynchronous"), "{text}");
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 4);
    }
}
