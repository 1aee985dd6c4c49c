//! Round numbers for axes.

/// Multiples of a round step between two numbers, at most `most` of them.
pub(super) fn linear(from: f64, to: f64, most: usize) -> Vec<f64> {
    let span = (to - from).max(f64::MIN_POSITIVE);
    let raw = span / most.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|round| round * power)
        .find(|step| *step >= raw * 0.999_999);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last.min(first + 100)).map(|n| n as f64 * step).collect()
}

/// Powers of ten between two positive numbers. If there are few, their doubles and fives are added;
/// if there are many, some are left out.
pub(super) fn logarithmic(from: f64, to: f64, most: usize) -> Vec<f64> {
    let decades = (to / from).log10();
    let rounds: &[f64] = if decades <= 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / most.max(1) as f64).ceil().max(1.0) as i32;
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
    let marks = powers.flat_map(|power| rounds.iter().map(move |round| round * 10f64.powi(power)));
    marks.filter(|mark| *mark >= from * 0.999_999 && *mark <= to * 1.000_001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        assert_eq!(linear(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear(0.0, 1234.0, 4), [0.0, 500.0, 1000.0]);
        assert!(linear(0.0, 0.0, 4).len() <= 101);
        assert_eq!(logarithmic(1e-4, 1e-2, 6).len(), 7);
        assert_eq!(logarithmic(1e-6, 1e2, 4).len(), 5);
    }
}
