//! Formats quantities with their units. A column of a table or an axis of a plot shows all its
//! values in one unit.

/// The kind of a quantity. Values are in base units: seconds, bytes, fractions of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second.
    PerSecond,
    /// A number of things.
    Count,
    /// A fraction of a whole, from 0 to 1.
    Part,
    /// A ratio of two numbers.
    Ratio,
    /// A factor: how many times as much or as fast something is.
    Times,
}

/// How the numbers of one column or axis are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    factor: f64,
    /// The unit in print; empty for plain numbers.
    pub symbol: &'static str,
    digits: usize,
    /// Whether each number is rounded to three digits by itself, since the ratios in one column may
    /// be unrelated.
    own: bool,
    /// Whether a number that would show fewer than two digits gets two. Not so for counts, nor for
    /// percentages, which are exact enough.
    fine: bool,
}

/// Sizes by powers of 1024, from the greatest.
const SIZES: [(f64, &str, &str); 5] = [
    (1.099_511_627_776e12, "TiB", "TiB/s"),
    (1_073_741_824.0, "GiB", "GiB/s"),
    (1_048_576.0, "MiB", "MiB/s"),
    (1024.0, "KiB", "KiB/s"),
    (1.0, "B", "B/s"),
];

impl Unit {
    /// One scale for all these values. The greatest value determines the unit, and is shown with
    /// three digits.
    pub fn scale(self, values: impl IntoIterator<Item = f64>) -> Scale {
        let most =
            values.into_iter().filter(|value| value.is_finite()).map(f64::abs).fold(0.0, f64::max);
        let sized = |unit: f64| most >= unit * 0.9995 || unit == 1.0;
        let (factor, symbol) = match self {
            Unit::Seconds if most == 0.0 || most >= 0.9995 => (1.0, "s"),
            Unit::Seconds if most >= 0.9995e-3 => (1e3, "ms"),
            Unit::Seconds => (1e6, "µs"),
            Unit::Bytes | Unit::BytesPerSecond => {
                let (unit, plain, rate) =
                    SIZES.into_iter().find(|size| sized(size.0)).unwrap_or(SIZES[4]);
                (1.0 / unit, if self == Unit::Bytes { plain } else { rate })
            }
            Unit::PerSecond => (1.0, "/s"),
            Unit::Part => (100.0, "%"),
            Unit::Count | Unit::Ratio | Unit::Times => (1.0, ""),
        };
        let shown = most * factor;
        let digits = match self {
            Unit::Count => 0,
            Unit::Ratio | Unit::Times if shown < 10.0 => 2,
            _ if shown >= 99.95 || shown == 0.0 => 0,
            Unit::Part => 1,
            _ if shown >= 9.995 => 1,
            _ => 2,
        };
        Scale {
            factor,
            symbol,
            digits,
            own: matches!(self, Unit::Ratio | Unit::Times),
            fine: !matches!(self, Unit::Count | Unit::Part),
        }
    }
}

impl Unit {
    /// A mark of an axis whose numbers are so far apart that each has a unit of its own.
    pub fn alone(self, value: f64) -> String {
        let scale = self.scale([value]);
        match scale.symbol {
            "" | "/s" => scale.mark(value),
            symbol => format!("{}\u{202f}{symbol}", scale.mark(value)),
        }
    }
}

impl Scale {
    /// The number without its unit.
    pub fn number(&self, value: f64) -> String {
        let value = value * self.factor;
        if !value.is_finite() {
            return "–".to_owned();
        }
        let least = 10f64.powi(i32::from(self.fine) - self.digits as i32);
        let small = value != 0.0 && value.abs() < 0.95 * least;
        // Small numbers are shown up to their second significant digit, but not beyond a billionth.
        let digits = if self.own && !small {
            if value.abs() < 9.995 { 2 } else { usize::from(value.abs() < 99.95) }
        } else if small {
            (1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize
        } else {
            self.digits
        };
        grouped(&format!("{value:.digits$}"))
    }

    /// The number with its unit.
    pub fn show(&self, value: f64) -> String {
        match self.symbol {
            "" => self.number(value),
            "/s" => format!("{}/s", self.number(value)),
            symbol => format!("{}\u{202f}{symbol}", self.number(value)),
        }
    }

    /// A mark of an axis, with no more digits than needed.
    pub fn mark(&self, value: f64) -> String {
        // Rounded, since 3 × 0.1 is not 0.3.
        let value = (value * self.factor * 1e6).round() / 1e6;
        grouped(&format!("{value}"))
    }

    /// A value in the unit of this scale.
    pub fn apply(&self, value: f64) -> f64 {
        value * self.factor
    }

    /// The value in base units of a number in the unit of this scale.
    pub fn invert(&self, shown: f64) -> f64 {
        shown / self.factor
    }
}

/// Separates thousands by narrow no-break spaces, in numbers of five digits or more.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("−", whole));
    if whole.len() < 5 {
        return format!("{sign}{whole}{rest}");
    }
    let mut text = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_decides_on_the_unit() {
        let scale = Unit::Seconds.scale([0.0021, 0.0123]);
        assert_eq!(
            (scale.show(0.0123), scale.show(0.0021)),
            ("12.3\u{202f}ms".to_owned(), "2.1\u{202f}ms".to_owned())
        );
        let scale = Unit::Seconds.scale([0.018, 20.59]);
        assert_eq!(
            (scale.number(20.59), scale.number(0.018)),
            ("20.6".to_owned(), "0.018".to_owned())
        );
        let scale = Unit::PerSecond.scale([36_728.0]);
        assert_eq!(
            (scale.number(7.26), scale.number(0.0), scale.number(64.0)),
            ("7.3".into(), "0".into(), "64".into())
        );
        assert_eq!(Unit::Count.scale([400.0]).number(4.0), "4");
        assert_eq!(Unit::Bytes.scale([1_048_576.0]).show(1_048_576.0), "1.00\u{202f}MiB");
        assert_eq!(Unit::BytesPerSecond.scale([1023.9]).symbol, "KiB/s");
        assert_eq!(Unit::Bytes.scale([0.0]).show(0.0), "0\u{202f}B");
        assert_eq!(Unit::Part.scale([0.256]).show(0.256), "25.6\u{202f}%");
        assert_eq!(Unit::Ratio.scale([0.98, 1.0]).show(0.98), "0.98");
        assert_eq!(
            (Unit::Seconds.alone(0.2), Unit::Seconds.alone(1.0)),
            ("200\u{202f}ms".into(), "1\u{202f}s".into())
        );
        assert_eq!(Unit::Count.scale([f64::NAN]).show(f64::NAN), "–");
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped("1234567.5"), "1\u{202f}234\u{202f}567.5");
        assert_eq!(grouped("-12345"), "−12\u{202f}345");
        assert_eq!(grouped("9999"), "9999");
        assert_eq!(Unit::PerSecond.scale([36728.4]).show(36728.4), "36\u{202f}728/s");
    }
}
