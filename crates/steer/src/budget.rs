//! The rate limit of page moves: a bucket of tokens, one for each move.
//!
//! Invariants: the bucket never holds more than its capacity; between two fills at once, the moves of a minute are at most
//! the capacity plus `per_minute`; two fills at once are at least [`FILL_NANOS_MIN`] apart.

/// The shortest time between two fills at once.
const FILL_NANOS_MIN: u64 = 40_000_000_000;

/// The rate limit of page moves.
#[derive(Clone, Debug)]
pub struct Budget {
    per_minute: f64,
    capacity: f64,
    tokens: f64,
    /// The time of the last refill, in nanoseconds of the caller's clock.
    refilled_at_nanos: u64,
    /// The time at which the bucket was last filled at once.
    filled_at_nanos: u64,
}

impl Budget {
    /// Creates a full bucket for `capacity` moves, which receives `per_minute` moves a minute.
    pub fn new(per_minute: f64, capacity: usize, now_nanos: u64) -> Budget {
        let capacity = capacity as f64;
        Budget {
            per_minute,
            capacity,
            tokens: capacity,
            refilled_at_nanos: now_nanos,
            filled_at_nanos: now_nanos,
        }
    }

    /// Fills the bucket, unless it was filled a short time ago.
    pub fn refill(&mut self, now_nanos: u64) {
        if now_nanos.saturating_sub(self.filled_at_nanos) >= FILL_NANOS_MIN {
            (self.tokens, self.filled_at_nanos) = (self.capacity, now_nanos);
        }
    }

    /// Returns the number of moves that are allowed now.
    pub fn allowed(&mut self, now_nanos: u64) -> usize {
        const NANOS_PER_MINUTE: f64 = 60e9;
        let nanos = now_nanos.saturating_sub(self.refilled_at_nanos) as f64;
        self.refilled_at_nanos = now_nanos;
        let refilled = self.tokens + nanos / NANOS_PER_MINUTE * self.per_minute;
        self.tokens = refilled.min(self.capacity);
        self.tokens as usize
    }

    /// Takes the tokens of this number of moves; no more than there are.
    pub fn spend(&mut self, moves: usize) {
        self.tokens = (self.tokens - moves as f64).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_bucket_starts_full_and_refills_at_its_rate() {
        let mut budget = Budget::new(6.0, 8, 0);
        assert_eq!(budget.allowed(0), 8);
        budget.spend(8);
        assert_eq!(budget.allowed(9 * SECOND), 0);
        assert_eq!(budget.allowed(11 * SECOND), 1);
        assert_eq!(budget.allowed(600 * SECOND), 8, "the capacity is the maximum");
        budget.spend(20);
        assert_eq!(budget.allowed(600 * SECOND), 0);
    }

    #[test]
    fn the_bucket_is_not_filled_twice_within_the_shortest_time() {
        let mut budget = Budget::new(6.0, 8, 0);
        budget.spend(8);
        budget.refill(30 * SECOND);
        assert_eq!(budget.allowed(30 * SECOND), 3);
        budget.refill(40 * SECOND);
        assert_eq!(budget.allowed(40 * SECOND), 8);
        budget.spend(8);
        budget.refill(79 * SECOND);
        assert!(budget.allowed(79 * SECOND) < 8);
    }
}
