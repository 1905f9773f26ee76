//! The keys of a campaign: their names, how often each is used, and the lengths of their values.

use slabwise_base::Random;
use slabwise_base::random::mix;

/// The longest name of a key, in bytes.
const NAME_LEN_MAX: usize = 250;

/// The number of keys, and the skew of their use.
#[derive(Clone, Debug)]
pub struct Keys {
    count: u32,
    names: Vec<Vec<u8>>,
    /// The sum of the weights of all keys up to each one.
    sums: Vec<f64>,
}

impl Keys {
    /// Returns keys whose n-th one has a weight of n to the power of `-skew`.
    pub fn new(count: u32, skew: f64, seed: u64) -> Keys {
        let mut sum = 0.0;
        let weight = |rank: u32| f64::from(rank + 1).powf(-skew);
        let sums = (0..count).map(|rank| {
            sum += weight(rank);
            sum
        });
        Keys { sums: sums.collect(), names: (0..count).map(|key| name(key, seed)).collect(), count }
    }

    /// Returns the name of a key.
    pub fn name(&self, key: u32) -> &[u8] {
        &self.names[key as usize]
    }

    /// Draws a key.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let total = self.sums.last().copied().unwrap_or_default();
        let at = random.unit() * total;
        (self.sums.partition_point(|&sum| sum <= at) as u32).min(self.count - 1)
    }
}

/// Returns the name of a key. One of ten names is long, and one of a hundred has the maximum length.
fn name(key: u32, seed: u64) -> Vec<u8> {
    let mut random = Random::new(mix(seed ^ u64::from(key)));
    let mut name = format!("k{key}").into_bytes();
    let len = match random.below(100) {
        0 => NAME_LEN_MAX,
        1..10 => random.below(NAME_LEN_MAX as u64) as usize,
        _ => random.below(24) as usize,
    };
    if name.len() + 1 < len {
        name.push(b':');
        while name.len() < len {
            name.push(b'!' + random.below(94) as u8);
        }
    }
    name
}

/// The length of a large value, in bytes. Such values are chains of chunks.
const LARGE_LEN_MAX: u32 = 1 << 20;

/// The lengths of values.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// The largest value, in bytes.
    pub len_max: u32,
    /// One of this number of values has a length of up to [`LARGE_LEN_MAX`]; the others have at most some kilobytes.
    pub large_one_in: u64,
    /// One of this number of values has a length of up to `len_max`.
    pub huge_one_in: u64,
}

impl Lengths {
    /// Draws a length.
    pub fn draw(&self, random: &mut Random) -> u32 {
        if random.below(self.huge_one_in) == 0 {
            return random.below(u64::from(self.len_max) + 1) as u32;
        }
        if random.below(self.large_one_in) == 0 {
            return random.below(u64::from(self.len_max.min(LARGE_LEN_MAX)) + 1) as u32;
        }
        match random.below(100) {
            0..4 => random.below(16) as u32,
            4..60 => random.below(200) as u32,
            60..90 => random.below(1500) as u32,
            90..99 => random.below(9000) as u32,
            _ => random.below(70_000) as u32,
        }
        .min(self.len_max)
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;
    use slabwise_base::Random;
    use std::collections::HashSet;

    #[test]
    fn names_are_different_and_valid_and_the_first_keys_are_used_most() {
        let keys = Keys::new(3000, 1.0, 5);
        let names: HashSet<&[u8]> = (0..3000).map(|key| keys.name(key)).collect();
        assert_eq!(names.len(), 3000);
        assert!(names.iter().all(|it| it.len() <= 250 && it.iter().all(u8::is_ascii_graphic)));
        let mut random = Random::new(1);
        let draws: Vec<u32> = (0..10_000).map(|_| keys.draw(&mut random)).collect();
        assert!(draws.iter().filter(|&&key| key < 30).count() > 3000);
        assert!(draws.iter().any(|&key| key > 2500));
    }
}
