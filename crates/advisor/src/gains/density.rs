//! The misses of a slabwise in place of the server, simulated with the recorded accesses.
//!
//! ```text
//!   Recording --Accesses--> a cache with slabwise's eviction and item overhead, scaled to the sample --> hits
//!            '-- results of the server in the same part ---------------------------------------------> misses
//!                                                 misses of the simulation / misses of the server = the ratio
//! ```
//!
//! The cache is a miniature (C. Waldspurger and others, ATC 2017): its memory is that of the server times the sampling rate
//! of the keys. It starts empty, so only the second half of the recording counts. A get whose key was requested before the
//! recording began cannot hit in the simulation. A get at time `t` shows a hit whose last request was `d` accesses before
//! only if `d < t`. So a hit counts with the inverse of the share of the second half in which its distance is visible: the
//! estimator of D. Horvitz and D. Thompson, "A Generalization of Sampling Without Replacement From a Finite Universe",
//! Journal of the American Statistical Association 47, 1952.
//!
//! Invariant: the simulation and the server get the same requests in the same order.

use super::memory::{MemoryGain, Worth};
use crate::estimate::Estimate;
use crate::observation::Observation;
use serde::Serialize;
use slabwise_base::memcached;
use slabwise_observer::traffic::{GROUPS, RecordedAccess, RecordedKind};
use slabwise_profile::KeyMap;
use slabwise_replay::workload::Op;
use slabwise_simulation::{Catalog, Simulation, density};

/// The bytes of an item of slabwise in addition to its key and value, with its part of the index.
const ITEM_BYTES: u32 = 41;
/// The memory of pages divided by the bytes of their items: chunks are larger than their items, and some are free.
const CHUNK_FACTOR: f64 = 1.03;
/// The error of the model, as a share of the misses: a constant part, and one that is inversely proportional to the
/// turnovers, because densities are learned and the cache starts empty.
const MODEL_ERROR: f64 = 0.05;
const MODEL_ERROR_OF_ONE_TURNOVER: f64 = 0.1;
/// The largest weight of a hit.
const WEIGHT_MAX: f64 = 10.0;
/// The smallest number of misses of the server from which a ratio is computed.
const MISSES_MIN: f64 = 300.0;
/// The largest memory of a simulated cache in bytes.
const LIMIT_BYTES_MAX: f64 = (1u64 << 37) as f64;
/// The bytes that the simulated cache must have stored before the second half, divided by its memory. With fewer, it is not
/// full.
const TURNOVERS_MIN: f64 = 0.8;

/// The gain of a slabwise with the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DensityGain {
    /// The miss ratio of a slabwise with its default options.
    pub miss_ratio: Estimate,
    /// The share of the keys in the sample.
    pub sampling_rate: f64,
    /// The bytes that the simulated cache stored before the part that counts, divided by its memory.
    pub turnovers: f64,
    /// The memory that would save as many misses of the present server.
    pub worth: Worth,
}

impl DensityGain {
    /// Simulates the cache. The error is a sentence about the server.
    pub fn of(observation: &Observation, memory: &MemoryGain) -> Result<DensityGain, String> {
        let recording = &observation.recording;
        let rate = recording.sampling_rate().min(1.0);
        let limit_bytes = observation.memory_limit_bytes as f64 * rate / CHUNK_FACTOR;
        let accesses = Accesses::of(recording.longest_window());
        let too_short = |turnovers: f64| {
            let factor = (TURNOVERS_MIN * 1.2 / turnovers.max(0.01)).min(100.0);
            format!(
                "too few items were stored to simulate a slabwise: watch for about {:.0} s (--for)",
                observation.seconds * factor
            )
        };
        // Without this check, the memory of the simulation would depend on the limit that the server reports.
        let requested_bytes = accesses.catalog.distinct_bytes() as f64;
        if requested_bytes < limit_bytes || limit_bytes > LIMIT_BYTES_MAX {
            return Err(too_short(requested_bytes / limit_bytes.max(1.0) / 2.0));
        }
        let counts = simulate(&accesses, limit_bytes as u64);
        let turnovers = counts.stored_bytes as f64 / limit_bytes;
        if turnovers < TURNOVERS_MIN {
            return Err(too_short(turnovers));
        }
        let ratio = |without: Option<usize>| counts.ratio(without);
        if counts.all(None).misses < MISSES_MIN {
            return Err(
                "too few gets missed to simulate a slabwise: watch longer (--for)".to_owned()
            );
        }
        let without: Vec<f64> = (0..GROUPS).map(|group| ratio(Some(group))).collect();
        let model_error = MODEL_ERROR + MODEL_ERROR_OF_ONE_TURNOVER / turnovers;
        let ratio = Estimate::new(ratio(None), &without, model_error);
        let (now, unknown) = (observation.miss_ratio(), observation.unknown_miss_share);
        // A key that no client stores misses in every cache.
        let known = ratio.times(now * (1.0 - unknown));
        let miss_ratio = known.plus(Estimate::exact(now * unknown)).at_most(1.0);
        Ok(DensityGain {
            miss_ratio,
            sampling_rate: rate,
            turnovers,
            worth: memory.worth(miss_ratio.value),
        })
    }
}

/// The recorded accesses in the form of the simulation.
struct Accesses {
    catalog: Catalog,
    /// For each access of the catalog: the group of its key, and whether the server hit.
    results: Vec<(u8, bool)>,
}

impl Accesses {
    /// Returns the accesses. The store that follows a miss belongs to the miss: the simulation stores the item itself. The
    /// size of a missing item is that of this store, or the last known one; without any, the access is left out.
    fn of(recorded: &[RecordedAccess]) -> Accesses {
        let mut sizes = vec![0u32; recorded.len()];
        let mut is_left_out = vec![false; recorded.len()];
        let mut open: KeyMap<Vec<usize>> = KeyMap::default();
        let mut known: KeyMap<u32> = KeyMap::default();
        for (at, access) in recorded.iter().enumerate() {
            match access.kind {
                RecordedKind::Miss => open.entry(access.key).or_default().push(at),
                RecordedKind::Hit | RecordedKind::Store => {
                    let size = slabwise_size_bytes(access.item_size_bytes);
                    let misses = open.remove(&access.key);
                    is_left_out[at] = misses.is_some() && access.kind == RecordedKind::Store;
                    misses.into_iter().flatten().for_each(|miss| sizes[miss] = size);
                    sizes[at] = size;
                    known.insert(access.key, size);
                }
                RecordedKind::Delete => {}
            }
        }
        for (key, misses) in open {
            let size = known.get(&key).copied();
            for miss in misses {
                sizes[miss] = size.unwrap_or(0);
                is_left_out[miss] = size.is_none();
            }
        }
        let mut accesses = Accesses { catalog: Catalog::default(), results: vec![] };
        for (at, access) in recorded.iter().enumerate().filter(|&(at, _)| !is_left_out[at]) {
            let op = match access.kind {
                RecordedKind::Hit | RecordedKind::Miss => Op::Get,
                RecordedKind::Store => Op::Set,
                RecordedKind::Delete => Op::Delete,
            };
            accesses.catalog.add_access(access.key, op, sizes[at]);
            let group = (access.key % GROUPS as u64) as u8;
            accesses.results.push((group, access.kind == RecordedKind::Hit));
        }
        accesses
    }
}

/// Returns the size of an item in slabwise, from its size in memcached without the flags.
fn slabwise_size_bytes(size_bytes: u32) -> u32 {
    size_bytes.saturating_sub(memcached::beside_value_bytes(0) as u32).saturating_add(ITEM_BYTES)
}

/// What was counted in the second half of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    gets: f64,
    /// The misses of the server.
    misses: f64,
    /// The hits of the simulation, weighted.
    simulated_hits: f64,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    groups: [Count; GROUPS],
    /// The bytes that the simulation stored in the first half.
    stored_bytes: u64,
}

impl Counts {
    /// Returns the sum of all groups except one.
    fn all(&self, without: Option<usize>) -> Count {
        let mut sum = Count::default();
        let groups = self.groups.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        for (_, group) in groups {
            sum.gets += group.gets;
            sum.misses += group.misses;
            sum.simulated_hits += group.simulated_hits;
        }
        sum
    }

    /// Returns the misses of the simulation, divided by those of the server.
    fn ratio(&self, without: Option<usize>) -> f64 {
        let Count { gets, misses, simulated_hits } = self.all(without);
        (gets - simulated_hits).max(0.0) / misses.max(1.0)
    }
}

/// Simulates the cache with this memory.
fn simulate(accesses: &Accesses, limit_bytes: u64) -> Counts {
    let references = accesses.catalog.references();
    let mut cache = density(&accesses.catalog, limit_bytes);
    let mut last = vec![usize::MAX; accesses.catalog.key_count()];
    let (all, half) = (references.len(), references.len() / 2);
    let mut counts = Counts::default();
    for (at, reference) in references.iter().enumerate() {
        let key = reference.key as usize;
        if reference.op == Op::Delete {
            cache.remove(reference.key);
            continue;
        }
        let is_hit = cache.get(reference.key, reference.size_bytes, at);
        let before = std::mem::replace(&mut last[key], at);
        if at < half {
            counts.stored_bytes += if is_hit { 0 } else { u64::from(reference.size_bytes) };
        } else if reference.op == Op::Get {
            let (group, server_hit) = accesses.results[at];
            let count = &mut counts.groups[usize::from(group)];
            count.gets += 1.0;
            count.misses += f64::from(u8::from(!server_hit));
            if is_hit && before != usize::MAX {
                count.simulated_hits += weight(at - before, all, half);
            }
        }
    }
    counts
}

/// Returns the weight of a hit with this distance: the inverse of the share of the accesses from `half` to `all` at which
/// the distance is visible.
fn weight(distance: usize, all: usize, half: usize) -> f64 {
    let (counted, visible) = (all - half, all.saturating_sub(distance));
    (counted as f64 / (visible.min(counted).max(1)) as f64).min(WEIGHT_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Accesses, Counts, simulate, weight};
    use slabwise_base::Random;
    use slabwise_base::random::mix;
    use slabwise_observer::traffic::{RecordedAccess, RecordedKind};
    use slabwise_replay::workload::Op;
    use std::collections::VecDeque;

    fn access(key: u64, kind: RecordedKind, item_size_bytes: u32) -> RecordedAccess {
        RecordedAccess { key, item_size_bytes, kind }
    }

    #[test]
    fn the_store_after_a_miss_belongs_to_the_miss() {
        use RecordedKind::{Delete, Hit, Miss, Store};
        let recorded = [
            access(1, Miss, 0),
            access(2, Store, 159),
            access(1, Store, 259),
            access(1, Store, 359),
            access(2, Delete, 0),
            access(2, Miss, 0),
            access(3, Miss, 0),
            access(1, Hit, 359),
        ];
        let accesses = Accesses::of(&recorded);
        let found: Vec<(u32, Op, u32)> =
            accesses.catalog.references().iter().map(|it| (it.key, it.op, it.size_bytes)).collect();
        let expected = [
            (0, Op::Get, 241),
            (1, Op::Set, 141),
            (0, Op::Set, 341),
            (1, Op::Delete, 0),
            (1, Op::Get, 141),
            (0, Op::Get, 341),
        ];
        assert_eq!(found, expected, "key 3 has no known size");
        let hits: Vec<bool> = accesses.results.iter().map(|&(_, is_hit)| is_hit).collect();
        assert_eq!(hits, [false, false, false, false, false, true]);
    }

    #[test]
    fn a_hit_counts_with_the_inverse_of_the_share_that_shows_its_distance() {
        assert_eq!(weight(10, 1_000, 500), 1.0);
        assert_eq!(weight(500, 1_000, 500), 1.0);
        assert_eq!(weight(750, 1_000, 500), 2.0);
        assert_eq!(weight(999, 1_000, 500), 10.0);
    }

    /// Returns what an LRU of `items` items, observed in the middle of its work, reports about `count` accesses.
    fn recorded(random: &mut Random, items: usize, count: usize) -> Vec<RecordedAccess> {
        let (mut lru, mut recorded) = (VecDeque::new(), vec![]);
        for at in 0..2 * count {
            let rank =
                (20_000.0f64).powf(random.below(1 << 30) as f64 / (1u64 << 30) as f64) as u64;
            let key = mix(rank);
            let place = lru.iter().position(|&known| known == key);
            if let Some(place) = place {
                lru.remove(place);
            }
            lru.push_front(key);
            lru.truncate(items);
            if at >= count {
                match place {
                    Some(_) => recorded.push(access(key, RecordedKind::Hit, 118)),
                    None => recorded.extend([
                        access(key, RecordedKind::Miss, 0),
                        access(key, RecordedKind::Store, 118),
                    ]),
                }
            }
        }
        recorded
    }

    #[test]
    fn a_short_recording_has_about_the_ratio_of_a_long_one() {
        const ITEMS: usize = 300;
        let ratio = |counts: &Counts| counts.ratio(None);
        for seed in 1..4 {
            let mut random = Random::new(seed);
            let recorded = recorded(&mut random, ITEMS, 24_000);
            let limit_bytes = 100 * ITEMS as u64;
            let long = ratio(&simulate(&Accesses::of(&recorded), limit_bytes));
            let third = Accesses::of(&recorded[..recorded.len() / 3]);
            let short = ratio(&simulate(&third, limit_bytes));
            assert!((0.5..0.98).contains(&long), "seed {seed}: {long}");
            assert!((short / long - 1.0).abs() < 0.1, "seed {seed}: {short}, not {long}");
        }
    }
}
