//! The published mixtures: `toy`, `three-phase`, `multi-tenant`, `time-varying`.
//!
//! What a paper leaves open is chosen here, and said where it is chosen.

use super::lengths::{EtcLengths, Lengths};
use super::mixture::{Mixture, Stage, key_of};
use crate::values::KEY_SIZE_BYTES;
use slabwise_base::{Random, memcached};

/// Bytes that memcached counts for an item beside its value.
const BESIDE_VALUE_BYTES: u32 = memcached::beside_value_bytes(KEY_SIZE_BYTES) as u32;

/// A mixture by name, with the lengths of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixtureName {
    /// Two working sets, of which the second comes in the place of the first (PSA, ICC 2014; LAMA, ATC
    /// 2015). The slides tell 200 million requests, two sets of 7 million items and three phases with a
    /// pattern each. Chosen: ETC's popularity and lengths, those of the second set a KiB longer; only the
    /// first set for a third, then the second takes over evenly for a third, then only the second.
    ThreePhase,
    /// Six applications, each with a class of its own (MEMSYS 2019, table 6). Told are the first two object
    /// sizes; the others are chosen in the same proportion.
    MultiTenant,
    /// Two applications at the daily shape of Facebook's ETC (MEMSYS 2019, section 4.2). Told: an hour has
    /// the same number of requests all day long. Chosen: each one's rate is a sine whose peak is twice its
    /// trough, as ETC's is, and the two lie half a day apart; objects as the first two of `MultiTenant`.
    TimeVarying,
}

/// The keys and skew of one part, at scale 1.
type Part = (u64, f64);

const THREE_PHASE: [Part; 2] = [(7_000_000, 1.0); 2];
/// How much longer the second set's values are.
const SECOND_SET_MORE_BYTES: u32 = 1024;

const MULTI_TENANT: [Part; 6] = [
    (7_000_000, 0.25),
    (3_500_000, 0.25),
    (7_000_000, 0.85),
    (3_500_000, 0.85),
    (10_000_000, 1.0),
    (5_000_000, 1.0),
];
const OBJECT_SIZES_BYTES: [u32; 6] = [192, 296, 456, 704, 1088, 1672];

const TIME_VARYING: [Part; 2] = [(7_000_000, 0.25); 2];
/// Half of what the rate swings by, against its mean: the peak is twice the trough.
const DAILY_SWING: f64 = 1.0 / 3.0;
/// Straight pieces of the sine.
const DAY_PIECES: u32 = 96;

impl MixtureName {
    /// Requests of the published run.
    pub fn requests(self) -> u64 {
        match self {
            MixtureName::ThreePhase => 200_000_000,
            MixtureName::MultiTenant => 600_000_000,
            MixtureName::TimeVarying => 4_320_000_000,
        }
    }

    /// The stream of keys; `scale` multiplies every part's keys.
    pub fn keys(self, requests: u64, scale: impl Fn(u64) -> u64, random: Random) -> Mixture {
        let parts: Vec<Part> =
            self.parts().iter().map(|&(keys, skew)| (scale(keys), skew)).collect();
        Mixture::new(&parts, self.stages(), requests, random)
    }

    fn parts(self) -> &'static [Part] {
        match self {
            MixtureName::ThreePhase => &THREE_PHASE,
            MixtureName::MultiTenant => &MULTI_TENANT,
            MixtureName::TimeVarying => &TIME_VARYING,
        }
    }

    fn stages(self) -> Vec<Stage> {
        let stage = |position, shares: &[f64]| Stage { position, shares: shares.to_vec() };
        match self {
            MixtureName::ThreePhase => {
                vec![stage(1.0 / 3.0, &[1.0, 0.0]), stage(2.0 / 3.0, &[0.0, 1.0])]
            }
            MixtureName::MultiTenant => vec![stage(0.0, &[1.0; 6])],
            MixtureName::TimeVarying => {
                let piece = |at| {
                    let position = f64::from(at) / f64::from(DAY_PIECES);
                    let swing = DAILY_SWING * (std::f64::consts::TAU * position).sin();
                    stage(position, &[1.0 + swing, 1.0 - swing])
                };
                (0..=DAY_PIECES).map(piece).collect()
            }
        }
    }

    /// How long the values are.
    pub fn lengths(self, seed: u64) -> Lengths {
        let fixed = |&size: &u32| Lengths::Fixed(size - BESIDE_VALUE_BYTES);
        Lengths::ByPart(match self {
            MixtureName::ThreePhase => vec![
                Lengths::Etc(EtcLengths::new(seed)),
                Lengths::Etc(EtcLengths::longer(seed, SECOND_SET_MORE_BYTES)),
            ],
            MixtureName::MultiTenant => OBJECT_SIZES_BYTES.iter().map(fixed).collect(),
            MixtureName::TimeVarying => OBJECT_SIZES_BYTES[..2].iter().map(fixed).collect(),
        })
    }
}

/// The example of the LAMA slides: `a1b2c3a4b5c6...`. Letters come again after three, digits never; a page
/// of a mebibyte holds one item of either.
#[derive(Debug, Default)]
pub struct Toy {
    made: u64,
}

impl Toy {
    /// Requests of the example.
    pub const REQUESTS: u64 = 18;
    /// The loop over letters.
    const LETTERS: u64 = 3;

    /// The next key.
    pub fn next_key(&mut self) -> u64 {
        let round = self.made / 2;
        let is_digit = self.made % 2 == 1;
        self.made += 1;
        if is_digit { key_of(1, round) } else { key_of(0, round % Self::LETTERS) }
    }

    /// How long the values are: more than half a page, and of two classes.
    pub fn lengths() -> Lengths {
        Lengths::ByPart(vec![Lengths::Fixed(600_000), Lengths::Fixed(1_000_000)])
    }
}

#[cfg(test)]
mod tests {
    use super::{MixtureName, Toy};
    use crate::workload::mixture::part_of;
    use slabwise_base::Random;

    #[test]
    fn the_toy_is_the_slides_example() {
        let mut toy = Toy::default();
        let names = (0..Toy::REQUESTS).map(|_| toy.next_key()).map(|key| {
            let rank = (key & 0xff) as u8;
            char::from(if part_of(key) == 0 { b'a' + rank } else { b'1' + rank })
        });
        assert_eq!(names.collect::<String>(), "a1b2c3a4b5c6a7b8c9");
    }

    #[test]
    fn a_day_has_a_peak_of_twice_its_trough() {
        const REQUESTS: u64 = 240_000;
        let mut keys = MixtureName::TimeVarying.keys(REQUESTS, |keys| keys / 1000, Random::new(3));
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
    fn phases_follow_each_other() {
        let mut keys = MixtureName::ThreePhase.keys(90_000, |keys| keys / 1000, Random::new(9));
        let mut second = || (0..30_000).filter(|_| part_of(keys.next_key()) == 1).count();
        let phases = [second(), second(), second()];
        assert_eq!((phases[0], phases[2]), (0, 30_000));
        assert!((14_000..16_000).contains(&phases[1]), "seed 9: {phases:?}");
    }
}
