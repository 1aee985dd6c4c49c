//! Statistics of a few repeated runs. From so few, only the median and the extremes are meaningful.

use serde::{Deserialize, Deserializer, Serialize};

/// The median and the extremes of some measurements, in their unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// The median; for an even number of values, the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Summarises measurements; all zero when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Summary {
        Summary::of_some(values).unwrap_or_default()
    }

    /// Summarises measurements; `None` when there are none.
    pub fn of_some(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 0 {
            (values[middle - 1] + values[middle]) / 2.0
        } else {
            values[middle]
        };
        Some(Summary { median, min, max })
    }
}

/// The quotients `ours / theirs`, pair by pair. Both values of a pair were measured in the same
/// round, so a disk whose speed drifts over the minutes affects both. Pairs whose divisor is zero
/// are left out.
pub fn ratios(
    ours: impl IntoIterator<Item = f64>,
    theirs: impl IntoIterator<Item = f64>,
) -> Vec<f64> {
    ours.into_iter()
        .zip(theirs)
        .filter(|(_, theirs)| *theirs > 0.0)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

/// The median of some counts; for an even number of counts, the greater of the middle two. 0 if
/// there are none.
pub fn median_count(values: impl IntoIterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Reads a number of a result. JSON has `null` for a value that is not a number, such as a quotient
/// by zero.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(Summary::of([9.0, 1.0, 2.0]), Summary { median: 2.0, min: 1.0, max: 9.0 });
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 9.0]).median, 3.0);
        assert_eq!(Summary::of([]).median, 0.0);
        assert_eq!(median_count([7, 1, 5]), 5);
        assert_eq!(median_count([]), 0);
        assert_eq!(Summary::of_some([]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The disk slows down tenfold. The medians of the columns would give the same quotient, but
        // pairing values of different rounds would not.
        let ratio = Summary::of(ratios([1.0, 10.0, 100.0], [2.0, 20.0, 200.0]));
        assert_eq!(ratio, Summary { median: 0.5, min: 0.5, max: 0.5 });
        assert!(ratios([1.0], [0.0]).is_empty());
    }
}
