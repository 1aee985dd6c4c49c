//! Plots of the time series: each contender's rounds, the mean of them slot by slot.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::report::{Report, Row};
use super::{Contender, Point};
use crate::BenchError;

/// Pixels of a plot.
const SIZE: (u32, u32) = (900, 420);

/// Colours that people who see some colours alike can tell apart (Okabe and Ito 2008).
fn colour(contender: Contender) -> RGBColor {
    match contender {
        Contender::Raw => RGBColor(0, 0, 0),
        Contender::Bare => RGBColor(0, 114, 178),
        Contender::DirectFile => RGBColor(213, 94, 0),
        Contender::DirectRange => RGBColor(230, 159, 0),
        Contender::Concurrent => RGBColor(0, 158, 115),
    }
}

/// The figure of a point; `None` where it was not measured.
type Figure = fn(&Point) -> Option<f64>;

/// A plot with a line for each contender.
struct Lines {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    figure: Figure,
}

const LINES: [Lines; 3] = [
    Lines { file: "throughput.svg", title: "Throughput", unit: "transactions/s", figure: |point| Some(point.tps) },
    Lines {
        file: "io-rate.svg",
        title: "I/O rate of the device",
        unit: "requests/s",
        figure: |point| Some(point.used.device_reads_per_second? + point.used.device_writes_per_second?),
    },
    Lines {
        file: "utilisation.svg",
        title: "Utilisation of the device",
        unit: "%",
        figure: |point| point.used.utilisation.map(|part| part * 100.0),
    },
];

/// The mean over the rounds of a contender, slot by slot, as far as all rounds go.
fn means(row: &Row, figure: Figure) -> Vec<(f64, f64)> {
    let slots = row.runs.iter().map(|run| run.points.len()).min().unwrap_or(0);
    let mean = |slot: usize| {
        let points: Vec<&Point> = row.runs.iter().map(|run| &run.points[slot]).collect();
        let values: Option<Vec<f64>> = points.iter().map(|point| figure(point)).collect();
        let count = points.len() as f64;
        let seconds = points.iter().map(|point| point.seconds).sum::<f64>() / count;
        Some((seconds, values?.iter().sum::<f64>() / count))
    };
    (0..slots).filter_map(mean).collect()
}

/// Where the steady state begins and ends.
fn steady(report: &Report) -> Range<f64> {
    let [up, steady, _] = report.settings.seconds;
    up..up + steady
}

fn failed(path: &Path) -> impl Fn(String) -> BenchError {
    move |text| BenchError::Asked(format!("cannot plot '{}': {text}", path.display()))
}

/// Writes `throughput.svg`, `io-rate.svg`, `utilisation.svg` and `cpu.svg` into a directory; those of figures that nobody
/// measured are left out.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(report: &Report, directory: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(directory).map_err(BenchError::system("create", directory))?;
    for lines in &LINES {
        let path = directory.join(lines.file);
        let text = lines.draw(report).map_err(failed(&path))?;
        if let Some(text) = text {
            std::fs::write(&path, text).map_err(BenchError::system("write", &path))?;
        }
    }
    let path = directory.join("cpu.svg");
    let text = processors(report).map_err(failed(&path))?;
    std::fs::write(&path, text).map_err(BenchError::system("write", &path))
}

impl Lines {
    fn draw(&self, report: &Report) -> Result<Option<String>, String> {
        let series: Vec<(Contender, Vec<(f64, f64)>)> =
            report.rows.iter().map(|row| (row.contender, means(row, self.figure))).collect();
        let points = || series.iter().flat_map(|(_, points)| points);
        if points().next().is_none() {
            return Ok(None);
        }
        let end = points().map(|point| point.0).fold(1.0, f64::max);
        let top = points().map(|point| point.1).fold(1.0, f64::max) * 1.08;
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            self.chart(report, &area, &series, (end, top)).map_err(|error| error.to_string())?;
        }
        Ok(Some(text))
    }

    fn chart<'a>(
        &self,
        report: &Report,
        area: &DrawingArea<SVGBackend<'a>, Shift>,
        series: &[(Contender, Vec<(f64, f64)>)],
        (end, top): (f64, f64),
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .y_label_formatter(&|value| format!("{value:.0}"))
            .x_desc("seconds")
            .y_desc(self.unit)
            .draw()?;
        // Grey where the load ramps up and down.
        let steady = steady(report);
        for ramp in [0.0..steady.start, steady.end..end] {
            let corners = [(ramp.start.min(end), 0.0), (ramp.end.min(end), top)];
            chart.draw_series([Rectangle::new(corners, BLACK.mix(0.06).filled())])?;
        }
        for (contender, points) in series.iter().filter(|(_, points)| !points.is_empty()) {
            let style = colour(*contender).stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))?
                .label(contender.name())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()
    }
}

/// The parts of the processors' time from below; what is left is idle.
const PARTS: [(&str, RGBColor, Figure); 3] = [
    ("user", RGBColor(0, 114, 178), |point| Some(point.used.user)),
    ("system", RGBColor(230, 159, 0), |point| Some(point.used.user + point.used.system)),
    ("stolen", RGBColor(150, 150, 150), |point| Some(point.used.user + point.used.system + point.used.steal)),
];

/// The processors' time, a chart for each contender.
fn processors(report: &Report) -> Result<String, String> {
    let mut text = String::new();
    {
        let size = (SIZE.0, 190 * report.rows.len() as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(|error| error.to_string())?;
        for (row, part) in report.rows.iter().zip(area.split_evenly((report.rows.len(), 1))) {
            stack(row, &part).map_err(|error| error.to_string())?;
        }
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn stack<'a>(
    row: &Row,
    area: &DrawingArea<SVGBackend<'a>, Shift>,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let end = means(row, |point| Some(point.seconds)).iter().map(|point| point.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("CPU, {} (white: idle)", row.contender.name()), ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..100.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .y_labels(5)
        .y_label_formatter(&|part| format!("{part:.0}"))
        .y_desc("%")
        .draw()?;
    // From the top down: each covers what lies below it.
    for (name, colour, figure) in PARTS.iter().rev() {
        let points = means(row, *figure).into_iter().map(|(seconds, part)| (seconds, part * 100.0));
        chart
            .draw_series(AreaSeries::new(points, 0.0, colour))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn plots_have_a_line_for_each_contender_and_leave_out_what_was_not_measured() {
        let directory = tempfile::tempdir().unwrap();
        let report = report();
        write(&report, directory.path()).unwrap();
        let text = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        let throughput = text("throughput.svg");
        assert!(throughput.starts_with("<svg") && throughput.contains("concurrent") && throughput.contains("raw"));
        assert!(text("cpu.svg").contains("CPU, concurrent") && text("utilisation.svg").contains("<polyline"));
        assert!(!directory.path().join("io-rate.svg").exists(), "nobody counted requests");
    }

    #[test]
    fn the_mean_is_of_all_rounds() {
        let points = means(&report().rows[0], |point| Some(point.tps));
        assert_eq!(points[0], (1.0, 3500.0 / 3.0 + 1.0));
    }
}
