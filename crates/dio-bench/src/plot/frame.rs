//! The parts that all plots share: the canvas, its text, legends.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::palette::{INK, MUTED};
use super::words::printable;

/// The error of a drawing: the string that it is written to takes no more, which never happens.
pub(super) type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// Width in pixels of a plot: half of a page, and nearly all of a phone's screen.
pub(super) const WIDTH: u32 = 400;

/// Pixels left and right of the drawing.
pub(super) const MARGIN: i32 = 2;

/// Height of text in pixels.
pub(super) const TEXT: f64 = 12.5;

/// Height of a title.
const TITLE: f64 = 13.5;

/// Most lines of a title.
const TITLE_LINES: usize = 4;

/// Fewest pixels between two numbers below an axis.
const GAP: i32 = 4;

/// Pixels from one line of text to the next.
pub(super) const LINE: i32 = 18;

/// Whether a number can come from a measurement and can be drawn. The limit keeps pixel coordinates
/// within the range of integers.
pub(super) fn plausible(value: f64) -> bool {
    value.is_finite() && value.abs() < 1e15
}

/// A canvas for one drawing.
pub(super) struct Canvas<'a, 'b> {
    pub(super) area: &'a DrawingArea<SVGBackend<'b>, Shift>,
}

/// Draws on a canvas of this size and returns the SVG.
pub(super) fn canvas(
    size: (u32, u32),
    draw: impl FnOnce(&Canvas<'_, '_>) -> Result<(), DrawingError>,
) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&Canvas { area: &area }).expect("a string takes everything");
        area.present().expect("a string takes everything");
    }
    text
}

/// Estimated width of text in pixels. The reader's font is unknown, but it is hardly wider than
/// this.
pub(super) fn width_of(text: &str, size: f64) -> i32 {
    (text.chars().map(width).sum::<f64>() * size).ceil() as i32
}

/// Width of a letter as a fraction of the height of the text, as in a wide font without serifs.
fn width(letter: char) -> f64 {
    match letter {
        '\u{202f}' | '\'' | '|' => 0.25,
        ' ' | 'i' | 'j' | 'l' | 'f' | 't' | 'r' | '.' | ',' | ':' | ';' | '(' | ')' | '-' | '/'
        | 'I' => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' | '÷' | '→' => 0.95,
        letter if letter.is_uppercase() => 0.7,
        _ => 0.62,
    }
}

/// A number below an axis.
pub(super) struct Mark {
    pub(super) text: String,
    pub(super) x: i32,
    pub(super) at: TextAlignment,
}

impl Mark {
    /// Its left and right end, in pixels.
    fn ends(&self) -> (i32, i32) {
        let width = width_of(&self.text, TEXT);
        match self.at {
            TextAlignment::Left => (self.x, self.x + width),
            TextAlignment::Middle => (self.x - width / 2, self.x + width / 2),
            TextAlignment::Right => (self.x - width, self.x),
        }
    }
}

/// Leaves out numbers that have no room beside their right neighbour. `marks` are ordered from left
/// to right. The last one, which may have the unit, stays.
pub(super) fn apart(marks: Vec<Mark>) -> Vec<Mark> {
    let mut free = i32::MAX;
    let mut kept: Vec<Mark> = marks.into_iter().rev().collect();
    kept.retain(|mark| {
        let (left, right) = mark.ends();
        let fits = right + GAP <= free;
        if fits {
            free = left;
        }
        fits
    });
    kept.reverse();
    kept
}

/// Text that is cut to fit into so many pixels; an ellipsis marks the cut.
pub(super) fn fitting(text: &str, pixels: i32, size: f64) -> String {
    let text = printable(text);
    if width_of(&text, size) <= pixels {
        return text;
    }
    let mut room = f64::from(pixels) / size - width('…');
    let fits = |letter: &char| {
        room -= width(*letter);
        room >= 0.0
    };
    text.chars().take_while(fits).collect::<String>().trim_end().to_owned() + "…"
}

/// Alignment of text relative to its position.
#[derive(Clone, Copy)]
pub(super) enum TextAlignment {
    Left,
    Middle,
    Right,
}

impl Canvas<'_, '_> {
    /// Draws text whose vertical middle is at `y`.
    pub(super) fn text(
        &self,
        text: &str,
        (x, y): (i32, i32),
        at: TextAlignment,
        colour: RGBColor,
        size: f64,
    ) -> Result<(), DrawingError> {
        self.font(text, (x, y), at, colour, ("sans-serif", size * 1.24).into_font())
    }

    fn font(
        &self,
        text: &str,
        (x, y): (i32, i32),
        at: TextAlignment,
        colour: RGBColor,
        font: FontDesc<'_>,
    ) -> Result<(), DrawingError> {
        let anchor = match at {
            TextAlignment::Left => HPos::Left,
            TextAlignment::Middle => HPos::Center,
            TextAlignment::Right => HPos::Right,
        };
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(anchor, VPos::Center));
        self.area.draw(&Text::new(printable(text), (x, y), style))
    }

    /// Draws the title and, beside it, the unit; returns the `y` at which the next element can
    /// begin.
    pub(super) fn title(&self, title: &str, unit: &str, width: u32) -> Result<i32, DrawingError> {
        let lines = title_lines(title, unit, width);
        for (place, line) in lines.iter().enumerate() {
            let font = ("sans-serif", TITLE * 1.24).into_font().style(FontStyle::Bold);
            self.font(line, (MARGIN, 14 + place as i32 * LINE), TextAlignment::Left, INK.0, font)?;
        }
        self.text(unit, (width as i32 - MARGIN, 14), TextAlignment::Right, MUTED.0, TEXT)?;
        Ok(title_height(title, unit, width))
    }

    /// Draws a square and a name for each colour, on as many lines as needed; returns the `y` at
    /// which the next element can begin.
    pub(super) fn legend(
        &self,
        entries: &[(String, RGBColor)],
        top: i32,
        width: u32,
    ) -> Result<i32, DrawingError> {
        for (name, (x, line), colour) in placed(entries, width) {
            let y = top + line * LINE + LINE / 2;
            self.area.draw(&Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()))?;
            self.text(&name, (x + 15, y), TextAlignment::Left, INK.0, TEXT)?;
        }
        Ok(top + legend_lines(entries, width) * LINE)
    }

    /// Draws a line between two points.
    pub(super) fn stroke(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        colour: RGBColor,
        width: u32,
    ) -> Result<(), DrawingError> {
        self.area.draw(&PathElement::new([from, to], colour.stroke_width(width)))
    }
}

/// Height of a title in pixels.
pub(super) fn title_height(title: &str, unit: &str, width: u32) -> i32 {
    10 + title_lines(title, unit, width).len() as i32 * LINE
}

/// The lines of a title, which is broken if it is too long; the unit stands to the right of them.
fn title_lines(title: &str, unit: &str, width: u32) -> Vec<String> {
    // Bold letters are wider.
    let size = TITLE * 1.12;
    let room = width as i32 - 2 * MARGIN - width_of(unit, TEXT) - 10;
    let mut lines: Vec<String> = Vec::new();
    for word in printable(title).split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fitting(word, room, size)),
        }
    }
    if lines.len() > TITLE_LINES {
        lines.truncate(TITLE_LINES);
        lines[TITLE_LINES - 1].push('…');
    }
    lines
}

/// The position of each entry of a legend: pixels from the left, and its line.
fn placed(entries: &[(String, RGBColor)], width: u32) -> Vec<(String, (i32, i32), RGBColor)> {
    let room = width as i32 - 2 * MARGIN;
    let (mut x, mut line) = (MARGIN, 0);
    let mut found = Vec::new();
    for (name, colour) in entries {
        let name = fitting(name, room - 15, TEXT);
        let takes = 15 + width_of(&name, TEXT) + 12;
        if x > MARGIN && x + takes > width as i32 {
            (x, line) = (MARGIN, line + 1);
        }
        found.push((name, (x, line), *colour));
        x += takes;
    }
    found
}

/// Number of lines of a legend.
pub(super) fn legend_lines(entries: &[(String, RGBColor)], width: u32) -> i32 {
    placed(entries, width).last().map_or(0, |(_, (_, line), _)| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_where_it_does_not_fit() {
        assert_eq!(fitting("short", 100, 12.0), "short");
        let cut = fitting("a name that is far too long", 70, 12.0);
        assert!(cut.ends_with('…') && width_of(&cut, 12.0) <= 70, "{cut}");
    }

    #[test]
    fn a_long_title_has_several_lines_and_all_of_its_words() {
        assert_eq!(title_lines("Throughput", "per second", 400), ["Throughput"]);
        let long = "cached mode, sequential write of 128 KiB at a time, synced at the end";
        let lines = title_lines(long, "throughput", 400);
        assert!(lines.len() > 1 && lines.join(" ") == long, "{lines:?}");
        assert_eq!(title_lines(&"word ".repeat(200), "", 400).len(), TITLE_LINES);
        assert_eq!(title_height("", "", 400), 10);
    }

    #[test]
    fn a_legend_takes_as_many_lines_as_it_needs() {
        let entry = |name: &str| (name.to_owned(), RGBColor(0, 0, 0));
        assert_eq!(legend_lines(&[entry("raw"), entry("bare")], 440), 1);
        let many: Vec<_> = (0..12).map(|n| entry(&format!("contender {n}"))).collect();
        assert!(legend_lines(&many, 440) >= 3);
        assert_eq!(legend_lines(&[], 440), 0);
    }
}
