//! A seeded generator of random numbers (SplitMix64). The engine and the policies use no other source of random
//! numbers, so that two runs with the same seed make the same decisions.
//!
//! Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, section 4. The
//! function [`mix`] is D. Stafford's variant 13.

/// A generator of random 64-bit numbers. It is not cryptographically secure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns a generator. Generators with the same seed return the same numbers.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns the next number. Every `u64` has the same probability.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a random number from 0 to `bound - 1`. For bounds under 2^32 the relative difference between the
    /// probabilities of two numbers is under 2^-32. Panics if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound of a random number must be above 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a random number of at least 0 and below 1, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }
}

/// Mixes 64 bits so that a change of one input bit flips each output bit with a probability of about one half.
pub fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Converts the upper 53 of 64 random bits to a number of at least 0 and below 1.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn returns_the_numbers_of_the_published_reference_test() {
        // The first outputs of SplitMix64 for seed 1234567, from the generator's reference tests.
        let mut random = Random::new(1234567);
        assert_eq!(random.next_u64(), 6457827717110365317);
        assert_eq!(random.next_u64(), 3203168211198807973);
    }

    #[test]
    fn below_5_returns_every_number_from_0_to_4() {
        let mut random = Random::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
