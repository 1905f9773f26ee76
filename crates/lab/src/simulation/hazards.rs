//! Learns from a sample of the keys how probable the next request for an item is, by its [`Uses`] and its age.
//!
//! ```text
//!   requests for the sampled keys --> waits: (class, age) --> requests and ticks waited --> hazards --> densities
//! ```
//!
//! The class of an item is the pair of its count level and its gap level. The age is the time since the last request, in
//! ticks. A *wait* is the time from one request for a key to the next. For each class and each level of the age, the
//! table counts the ticks that sampled keys waited, and the requests that ended a wait. Their quotient is the *hazard*:
//! the expected number of requests in a tick. A key is observed whether its item is cached or not, so a wait that is
//! longer than an item stays cached is known too. Waits that have not ended count with the ticks so far.
//!
//! A class with little data resembles the items of the same count level, and these resemble all items: a hazard is a
//! mean of its own data and of the more general hazard.
//!
//! The *density* of an item is the highest ratio of expected hits to expected ticks in the cache, over all ages at which
//! the item could be evicted. This ratio is the index of J. Gittins, "Bandit Processes and Dynamic Allocation Indices",
//! Journal of the Royal Statistical Society B 41(2), 1979. Divided by the size, it resembles the hit density of LHD
//! (`lhd.rs`), which takes the ages at which items have been evicted so far instead of the best ages.

use super::uses::{COUNT_LEVELS, GAP_LEVELS, Uses};
use slabwise_base::random::mix;

/// Number of levels of the age. Four levels double the age.
const AGE_LEVELS: usize = 52;
/// A key that was not requested for this number of ticks is no longer observed.
const WAIT_TICKS_MAX: u32 = 8 << 10;
/// Number of ticks from one computation of the densities to the next.
const INTERVAL_TICKS: u32 = 64;
/// Number of gets and sets from one computation to the next, at least.
const INTERVAL_REQUESTS_MIN: u64 = 1 << 10;
/// Factor on the counts at each computation. They halve in about two turnovers of the memory.
const DECAY: f64 = 0.98;
/// A more general hazard has the weight of this number of requests.
const PRIOR_REQUESTS: f64 = 8.0;
/// Count levels from this one on share a class.
const COUNT_CLASSES: usize = 10;
/// Largest number of sampled keys. If there are more, half of them leave the sample.
const SAMPLED_KEYS_MAX: usize = 16 << 10;

const _: () = assert!(COUNT_CLASSES <= COUNT_LEVELS, "each class has a count level");

/// A value for each level of the age.
type ByAge = [f64; AGE_LEVELS];

/// What a class has learned, by the level of the age.
#[derive(Clone, Debug)]
struct Class {
    /// Requests that ended a wait at this age.
    requests: ByAge,
    /// Ticks that keys waited at this age.
    ticks: ByAge,
    densities: ByAge,
}

/// The last request for a sampled key.
#[derive(Clone, Copy, Debug)]
struct Wait {
    key: u32,
    class: u16,
    /// Tick of the request.
    since: u32,
    /// Up to this tick the wait is counted.
    counted: u32,
}

#[derive(Debug)]
pub struct Hazards {
    classes: Vec<Class>,
    waits: Vec<Wait>,
    /// Index in `waits` plus 1, or 0, by the number of the key.
    places: Vec<u32>,
    /// The sample has the keys whose hash is at most this number.
    hash_max: u64,
    /// Tick of the next computation.
    due: u32,
    /// Gets and sets since the last computation.
    requests: u64,
}

impl Hazards {
    pub fn new(key_count: usize) -> Hazards {
        // Before the first computation, the densities are those of an LRU.
        let densities = std::array::from_fn(|level| 1.0 / (age_from(level) + 1.0));
        let class = Class { requests: [0.0; AGE_LEVELS], ticks: [0.0; AGE_LEVELS], densities };
        Hazards {
            classes: vec![class; COUNT_CLASSES * GAP_LEVELS],
            waits: Vec::new(),
            places: vec![0; key_count],
            hash_max: u64::MAX,
            due: INTERVAL_TICKS,
            requests: 0,
        }
    }

    /// Returns the density of an item that was requested last `age` ticks ago.
    pub fn density(&self, uses: Uses, age: u32) -> f64 {
        self.classes[class_of(uses)].densities[age_level(age)]
    }

    /// Notes a get or a set of a key. `uses` includes this request.
    pub fn requested(&mut self, key: u32, uses: Uses, now: u32) {
        self.requests += 1;
        if now >= self.due && self.requests >= INTERVAL_REQUESTS_MIN {
            self.learn(now);
            self.due = now + INTERVAL_TICKS;
            self.requests = 0;
        }
        if hash(key) > self.hash_max {
            return;
        }
        let wait = Wait { key, class: class_of(uses) as u16, since: now, counted: now };
        let place = self.places[key as usize];
        if place == 0 {
            self.waits.push(wait);
            self.places[key as usize] = self.waits.len() as u32;
        } else {
            let ended = std::mem::replace(&mut self.waits[place as usize - 1], wait);
            self.count(ended, now);
            if now - ended.since <= WAIT_TICKS_MAX {
                let level = age_level(now - ended.since);
                let class = &mut self.classes[usize::from(ended.class)];
                class.requests[level] += 1.0;
                // The request came in the middle of a tick.
                class.ticks[level] += 0.5;
            }
        }
    }

    /// Notes that a key was deleted: its wait has no end.
    pub fn deleted(&mut self, key: u32) {
        if let Some(index) = (self.places[key as usize] as usize).checked_sub(1) {
            self.forget(index);
        }
    }

    /// Removes the wait at this index.
    fn forget(&mut self, index: usize) {
        let wait = self.waits.swap_remove(index);
        self.places[wait.key as usize] = 0;
        if let Some(moved) = self.waits.get(index) {
            self.places[moved.key as usize] = index as u32 + 1;
        }
    }

    /// Adds the ticks of a wait that are not counted yet.
    fn count(&mut self, wait: Wait, now: u32) {
        let ticks = &mut self.classes[usize::from(wait.class)].ticks;
        let end = f64::from((now - wait.since).min(WAIT_TICKS_MAX));
        let mut age = f64::from(wait.counted - wait.since);
        let first = age_level(wait.counted - wait.since);
        for (level, ticks) in ticks.iter_mut().enumerate().skip(first) {
            let next = age_from(level + 1).min(end);
            if next > age {
                *ticks += next - age;
                age = next;
            }
        }
    }

    /// Counts all waits up to now, and computes the densities.
    fn learn(&mut self, now: u32) {
        for index in (0..self.waits.len()).rev() {
            let wait = self.waits[index];
            self.count(wait, now);
            self.waits[index].counted = now;
            if now - wait.since > WAIT_TICKS_MAX {
                self.forget(index);
            }
        }
        while self.waits.len() > SAMPLED_KEYS_MAX {
            self.hash_max /= 2;
            for index in (0..self.waits.len()).rev() {
                if hash(self.waits[index].key) > self.hash_max {
                    self.forget(index);
                }
            }
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

fn hash(key: u32) -> u64 {
    mix(u64::from(key) ^ 0x51ab)
}

fn class_of(uses: Uses) -> usize {
    uses.count_level().min(COUNT_CLASSES - 1) * GAP_LEVELS + uses.gap_level()
}

/// Returns the level of an age in ticks.
fn age_level(age: u32) -> usize {
    if age < 4 {
        return age as usize;
    }
    let power = age.ilog2();
    let quarter = (age >> (power - 2)) & 3;
    (((power - 1) * 4 + quarter) as usize).min(AGE_LEVELS - 1)
}

/// Returns the lowest age of a level, in ticks.
fn age_from(level: usize) -> f64 {
    match level {
        0..4 => level as f64,
        _ => (4 + level % 4) as f64 * ((level / 4 - 1) as f64).exp2(),
    }
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
    use super::{AGE_LEVELS, Hazards, INTERVAL_TICKS, age_from, age_level, densities};
    use crate::simulation::uses::Uses;
    use slabwise_base::Random;

    #[test]
    fn every_age_is_in_its_level() {
        for age in (0..5_000).chain([1 << 14, (1 << 14) - 1]) {
            let level = age_level(age);
            let is_inside = age_from(level) <= f64::from(age)
                && (level == AGE_LEVELS - 1 || f64::from(age) < age_from(level + 1));
            assert!(is_inside, "age {age}, level {level}");
        }
        assert_eq!(age_level(u32::MAX), AGE_LEVELS - 1);
    }

    #[test]
    fn the_ticks_of_a_wait_count_at_their_ages() {
        let mut hazards = Hazards::new(2);
        hazards.requested(0, Uses::FIRST, 10);
        hazards.requested(0, Uses::FIRST, 13);
        let class = &hazards.classes[7];
        assert_eq!(class.ticks[..5], [1.0, 1.0, 1.0, 0.5, 0.0]);
        assert_eq!(class.requests[..5], [0.0, 0.0, 0.0, 1.0, 0.0]);
        // A wait that goes on counts up to now, and later only from there.
        hazards.count(hazards.waits[0], 15);
        hazards.waits[0].counted = 15;
        hazards.requested(0, Uses::FIRST, 16);
        let class = &hazards.classes[7];
        assert_eq!(class.ticks[..5], [2.0, 2.0, 2.0, 1.0, 0.0]);
        hazards.deleted(0);
        assert!(hazards.waits.is_empty() && hazards.places[0] == 0);
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
        let mut hazards = Hazards::new(10_000);
        let mut random = Random::new(2);
        let mut regular = [Uses::FIRST; 50];
        for now in 0..4_000_u32 {
            for (key, uses) in
                regular.iter_mut().enumerate().filter(|(key, _)| now as usize % 20 == key % 20)
            {
                *uses = uses.add(20, &mut random);
                hazards.requested(key as u32, *uses, now);
            }
            hazards.requested(50 + now, Uses::FIRST, now);
        }
        assert!(hazards.due > INTERVAL_TICKS, "the densities were computed");
        let (often, new) = (hazards.density(regular[0], 10), hazards.density(Uses::FIRST, 10));
        assert!(often > 0.05 && new < 0.005, "often {often}, new {new}");
        let late = hazards.density(regular[0], 200);
        assert!(late < often / 10.0, "at age 200: {late}, at age 10: {often}");
    }
}
