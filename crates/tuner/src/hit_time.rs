//! How long a hit takes lately: a moving average.

/// The average so far, of timed turns: the time from receiving requests to sending their answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitTime {
    shares: u64,
    nanos: u64,
    mean_us: Option<f64>,
}

impl HitTime {
    /// A mean of fewer shares says little.
    const SHARES_MIN: u64 = 1_000;
    /// The weight of the newest mean beside those before it.
    const WEIGHT_NEW: f64 = 0.2;

    /// The average in microseconds, when there is a new one. Takes the shares of all timed turns and their
    /// nanoseconds, both since the start.
    pub fn look(&mut self, (shares, nanos): (u64, u64)) -> Option<f64> {
        let new_shares = shares - self.shares;
        if new_shares < HitTime::SHARES_MIN {
            return None;
        }
        let new_us = (nanos.saturating_sub(self.nanos)) as f64 / 1e3 / new_shares as f64;
        (self.shares, self.nanos) = (shares, nanos);
        let before = self.mean_us.unwrap_or(new_us);
        self.mean_us = Some(before + (new_us - before) * HitTime::WEIGHT_NEW);
        self.mean_us
    }
}

#[cfg(test)]
mod tests {
    use super::HitTime;

    #[test]
    fn the_average_follows_the_newest_thousand_by_a_fifth() {
        let mut hit_time = HitTime::default();
        assert_eq!(hit_time.look((999, 999_000)), None, "too few");
        assert_eq!(hit_time.look((1_000, 10_000_000)), Some(10.0));
        assert_eq!(hit_time.look((1_500, 20_000_000)), None);
        assert_eq!(hit_time.look((2_000, 30_000_000)), Some(12.0), "10 and a fifth of 20 - 10");
        assert_eq!(hit_time.look((3_000, 0)), Some(9.6), "time that went back is no time");
    }
}
