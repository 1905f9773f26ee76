//! The workloads that papers and slides describe: `two-phase`, `toy`, `three-phase`, `multi-tenant`, `time-varying`.
//!
//! The papers do not specify all parameters. The comments begin with "Chosen:" where a parameter is our choice. "MEMSYS
//! 2019" is D. Byrne, N. Onder, Z. Wang, "Faster Slab Reassignment in Memcached", MEMSYS 2019.

use super::lengths::Lengths;
use super::mixture::{Mixture, Stage, Zipf, key_of};
use crate::values::KEY_SIZE_BYTES;
use slabwise_base::{Random, memcached};

/// The parameters of a published mixture at scale 1.
pub struct Published {
    /// The number of requests.
    pub requests: u64,
    /// One entry per part: its number of keys and the exponent of its Zipf distribution.
    parts: Vec<(u64, f64)>,
    stages: Vec<Stage>,
    /// One entry per part: the lengths of its values.
    pub lengths: Vec<Lengths>,
}

impl Published {
    /// Returns the mixture with this name, or `None` if there is none. `seed` determines the value lengths.
    pub fn named(name: &str, seed: u64) -> Option<Published> {
        match name {
            "three-phase" => Some(three_phase(seed)),
            "multi-tenant" => Some(multi_tenant()),
            "time-varying" => Some(time_varying()),
            _ => None,
        }
    }

    /// Returns the stream of keys for a run of `requests` requests. `scale` converts the number of keys of each part.
    pub fn keys(&self, requests: u64, scale: impl Fn(u64) -> u64, random: Random) -> Mixture {
        let parts: Vec<_> = self.parts.iter().map(|&(keys, skew)| (scale(keys), skew)).collect();
        Mixture::new(&parts, self.stages.clone(), requests, random)
    }
}

fn stage(position: f64, shares: &[f64]) -> Stage {
    Stage { position, shares: shares.to_vec() }
}

/// Two sets of keys. Requests for the second set replace requests for the first set (PSA, ICC 2014; LAMA, ATC 2015).
/// LAMA's slides specify 200 million requests, two sets of 7 million items, and three phases.
///
/// Chosen: The popularity and the lengths of ETC, but values of the second set are 1 KiB longer. The first third of the
/// run requests only the first set, and the last third requests only the second set. In between, the shares change
/// linearly.
fn three_phase(seed: u64) -> Published {
    Published {
        requests: 200_000_000,
        parts: vec![(7_000_000, 1.0); 2],
        stages: vec![stage(1.0 / 3.0, &[1.0, 0.0]), stage(2.0 / 3.0, &[0.0, 1.0])],
        lengths: vec![Lengths::etc(seed, 0), Lengths::etc(seed, 1024)],
    }
}

/// Returns the value lengths of `parts` parts: each part has objects of one size. The first two object sizes are
/// published (MEMSYS 2019, section 4.3). Chosen: each further object size is larger in the same proportion.
fn object_lengths(parts: usize) -> Vec<Lengths> {
    const OBJECT_SIZES_BYTES: [u32; 6] = [192, 296, 456, 704, 1088, 1672];
    const BESIDE_VALUE_BYTES: u32 = memcached::beside_value_bytes(KEY_SIZE_BYTES) as u32;
    let sizes = OBJECT_SIZES_BYTES[..parts].iter();
    sizes.map(|size| Lengths::Fixed(size - BESIDE_VALUE_BYTES)).collect()
}

/// Six applications, each with objects of one size, so that each uses another class (MEMSYS 2019, table 6).
fn multi_tenant() -> Published {
    let skews = [0.25, 0.25, 0.85, 0.85, 1.0, 1.0];
    let keys = [7_000_000, 3_500_000, 7_000_000, 3_500_000, 10_000_000, 5_000_000];
    Published {
        requests: 600_000_000,
        parts: keys.into_iter().zip(skews).collect(),
        stages: vec![stage(0.0, &[1.0; 6])],
        lengths: object_lengths(6),
    }
}

/// Two applications with the daily pattern of Facebook's ETC (MEMSYS 2019, section 4.2). The sum of their rates is
/// constant.
///
/// Chosen: The rate of each application is a sine over one day. Its maximum is twice its minimum, as in ETC, and one
/// application has its maximum when the other has its minimum.
fn time_varying() -> Published {
    /// The amplitude of the sine, as a factor of the mean rate. The maximum 4/3 is then twice the minimum 2/3.
    const AMPLITUDE: f64 = 1.0 / 3.0;
    /// The number of lines that approximate the sine.
    const LINES: u32 = 96;
    let stage_at = |at| {
        let position = f64::from(at) / f64::from(LINES);
        let deviation = AMPLITUDE * (std::f64::consts::TAU * position).sin();
        stage(position, &[1.0 + deviation, 1.0 - deviation])
    };
    Published {
        requests: 4_320_000_000,
        parts: vec![(7_000_000, 0.25); 2],
        stages: (0..=LINES).map(stage_at).collect(),
        lengths: object_lengths(2),
    }
}

/// The workload of the paper on fast page moves (MEMSYS 2019). Items of one size fill the cache, and then requests for
/// larger items start.
///
/// The items have two sizes, which two classes store. In the first phase, the first 13 % of the requests, all requests
/// are for the first class. In the second phase, 33 % of the requests are for the first class, and 67 % for the second.
/// Each class has its own keys with a Zipf distribution.
#[derive(Debug)]
pub struct TwoPhase {
    /// The keys of each class.
    classes: [Zipf; 2],
    /// Draws the class of each request of the second phase.
    random: Random,
    /// The number of remaining requests of the first phase.
    first_phase_left: u64,
}

impl TwoPhase {
    /// The number of requests in the paper.
    pub const REQUESTS: u64 = 100_000_000;
    /// The number of keys of each class in the paper.
    pub const KEYS_PER_CLASS: u64 = 5_000_000;
    /// The exponent of the Zipf distribution of each class.
    const SKEW: f64 = 1.0;
    /// The share of the requests that belong to the first phase.
    const FIRST_PHASE_PERCENT: u64 = 13;
    /// The share of the second phase's requests that are for the first class.
    const FIRST_CLASS_PERCENT: u64 = 33;

    /// Returns the keys of a run of `requests` requests with `keys_per_class` keys in each class. Panics if
    /// `keys_per_class` is 0.
    pub fn new(requests: u64, keys_per_class: u64, mut random: Random) -> TwoPhase {
        let mut fork = || Random::new(random.next_u64());
        let classes = [fork(), fork()].map(|fork| Zipf::new(keys_per_class, Self::SKEW, fork));
        let first_phase = u128::from(requests) * u128::from(Self::FIRST_PHASE_PERCENT) / 100;
        TwoPhase { classes, random: fork(), first_phase_left: first_phase as u64 }
    }

    /// Returns the next key.
    pub fn next_key(&mut self) -> u64 {
        let is_first_phase = self.first_phase_left > 0;
        self.first_phase_left = self.first_phase_left.saturating_sub(1);
        let is_first_class = is_first_phase || self.random.below(100) < Self::FIRST_CLASS_PERCENT;
        let class = usize::from(!is_first_class);
        key_of(class, self.classes[class].next_key())
    }

    /// Returns the value lengths of the two classes. In memcached, the items of the first class have about 200
    /// bytes, and those of the second class about 250 bytes.
    pub fn lengths() -> Lengths {
        Lengths::ByPart(vec![Lengths::Fixed(140), Lengths::Fixed(190)])
    }
}

/// The example of the LAMA slides: the keys `a1b2c3a4b5c6...`. Three letters are requested in turn, and each number is
/// requested only once. A page of 1 MiB holds only one item.
#[derive(Debug, Default)]
pub struct Toy {
    /// The number of keys returned so far.
    made: u64,
}

impl Toy {
    pub const REQUESTS: u64 = 18;
    /// The number of letters.
    const LETTERS: u64 = 3;

    /// Returns the next key.
    pub fn next_key(&mut self) -> u64 {
        let round = self.made / 2;
        let is_number = self.made % 2 == 1;
        self.made += 1;
        if is_number { key_of(1, round) } else { key_of(0, round % Self::LETTERS) }
    }

    /// Returns the value lengths of the letters and of the numbers. They belong to two classes, and are longer than
    /// half a page of 1 MiB.
    pub fn lengths() -> Lengths {
        Lengths::ByPart(vec![Lengths::Fixed(600_000), Lengths::Fixed(1_000_000)])
    }
}

#[cfg(test)]
mod tests {
    use super::{Published, Toy};
    use crate::workload::mixture::part_of;
    use slabwise_base::Random;

    fn published(name: &str) -> Published {
        Published::named(name, 1).expect("the name is that of a published mixture")
    }

    #[test]
    fn the_keys_of_toy_are_those_of_the_slides() {
        let mut toy = Toy::default();
        let names = (0..Toy::REQUESTS).map(|_| toy.next_key()).map(|key| {
            let rank = (key & 0xff) as u8;
            char::from(if part_of(key) == 0 { b'a' + rank } else { b'1' + rank })
        });
        assert_eq!(names.collect::<String>(), "a1b2c3a4b5c6a7b8c9");
    }

    #[test]
    fn the_maximum_of_the_daily_rate_is_twice_its_minimum() {
        const REQUESTS: u64 = 240_000;
        let mut keys = published("time-varying").keys(REQUESTS, |keys| keys / 1000, Random::new(3));
        let mut hours = [0; 24];
        for at in 0..REQUESTS {
            hours[(at / (REQUESTS / 24)) as usize] += part_of(keys.next_key());
        }
        let (most, least) = (hours.iter().max(), hours.iter().min());
        let (most, least) = most.zip(least).expect("a day has hours");
        let ratio = *most as f64 / *least as f64;
        assert!((1.9..2.1).contains(&ratio), "seed 3: {hours:?}");
        assert_eq!(hours.iter().position(|hour| hour == most).map(|hour| hour / 6), Some(2 + 1));
    }

    #[test]
    fn requests_for_the_second_set_replace_those_for_the_first() {
        let mut keys = published("three-phase").keys(90_000, |keys| keys / 1000, Random::new(9));
        let mut second = || (0..30_000).filter(|_| part_of(keys.next_key()) == 1).count();
        let phases = [second(), second(), second()];
        assert_eq!((phases[0], phases[2]), (0, 30_000));
        assert!((14_000..16_000).contains(&phases[1]), "seed 9: {phases:?}");
    }
}
