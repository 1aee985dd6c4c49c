//! Medians, spreads and ratios of repeated measurements.

use serde::Serialize;

/// Median and range of one quantity over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` when there are no values. The median of an even number is the mean of the middle two.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Spread { median, min, max })
    }

    /// Spread of `ours / theirs`, pair by pair: both of a pair ran in the same round, so that a disk which
    /// drifts over the minutes moves both. Pairs with a zero below the line say nothing and are left out.
    pub(crate) fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Spread> {
        let ratios: Vec<f64> = ours.iter().zip(theirs).filter(|(_, t)| **t > 0.0).map(|(o, t)| o / t).collect();
        Spread::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 3.0, 2.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The disk slows down tenfold: medians of the columns would say the same, a wrong pairing would not.
        let ratio = Spread::of_ratios(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]).expect("three pairs");
        assert_eq!(ratio, Spread { median: 0.5, min: 0.5, max: 0.5 });
        assert_eq!(Spread::of_ratios(&[1.0], &[0.0]), None);
    }
}
