//! The work clock of simulations, which measures time by the bytes that were stored.

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
    use super::WorkClock;

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
