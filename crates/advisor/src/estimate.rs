//! A number with its error: "0.041, between 0.038 and 0.044".
//!
//! An estimate has two errors, which are independent of each other:
//!
//! - *Chance*: only some keys were seen, for a limited time. The keys are divided into groups by their hashes, and the number
//!   is computed again without each group. Source: B. Efron, C. Stein, "The Jackknife Estimate of Variance", Annals of
//!   Statistics 9, 1981.
//! - *Model*: the server evicts differently from the model. This error is a share of the number. The benchmark
//!   `bench/advise` measured it.
//!
//! Invariant: `low <= value <= high`. The band is meant to contain the number in nine of ten cases.

use serde::Serialize;

/// A number and its band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The lower end of the band.
    pub low: f64,
    /// The upper end of the band.
    pub high: f64,
}

/// The quantile of Student's t distribution that a value exceeds in one of twenty cases, with 7 degrees of freedom: one
/// fewer than the groups of keys.
const T_QUANTILE: f64 = 1.895;

impl Estimate {
    /// Returns a number without an error.
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// Returns the estimate `value`, which must be at least 0. `without` are the same number without each group of keys.
    /// `model_error` is the error of the model as a share of the number.
    pub fn new(value: f64, without: &[f64], model_error: f64) -> Estimate {
        let by_chance = T_QUANTILE * deviation(without);
        let error = by_chance.hypot(model_error * value);
        Estimate { value, low: (value - error).max(0.0), high: value + error }
    }

    /// Returns the estimate with all three numbers multiplied by `factor`, which must not be negative.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Returns the estimate with all three numbers at most `limit`.
    pub fn at_most(self, limit: f64) -> Estimate {
        let Estimate { value, low, high } = self;
        Estimate { value: value.min(limit), low: low.min(limit), high: high.min(limit) }
    }

    /// Returns the sum of two estimates whose errors are independent.
    pub fn plus(self, other: Estimate) -> Estimate {
        let value = self.value + other.value;
        let below = (self.value - self.low).hypot(other.value - other.low);
        let above = (self.high - self.value).hypot(other.high - other.value);
        Estimate { value, low: value - below, high: value + above }
    }
}

/// Returns the standard deviation of a number by the delete-a-group jackknife.
fn deviation(without: &[f64]) -> f64 {
    let count = without.len() as f64;
    if without.len() < 2 {
        return 0.0;
    }
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    (squares * (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::Estimate;
    use slabwise_base::Random;

    #[test]
    fn the_band_of_a_mean_contains_it_in_nine_of_ten_cases() {
        let (mut random, mut contained) = (Random::new(1), 0);
        const CASES: u32 = 2_000;
        for _ in 0..CASES {
            // The sum of 800 numbers with mean 10 in eight groups.
            let groups: Vec<f64> =
                (0..8).map(|_| (0..100).map(|_| random.below(21) as f64).sum()).collect();
            let sum: f64 = groups.iter().sum();
            let without: Vec<f64> = groups.iter().map(|group| (sum - group) / 700.0).collect();
            let found = Estimate::new(sum / 800.0, &without, 0.0);
            contained += u32::from(found.low <= 10.0 && 10.0 <= found.high);
        }
        let share = f64::from(contained) / f64::from(CASES);
        assert!((0.88..0.92).contains(&share), "seed 1: {share}");
    }

    #[test]
    fn both_errors_widen_the_band() {
        let model = Estimate::new(100.0, &[100.0; 8], 0.04);
        assert_eq!((model.low, model.high), (96.0, 104.0));
        let sum = model.plus(Estimate { value: 50.0, low: 47.0, high: 53.0 });
        assert_eq!((sum.value, sum.low, sum.high), (150.0, 145.0, 155.0));
        let half = sum.times(0.5).at_most(77.0);
        assert_eq!((half.value, half.low, half.high), (75.0, 72.5, 77.0));
    }
}
