//! What is known of a Zipf law before any run: how many keys make which hit ratio.
//!
//! - An LRU, by Che's approximation: a key is there if it was asked for within the characteristic time, the one in
//!   which as many different keys are asked for as there is room for.
//! - A cache that never fills: a key is there if it was asked for before.
//!
//! Ranks far from the head are taken together, where their chances differ by a fiftieth at most.
//!
//! Source: Che, Tung, Wang: Hierarchical Web Caching Systems: Modeling, Design and Experimental Results, IEEE JSAC
//! 20(7), 2002, section III.

/// Ranks that are looked at one by one.
const HEAD_RANKS: u64 = 1_000;
/// How much later the next group of ranks begins.
const GROUP_GROWTH: f64 = 1.02;
/// The most keys that are looked for, and the longest time.
const KEYS_MAX: f64 = 1e9;
const TIME_MAX: f64 = 1e12;
/// Times that an interval is halved, by factors: what is left of it is less than a key.
const HALVINGS: usize = 40;

/// So many keys, each asked for with this chance.
#[derive(Clone, Copy, Debug)]
struct Group {
    keys: f64,
    chance: f64,
}

#[derive(Clone, Debug)]
pub struct Popularity {
    groups: Vec<Group>,
}

impl Popularity {
    /// Zipf's law with this exponent over so many keys; or over so many ranks, hashed to the keys.
    pub fn new(keys: u64, skew: f64, ranks: Option<u64>) -> Popularity {
        let mut groups = groups(ranks.map_or(keys, |ranks| ranks.max(keys)), skew);
        // What lies behind the keys' own ranks falls on all of them alike.
        let (mut head, mut spread, mut at) = (Vec::new(), 0.0, 0.0);
        for group in groups.drain(..) {
            let own = (keys as f64 - at).clamp(0.0, group.keys);
            at += group.keys;
            spread += (group.keys - own) * group.chance / keys as f64;
            if own > 0.0 {
                head.push(Group { keys: own, ..group });
            }
        }
        head.iter_mut().for_each(|group| group.chance += spread);
        Popularity { groups: head }
    }

    fn sum(&self, of_key: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|group| group.keys * of_key(group.chance)).sum()
    }

    /// What an LRU with room for so many keys hits, by Che's approximation.
    pub fn lru_hit_ratio(&self, room: f64) -> f64 {
        let known_within = |time: f64| self.sum(|chance| -(-chance * time).exp_m1());
        let time = largest(TIME_MAX, |time| known_within(time) < room);
        1.0 - self.sum(|chance| chance * (-chance * time).exp())
    }

    /// What hits after so many requests, in so many, if nothing ever leaves.
    pub fn known_ratio(&self, after: u64, requests: u64) -> f64 {
        let (after, requests) = (after as f64, requests as f64);
        let met_first = |chance: f64| (-chance * after).exp() * -(-chance * requests).exp_m1();
        1.0 - self.sum(met_first) / requests.max(1.0)
    }
}

/// The ranks `1..=ranks` in groups, the chances of all of them adding up to 1.
fn groups(ranks: u64, skew: f64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut from = 1;
    while from <= ranks {
        let next = if from < HEAD_RANKS { from + 1 } else { (from as f64 * GROUP_GROWTH) as u64 };
        let next = next.min(ranks + 1);
        let middle = f64::midpoint(from as f64, (next - 1) as f64);
        groups.push(Group { keys: (next - from) as f64, chance: middle.powf(-skew) });
        from = next;
    }
    let sum: f64 = groups.iter().map(|group| group.keys * group.chance).sum();
    groups.iter_mut().for_each(|group| group.chance /= sum);
    groups
}

/// The most keys for which `hit_ratio` is at least `target`; it must fall as keys get more.
pub fn keys_for(target: f64, hit_ratio: impl Fn(u64) -> f64) -> u64 {
    largest(KEYS_MAX, |keys| hit_ratio(keys as u64) >= target) as u64
}

/// The largest number from 1 to `most` that is small, as all below it are.
fn largest(most: f64, is_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0f64, most);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if is_small(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::{Popularity, keys_for};
    use crate::exact_lru::ExactLru;
    use slabwise_base::Random;
    use slabwise_replay::workload::Zipf;
    use std::collections::HashSet;

    #[test]
    fn an_lru_hits_as_foretold() {
        const ROOM: u64 = 2_000;
        let keys =
            keys_for(0.9, |keys| Popularity::new(keys, 0.99, None).lru_hit_ratio(ROOM as f64));
        let mut zipf = Zipf::new(keys, 0.99, Random::new(5));
        let mut lru = ExactLru::new(ROOM);
        let mut misses =
            |requests| (0..requests).filter(|_| lru.access(zipf.next_key(), 1).is_miss()).count();
        misses(100_000);
        let ratio = 1.0 - misses(200_000) as f64 / 200_000.0;
        assert!((ratio - 0.9).abs() < 0.004, "seed 5: {keys} keys, {ratio}");
    }

    #[test]
    fn first_requests_come_as_foretold() {
        let known = |keys| Popularity::new(keys, 0.99, None).known_ratio(20_000, 100_000);
        let keys = keys_for(0.95, known);
        let mut zipf = Zipf::new(keys, 0.99, Random::new(6));
        let mut known: HashSet<u64> = HashSet::new();
        known.extend((0..20_000).map(|_| zipf.next_key()));
        let first = (0..100_000).filter(|_| known.insert(zipf.next_key())).count();
        let ratio = 1.0 - first as f64 / 100_000.0;
        assert!((ratio - 0.95).abs() < 0.003, "seed 6: {keys} keys, {ratio}");
    }

    #[test]
    fn ranks_behind_the_keys_fall_on_all_of_them() {
        let own = Popularity::new(5_000, 0.99, None);
        let hashed = Popularity::new(5_000, 0.99, Some(10_000_000_000));
        for popularity in [&own, &hashed] {
            let (keys, all) = (popularity.sum(|_| 1.0), popularity.sum(|chance| chance));
            assert!((keys - 5_000.0).abs() < 1e-6 && (all - 1.0).abs() < 1e-9, "{keys} {all}");
        }
        assert!(hashed.lru_hit_ratio(2_000.0) < own.lru_hit_ratio(2_000.0));
    }
}
