//! Plots as SVG. The same drawing serves `--plots` of a benchmark, which writes it to files, and
//! `dio report`, which puts it into its page. Each plot comes with its data as CSV.
//!
//! A plot is drawn on white. Every colour has a counterpart for dark surroundings, to which a style
//! sheet changes it: that of the file itself, or that of the page ([`dark`]). The style sheet
//! affects colours and text only.

mod dots;
mod frame;
mod lines;
mod palette;
mod stack;
mod ticks;
mod words;

use std::path::Path;

pub use dots::{Dot, Dots};
pub use lines::{Axis, Band, LinePlot, Series};
pub use palette::{TONE_COUNT, dark};
pub use stack::{Stack, StackSlot};
pub(crate) use words::{csv_line, printable};

use crate::BenchError;
use crate::quantity::Unit;

/// A plot with its name and description.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Name of its files, without an ending: letters, digits and `-`.
    pub name: String,
    /// Its title, in a few words.
    pub title: String,
    /// A description of what the plot shows, in a sentence or two, also for readers who cannot see
    /// it.
    pub about: String,
    /// The drawing.
    pub kind: PlotKind,
}

/// The kinds of plots.
#[derive(Clone, Debug)]
pub enum PlotKind {
    /// Quantities over time, or a distribution.
    Lines(LinePlot),
    /// The processors' time, its parts stacked.
    Stack(Stack),
    /// The runs of some contenders, a dot for each.
    Dots(Dots),
}

impl Plot {
    /// The runs of some contenders, with their medians.
    pub fn dots(
        name: impl Into<String>,
        title: impl Into<String>,
        about: &str,
        unit: Unit,
        rows: Vec<Dot>,
    ) -> Plot {
        let kind = PlotKind::Dots(Dots { unit, label: "median".to_owned(), guide: None, rows });
        Plot { name: name.into(), title: title.into(), about: about.to_owned(), kind }
    }

    /// Dots of ratios, round by round, on both sides of a line at 1. `label` names the ratio.
    pub fn ratios(
        name: impl Into<String>,
        title: &str,
        about: &str,
        label: &str,
        rows: Vec<Dot>,
    ) -> Plot {
        let kind = PlotKind::Dots(Dots {
            unit: Unit::Ratio,
            label: label.to_owned(),
            guide: Some(1.0),
            rows,
        });
        Plot { name: name.into(), title: title.to_owned(), about: about.to_owned(), kind }
    }

    /// Lines over an axis.
    pub fn lines(
        name: impl Into<String>,
        title: impl Into<String>,
        about: &str,
        kind: LinePlot,
    ) -> Plot {
        Plot {
            name: name.into(),
            title: title.into(),
            about: about.to_owned(),
            kind: PlotKind::Lines(kind),
        }
    }

    /// The drawing alone, without title and style, and its width and height.
    fn drawing(&self) -> (String, (u32, u32)) {
        let (text, size) = match &self.kind {
            PlotKind::Lines(lines) => lines.draw(&self.title),
            PlotKind::Stack(stack) => stack.draw(&self.title),
            PlotKind::Dots(dots) => dots.draw(&self.title),
        };
        // Cuts off the drawing library's own first tag, which has neither a name nor a role.
        let inside = text.split_once(">\n").map_or("", |(_, inside)| inside);
        (inside.strip_suffix("</svg>\n").unwrap_or(inside).to_owned(), size)
    }

    /// The plot as an SVG file: light, or dark if the viewer prefers that.
    pub fn svg(&self) -> String {
        let (inside, (width, height)) = self.drawing();
        let dark = dark();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title \
             about\">\n<title id=\"title\">{}</title>\n<desc \
             id=\"about\">{}</desc>\n<style>svg{{background:#fff}}@media screen and \
             (prefers-color-scheme:dark){{svg{{background:#16191d}}{dark}}}</style>\n{inside}</svg>\n",
            escaped(&self.title),
            escaped(&self.about),
        )
    }

    /// The plot for a page of HTML, which has the style sheet; `id` must be unique in the page.
    pub fn inline(&self, id: &str) -> String {
        let (inside, (width, height)) = self.drawing();
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>\n{inside}</svg>",
            escaped(&self.title),
            escaped(&self.about),
        )
    }

    /// The data, in base units.
    pub fn csv(&self) -> String {
        match &self.kind {
            PlotKind::Lines(lines) => lines.csv(),
            PlotKind::Stack(stack) => stack.csv(),
            PlotKind::Dots(dots) => dots.csv(),
        }
    }

    /// Width in pixels; a page puts narrow plots side by side.
    pub fn width(&self) -> u32 {
        match &self.kind {
            PlotKind::Stack(_) => stack::WIDTH,
            PlotKind::Lines(_) | PlotKind::Dots(_) => frame::WIDTH,
        }
    }
}

/// Text, escaped for XML.
fn escaped(text: &str) -> String {
    maud::PreEscaped(maud::html!((printable(text)))).0.into_string()
}

/// Writes plots as SVG into a directory, which is created.
///
/// # Errors
/// [`BenchError`], such as no space.
pub fn write(plots: &[Plot], directory: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(directory).map_err(BenchError::system("create", directory))?;
    for plot in plots {
        let path = directory.join(format!("{}.svg", plot.name));
        std::fs::write(&path, plot.svg()).map_err(BenchError::system("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use plotters::prelude::RGBColor;

    use super::palette::{GROUND, INK, MUTED, TONES, Tone};
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(colour: RGBColor) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(colour.0) + 0.7152 * part(colour.1) + 0.0722 * part(colour.2)
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn data_stands_out_from_the_ground_and_text_can_be_read() {
        let (white, black) = (RGBColor(255, 255, 255), RGBColor(0x16, 0x19, 0x1d));
        for Tone(light, dark) in &TONES {
            assert!(
                contrast(*light, white) >= 3.0 && contrast(*dark, black) >= 3.0,
                "{light:?} {dark:?}"
            );
        }
        for Tone(light, dark) in [INK, MUTED] {
            assert!(
                contrast(light, white) >= 4.5 && contrast(dark, black) >= 4.5,
                "{light:?} {dark:?}"
            );
            assert!(
                contrast(light, GROUND.0) >= 4.5 && contrast(dark, GROUND.1) >= 4.5,
                "{light:?} {dark:?}"
            );
        }
    }

    #[test]
    fn every_colour_of_a_plot_has_a_counterpart() {
        let points = vec![(0.0, 1.0), (1.0, 3.0)];
        let series = (0..9)
            .map(|tone| Series { name: format!("s{tone}"), tone, points: points.clone() })
            .collect();
        let lines = LinePlot {
            x: Axis { unit: crate::quantity::Unit::Seconds, logarithmic: false },
            y: crate::quantity::Unit::PerSecond,
            bands: vec![Band { from: 0.0, to: 0.5, name: "ramp-up".to_owned() }],
            series,
            filled: true,
        };
        let plot = Plot {
            name: "x".to_owned(),
            title: "<b> & \u{1}".to_owned(),
            about: "\"quoted\"".to_owned(),
            kind: PlotKind::Lines(lines),
        };
        let svg = plot.svg();
        let rules = dark();
        for part in svg.split("fill=\"#").skip(1).chain(svg.split("stroke=\"#").skip(1)) {
            let colour = &part[..6];
            assert!(rules.contains(&format!("[fill=\"#{colour}\"]")), "{colour}");
        }
        assert!(svg.contains("&lt;b&gt; &amp; \u{fffd}") && !svg.contains("<b>"), "{svg}");
        assert!(plot.inline("p1").contains("aria-labelledby=\"p1-t p1-d\""));
        assert_eq!(plot.csv().lines().count(), 1 + 9 * 2);
    }

    #[test]
    fn fields_that_would_end_a_field_are_quoted() {
        assert_eq!(csv_line(&["a".into(), "b,c".into(), "d\"e".into()]), "a,\"b,c\",\"d\"\"e\"\n");
    }
}
