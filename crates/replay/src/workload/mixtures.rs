//! The published mixtures: `two-phase`, `toy`, `three-phase`, `multi-tenant`, `time-varying`.
//!
//! "Chosen" marks parameters that the papers do not specify.

use super::lengths::Lengths;
use super::mixture::{Mixture, Stage, Zipf, key_of};
use crate::values::KEY_SIZE_BYTES;
use slabwise_base::{Random, memcached};

/// A published mixture at scale 1.
pub struct Published {
    pub requests: u64,
    /// The keys and the skew of each part.
    parts: Vec<(u64, f64)>,
    stages: Vec<Stage>,
    pub lengths: Vec<Lengths>,
}

impl Published {
    pub fn named(name: &str, seed: u64) -> Option<Published> {
        match name {
            "three-phase" => Some(three_phase(seed)),
            "multi-tenant" => Some(multi_tenant()),
            "time-varying" => Some(time_varying()),
            _ => None,
        }
    }

    /// Returns the stream of keys. `scale` is applied to the keys of each part.
    pub fn keys(&self, requests: u64, scale: impl Fn(u64) -> u64, random: Random) -> Mixture {
        let parts: Vec<_> = self.parts.iter().map(|&(keys, skew)| (scale(keys), skew)).collect();
        Mixture::new(&parts, self.stages.clone(), requests, random)
    }
}

fn stage(position: f64, shares: &[f64]) -> Stage {
    Stage { position, shares: shares.to_vec() }
}

/// Two working sets, of which the second replaces the first (PSA, ICC 2014; LAMA, ATC 2015). The slides specify 200
/// million requests, two sets of 7 million items and three phases. Chosen: ETC's popularity and lengths, with values of
/// the second set 1 KiB longer; only the first set in the first third, a linear transition in the second third, only the
/// second set in the last third.
fn three_phase(seed: u64) -> Published {
    Published {
        requests: 200_000_000,
        parts: vec![(7_000_000, 1.0); 2],
        stages: vec![stage(1.0 / 3.0, &[1.0, 0.0]), stage(2.0 / 3.0, &[0.0, 1.0])],
        lengths: vec![Lengths::etc(seed, 0), Lengths::etc(seed, 1024)],
    }
}

/// Returns one value length per part. The first two object sizes are published (MEMSYS 2019, table 6). Chosen: the other
/// sizes grow in the same proportion.
fn object_lengths(parts: usize) -> Vec<Lengths> {
    const OBJECT_SIZES_BYTES: [u32; 6] = [192, 296, 456, 704, 1088, 1672];
    const BESIDE_VALUE_BYTES: u32 = memcached::beside_value_bytes(KEY_SIZE_BYTES) as u32;
    let sizes = OBJECT_SIZES_BYTES[..parts].iter();
    sizes.map(|size| Lengths::Fixed(size - BESIDE_VALUE_BYTES)).collect()
}

/// Six applications, each with its own size class (MEMSYS 2019, table 6).
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

/// Two applications with the daily pattern of Facebook's ETC (MEMSYS 2019, section 4.2) and a constant total rate.
/// Chosen: the rate of each is a sine whose peak is twice its trough, as in ETC, with half a day between the two peaks.
fn time_varying() -> Published {
    /// The amplitude of the rate, relative to its mean.
    const DAILY_SWING: f64 = 1.0 / 3.0;
    /// The number of linear pieces that approximate the sine.
    const DAY_PIECES: u32 = 96;
    let piece = |at| {
        let position = f64::from(at) / f64::from(DAY_PIECES);
        let swing = DAILY_SWING * (std::f64::consts::TAU * position).sin();
        stage(position, &[1.0 + swing, 1.0 - swing])
    };
    Published {
        requests: 4_320_000_000,
        parts: vec![(7_000_000, 0.25); 2],
        stages: (0..=DAY_PIECES).map(piece).collect(),
        lengths: object_lengths(2),
    }
}

/// The workload of the paper on fast page moves (MEMSYS 2019): a cache is full of items of one size when requests for
/// larger items start. The first 13 % of the requests are for the first class of items, and 33 % of the other requests.
/// Each class has a Zipf distribution over its own keys.
#[derive(Debug)]
pub struct TwoPhase {
    classes: [Zipf; 2],
    phase: Random,
    first_phase_left: u64,
}

impl TwoPhase {
    pub const REQUESTS: u64 = 100_000_000;
    /// The keys of each class in the paper.
    pub const KEYS_PER_CLASS: u64 = 5_000_000;
    const SKEW: f64 = 1.0;
    const FIRST_PHASE_PERCENT: u64 = 13;
    /// The share of the second phase's requests that are for the first class.
    const FIRST_CLASS_PERCENT: u64 = 33;

    /// Returns a run of `requests` requests with `keys_per_class` keys (at least 1) in each class.
    pub fn new(requests: u64, keys_per_class: u64, mut random: Random) -> TwoPhase {
        let mut fork = || Random::new(random.next_u64());
        let classes = [fork(), fork()].map(|fork| Zipf::new(keys_per_class, Self::SKEW, fork));
        let first_phase = u128::from(requests) * u128::from(Self::FIRST_PHASE_PERCENT) / 100;
        TwoPhase { classes, phase: fork(), first_phase_left: first_phase as u64 }
    }

    pub fn next_key(&mut self) -> u64 {
        let is_first_phase = self.first_phase_left > 0;
        self.first_phase_left = self.first_phase_left.saturating_sub(1);
        let is_first = is_first_phase || self.phase.below(100) < Self::FIRST_CLASS_PERCENT;
        let class = usize::from(!is_first);
        key_of(class, self.classes[class].next_key())
    }

    /// Returns the value lengths of items with about 200 and 250 B in memcached.
    pub fn lengths() -> Lengths {
        Lengths::ByPart(vec![Lengths::Fixed(140), Lengths::Fixed(190)])
    }
}

/// The example of the LAMA slides: `a1b2c3a4b5c6...`. The three letters repeat, the digits do not. A page of 1 MiB holds
/// one item.
#[derive(Debug, Default)]
pub struct Toy {
    made: u64,
}

impl Toy {
    pub const REQUESTS: u64 = 18;
    const LETTERS: u64 = 3;

    pub fn next_key(&mut self) -> u64 {
        let round = self.made / 2;
        let is_digit = self.made % 2 == 1;
        self.made += 1;
        if is_digit { key_of(1, round) } else { key_of(0, round % Self::LETTERS) }
    }

    /// Returns value lengths above half a page, in two classes.
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
        Published::named(name, 1).expect("a published mixture")
    }

    #[test]
    fn toy_is_the_example_of_the_slides() {
        let mut toy = Toy::default();
        let names = (0..Toy::REQUESTS).map(|_| toy.next_key()).map(|key| {
            let rank = (key & 0xff) as u8;
            char::from(if part_of(key) == 0 { b'a' + rank } else { b'1' + rank })
        });
        assert_eq!(names.collect::<String>(), "a1b2c3a4b5c6a7b8c9");
    }

    #[test]
    fn the_daily_peak_is_twice_the_trough() {
        const REQUESTS: u64 = 240_000;
        let mut keys = published("time-varying").keys(REQUESTS, |keys| keys / 1000, Random::new(3));
        let mut hours = [0; 24];
        for at in 0..REQUESTS {
            hours[(at / (REQUESTS / 24)) as usize] += part_of(keys.next_key());
        }
        let (most, least) = (hours.iter().max(), hours.iter().min());
        let (most, least) = most.zip(least).expect("hours");
        let ratio = *most as f64 / *least as f64;
        assert!((1.9..2.1).contains(&ratio), "seed 3: {hours:?}");
        assert_eq!(hours.iter().position(|hour| hour == most).map(|hour| hour / 6), Some(2 + 1));
    }

    #[test]
    fn three_phase_replaces_the_first_set_by_the_second() {
        let mut keys = published("three-phase").keys(90_000, |keys| keys / 1000, Random::new(9));
        let mut second = || (0..30_000).filter(|_| part_of(keys.next_key()) == 1).count();
        let phases = [second(), second(), second()];
        assert_eq!((phases[0], phases[2]), (0, 30_000));
        assert!((14_000..16_000).contains(&phases[1]), "seed 9: {phases:?}");
    }
}
