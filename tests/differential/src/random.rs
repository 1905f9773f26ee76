//! Random choices.

use slabwise_base::Random;

/// A source of random choices.
pub struct Choices(Random);

impl Choices {
    /// Returns a source. Sources with the same seed make the same choices.
    pub fn new(seed: u64) -> Choices {
        Choices(Random::new(seed))
    }

    /// Returns a random 64-bit number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).expect("a number below a usize is a usize")
    }

    /// True with a probability of `percent` / 100.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True with a probability of 1 / `count`.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns one of the values. Each has the same probability.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns one of the values. The probability of a value is proportional to its weight.
    pub fn weighted<T: Copy>(&mut self, values: &[(usize, T)]) -> T {
        let mut at = self.below(values.iter().map(|(weight, _)| weight).sum());
        for &(weight, value) in values {
            if at < weight {
                return value;
            }
            at -= weight;
        }
        unreachable!("a number below the sum of all weights belongs to one of the values")
    }
}
