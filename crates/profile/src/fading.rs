//! Decaying weights: an event counts half after a half-life of further ones, which grows with the number of events up
//! to a maximum.
//!
//! Old weights stay; new ones become larger, and all are divided by the present one when they are read. So an event
//! costs one power of two. Before weights overflow their owner divides them all.

/// Beyond this all weights are to be divided.
const WEIGHT_MAX: f64 = (1u64 << 40) as f64;
/// The half-life grows by so many events with each, so that in a young profile what was seen first, when all was
/// new, does not outweigh what holds: an event in the middle of all counts a tenth.
const GROWTH: f64 = 0.2;
/// What it grows from.
const HALF_LIFE_FIRST: f64 = 1_000.0;

#[derive(Clone, Debug)]
pub struct Fading {
    weight: f64,
    half_life: f64,
    half_life_max: f64,
}

impl Fading {
    /// Nothing has happened. With `u64::MAX` events nothing fades.
    ///
    /// # Panics
    /// If `half_life_max` is 0.
    pub fn new(half_life_max: u64) -> Fading {
        assert!(half_life_max > 0, "a half-life is at least one event");
        let (half_life, half_life_max) = match half_life_max {
            u64::MAX => (f64::INFINITY, f64::INFINITY),
            events => ((events as f64).min(HALF_LIFE_FIRST), events as f64),
        };
        Fading { weight: 1.0, half_life, half_life_max }
    }

    #[inline]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Another event. A number returned is what every weight is to be multiplied by, this one's included.
    #[inline]
    pub fn step(&mut self) -> Option<f64> {
        self.weight *= (1.0 / self.half_life).exp2();
        self.half_life = (self.half_life + GROWTH).min(self.half_life_max);
        if self.weight < WEIGHT_MAX {
            return None;
        }
        let factor = 1.0 / self.weight;
        self.weight = 1.0;
        Some(factor)
    }
}

#[derive(Clone, Debug, Default)]
pub struct FadingMean {
    sum: f64,
    weight: f64,
}

impl FadingMean {
    pub fn record(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    pub fn scale(&mut self, factor: f64) {
        self.sum *= factor;
        self.weight *= factor;
    }

    /// The mean; 0 of no value.
    pub fn mean(&self) -> f64 {
        if self.weight == 0.0 { 0.0 } else { self.sum / self.weight }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fading, FadingMean};

    #[test]
    fn an_event_counts_half_after_its_half_life() {
        let (mut fading, mut sum) = (Fading::new(100), 1.0);
        for event in 1..=20_000 {
            if let Some(factor) = fading.step() {
                sum *= factor;
            }
            if event % 100 == 0 && event <= 1_000 {
                let expected = 0.5f64.powi(event / 100);
                assert!((sum / fading.weight() / expected - 1.0).abs() < 1e-9, "event {event}");
            }
        }
        assert!(fading.weight() < 1e13 && sum < 1e-30);
    }

    #[test]
    fn in_a_young_profile_what_came_first_fades_fast() {
        let mut fading = Fading::new(1_000_000);
        for _ in 0..100_000 {
            assert!(fading.step().is_none());
        }
        let first_half = fading.weight();
        for _ in 0..100_000 {
            assert!(fading.step().is_none());
        }
        let left = first_half / fading.weight();
        assert!((0.08..0.12).contains(&left), "{left}");
        let mut never = Fading::new(u64::MAX);
        (0..1_000).for_each(|_| assert!(never.step().is_none()));
        assert_eq!(never.weight(), 1.0);
    }

    #[test]
    fn a_mean_follows_its_values() {
        let (mut fading, mut mean) = (Fading::new(10), FadingMean::default());
        assert_eq!(mean.mean(), 0.0);
        for event in 0..2_000 {
            if let Some(factor) = fading.step() {
                mean.scale(factor);
            }
            mean.record(if event < 1_000 { 5.0 } else { 8.0 }, fading.weight());
            if event == 999 {
                assert!((mean.mean() - 5.0).abs() < 1e-9);
            }
        }
        assert!((mean.mean() - 8.0).abs() < 1e-9);
    }
}
