//! Dots: every run of every contender, its median, and published figures.

use plotters::prelude::*;

use super::frame::{
    Canvas, DrawingError, MARGIN, Mark, TEXT, TextAlignment, WIDTH, apart, canvas, fitting,
    plausible, title_height, width_of,
};
use super::palette::{AXIS, GRID, INK, MUTED, tone};
use super::ticks;
use super::words::csv_line;
use crate::quantity::{Scale, Unit};
use crate::stats::Summary;

/// Height in pixels of a contender: a line of text and the track of its dots.
const ROW: i32 = 42;

/// Ratio of the greatest value to the least from which the axis is logarithmic.
const WIDE: f64 = 30.0;

/// One contender.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub tone: usize,
    /// Its runs.
    pub values: Vec<f64>,
    /// A published figure of the same kind, if there is one.
    pub published: Option<f64>,
}

impl Dot {
    /// A row of a contender's values, with a dot for each.
    pub fn new(name: impl Into<String>, tone: usize, values: Vec<f64>) -> Dot {
        Dot { name: name.into(), tone, values, published: None }
    }

    /// Adds a published value, if there is one.
    #[must_use]
    pub fn beside(self, published: Option<f64>) -> Dot {
        Dot { published, ..self }
    }
}

/// Contenders one below the other, on one axis.
#[derive(Clone, Debug)]
pub struct Dots {
    /// The unit of the axis.
    pub unit: Unit,
    /// The name of the number that is shown beside each contender.
    pub label: String,
    /// A value that is marked by a line.
    pub guide: Option<f64>,
    /// The contenders.
    pub rows: Vec<Dot>,
}

/// The axis of a drawing.
struct Axis {
    unit: Unit,
    scale: Scale,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    fn x(&self, value: f64) -> i32 {
        let shown = self.scale.apply(value);
        let part = match self.logarithmic {
            true => (shown.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
            false => (shown - self.from) / (self.to - self.from),
        };
        let room = f64::from(WIDTH as i32 - 2 * MARGIN - 16);
        MARGIN + 8 + (part.clamp(0.0, 1.0) * room).round() as i32
    }

    fn marks(&self) -> Vec<f64> {
        let shown = match self.logarithmic {
            true => ticks::logarithmic(self.from, self.to, 7),
            false => ticks::linear(self.from, self.to, 6),
        };
        shown.into_iter().map(|mark| self.scale.invert(mark)).collect()
    }
}

impl Dots {
    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let all = self.rows.iter().flat_map(|row| row.values.iter().copied().chain(row.published));
        all.chain(self.guide).filter(|value| plausible(*value))
    }

    fn axis(&self) -> Axis {
        let scale = self.unit.scale(self.values());
        let shown = || self.values().map(|value| scale.apply(value));
        let (least, most) = shown()
            .fold((f64::MAX, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
        let logarithmic = least > 0.0 && most / least > WIDE;
        let (from, to) = match logarithmic {
            true => (least / 1.3, most * 1.3),
            false => (0.0, if most > 0.0 { most * 1.04 } else { 1.0 }),
        };
        Axis { unit: self.unit, scale, from, to, logarithmic }
    }

    fn published(&self) -> bool {
        self.rows.iter().any(|row| row.published.is_some())
    }

    pub(super) fn draw(&self, title: &str) -> (String, (u32, u32)) {
        let axis = self.axis();
        let key = if self.published() { 20 } else { 0 };
        let above = title_height(title, &self.label, WIDTH) + 2;
        let size = (WIDTH, (above + self.rows.len() as i32 * ROW + 28 + key) as u32);
        let text = canvas(size, |canvas| {
            let top = canvas.title(title, &self.label, WIDTH)? + 2;
            let bottom = top + self.rows.len() as i32 * ROW + 2;
            self.ground(canvas, &axis, (top, bottom))?;
            for (place, row) in self.rows.iter().enumerate() {
                row.draw(canvas, &axis, top + place as i32 * ROW, self.published())?;
            }
            if self.published() {
                let y = bottom + 36;
                diamond(canvas, (MARGIN + 6, y))?;
                canvas.text(
                    "published, on other hardware",
                    (MARGIN + 18, y),
                    TextAlignment::Left,
                    MUTED.0,
                    TEXT - 0.5,
                )?;
            }
            Ok(())
        });
        (text, size)
    }

    /// The grid and the numbers below it.
    fn ground(
        &self,
        canvas: &Canvas<'_, '_>,
        axis: &Axis,
        (top, bottom): (i32, i32),
    ) -> Result<(), DrawingError> {
        let marks = axis.marks();
        let last = marks.len().saturating_sub(1);
        let mut numbers = Vec::with_capacity(marks.len());
        for (place, mark) in marks.into_iter().enumerate() {
            let x = axis.x(mark);
            for row in 0..self.rows.len() as i32 {
                // The grid lines are interrupted at the names.
                let track = top + row * ROW;
                canvas.stroke((x, track + 20), (x, track + ROW - 4), GRID.0, 1)?;
            }
            let number = axis.scale.mark(mark);
            let text = match axis.logarithmic {
                true => self.unit.alone(mark),
                false if place == last => format!("{number} {}", axis.scale.symbol),
                false => number,
            };
            let half = width_of(&text, TEXT) / 2;
            let (x, at) = match x {
                x if x + half > WIDTH as i32 - MARGIN => {
                    (WIDTH as i32 - MARGIN, TextAlignment::Right)
                }
                x if x - half < MARGIN => (MARGIN, TextAlignment::Left),
                x => (x, TextAlignment::Middle),
            };
            numbers.push(Mark { text: text.trim_end().to_owned(), x, at });
        }
        for Mark { text, x, at } in apart(numbers) {
            canvas.text(&text, (x, bottom + 10), at, MUTED.0, TEXT - 0.5)?;
        }
        if let Some(guide) = self.guide.filter(|guide| plausible(*guide)) {
            for row in 0..self.rows.len() as i32 {
                let track = top + row * ROW;
                canvas.stroke(
                    (axis.x(guide), track + 19),
                    (axis.x(guide), track + ROW - 3),
                    MUTED.0,
                    1,
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn csv(&self) -> String {
        let mut text = csv_line(&["name".to_owned(), "run".to_owned(), "value".to_owned()]);
        for row in &self.rows {
            for (run, value) in row.values.iter().enumerate() {
                text.push_str(&csv_line(&[
                    row.name.clone(),
                    (run + 1).to_string(),
                    value.to_string(),
                ]));
            }
            if let Some(value) = row.published {
                text.push_str(&csv_line(&[
                    row.name.clone(),
                    "published".to_owned(),
                    value.to_string(),
                ]));
            }
        }
        text
    }
}

impl Dot {
    fn draw(
        &self,
        canvas: &Canvas<'_, '_>,
        axis: &Axis,
        top: i32,
        published: bool,
    ) -> Result<(), DrawingError> {
        let colour = tone(self.tone);
        let values: Vec<f64> =
            self.values.iter().copied().filter(|value| plausible(*value)).collect();
        // On a logarithmic axis each value has a unit of its own.
        let show = |value: f64| {
            if axis.logarithmic { axis.unit.scale([value]) } else { axis.scale }.show(value)
        };
        let mut shown = match values.is_empty() {
            true => "–".to_owned(),
            false => show(Summary::of(values.iter().copied()).median),
        };
        if let Some(figure) = self.published.filter(|_| published) {
            shown = format!("{shown}  (published {})", show(figure));
        }
        let room = WIDTH as i32 - 2 * MARGIN - width_of(&shown, TEXT) - 12;
        canvas.text(
            &fitting(&self.name, room, TEXT),
            (MARGIN, top + 10),
            TextAlignment::Left,
            INK.0,
            TEXT,
        )?;
        canvas.text(
            &shown,
            (WIDTH as i32 - MARGIN, top + 10),
            TextAlignment::Right,
            INK.0,
            TEXT,
        )?;
        let y = top + 28;
        canvas.stroke((MARGIN, y), (WIDTH as i32 - MARGIN, y), AXIS.0, 1)?;
        for value in &values {
            canvas.area.draw(&Circle::new((axis.x(*value), y), 4, colour.mix(0.55).filled()))?;
        }
        if !values.is_empty() {
            let x = axis.x(Summary::of(values).median);
            canvas.area.draw(&Rectangle::new([(x - 2, y - 9), (x + 1, y + 9)], colour.filled()))?;
        }
        match self.published.filter(|figure| plausible(*figure)) {
            Some(figure) => diamond(canvas, (axis.x(figure), y)),
            None => Ok(()),
        }
    }
}

/// The mark of published figures. It is hollow, so that marks below it stay visible.
fn diamond(canvas: &Canvas<'_, '_>, (x, y): (i32, i32)) -> Result<(), DrawingError> {
    let corners = [(x - 6, y), (x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)];
    canvas.area.draw(&PathElement::new(corners, INK.0.stroke_width(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(values: &[&[f64]]) -> Dots {
        let row = |(tone, values): (usize, &&[f64])| Dot {
            name: format!("contender {tone}"),
            tone,
            values: values.to_vec(),
            published: (tone == 1).then_some(0.92),
        };
        let rows = values.iter().enumerate().map(row).collect();
        Dots { unit: Unit::Ratio, label: "to raw".to_owned(), guide: Some(1.0), rows }
    }

    #[test]
    fn there_is_a_dot_for_each_run_and_a_diamond_for_what_was_published() {
        let text = dots(&[&[1.0, 1.0, 1.0], &[0.95, 0.98, 0.99]]).draw("Share of raw").0;
        assert_eq!(text.matches("<circle").count(), 6, "{text}");
        assert!(
            text.contains("0.98  (published 0.92)")
                && text.contains("published, on other hardware"),
            "{text}"
        );
        assert_eq!(dots(&[&[1.0], &[0.5]]).csv().lines().count(), 4);
    }

    #[test]
    fn numbers_below_leave_each_other_room() {
        // Nearly all axes whose marks include doubles and fives; the numbers of 500 and 1000 MiB/s
        // used to overlap.
        for most in [2.0, 8.0, 30.0, 100.0, 150.0] {
            let mut plot = dots(&[&[9e6], &[9e6 * most]]);
            (plot.unit, plot.guide) = (Unit::BytesPerSecond, None);
            plot.rows.iter_mut().for_each(|row| row.published = None);
            let axis = plot.axis();
            let marks = axis.marks().into_iter().map(|mark| Mark {
                text: plot.unit.alone(mark),
                x: axis.x(mark),
                at: TextAlignment::Middle,
            });
            let kept = apart(marks.collect());
            assert!(kept.len() >= 2, "{most}");
            for pair in kept.windows(2) {
                let ends = |mark: &Mark, side: i32| mark.x + side * width_of(&mark.text, TEXT) / 2;
                assert!(
                    ends(&pair[0], 1) < ends(&pair[1], -1),
                    "{most}: {} {}",
                    pair[0].text,
                    pair[1].text
                );
            }
        }
    }

    #[test]
    fn wide_ranges_are_drawn_by_ratios_and_nothing_is_no_trouble() {
        assert!(dots(&[&[0.001], &[100.0]]).axis().logarithmic);
        assert!(!dots(&[&[0.0], &[100.0]]).axis().logarithmic, "there is no ratio to nothing");
        for values in [
            &[][..],
            &[&[][..]],
            &[&[f64::NAN, f64::INFINITY][..]],
            &[&[0.0][..]],
            &[&[1e308, -1e14, 5e-324][..]],
        ] {
            assert!(dots(values).draw("x").0.starts_with("<svg"));
        }
    }
}
