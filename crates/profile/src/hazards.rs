//! Learns from sampled keys how probable the next request for an item is, by its [`Uses`] and its age.
//!
//! ```text
//!   requests for sampled keys --> waits: (class, age) --> requests and ticks waited --> hazards --> Densities
//! ```
//!
//! The class of an item is the pair of its count level and its gap level. The age is the time since the last request, in
//! ticks of the work clock. A *wait* is the time from one request for a key to the next. For each class and each level of
//! the age, the table counts the ticks that sampled keys waited, and the requests that ended a wait. Their quotient is
//! the *hazard*: the expected number of requests in a tick. A key is observed whether its item is cached or not, so a
//! wait that is longer than an item stays in the cache is known, too. Waits that have not ended count with the ticks so
//! far. A store of a key that has an item ends its wait without a request, because the item was of no use meanwhile.
//!
//! A class with little data resembles the items of the same count level, and these resemble all items: a hazard is a
//! mean of its own data and of the more general hazard.
//!
//! The *density* of an item is the highest ratio of expected hits to expected ticks in the cache, over all ages at which
//! the item could be evicted. This ratio is the index of J. Gittins, "Bandit Processes and Dynamic Allocation Indices",
//! Journal of the Royal Statistical Society B 41(2), 1979. It resembles the hit density of LHD (N. Beckmann and others,
//! NSDI 2018), which takes the ages at which items have been evicted so far instead of the best ages.

use crate::key_map::KeyMap;
use slabwise_base::density::{AGE_LEVELS, ByAge, Densities, age_from, age_level};
use slabwise_base::random::mix;
use slabwise_base::sampling::is_sampled;
use slabwise_base::uses::{COUNT_LEVELS, GAP_LEVELS};
use slabwise_base::{AccessKind, Uses, WorkTime};

/// A key that was not requested for this number of ticks is no longer observed.
const WAIT_TICKS_MAX: u32 = 8 << 10;
/// The number of ticks from one computation of the densities to the next.
const INTERVAL_TICKS: u32 = 64;
/// The minimum number of requests from one computation to the next.
const INTERVAL_REQUESTS_MIN: u64 = 128;
/// The factor on the counts at each computation. They halve in about two turnovers of the memory.
const DECAY: f64 = 0.98;
/// A more general hazard has the weight of this number of requests.
const PRIOR_REQUESTS: f64 = 8.0;
/// Count levels from this one on share a class.
const COUNT_CLASSES: usize = 10;

const _: () = assert!(COUNT_CLASSES <= COUNT_LEVELS, "each class has a count level");

/// The maximum memory of an observed key in bytes.
const WAIT_SIZE_BYTES: usize = 2 * (size_of::<(u64, Wait)>() + 1);

/// A request for a sampled key, or another access to it.
#[derive(Clone, Copy, Debug)]
pub struct UseOfKey {
    /// The hash of the key, which identifies the key.
    pub hash: u64,
    /// The kind of the access.
    pub kind: AccessKind,
    /// The requests for the key, this one included; valid for hits and stores.
    pub uses: Uses,
    /// The work clock at the access.
    pub work_time: WorkTime,
}

/// What a class has learned, by the level of the age.
#[derive(Clone, Debug)]
struct Class {
    /// The requests that ended a wait at this age.
    requests: ByAge,
    /// The ticks that keys waited at this age.
    ticks: ByAge,
    densities: ByAge,
}

/// The last request for an observed key.
#[derive(Clone, Copy, Debug)]
struct Wait {
    class: u16,
    /// The time of the request.
    since: WorkTime,
    /// The number of ticks that are counted so far.
    counted_ticks: u32,
}

/// Learns hit densities from the accesses to sampled keys.
#[derive(Debug)]
pub struct Hazards {
    classes: Vec<Class>,
    waits: KeyMap<Wait>,
    /// The maximum number of observed keys. If there are more, half of the hashes are no longer observed.
    keys_max: usize,
    /// Keys whose mixed hash is at most this number are observed.
    hash_max: u64,
    /// The time of the last computation; `None` before the first call of [`Hazards::densities`].
    computed_at: Option<WorkTime>,
    /// The requests since the last computation.
    requests: u64,
}

impl Hazards {
    /// Returns a learner that observes at most this number of keys.
    pub fn new(keys_max: usize) -> Hazards {
        let none = [0.0; AGE_LEVELS];
        let class = Class { requests: none, ticks: none, densities: none };
        Hazards {
            classes: vec![class; COUNT_CLASSES * GAP_LEVELS],
            waits: KeyMap::default(),
            keys_max,
            hash_max: u64::MAX,
            computed_at: None,
            requests: 0,
        }
    }

    /// Returns the maximum memory in bytes.
    pub const fn size_bytes_max(keys_max: usize) -> usize {
        COUNT_CLASSES * GAP_LEVELS * size_of::<Class>() + keys_max * WAIT_SIZE_BYTES
    }

    /// Counts an access to a sampled key. The times of accesses may not decrease by much.
    pub fn access(&mut self, access: &UseOfKey) {
        if !is_observed(access.hash, self.hash_max) {
            return;
        }
        let now = access.work_time;
        match access.kind {
            AccessKind::Hit | AccessKind::Miss | AccessKind::Touch => {
                self.requests += 1;
                if let Some(ended) = self.waits.remove(&access.hash) {
                    self.count(ended, now);
                    self.count_request(ended, now);
                }
            }
            AccessKind::Store | AccessKind::Delete => {
                if let Some(ended) = self.waits.remove(&access.hash) {
                    self.count(ended, now);
                }
            }
        }
        if matches!(access.kind, AccessKind::Hit | AccessKind::Store | AccessKind::Touch) {
            if self.waits.len() >= self.keys_max {
                self.thin_out(now);
            }
            let class = class_of(access.uses) as u16;
            self.waits.insert(access.hash, Wait { class, since: now, counted_ticks: 0 });
        }
    }

    /// Forgets the keys that are not in the sample any more.
    pub fn set_threshold(&mut self, threshold: u64) {
        self.waits.retain(|&hash, _| is_sampled(hash, threshold));
    }

    /// Returns the densities if new ones are due.
    pub fn densities(&mut self, now: WorkTime) -> Option<Densities> {
        let computed_at = *self.computed_at.get_or_insert(now);
        let is_due =
            computed_at.age_at(now) >= INTERVAL_TICKS && self.requests >= INTERVAL_REQUESTS_MIN;
        if !is_due {
            return None;
        }
        self.learn(now);
        (self.computed_at, self.requests) = (Some(now), 0);
        Some(Densities::new(|uses| self.classes[class_of(uses)].densities))
    }

    /// Counts the request that ended a wait.
    fn count_request(&mut self, ended: Wait, now: WorkTime) {
        let age = ended.since.age_at(now);
        if age <= WAIT_TICKS_MAX {
            let (level, class) = (age_level(age), &mut self.classes[usize::from(ended.class)]);
            class.requests[level] += 1.0;
            // The request came in the middle of a tick.
            class.ticks[level] += 0.5;
        }
    }

    /// Adds the ticks of a wait that are not counted yet.
    fn count(&mut self, wait: Wait, now: WorkTime) {
        let ticks = &mut self.classes[usize::from(wait.class)].ticks;
        let end = f64::from(wait.since.age_at(now).min(WAIT_TICKS_MAX));
        let mut age = f64::from(wait.counted_ticks);
        let first = age_level(wait.counted_ticks);
        for (level, ticks) in ticks.iter_mut().enumerate().skip(first) {
            let next = age_from(level + 1).min(end);
            if next > age {
                *ticks += next - age;
                age = next;
            }
            if next >= end {
                break;
            }
        }
    }

    /// Observes fewer keys: forgets the keys that were not requested for long or, if these are few, half of the hashes.
    fn thin_out(&mut self, now: WorkTime) {
        self.waits.retain(|_, wait| wait.since.age_at(now) <= WAIT_TICKS_MAX);
        while self.waits.len() > self.keys_max * 3 / 4 {
            self.hash_max /= 2;
            let hash_max = self.hash_max;
            self.waits.retain(|&hash, _| is_observed(hash, hash_max));
        }
    }

    /// Counts all waits up to now, and computes the densities.
    fn learn(&mut self, now: WorkTime) {
        let mut waits = std::mem::take(&mut self.waits);
        waits.retain(|_, wait| {
            self.count(*wait, now);
            wait.counted_ticks = wait.since.age_at(now);
            wait.counted_ticks <= WAIT_TICKS_MAX
        });
        self.waits = waits;
        // Keys that enter now have no history, which is harmless.
        if self.waits.len() < self.keys_max / 4 {
            self.hash_max = self.hash_max.saturating_mul(2) | 1;
        }
        self.compute();
        for class in &mut self.classes {
            class.requests.iter_mut().chain(&mut class.ticks).for_each(|count| *count *= DECAY);
        }
    }

    fn compute(&mut self) {
        // If nothing is known, the probability of a request is inversely proportional to the age.
        let unknown = std::array::from_fn(|level| 1.0 / (age_from(level) + 1.0));
        let of_all = hazards(&self.classes, &unknown);
        for classes in self.classes.chunks_mut(GAP_LEVELS) {
            let of_count = hazards(classes, &of_all);
            for class in classes {
                let own = hazards(std::slice::from_ref(class), &of_count);
                class.densities = densities(&own);
            }
        }
    }
}

/// True if keys with this hash are observed. The sample of keys depends on the hash, too, so the hash is mixed.
fn is_observed(hash: u64, hash_max: u64) -> bool {
    mix(!hash) <= hash_max
}

fn class_of(uses: Uses) -> usize {
    uses.count_level().min(COUNT_CLASSES - 1) * GAP_LEVELS + uses.gap_level()
}

/// Returns the hazards of several classes together. The prior is a more general hazard, times the ratio of the two
/// hazards at the level before.
fn hazards(classes: &[Class], general: &ByAge) -> ByAge {
    let mut ratio = 1.0;
    std::array::from_fn(|level| {
        let sum = |of: fn(&Class) -> &ByAge| classes.iter().map(|class| of(class)[level]).sum();
        let (requests, ticks): (f64, f64) = (sum(|c| &c.requests), sum(|c| &c.ticks));
        let prior = general[level] * ratio;
        let hazard = (requests + PRIOR_REQUESTS) / (ticks + PRIOR_REQUESTS / prior);
        ratio = (hazard / general[level]).clamp(0.05, 20.0);
        hazard
    })
}

/// Returns the density for each level of the age.
fn densities(hazards: &ByAge) -> ByAge {
    // For each level: the probability that an item that reaches it has no request in it, and the mean ticks in it.
    let levels: Vec<(f64, f64)> = (0..AGE_LEVELS)
        .map(|level| {
            let passes = (-hazards[level] * (age_from(level + 1) - age_from(level))).exp();
            (passes, (1.0 - passes) / hazards[level])
        })
        .collect();
    std::array::from_fn(|from| {
        let (mut reaches, mut ticks, mut best) = (1.0, 0.0, 0.0_f64);
        for (passes, ticks_in_level) in &levels[from..] {
            ticks += reaches * ticks_in_level;
            reaches *= passes;
            best = best.max((1.0 - reaches) / ticks);
        }
        best
    })
}

#[cfg(test)]
mod tests {
    use super::{AGE_LEVELS, Hazards, UseOfKey, densities};
    use slabwise_base::{AccessKind, Random, Uses, WorkTime};

    fn access(hash: u64, kind: AccessKind, uses: Uses, at: u32) -> UseOfKey {
        UseOfKey { hash, kind, uses, work_time: WorkTime(at) }
    }

    #[test]
    fn the_ticks_of_a_wait_count_at_their_ages() {
        let mut hazards = Hazards::new(2);
        hazards.access(&access(0, AccessKind::Store, Uses::FIRST, 10));
        hazards.access(&access(0, AccessKind::Hit, Uses::FIRST, 13));
        let class = &hazards.classes[7];
        assert_eq!(class.ticks[..5], [1.0, 1.0, 1.0, 0.5, 0.0]);
        assert_eq!(class.requests[..5], [0.0, 0.0, 0.0, 1.0, 0.0]);
        // A wait that goes on counts up to now, and later only from there.
        hazards.learn(WorkTime(15));
        hazards.access(&access(0, AccessKind::Miss, Uses::FIRST, 16));
        let class = &hazards.classes[7];
        let decayed = |ticks: [f64; 5], since: [f64; 5]| -> [f64; 5] {
            std::array::from_fn(|at| ticks[at] * super::DECAY + since[at])
        };
        let expected = decayed([2.0, 2.0, 1.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.5, 0.0]);
        assert_eq!(class.ticks[..5], expected);
        assert!(hazards.waits.is_empty(), "after a miss, no wait begins before the store");
    }

    #[test]
    fn a_store_over_an_item_ends_its_wait_without_a_request() {
        let mut hazards = Hazards::new(2);
        hazards.access(&access(0, AccessKind::Store, Uses::FIRST, 10));
        hazards.access(&access(0, AccessKind::Store, Uses::FIRST, 12));
        let class = &hazards.classes[7];
        assert_eq!((class.ticks[..3].iter().sum(), class.requests.iter().sum()), (2.0, 0.0));
        hazards.access(&access(0, AccessKind::Delete, Uses::FIRST, 13));
        assert!(hazards.waits.is_empty());
    }

    #[test]
    fn a_density_is_the_best_ratio_of_hits_to_ticks() {
        // With the same hazard at all ages, every ratio is the hazard.
        let same = densities(&[0.25; AGE_LEVELS]);
        assert!(same.iter().all(|density| (density - 0.25).abs() < 1e-9), "{same:?}");
        // If the hazard is high in level 2 only, items of level 1 are best evicted after level 2, and items of level 2
        // too. Items of level 3 have the low hazard.
        let mut hazards = [0.001; AGE_LEVELS];
        hazards[2] = 2.0;
        let found = densities(&hazards);
        let (first, second) = ((-0.001_f64).exp(), (-2.0_f64).exp());
        let from_1 =
            (1.0 - first * second) / ((1.0 - first) / 0.001 + first * (1.0 - second) / 2.0);
        for (level, density) in [(1, from_1), (2, 2.0), (3, 0.001)] {
            assert!((found[level] - density).abs() < 1e-9, "level {level}: {}", found[level]);
        }
    }

    /// Of two kinds of keys, one is requested every 20 ticks, and the other one once.
    #[test]
    fn an_item_that_is_requested_regularly_has_a_higher_density_than_new_ones() {
        let mut hazards = Hazards::new(1 << 14);
        let mut random = Random::new(2);
        let (mut regular, mut learned) = ([Uses::FIRST; 50], None);
        for now in 0..4_000_u32 {
            for (key, uses) in
                regular.iter_mut().enumerate().filter(|(key, _)| now as usize % 20 == key % 20)
            {
                *uses = uses.add(20, random.next_u64());
                hazards.access(&access(key as u64, AccessKind::Hit, *uses, now));
            }
            hazards.access(&access(50 + u64::from(now), AccessKind::Store, Uses::FIRST, now));
            learned = hazards.densities(WorkTime(now)).or(learned);
        }
        let learned = learned.expect("the densities were computed");
        let density = |uses, age| learned.log(uses, age).number();
        let (often, new) = (density(regular[0], 10), density(Uses::FIRST, 10));
        assert!(often > 0.05 && new < 0.005, "often {often}, new {new}");
        let late = density(regular[0], 200);
        assert!(late < often / 10.0, "at age 200: {late}, at age 10: {often}");
    }

    #[test]
    fn the_number_of_observed_keys_is_bounded() {
        let mut hazards = Hazards::new(100);
        for key in 0..10_000 {
            hazards.access(&access(key, AccessKind::Store, Uses::FIRST, (key / 100) as u32));
            assert!(hazards.waits.len() <= 100, "{} keys", hazards.waits.len());
        }
        let fewest = hazards.hash_max;
        assert!(fewest < u64::MAX / 8, "few of the keys are observed");
        // When the keys are no longer requested, others may take their place.
        for turnover in 1..200 {
            hazards.learn(WorkTime(turnover * 1_024));
        }
        assert_eq!(hazards.hash_max, u64::MAX);
    }
}
