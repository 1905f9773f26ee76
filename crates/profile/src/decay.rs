//! Decaying weights: an event counts half after a half-life of later events. The half-life grows with the number of
//! events up to a maximum.
//!
//! Old weights stay unchanged. New weights grow, and all are divided by the current one when they are read. So an event
//! costs one power of two. Before weights overflow, the owner scales them all.

/// The weight at which all weights must be scaled.
const WEIGHT_MAX: f64 = (1u64 << 40) as f64;
/// The half-life grows by this many events with each event. So in a new profile the first events, when all keys were
/// new, do not outweigh later ones: an event half-way back counts a tenth.
const GROWTH: f64 = 0.2;
const HALF_LIFE_FIRST: f64 = 1_000.0;

#[derive(Clone, Debug)]
pub struct Decay {
    weight: f64,
    half_life: f64,
    half_life_max: f64,
}

impl Decay {
    /// Starts without events. With `u64::MAX` events nothing decays.
    ///
    /// # Panics
    /// If `half_life_max` is 0.
    pub fn new(half_life_max: u64) -> Decay {
        assert!(half_life_max > 0, "a half-life is at least one event");
        let (half_life, half_life_max) = match half_life_max {
            u64::MAX => (f64::INFINITY, f64::INFINITY),
            events => ((events as f64).min(HALF_LIFE_FIRST), events as f64),
        };
        Decay { weight: 1.0, half_life, half_life_max }
    }

    #[inline]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Counts an event. If it returns a factor, every weight must be multiplied by it, including this event's.
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
pub struct DecayingMean {
    sum: f64,
    weight: f64,
}

impl DecayingMean {
    pub fn record(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    pub fn scale(&mut self, factor: f64) {
        self.sum *= factor;
        self.weight *= factor;
    }

    pub fn mean(&self) -> f64 {
        if self.weight == 0.0 { 0.0 } else { self.sum / self.weight }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decay, DecayingMean};

    #[test]
    fn an_event_counts_half_after_its_half_life() {
        let (mut decay, mut sum) = (Decay::new(100), 1.0);
        for event in 1..=20_000 {
            if let Some(factor) = decay.step() {
                sum *= factor;
            }
            if event % 100 == 0 && event <= 1_000 {
                let expected = 0.5f64.powi(event / 100);
                assert!((sum / decay.weight() / expected - 1.0).abs() < 1e-9, "event {event}");
            }
        }
        assert!(decay.weight() < 1e13 && sum < 1e-30);
    }

    #[test]
    fn the_first_events_of_a_new_profile_decay_fast() {
        let mut decay = Decay::new(1_000_000);
        for _ in 0..100_000 {
            assert!(decay.step().is_none());
        }
        let first_half = decay.weight();
        for _ in 0..100_000 {
            assert!(decay.step().is_none());
        }
        let left = first_half / decay.weight();
        assert!((0.08..0.12).contains(&left), "{left}");
        let mut never = Decay::new(u64::MAX);
        (0..1_000).for_each(|_| assert!(never.step().is_none()));
        assert_eq!(never.weight(), 1.0);
    }

    #[test]
    fn a_mean_follows_the_latest_values() {
        let (mut decay, mut mean) = (Decay::new(10), DecayingMean::default());
        assert_eq!(mean.mean(), 0.0);
        for event in 0..2_000 {
            if let Some(factor) = decay.step() {
                mean.scale(factor);
            }
            mean.record(if event < 1_000 { 5.0 } else { 8.0 }, decay.weight());
            if event == 999 {
                assert!((mean.mean() - 5.0).abs() < 1e-9);
            }
        }
        assert!((mean.mean() - 8.0).abs() < 1e-9);
    }
}
