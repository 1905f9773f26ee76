//! What a server keeps in seven bits of an item to estimate when the item is requested next, and the work clock that
//! measures the time since the last request.

use slabwise_base::Random;

/// Number of levels of the count of requests.
pub const COUNT_LEVELS: usize = 16;
/// Number of levels of the mean gap between two requests.
pub const GAP_LEVELS: usize = 8;
/// The level of items that were requested only once.
const NO_GAP: u8 = GAP_LEVELS as u8 - 1;

/// The lowest count of each level. Two levels double the count.
const COUNTS: [u32; COUNT_LEVELS] = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193];

/// The requests for an item: how many, and how far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    /// Level of the number of requests, from 0. The next level is reached with a probability that makes the expected
    /// number of requests right, as in a Morris counter.
    count_level: u8,
    /// Level of the mean gap, or [`NO_GAP`].
    gap_level: u8,
}

impl Uses {
    /// The first request for an item.
    pub const FIRST: Uses = Uses { count_level: 0, gap_level: NO_GAP };

    /// Counts a request that comes `gap` ticks after the last one.
    pub fn add(self, gap: u32, random: &mut Random) -> Uses {
        Uses { gap_level: self.mean_gap_level(gap, random), ..self.counted(random) }
    }

    /// Counts a request, and keeps the mean gap: for an item that was evicted meanwhile, so the gap is unknown.
    pub fn counted(self, random: &mut Random) -> Uses {
        let level = usize::from(self.count_level);
        let Some(&next) = COUNTS.get(level + 1) else { return self };
        let is_next = random.below(u64::from(next - COUNTS[level])) == 0;
        Uses { count_level: self.count_level + u8::from(is_next), ..self }
    }

    /// Returns the mean of the old gap and the new one. A mean between two levels is rounded up or down at random.
    fn mean_gap_level(self, gap: u32, random: &mut Random) -> u8 {
        // Level 0 has the gaps below 8 ticks, and each further level quadruples the gap.
        let new = (gap.max(2).ilog2() as u8 - 1) / 2;
        let new = new.min(NO_GAP - 1);
        match self.gap_level {
            NO_GAP => new,
            old => (old + new + random.below(2) as u8) / 2,
        }
    }

    /// Returns the estimated number of requests.
    pub fn count(self) -> u32 {
        COUNTS[usize::from(self.count_level)]
    }

    pub fn count_level(self) -> usize {
        usize::from(self.count_level)
    }

    pub fn gap_level(self) -> usize {
        usize::from(self.gap_level)
    }
}

/// Number of ticks in which a cache stores as many bytes as its limit.
pub const TICKS_PER_TURNOVER: u64 = 1024;

/// The work clock: measures time by the bytes that were stored.
#[derive(Clone, Copy, Debug)]
pub struct WorkClock {
    stored_bytes: u64,
    tick_bytes: u64,
}

impl WorkClock {
    pub fn new(limit_bytes: u64) -> WorkClock {
        WorkClock { stored_bytes: 0, tick_bytes: limit_bytes.div_ceil(TICKS_PER_TURNOVER).max(1) }
    }

    pub fn add(&mut self, stored_bytes: u32) {
        self.stored_bytes += u64::from(stored_bytes);
    }

    /// Returns the time in ticks.
    pub fn now(&self) -> u32 {
        (self.stored_bytes / self.tick_bytes) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{Uses, WorkClock};
    use slabwise_base::Random;

    #[test]
    fn the_mean_of_many_counters_is_the_number_of_requests() {
        let mut random = Random::new(5);
        for requests in [1, 2, 4, 9, 33, 129] {
            let mut counted = |_| {
                let first = (1..requests).fold(Uses::FIRST, |uses, _| uses.add(1, &mut random));
                f64::from(first.count())
            };
            let mean = (0..2_000).map(&mut counted).sum::<f64>() / 2_000.0;
            let error = mean / f64::from(requests) - 1.0;
            assert!(error.abs() < 0.05, "{requests} requests: mean count {mean}, seed 5");
        }
    }

    #[test]
    fn the_gap_level_is_the_mean_of_the_last_gaps() {
        let mut random = Random::new(1);
        let level = |gap| Uses::FIRST.add(gap, &mut Random::new(1)).gap_level();
        assert_eq!([0, 7, 8, 31, 32, 8_191, 8_192, u32::MAX].map(level), [0, 0, 1, 1, 2, 5, 6, 6]);
        // The mean of the levels 1 and 4 is 2 or 3.
        let levels: Vec<usize> = (0..100)
            .map(|_| Uses::FIRST.add(8, &mut random).add(512, &mut random).gap_level())
            .collect();
        let is_mean = levels.iter().all(|level| [2, 3].contains(level));
        assert!(is_mean && levels.contains(&2) && levels.contains(&3), "{levels:?}");
    }

    #[test]
    fn the_clock_counts_1024_ticks_per_turnover() {
        let mut clock = WorkClock::new(1 << 20);
        clock.add(1_023);
        assert_eq!(clock.now(), 0);
        clock.add(1);
        assert_eq!(clock.now(), 1);
        clock.add(1 << 20);
        assert_eq!(clock.now(), 1_025);
    }
}
