// SPDX-License-Identifier: Apache-2.0
//! Medians, means and their 95% confidence intervals.

/// The middle value; of an even number of values the mean of the middle two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 || upper.is_infinite() {
        return Some(upper);
    }
    Some(f64::midpoint(values[middle - 1], upper))
}

/// The median, with its 95% confidence interval: from the sorted values it cuts off the same number
/// on each side, by the binomial distribution. Fewer than six values have no such interval.
pub fn median_with_interval(mut values: Vec<f64>) -> Option<(f64, Option<[f64; 2]>)> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    // The number of values to cut off on each side.
    let interval = heads_beyond_tail(count)
        .checked_sub(1)
        .map(|out| [values[out], values[count - 1 - out]]);
    Some((median(values)?, interval))
}

/// The least number of heads `n` for which the probability of `n` or fewer heads in `count` throws
/// is above [`TAIL`].
fn heads_beyond_tail(count: usize) -> usize {
    if count > THROWS_MAX {
        // The normal approximation: mean count/2, standard deviation √count/2.
        let heads = (count as f64 - NORMAL_975 * (count as f64).sqrt()) / 2.0;
        return heads as usize;
    }
    let mut heads = 0;
    let mut term = 0.5f64.powi(count as i32);
    let mut sum = term;
    while sum <= TAIL {
        term *= (count - heads) as f64 / (heads + 1) as f64;
        sum += term;
        heads += 1;
    }
    heads
}

/// Above this number of throws the probability of no head is too small to start the sum with.
const THROWS_MAX: usize = 1000;
/// The 97.5th percentile of the standard normal distribution.
const NORMAL_975: f64 = 1.960;

/// The probability on each side of a 95% interval.
const TAIL: f64 = 0.025;

/// Student's t, two-sided 95%, by degrees of freedom from 1 to 30.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for more degrees of freedom: the row with this number or the next lower one is used.
const T_95_BEYOND: [(usize, f64); 3] = [(40, 2.021), (60, 2.000), (120, 1.980)];

/// A mean with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean of the values.
    pub value: f64,
    /// The standard deviation of the values; none: there is only one value.
    pub deviation: Option<f64>,
    /// Half the length of the mean's 95% confidence interval; none: there is only one value.
    pub half_width: Option<f64>,
}

impl Mean {
    /// The mean of these values; none: there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let deviation = (values.len() > 1).then(|| {
            let squares: f64 = values
                .iter()
                .map(|other| (other - value) * (other - value))
                .sum();
            (squares / (count - 1.0)).sqrt()
        });
        Some(Self {
            value,
            deviation,
            half_width: deviation
                .map(|deviation| t_95(values.len() - 1) * deviation / count.sqrt()),
        })
    }
}

/// The relation of one mean to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is higher, and the intervals do not overlap.
    Higher,
    /// It is lower, and the intervals do not overlap.
    Lower,
    /// The intervals overlap.
    Overlapping,
}

impl Standing {
    /// The relation of `one` to `other`; none: one of them has no interval.
    pub fn of(one: Mean, other: Mean) -> Option<Self> {
        let reach = one.half_width? + other.half_width?;
        let apart = one.value - other.value;
        Some(if apart > reach {
            Self::Higher
        } else if -apart > reach {
            Self::Lower
        } else {
            Self::Overlapping
        })
    }
}

/// Between two rows of the table the row with fewer degrees of freedom counts: so an interval is
/// never too short.
fn t_95(degrees: usize) -> f64 {
    if let Some(t) = degrees.checked_sub(1).and_then(|index| T_95.get(index)) {
        return *t;
    }
    let below = T_95_BEYOND.iter().rev().find(|(from, _)| degrees >= *from);
    below.map_or(T_95[T_95.len() - 1], |(_, t)| *t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_counts_what_never_ended_as_the_longest() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![1.0, 2.0]), Some(1.5));
        assert_eq!(median(vec![1.0, f64::INFINITY]), Some(f64::INFINITY));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn the_interval_of_a_median_leaves_out_as_many_on_each_side_as_chance_does() {
        let interval = |count: i32| {
            let values = (1..=count).map(f64::from).collect();
            let (_, interval) = median_with_interval(values).unwrap();
            interval.map(|ends| ends.map(|value| value as i32))
        };
        // The probabilities are 95.9%, 97.9% and 96.9%; the interval of all five values has only
        // 93.75%.
        assert_eq!(interval(20), Some([6, 15]));
        assert_eq!(interval(10), Some([2, 9]));
        assert_eq!(interval(6), Some([1, 6]));
        assert_eq!(interval(5), None);
        assert_eq!(median_with_interval(vec![2.0]), Some((2.0, None)));
        assert_eq!(median_with_interval(Vec::new()), None);
    }

    #[test]
    fn an_interval_is_that_of_the_textbook() {
        // Mean 5, standard deviation 2.138, t(7) = 2.365: 2.365 * 2.138 / sqrt(8).
        let mean = Mean::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((mean.value - 5.0).abs() < 1e-12);
        assert!((mean.half_width.unwrap() - 1.7877).abs() < 1e-3, "{mean:?}");
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        let one = Mean::of(&[3.0]).unwrap();
        assert_eq!(
            (one.value.to_bits(), one.half_width),
            (3.0_f64.to_bits(), None)
        );
        assert_eq!(Mean::of(&[]), None);
        assert_eq!(Mean::of(&[2.0, 2.0]).unwrap().half_width, Some(0.0));
    }

    #[test]
    fn means_are_apart_only_if_their_intervals_are() {
        let mean = |value: f64, half: Option<f64>| Mean {
            value,
            deviation: half,
            half_width: half,
        };
        let standing = |one, other| Standing::of(mean(one, Some(1.0)), mean(other, Some(0.5)));
        assert_eq!(standing(5.0, 3.4), Some(Standing::Higher));
        assert_eq!(standing(5.0, 3.6), Some(Standing::Overlapping));
        assert_eq!(standing(3.4, 5.0), Some(Standing::Lower));
        assert_eq!(Standing::of(mean(5.0, None), mean(3.0, Some(0.1))), None);
    }

    #[test]
    fn the_interval_of_a_median_is_found_for_any_number_of_values() {
        let interval = |count: usize| {
            let values = (0..count).map(|value| value as f64).collect();
            median_with_interval(values).unwrap().1
        };
        assert_eq!([5, 6].map(interval), [None, Some([0.0, 5.0])]);
        // Both methods give the same result at the limit between them.
        let [exact, normal] = [THROWS_MAX, THROWS_MAX + 1].map(heads_beyond_tail);
        assert_eq!(exact, normal);
        let [low, high] = interval(100_000).unwrap();
        assert!(low < 50_000.0 && 49_600.0 < low, "{low}");
        assert!((low + high - 99_999.0).abs() < 1e-9);
    }

    #[test]
    fn the_factor_only_falls_and_never_below_the_normal_distributions() {
        let factors: Vec<f64> = (1..500).map(t_95).collect();
        assert!(factors.windows(2).all(|pair| pair[0] >= pair[1]));
        assert!(factors.iter().all(|t| *t > 1.959));
        assert!((t_95(1) - 12.706).abs() < 1e-9 && (t_95(39) - 2.042).abs() < 1e-9);
        assert!((t_95(59) - 2.021).abs() < 1e-9 && (t_95(10_000) - 1.980).abs() < 1e-9);
    }
}
