//! Decaying weights: an event counts half after a half-life of later events. The half-life grows with the number of
//! events up to a maximum.
//!
//! The weights of old events are not changed. Instead the weight of each new event is larger than that of the event
//! before, and a reader divides all weights by the current weight. So an event costs only one power of two. Before
//! weights overflow, the owner of the recorded weights multiplies all of them by a factor.

/// The current weight at which the owner must multiply all weights by a factor.
const WEIGHT_MAX: f64 = (1u64 << 40) as f64;
/// The number of events by which each event increases the half-life. So old events decay fast in a new profile: when
/// the number of events has doubled, an event of the first half counts at most a tenth of a new event. The first events
/// are not typical, because all keys were new.
const GROWTH: f64 = 0.2;
/// The half-life at the start, in events.
const HALF_LIFE_FIRST: f64 = 1_000.0;

/// The current weight of an event.
#[derive(Clone, Debug)]
pub struct Decay {
    weight: f64,
    /// The current half-life, in events.
    half_life: f64,
    /// The maximum half-life, in events.
    half_life_max: f64,
}

impl Decay {
    /// Starts without events. `half_life_max` is a number of events; with `u64::MAX` no event decays.
    ///
    /// # Panics
    /// Panics if `half_life_max` is 0.
    pub fn new(half_life_max: u64) -> Decay {
        assert!(half_life_max > 0, "the maximum half-life must be at least 1 event, not 0");
        let (half_life, half_life_max) = match half_life_max {
            u64::MAX => (f64::INFINITY, f64::INFINITY),
            events => ((events as f64).min(HALF_LIFE_FIRST), events as f64),
        };
        Decay { weight: 1.0, half_life, half_life_max }
    }

    /// Returns the weight of an event that occurs now.
    #[inline]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Counts an event and increases the current weight. If the function returns a factor, the owner must multiply all
    /// recorded weights by the factor, before it records this event.
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

/// The weighted mean of values.
#[derive(Clone, Debug, Default)]
pub struct DecayingMean {
    /// The sum of all values, each times its weight.
    sum: f64,
    /// The sum of all weights.
    weight: f64,
}

impl DecayingMean {
    pub fn record(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    /// Adds the values of another mean. Their weights are multiplied by this share.
    pub fn add(&mut self, other: &DecayingMean, share: f64) {
        self.sum += other.sum * share;
        self.weight += other.weight * share;
    }

    /// Multiplies all weights by this factor.
    pub fn scale(&mut self, factor: f64) {
        self.sum *= factor;
        self.weight *= factor;
    }

    /// Returns the mean; 0 if there are no values.
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
                assert!(
                    (sum / decay.weight() / expected - 1.0).abs() < 1e-9,
                    "event {event}: the weight of the first event has halved"
                );
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
        assert!((0.08..0.12).contains(&left), "the first half counts about a tenth, not {left}");
        let mut never = Decay::new(u64::MAX);
        (0..1_000).for_each(|_| assert!(never.step().is_none()));
        assert_eq!(never.weight(), 1.0);
    }

    #[test]
    fn a_decaying_mean_approaches_the_latest_values() {
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
