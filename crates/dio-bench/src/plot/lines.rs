//! Lines: quantities over time, and distributions.

use plotters::prelude::*;

use super::frame::{
    Canvas, DrawingError, LINE, MARGIN, Mark, TEXT, TextAlignment, WIDTH, apart, canvas,
    legend_lines, plausible, title_height, width_of,
};
use super::palette::{AXIS, GRID, GROUND, MUTED, tone};
use super::ticks;
use super::words::csv_line;
use crate::quantity::{Scale, Unit};

/// Pixels for the numbers below the horizontal axis.
const BELOW: i32 = 24;

/// Height in pixels of the area between the axes.
const HEIGHT: u32 = 190;

/// The horizontal axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Its unit.
    pub unit: Unit,
    /// Whether the axis is logarithmic: equal distances are equal ratios.
    pub logarithmic: bool,
}

/// A part of the horizontal axis that is marked.
#[derive(Clone, Debug)]
pub struct Band {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Its label.
    pub name: String,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub tone: usize,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines over one horizontal axis. The vertical axis begins at zero.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// The horizontal axis.
    pub x: Axis,
    /// The unit of the vertical axis.
    pub y: Unit,
    /// Parts of the horizontal axis that are marked.
    pub bands: Vec<Band>,
    /// The lines.
    pub series: Vec<Series>,
    /// Whether the area below each line is filled, lightly.
    pub filled: bool,
}

/// The axes of a drawing: their ranges, in the units that are shown.
struct Axes {
    x: Scale,
    y: Scale,
    from: f64,
    to: f64,
    top: f64,
    logarithmic: bool,
}

impl Axes {
    /// The position of a value on the horizontal axis, in the coordinates of the drawing.
    fn at(&self, x: f64) -> f64 {
        let x = self.x.apply(x);
        if self.logarithmic { x.max(f64::MIN_POSITIVE).log10() } else { x }
    }

    /// Both ends of the horizontal axis, in the coordinates of the drawing.
    fn ends(&self) -> (f64, f64) {
        if self.logarithmic { (self.from.log10(), self.to.log10()) } else { (self.from, self.to) }
    }
}

impl LinePlot {
    fn legend(&self) -> Vec<(String, RGBColor)> {
        self.series.iter().map(|series| (series.name.clone(), tone(series.tone))).collect()
    }

    /// The unit that stands beside the title.
    fn unit(&self, axes: &Axes) -> &'static str {
        if self.y == Unit::PerSecond { "per second" } else { axes.y.symbol }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.series.iter().flat_map(|series| series.points.iter().copied()).filter(good)
    }

    fn axes(&self) -> Axes {
        let x = self.x.unit.scale(self.points().map(|point| point.0));
        let y = self.y.scale(self.points().map(|point| point.1));
        let (least, most) = self
            .points()
            .fold((f64::MAX, f64::MIN), |(least, most), (x, _)| (least.min(x), most.max(x)));
        let (least, most) = (x.apply(least), x.apply(most));
        let top = self.points().map(|point| y.apply(point.1)).fold(0.0, f64::max) * 1.06;
        let top = if top > 0.0 { top } else { 1.0 };
        let (from, to) = match self.x.logarithmic {
            true if least > 0.0 && most > least => (least, most),
            true => (1.0, 10.0),
            false => (0.0, if most > 0.0 { most } else { 1.0 }),
        };
        Axes { x, y, from, to, top, logarithmic: self.x.logarithmic }
    }

    pub(super) fn draw(&self, title: &str) -> (String, (u32, u32)) {
        let axes = self.axes();
        let legend = self.legend();
        let unit = self.unit(&axes);
        let above = title_height(title, unit, WIDTH) + legend_lines(&legend, WIDTH) * LINE + 8;
        let size = (WIDTH, above as u32 + HEIGHT + BELOW as u32);
        let text = canvas(size, |canvas| {
            let below = canvas.title(title, unit, WIDTH)?;
            let top = canvas.legend(&legend, below, WIDTH)? + 8;
            self.chart(canvas, &axes, top)
        });
        (text, size)
    }

    fn chart(&self, canvas: &Canvas<'_, '_>, axes: &Axes, top: i32) -> Result<(), DrawingError> {
        let (left, right) = axes.ends();
        let marks: Vec<(f64, String)> = ticks::linear(0.0, axes.top, 5)
            .into_iter()
            .map(|mark| (mark, axes.y.mark(axes.y.invert(mark))))
            .collect();
        let beside =
            marks.iter().map(|(_, text)| width_of(text, TEXT)).max().unwrap_or(0) + MARGIN + 8;
        let mut chart = ChartBuilder::on(canvas.area)
            .margin_top(top)
            .margin_bottom(BELOW)
            .margin_left(beside)
            .margin_right(MARGIN + 8)
            .build_cartesian_2d(left..right, 0.0..axes.top)?;
        for band in &self.bands {
            let (from, to) =
                (axes.at(band.from).clamp(left, right), axes.at(band.to).clamp(left, right));
            chart
                .draw_series([Rectangle::new([(from, axes.top), (to, 0.0)], GROUND.0.filled())])?;
        }
        for (mark, text) in marks {
            let colour = if mark == 0.0 { AXIS.0 } else { GRID.0 };
            chart.draw_series([PathElement::new([(left, mark), (right, mark)], colour)])?;
            let (x, y) = chart.backend_coord(&(left, mark));
            canvas.text(&text, (x - 7, y), TextAlignment::Right, MUTED.0, TEXT)?;
        }
        self.number_x(canvas, axes, &|at| chart.backend_coord(&(at, 0.0)))?;
        for series in &self.series {
            let points = || {
                let points = series.points.iter().copied().filter(good);
                points.map(|(x, y)| {
                    (axes.at(x).clamp(left, right), axes.y.apply(y).clamp(0.0, axes.top))
                })
            };
            if self.filled {
                chart.draw_series(AreaSeries::new(points(), 0.0, tone(series.tone).mix(0.13)))?;
            }
            chart.draw_series(LineSeries::new(points(), tone(series.tone).stroke_width(2)))?;
        }
        self.name_bands(canvas, axes, &|at| chart.backend_coord(&(at, axes.top)))
    }

    /// Draws the marks of the x axis and the numbers below them. `place` returns the pixel of a
    /// position on the axis.
    fn number_x(
        &self,
        canvas: &Canvas<'_, '_>,
        axes: &Axes,
        place: &dyn Fn(f64) -> (i32, i32),
    ) -> Result<(), DrawingError> {
        let marks = match axes.logarithmic {
            true => ticks::logarithmic(axes.from, axes.to, 7),
            false => ticks::linear(axes.from, axes.to, 7),
        };
        let last = marks.len().saturating_sub(1);
        let mut numbers = Vec::with_capacity(marks.len());
        for (number, mark) in marks.into_iter().enumerate() {
            let (x, y) = place(if axes.logarithmic { mark.log10() } else { mark });
            canvas.stroke((x, y), (x, y + 4), AXIS.0, 1)?;
            // The last number has the unit. On a logarithmic axis, each number has a unit of its
            // own.
            let value = axes.x.mark(axes.x.invert(mark));
            let text = match axes.logarithmic {
                true => self.x.unit.alone(axes.x.invert(mark)),
                false if number == last => format!("{value} {}", axes.x.symbol),
                false => value,
            };
            let (x, at) = if x + 18 > WIDTH as i32 - MARGIN {
                (WIDTH as i32 - MARGIN, TextAlignment::Right)
            } else {
                (x, TextAlignment::Middle)
            };
            numbers.push(Mark { text, x, at });
        }
        let (_, bottom) = place(axes.ends().0);
        for Mark { text, x, at } in apart(numbers) {
            canvas.text(&text, (x, bottom + 14), at, MUTED.0, TEXT)?;
        }
        Ok(())
    }

    /// Draws the names of the bands that have room for them. `place` returns the pixel of a
    /// position at the top of the chart.
    fn name_bands(
        &self,
        canvas: &Canvas<'_, '_>,
        axes: &Axes,
        place: &dyn Fn(f64) -> (i32, i32),
    ) -> Result<(), DrawingError> {
        let (left, right) = axes.ends();
        let place = |x: f64| place(axes.at(x).clamp(left, right));
        for band in self.bands.iter().filter(|band| band.to > band.from) {
            let (x, y) = place((band.from + band.to) / 2.0);
            let ((from, _), (to, _)) = (place(band.from), place(band.to));
            if to - from > width_of(&band.name, TEXT - 2.0) {
                canvas.text(&band.name, (x, y + 9), TextAlignment::Middle, MUTED.0, TEXT - 2.0)?;
            }
        }
        Ok(())
    }

    pub(super) fn csv(&self) -> String {
        let mut text = csv_line(&["series".to_owned(), "x".to_owned(), "y".to_owned()]);
        for series in &self.series {
            for (x, y) in &series.points {
                text.push_str(&csv_line(&[series.name.clone(), x.to_string(), y.to_string()]));
            }
        }
        text
    }
}

/// A point that can be drawn.
fn good((x, y): &(f64, f64)) -> bool {
    plausible(*x) && plausible(*y)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(points: Vec<(f64, f64)>, logarithmic: bool) -> LinePlot {
        let series = vec![Series { name: "raw".to_owned(), tone: 0, points }];
        let band = Band { from: 0.0, to: 2.0, name: "ramp-up".to_owned() };
        let x = Axis { unit: Unit::Seconds, logarithmic };
        LinePlot { x, y: Unit::PerSecond, bands: vec![band], series, filled: false }
    }

    #[test]
    fn a_line_goes_through_its_points_and_ramps_are_marked() {
        let text = lines(vec![(0.0, 0.0), (5.0, 100.0), (10.0, 50.0)], false).draw("Throughput").0;
        assert!(
            text.contains("<polyline") && text.contains("ramp-up") && text.contains("Throughput"),
            "{text}"
        );
        assert!(text.contains("10 s") && text.contains("100"), "{text}");
    }

    #[test]
    fn nothing_and_nonsense_are_drawn_too() {
        for logarithmic in [false, true] {
            for points in [
                vec![],
                vec![(0.0, 0.0)],
                vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)],
                vec![(3.0, 4.0)],
                vec![(1e308, -1e308), (-5.0, 1e14), (5e-324, -1e14)],
            ] {
                assert!(lines(points, logarithmic).draw("x").0.starts_with("<svg"));
            }
        }
    }
}
