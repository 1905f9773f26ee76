//! Which keys are looked at: those whose hash falls below a threshold, so all references to a key or none.
//!
//! Source: C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with SHARDS", FAST
//! 2015, section 3. A distance among sampled keys, divided by the rate, estimates that among all keys.

/// 2^64 divided by the golden ratio, odd. The upper bits of a product depend on every bit of the hash, so
/// the sample is not tied to those bits that an index uses.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether a key with this hash is looked at.
#[inline]
pub fn is_sampled(hash: u64, threshold: u64) -> bool {
    hash.wrapping_mul(MULTIPLIER) <= threshold
}

/// The threshold for a rate in (0, 1]: the share of keys that are looked at.
///
/// # Panics
/// If the rate is not in (0, 1].
pub fn threshold_of(rate: f64) -> u64 {
    assert!(rate > 0.0 && rate <= 1.0, "a sampling rate is above 0 and at most 1, and not {rate}");
    (rate * NUMBERS) as u64
}

/// The rate for a threshold.
pub fn rate_of(threshold: u64) -> f64 {
    (threshold as f64 + 1.0) / NUMBERS
}

/// How many hashes there are.
const NUMBERS: f64 = (1u128 << 64) as f64;

#[cfg(test)]
mod tests {
    use super::{is_sampled, rate_of, threshold_of};
    use slabwise_base::Random;

    #[test]
    fn the_share_of_keys_is_the_rate_whatever_bits_an_index_uses() {
        assert_eq!((threshold_of(1.0), rate_of(u64::MAX)), (u64::MAX, 1.0));
        let mut random = Random::new(1);
        for rate in [0.5, 0.1, 0.01] {
            let threshold = threshold_of(rate);
            assert!((rate_of(threshold) - rate).abs() < 1e-12);
            // All hashes, and those that agree in their lowest or highest 12 bits.
            for (keep, set) in [(u64::MAX, 0), (!0xfff, 0x5a5), (!(0xfff << 52), 0xa5a << 52)] {
                let mut hash = || random.next_u64() & keep | set;
                let sampled = (0..100_000).filter(|_| is_sampled(hash(), threshold)).count() as f64;
                let deviation = (100_000.0 * rate * (1.0 - rate)).sqrt();
                let off = (sampled - 100_000.0 * rate) / deviation;
                assert!(off.abs() < 4.0, "rate {rate}, bits {set:x}: {off} deviations off");
            }
        }
    }

    #[test]
    fn a_lower_threshold_samples_fewer_of_the_same_keys() {
        let mut random = Random::new(2);
        for _ in 0..10_000 {
            let (hash, threshold) = (random.next_u64(), random.next_u64());
            assert!(!is_sampled(hash, threshold / 2) || is_sampled(hash, threshold));
        }
    }
}
