//! What the cache keeps about the requests for an item, in seven bits: how many there were, and how far apart.

/// The number of levels of the count of requests.
pub const COUNT_LEVELS: usize = 16;
/// The number of levels of the mean gap between two requests.
pub const GAP_LEVELS: usize = 8;

/// The lowest count of each level. From the fourth level on, two levels double the count. The differences between
/// successive counts are powers of two.
const COUNTS: [u32; COUNT_LEVELS] = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193];
/// The number of bits of the count level, which are the lowest bits.
const COUNT_BITS: u32 = COUNT_LEVELS.ilog2();
/// For each level, the bits of a random number that must be 0 to reach the next level. The highest bit is never 0, so the
/// highest level has no next one.
const NEXT_MASKS: [u8; COUNT_LEVELS] = {
    let mut masks = [HIGHEST_BIT; COUNT_LEVELS];
    let mut level = 0;
    while level + 1 < COUNT_LEVELS {
        masks[level] = (COUNTS[level + 1] - COUNTS[level] - 1) as u8;
        level += 1;
    }
    masks
};
const HIGHEST_BIT: u8 = 1 << (u8::BITS - 1);
/// The gap level of items that were requested only once.
const NO_GAP: u8 = GAP_LEVELS as u8 - 1;

/// The requests for an item: a level of their number, and a level of the mean gap between two requests.
///
/// ```text
///   7    6         4 3           0
/// +---+------------+-------------+
/// | 0 | gap level  | count level |      gap level 7: only one request
/// +---+------------+-------------+
/// ```
///
/// The count is a Morris counter: the next level is reached with a probability that makes the expected count right (R.
/// Morris, "Counting Large Numbers of Events in Small Registers", CACM 21(10), 1978).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses(u8);

impl Uses {
    /// The first request for an item.
    pub const FIRST: Uses = Uses::new(0, NO_GAP);

    /// The number of values that [`Uses::to_bits`] may return.
    pub const BITS_COUNT: usize = COUNT_LEVELS * GAP_LEVELS;

    const fn new(count_level: u8, gap_level: u8) -> Uses {
        Uses(count_level | gap_level << COUNT_BITS)
    }

    /// Returns the value with these bits. The highest bit is ignored.
    #[inline]
    pub fn from_bits(bits: u8) -> Uses {
        Uses(bits % Uses::BITS_COUNT as u8)
    }

    /// Returns the seven bits.
    #[inline]
    pub fn to_bits(self) -> u8 {
        self.0
    }

    /// Counts a request that comes `gap_ticks` after the last one. A tick is the time in which the cache stores 1/1,024
    /// of its memory. `random` is a random number, of which only the upper 16 bits are used.
    #[inline]
    pub fn add(self, gap_ticks: u32, random: u64) -> Uses {
        Uses::new(self.next_count_level(random), self.mean_gap_level(gap_ticks, random))
    }

    /// Counts a request, and keeps the mean gap: for an item that was evicted meanwhile, so that the gap is unknown.
    /// `random` is a random number, of which only the upper 16 bits are used.
    pub fn counted(self, random: u64) -> Uses {
        Uses::new(self.next_count_level(random), self.gap_level() as u8)
    }

    #[inline]
    fn next_count_level(self, random: u64) -> u8 {
        let level = self.count_level();
        let random = (random >> (u64::BITS - 2 * u8::BITS)) as u8;
        level as u8 + u8::from((random | HIGHEST_BIT) & NEXT_MASKS[level] == 0)
    }

    /// Returns the level of the mean of the old gap and the new one. A mean between two levels is rounded up or down at
    /// random.
    #[inline]
    fn mean_gap_level(self, gap_ticks: u32, random: u64) -> u8 {
        // Level 0 has the gaps below 8 ticks, and each further level quadruples the gap.
        let new = ((gap_ticks.max(2).ilog2() as u8 - 1) / 2).min(NO_GAP - 1);
        match self.gap_level() as u8 {
            NO_GAP => new,
            old => (old + new + (random >> (u64::BITS - 1)) as u8) / 2,
        }
    }

    /// Returns the estimated number of requests.
    pub fn count(self) -> u32 {
        COUNTS[self.count_level()]
    }

    /// Returns the level of the number of requests, below [`COUNT_LEVELS`].
    #[inline]
    pub fn count_level(self) -> usize {
        usize::from(self.0) % COUNT_LEVELS
    }

    /// Returns the level of the mean gap, below [`GAP_LEVELS`]. The highest level: there was only one request.
    #[inline]
    pub fn gap_level(self) -> usize {
        usize::from(self.0 >> COUNT_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTS, Uses};
    use crate::Random;

    #[test]
    fn the_mean_of_many_counters_is_the_number_of_requests() {
        let mut random = Random::new(5);
        for requests in [1, 2, 4, 9, 33, 129] {
            let mut counted = |_| {
                let last =
                    (1..requests).fold(Uses::FIRST, |uses, _| uses.add(1, random.next_u64()));
                f64::from(last.count())
            };
            let mean = (0..2_000).map(&mut counted).sum::<f64>() / 2_000.0;
            let error = mean / f64::from(requests) - 1.0;
            assert!(error.abs() < 0.05, "{requests} requests: mean count {mean}, seed 5");
        }
    }

    #[test]
    fn the_gap_level_is_the_mean_of_the_last_gaps() {
        let level = |gap| Uses::FIRST.add(gap, 0).gap_level();
        assert_eq!([0, 7, 8, 31, 32, 8_191, 8_192, u32::MAX].map(level), [0, 0, 1, 1, 2, 5, 6, 6]);
        let mean_of_1_and_4 = |random| Uses::FIRST.add(8, 0).add(512, random).gap_level();
        assert_eq!([0, u64::MAX].map(mean_of_1_and_4), [2, 3]);
    }

    #[test]
    fn the_bits_represent_the_same_uses_and_the_highest_count_stays() {
        let mut uses = Uses::FIRST;
        for _ in 0..100 {
            uses = uses.add(40, 0);
            assert_eq!(Uses::from_bits(uses.to_bits() | 0x80), uses);
            assert!(usize::from(uses.to_bits()) < Uses::BITS_COUNT);
        }
        assert_eq!((uses.count(), uses.gap_level()), (COUNTS[15], 2));
        assert!(COUNTS.windows(2).all(|pair| (pair[1] - pair[0]).is_power_of_two()));
    }
}
