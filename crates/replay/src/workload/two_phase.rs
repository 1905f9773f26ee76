//! The two-phase workload of the paper on fast page moves (MEMSYS 2019): a cache full of one size of
//! items meets a second, larger one.
//!
//! The first 13 % of the requests go to the first class of items; of the others 33 % do, and 67 % go
//! to the second class. Each class has its own Zipf law over its own keys.

use super::zipf::Zipf;
use slabwise_base::Random;

/// Bit of the key that tells the second class's keys from the first's.
const SECOND_CLASS_BIT: u64 = 1 << 40;
/// Share of the requests that form the first phase, in percent.
const FIRST_PHASE_PERCENT: u64 = 13;
/// Share of the second phase's requests that stay with the first class, in percent.
const FIRST_CLASS_PERCENT: u64 = 33;
/// Value lengths in bytes; with memcached's header and our keys, items of about 200 and 250 B.
const VALUE_LENS: [u32; 2] = [140, 190];

/// The published skew.
const SKEW: f64 = 1.0;

/// An endless stream of keys of two classes.
#[derive(Debug)]
pub struct TwoPhase {
    first: Zipf,
    second: Zipf,
    phase: Random,
    first_phase_left: u64,
}

impl TwoPhase {
    /// Requests in the published run.
    pub const REQUESTS: u64 = 100_000_000;
    /// Keys of each class in the published run.
    pub const KEYS_PER_CLASS: u64 = 5_000_000;

    /// A run of `requests` requests over `keys_per_class` keys (at least 1) in each class.
    pub fn new(requests: u64, keys_per_class: u64, mut random: Random) -> TwoPhase {
        let mut fork = || Random::new(random.next_u64());
        TwoPhase {
            first: Zipf::new(keys_per_class, SKEW, fork()),
            second: Zipf::new(keys_per_class, SKEW, fork()),
            phase: fork(),
            first_phase_left: (u128::from(requests) * u128::from(FIRST_PHASE_PERCENT) / 100) as u64,
        }
    }

    /// The next key.
    pub fn next_key(&mut self) -> u64 {
        if self.first_phase_left > 0 {
            self.first_phase_left -= 1;
            self.first.next_key()
        } else if self.phase.below(100) < FIRST_CLASS_PERCENT {
            self.first.next_key()
        } else {
            self.second.next_key() | SECOND_CLASS_BIT
        }
    }

    /// The length of a key's value in bytes.
    pub fn value_len(key: u64) -> u32 {
        VALUE_LENS[usize::from(key & SECOND_CLASS_BIT != 0)]
    }
}
