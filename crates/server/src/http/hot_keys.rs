//! The hot keys and the hot prefixes: those with the most gets, from samples of the keys of gets (`-o http_hot_keys`).
//!
//! ```text
//!   KeySamples of each worker --record, once a second--> keys:     Space-Saving --hottest--> /api/v1/hot-keys
//!                                            '-prefix--> prefixes: Space-Saving --'
//! ```
//!
//! Each summary has [`COUNTERS`] counters. After each [`SAMPLES_PER_HALVING`] samples all counts are halved, so that the
//! hot keys follow the traffic: an older sample counts 1/2, 1/4 and so on.
//!
//! A key is hot if the minimum of its samples is at least [`COUNT_MIN`], and at least half of the maximum. So a key with more
//! than 2/[`COUNTERS`] of the samples is hot, and traffic in which no key is requested often has no hot keys.

use crate::memory_model::HOT_KEYS_BYTES_MAX;
use crate::shared::{KeyBuffer, Shared};
use slabwise_profile::{Frequency, SpaceSaving};

/// The number of counters of a summary. With them, the error of a count is at most 0.1 % of all samples, except for
/// rounding.
const COUNTERS: usize = 1024;
/// The number of samples after which all counts are halved. In this number of independent samples, a share of 1 %
/// has a standard error of 0.08 percentage points.
const SAMPLES_PER_HALVING: u64 = 16 * COUNTERS as u64;
/// The minimum number of samples of a hot key: any key can be sampled once or twice by chance.
const COUNT_MIN: u64 = 3;

const _: () =
    assert!(2 * COUNTERS * SpaceSaving::COUNTER_SIZE_BYTES_MAX <= HOT_KEYS_BYTES_MAX as usize);

/// The hot keys and the hot prefixes.
#[derive(Default)]
pub(super) struct HotKeys {
    pub summaries: Summaries,
    /// The memory that is exchanged with that of a worker.
    buffer: KeyBuffer,
}

/// The frequencies of keys and prefixes.
pub(super) struct Summaries {
    keys: SpaceSaving,
    prefixes: SpaceSaving,
    /// The number of samples since the start.
    samples: u64,
    /// The number of samples in the summaries, of which old ones count less.
    recent_samples: u64,
}

/// The share of a key or a prefix in the sampled gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share<'a> {
    pub name: &'a [u8],
    /// The maximum share.
    pub share: f64,
    /// The difference between the maximum and the minimum share.
    pub error: f64,
}

impl HotKeys {
    /// Records the samples of all workers since the last call.
    pub fn record(&mut self, shared: &Shared<'_>) {
        let HotKeys { summaries, buffer } = self;
        for samples in shared.key_samples.iter().flatten() {
            samples.take(buffer);
            buffer.keys().for_each(|key| summaries.record(key, shared.prefixes.prefix(key)));
        }
    }
}

impl Default for Summaries {
    fn default() -> Summaries {
        let summary = || SpaceSaving::new(COUNTERS);
        Summaries { keys: summary(), prefixes: summary(), samples: 0, recent_samples: 0 }
    }
}

impl Summaries {
    /// Records a sampled key with its prefix, if it has one.
    fn record(&mut self, key: &[u8], prefix: Option<&[u8]>) {
        self.keys.record(key);
        if let Some(prefix) = prefix {
            self.prefixes.record(prefix);
        }
        self.samples += 1;
        self.recent_samples += 1;
        if self.samples.is_multiple_of(SAMPLES_PER_HALVING) {
            self.keys.halve();
            self.prefixes.halve();
            self.recent_samples = self.recent_samples.div_ceil(2);
        }
    }

    /// Returns the number of samples since the start.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the hottest keys, in descending order of their shares.
    pub fn keys(&self) -> impl Iterator<Item = Share<'_>> {
        self.hottest(&self.keys)
    }

    /// Returns the hottest prefixes, in descending order of their shares. The gets of keys without a delimiter are part of
    /// the total.
    pub fn prefixes(&self) -> impl Iterator<Item = Share<'_>> {
        self.hottest(&self.prefixes)
    }

    fn hottest<'a>(&self, summary: &'a SpaceSaving) -> impl Iterator<Item = Share<'a>> + use<'a> {
        let total = self.recent_samples as f64;
        let is_hot = |it: &Frequency<'_>| {
            it.count - it.error >= COUNT_MIN && it.count - it.error >= it.error
        };
        summary.most_frequent().filter(is_hot).map(move |it| {
            let (share, error) = (it.count as f64 / total, it.error as f64 / total);
            Share { name: it.key, share, error }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{SAMPLES_PER_HALVING, Summaries};
    use slabwise_base::random::Random;

    /// Records this number of samples: a key with this share, and keys that are all different.
    fn record(summaries: &mut Summaries, count: u64, hot: &[u8], share: f64, random: &mut Random) {
        for _ in 0..count {
            if random.unit() < share {
                summaries.record(hot, Some(b"user"));
            } else {
                summaries.record(format!("cold{}", random.next_u64()).as_bytes(), None);
            }
        }
    }

    #[test]
    fn a_key_with_one_percent_of_the_gets_is_hot_and_no_other_is() {
        let (mut summaries, mut random) = (Summaries::default(), Random::new(1));
        for part in 0..4 {
            record(&mut summaries, SAMPLES_PER_HALVING, b"user:1", 0.01, &mut random);
            let found: Vec<_> = summaries.keys().collect();
            assert_eq!(found.len(), 1, "part {part}: {found:?}");
            let (name, share, error) = (found[0].name, found[0].share, found[0].error);
            assert_eq!(name, b"user:1");
            assert!(error < 0.0011 && (share - error / 2.0 - 0.01).abs() < 0.004, "{found:?}");
            let prefixes: Vec<_> = summaries.prefixes().collect();
            assert_eq!((prefixes.len(), prefixes[0].name), (1, &b"user"[..]));
            assert!(prefixes[0].error < 0.0002, "only rounding causes an error: {prefixes:?}");
            assert!((prefixes[0].share - 0.01).abs() < 0.004, "{prefixes:?}");
        }
    }

    #[test]
    fn hot_keys_follow_the_traffic() {
        let (mut summaries, mut random) = (Summaries::default(), Random::new(2));
        record(&mut summaries, 10 * SAMPLES_PER_HALVING, b"old", 0.9, &mut random);
        record(&mut summaries, 5 * SAMPLES_PER_HALVING, b"new", 0.9, &mut random);
        let first = summaries.keys().next().expect("there are hot keys");
        assert_eq!(first.name, b"new");
        assert!((0.8..=0.95).contains(&first.share), "{first:?}");
    }

    #[test]
    fn keys_that_were_sampled_once_or_twice_are_not_hot() {
        let mut summaries = Summaries::default();
        assert_eq!(summaries.keys().count(), 0, "there are no samples");
        for key in [b"a", b"b", b"a"] {
            summaries.record(key, None);
        }
        assert_eq!(summaries.keys().count(), 0);
        summaries.record(b"a", None);
        let found: Vec<_> = summaries.keys().map(|it| (it.name, it.share, it.error)).collect();
        assert_eq!(found, [(&b"a"[..], 0.75, 0.0)]);
    }
}
