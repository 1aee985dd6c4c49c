//! The processors' time over time: user, system, time stolen by other virtual machines, waiting for
//! I/O. The rest is idle.

use plotters::prelude::*;

use super::frame::{
    Canvas, DrawingError, LINE, TEXT, TextAlignment, canvas, legend_lines, plausible, title_height,
};
use super::palette::{AXIS, MUTED, PALE, tone};
use super::ticks;
use super::words::csv_line;
use crate::quantity::Unit;

pub(super) const WIDTH: u32 = 300;
const HEIGHT: u32 = 110;

/// Shares of the processors' time, from 0 to 1, in the interval that ends at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackSlot {
    /// End of the interval in seconds.
    pub seconds: f64,
    /// Time of programs.
    pub user: f64,
    /// Time of the kernel.
    pub system: f64,
    /// Time taken by other virtual machines.
    pub steal: f64,
    /// Idle time with I/O in progress.
    pub iowait: f64,
}

/// The processors' time of one contender.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The slots in the order of time.
    pub slots: Vec<StackSlot>,
    /// When the steady state began and ended.
    pub steady: Option<(f64, f64)>,
}

/// A part: its name, its colour, and the height up to which it reaches.
type StackedPart = (&'static str, RGBColor, fn(&StackSlot) -> f64);

/// The parts, from bottom to top.
fn parts() -> [StackedPart; 4] {
    [
        ("user", tone(1), |slot| slot.user),
        ("system", tone(3), |slot| slot.user + slot.system),
        ("stolen", tone(6), |slot| slot.user + slot.system + slot.steal),
        ("I/O wait", PALE.0, |slot| slot.user + slot.system + slot.steal + slot.iowait),
    ]
}

impl Stack {
    fn legend(&self) -> Vec<(String, RGBColor)> {
        let seen = |name: &str| match name {
            "stolen" => self.slots.iter().any(|slot| slot.steal >= 0.005),
            "I/O wait" => self.slots.iter().any(|slot| slot.iowait >= 0.005),
            _ => true,
        };
        let parts = parts().into_iter().filter(|(name, ..)| seen(name));
        parts.map(|(name, colour, _)| (name.to_owned(), colour)).collect()
    }

    pub(super) fn draw(&self, title: &str) -> (String, (u32, u32)) {
        let unit = "% of CPU time";
        let legend = self.legend();
        let above = title_height(title, unit, WIDTH) + legend_lines(&legend, WIDTH) * LINE + 6;
        let size = (WIDTH, above as u32 + HEIGHT + 24);
        let text = canvas(size, |canvas| {
            let below = canvas.title(title, unit, WIDTH)?;
            let top = canvas.legend(&legend, below, WIDTH)? + 6;
            self.chart(canvas, top)
        });
        (text, size)
    }

    fn chart(&self, canvas: &Canvas<'_, '_>, top: i32) -> Result<(), DrawingError> {
        let end = self
            .slots
            .iter()
            .map(|slot| slot.seconds)
            .filter(|at| plausible(*at))
            .fold(0.0, f64::max);
        let end = if end > 0.0 { end } else { 1.0 };
        let mut chart = ChartBuilder::on(canvas.area)
            .margin_top(top)
            .margin_bottom(24)
            .margin_left(38)
            .margin_right(14)
            .build_cartesian_2d(0.0..end, 0.0..1.0)?;
        // Each area reaches from zero to its height, so the topmost part is drawn first and the
        // lower ones over it.
        for (_, colour, height) in parts().into_iter().rev() {
            let points = self
                .slots
                .iter()
                .map(|slot| (slot.seconds.clamp(0.0, end), height(slot).clamp(0.0, 1.0)));
            let points = points.filter(|(at, part)| at.is_finite() && part.is_finite());
            chart.draw_series(AreaSeries::new(points, 0.0, colour))?;
        }
        for mark in [0.0, 0.5, 1.0] {
            chart.draw_series([PathElement::new([(0.0, mark), (end, mark)], AXIS.0.mix(0.6))])?;
            let (x, y) = chart.backend_coord(&(0.0, mark));
            canvas.text(
                &format!("{:.0}", mark * 100.0),
                (x - 6, y),
                TextAlignment::Right,
                MUTED.0,
                TEXT - 0.5,
            )?;
        }
        for at in self
            .steady
            .into_iter()
            .flat_map(|(from, to)| [from, to])
            .filter(|at| *at > 0.0 && *at < end)
        {
            let ((x, low), (_, high)) =
                (chart.backend_coord(&(at, 0.0)), chart.backend_coord(&(at, 1.0)));
            canvas.stroke((x, high), (x, low), MUTED.0, 1)?;
        }
        let scale = Unit::Seconds.scale([end.max(1.0)]);
        let marks = ticks::linear(0.0, end, 5);
        let last = marks.len().saturating_sub(1);
        for (place, mark) in marks.into_iter().enumerate() {
            let (x, y) = chart.backend_coord(&(mark, 0.0));
            let text =
                if place == last { format!("{} s", scale.mark(mark)) } else { scale.mark(mark) };
            canvas.text(&text, (x, y + 13), TextAlignment::Middle, MUTED.0, TEXT - 0.5)?;
        }
        Ok(())
    }

    pub(super) fn csv(&self) -> String {
        let mut text = "seconds,user,system,stolen,iowait\n".to_owned();
        for slot in &self.slots {
            let fields = [slot.seconds, slot.user, slot.system, slot.steal, slot.iowait];
            text.push_str(&csv_line(&fields.map(|field| field.to_string())));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_on_top_of_each_other() {
        let slot =
            |seconds| StackSlot { seconds, user: 0.25, system: 0.5, steal: 0.0, iowait: 0.1 };
        let stack = Stack { slots: vec![slot(0.0), slot(2.0)], steady: Some((0.5, 1.5)) };
        let text = stack.draw("raw").0;
        assert_eq!(text.matches("<polygon").count(), 4, "{text}");
        assert!(text.contains("system") && text.contains("I/O wait") && !text.contains("stolen"));
        assert!(stack.csv().contains("2,0.25,0.5,0,0.1"));
        assert!(Stack { slots: vec![], steady: None }.draw("nothing").0.starts_with("<svg"));
    }
}
