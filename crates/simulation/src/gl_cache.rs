//! GL-Cache (Yang, Mao, Yue, Rashmi: GL-Cache: Group-level learning for efficient and high-performance caching, FAST
//! 2023), by bytes.
//!
//! ```text
//!   chain of groups, oldest first:   [100 items] [100 items] [100 items] ... [open group] <-- new items
//!                                         \           /
//!            a group with a low utility and its successor --> one group with the better half of their items
//! ```
//!
//! Items that are stored one after the other form a group. The cache does not rank items: it chooses the group with the
//! lowest predicted utility, and merges it with its successor in the chain. The better half of their items stays, in a
//! new group at the same place. The score of an item is one over the product of its size and the time since its last
//! get. [`Learner`] predicts the utilities. Before it has learned, pairs are merged in the order of the chain. Time is
//! the number of requests. Numbers that the paper leaves open are those of libCacheSim, which the authors wrote.
//!
//! Invariants:
//! - `places` has the place of exactly the items in the groups, and `held_bytes` is the sum of their sizes.
//! - New items come into the open group, which is the last of the chain. It is not merged, but it is evicted as a whole
//!   if the chain has only two groups.
//! - Each eviction removes at least one item or one group.

use super::cache::Simulation;
use super::group_utility::{Features, Learner};
use super::groups::{GROUP_ITEMS, Group, GroupItem, Groups};

/// The groups are ranked again after this part of them was visited.
const VISITED_PART: f64 = 0.02;
/// Number of requests from one training to the next. The paper trains once a day, and libCacheSim takes a record without
/// a time as a second.
const TRAINING_INTERVAL: u64 = 86_400;
/// Number of requests over which the miss ratio of the cache is measured, which is a feature of the groups.
const MISS_RATIO_INTERVAL: u64 = 10_000;

#[derive(Debug)]
pub struct GlCache {
    groups: Groups,
    learner: Learner,
    /// Groups in the order of their predicted utilities, with the identities that they had when they were ranked.
    ranked: Vec<(u32, u64)>,
    /// Number of ranked groups that were visited.
    visited: usize,
    /// The next group to merge before the learner has learned.
    next_in_chain: Option<u32>,
    limit_bytes: u64,
    /// Number of requests so far.
    now: u64,
    last_training: Option<u64>,
    miss_ratio: f64,
    misses: u64,
}

impl GlCache {
    pub fn new(key_count: usize, limit_bytes: u64, seed: u64) -> GlCache {
        GlCache {
            groups: Groups::new(key_count),
            learner: Learner::new(seed),
            ranked: Vec::new(),
            visited: 0,
            next_in_chain: None,
            limit_bytes,
            now: 0,
            last_training: None,
            miss_ratio: 1.0,
            misses: 0,
        }
    }

    /// Counts a request, and trains the learner when a training is due.
    fn begin_request(&mut self) {
        self.now += 1;
        if self.now.is_multiple_of(MISS_RATIO_INTERVAL) {
            self.miss_ratio = self.misses as f64 / MISS_RATIO_INTERVAL as f64;
            self.misses = 0;
        }
        if self.last_training.is_some_and(|last| self.now - last > TRAINING_INTERVAL) {
            self.learner.train();
            self.take_samples();
        }
    }

    /// Takes samples of the groups for the next training.
    fn take_samples(&mut self) {
        self.last_training = Some(self.now);
        let chain = self.groups.closed();
        let chosen = self.learner.begin_samples(chain.len(), self.now);
        for group in &chain {
            self.groups.set_sample(*group, None);
        }
        for at in chosen {
            let features = self.features(self.groups.group(chain[at]));
            let sample = self.learner.add_sample(features);
            self.groups.set_sample(chain[at], Some(sample));
        }
    }

    fn features(&self, group: &Group) -> Features {
        let items = group.items.len().max(1) as f64;
        [
            (self.now - group.created) as f64,
            group.bytes as f64 / items,
            f64::from(group.hits),
            f64::from(group.active),
            group.miss_ratio,
        ]
    }

    /// Counts a get or a set of a cached item.
    fn hit(&mut self, key: u32) {
        let now = self.now;
        let Some((group, index)) = self.groups.place(key) else { return };
        let group = self.groups.group_mut(group);
        let item = &mut group.items[index];
        item.used = now;
        group.hits += 1;
        group.active += u32::from(!std::mem::replace(&mut item.is_active, true));
        if let Some(sample) = group.sample
            && !std::mem::replace(&mut item.is_seen, true)
        {
            self.learner.requested(sample, item.size_bytes, now);
        }
    }

    fn store(&mut self, key: u32, size_bytes: u32) {
        let (now, miss_ratio) = (self.now, self.miss_ratio);
        if self.groups.last().is_none_or(|last| self.groups.group(last).items.len() == GROUP_ITEMS)
        {
            self.groups.append(Group::new(now, miss_ratio));
        }
        let item = GroupItem { key, size_bytes, used: now, is_active: false, is_seen: false };
        if let Some(last) = self.groups.last() {
            self.groups.add(last, item);
        }
    }

    /// Merges two groups, or evicts a group if there are no two groups to merge.
    fn evict(&mut self) {
        if self.last_training.is_none() {
            self.take_samples();
        }
        match self.choose() {
            Some(group) => self.merge(group),
            None => self.evict_first(),
        }
    }

    /// Returns the group that is merged with its successor, or `None` if no group can be.
    fn choose(&mut self) -> Option<u32> {
        if !self.learner.has_learned() {
            let next = self.next_in_chain.filter(|&group| self.groups.can_be_merged(group));
            return next.or(self.groups.first()).filter(|&group| self.groups.can_be_merged(group));
        }
        if self.visited as f64 >= self.ranked.len() as f64 * VISITED_PART {
            self.rank();
        }
        while let Some(&(group, identity)) = self.ranked.get(self.visited) {
            self.visited += 1;
            if self.groups.identity(group) == Some(identity) && self.groups.can_be_merged(group) {
                return Some(group);
            }
        }
        None
    }

    /// Ranks the groups, the one with the lowest predicted utility per byte first.
    fn rank(&mut self) {
        let chain = self.groups.closed();
        let features: Vec<Features> =
            chain.iter().map(|&group| self.features(self.groups.group(group))).collect();
        let mut ranks: Vec<(f64, u32)> = std::iter::zip(self.learner.predict(&features), &chain)
            .map(|(utility, &group)| {
                (utility / self.groups.group(group).bytes.max(1) as f64, group)
            })
            .collect();
        ranks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let identified = |&(_, group): &(f64, u32)| Some((group, self.groups.identity(group)?));
        self.ranked = ranks.iter().filter_map(identified).collect();
        self.visited = 0;
    }

    /// Merges a group with its successor.
    fn merge(&mut self, first: u32) {
        let now = self.now;
        let Some(second) = self.groups.next(first) else { return };
        let (before, after) = (self.groups.previous(first), self.groups.next(second));
        let (a, b) = (self.groups.remove(first), self.groups.remove(second));
        let merged = Group::new(now, (a.miss_ratio + b.miss_ratio) / 2.0);
        let merged = self.groups.insert(before, merged);
        let samples = [(a.items, a.sample), (b.items, b.sample)];
        let mut items: Vec<(f64, GroupItem, Option<usize>)> = Vec::new();
        for (of_group, sample) in samples {
            items.extend(of_group.into_iter().map(|item| (score(&item, now), item, sample)));
        }
        items.sort_by(|a, b| b.0.total_cmp(&a.0));
        let kept = (items.len() / 2).min(GROUP_ITEMS);
        for (at, (_, item, sample)) in items.into_iter().enumerate() {
            // The utility of a sampled group also counts the next request of an item that left the group.
            if let Some(sample) = sample.filter(|_| !item.is_seen) {
                self.learner.left(item.key, sample, item.size_bytes);
            }
            if at < kept {
                self.groups.add(merged, GroupItem { is_active: false, is_seen: false, ..item });
            }
        }
        self.next_in_chain = after;
    }

    fn evict_first(&mut self) {
        if let Some(first) = self.groups.first() {
            self.groups.remove(first);
        }
    }
}

/// Returns the score of an item: the items with the highest scores stay (`OBJ_SCORE_AGE_BYTE` of libCacheSim).
fn score(item: &GroupItem, now: u64) -> f64 {
    1.0 / (f64::from(item.size_bytes.max(1)) * (now - item.used).max(1) as f64)
}

impl Simulation for GlCache {
    fn held_bytes(&self) -> u64 {
        self.groups.held_bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        self.begin_request();
        self.learner.requested_after_eviction(key, self.now);
        let held = self.groups.item(key).map(|item| item.size_bytes);
        self.misses += u64::from(held.is_none());
        if held == Some(size_bytes) {
            self.hit(key);
            return true;
        }
        self.groups.remove_key(key);
        if u64::from(size_bytes) <= self.limit_bytes {
            while self.groups.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
                self.evict();
            }
            self.store(key, size_bytes);
        }
        held.is_some()
    }

    fn remove(&mut self, key: u32) {
        self.groups.remove_key(key);
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP_ITEMS, GlCache, TRAINING_INTERVAL};
    use crate::cache::Simulation;

    const SIZE_BYTES: u32 = 10;

    /// Returns a full cache of this number of groups. Its keys are numbered in the order of time.
    fn full_cache(groups: u32, key_count: u32) -> GlCache {
        let items = groups * GROUP_ITEMS as u32;
        let mut cache = GlCache::new(key_count as usize, u64::from(items * SIZE_BYTES), 1);
        (0..items).for_each(|key| assert!(!cache.get(key, SIZE_BYTES, 0)));
        cache
    }

    #[test]
    fn a_merge_keeps_the_items_that_were_used_last() {
        let mut cache = full_cache(4, 401);
        // The first pair has the keys from 0 to 199. Those with odd numbers are requested again.
        (0..200).filter(|key| key % 2 == 1).for_each(|key| assert!(cache.get(key, SIZE_BYTES, 0)));
        assert!(!cache.get(400, SIZE_BYTES, 0));
        let held = |key: &u32| cache.groups.item(*key).is_some();
        assert_eq!((0..200).filter(held).collect::<Vec<_>>(), Vec::from_iter((1..200).step_by(2)));
        assert_eq!((200..401).filter(held).count(), 201);
        assert_eq!(cache.held_bytes(), 301 * u64::from(SIZE_BYTES));
    }

    /// Every second request is for one of 1,000 keys. The other keys are requested once.
    #[test]
    fn after_training_the_requested_items_stay() {
        let requests = 3 * TRAINING_INTERVAL as u32;
        let mut cache = full_cache(40, 4_000 + requests);
        for number in 0..requests {
            let key = if number % 2 == 0 { 2_000 + number / 2 % 1_000 } else { 4_000 + number };
            cache.get(key, SIZE_BYTES, 0);
        }
        assert!(cache.learner.has_learned());
        let hits = (2_000..3_000).filter(|&key| cache.get(key, SIZE_BYTES, 0)).count();
        assert_eq!(hits, 1_000);
    }
}
