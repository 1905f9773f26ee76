//! The lanes of a class, and sums over its queued items. A lane is one set of the queues hot, warm, cold and temp. Some
//! eviction kinds use several lanes, to separate items of different costs.
//!
//! | eviction kind | lanes |
//! |---|---|
//! | `segmented`, `lru`, `reserved` | one lane |
//! | `cost_bands` | one lane for each band of costs (`cost_bands.rs`) |
//! | `greedydual_size` | one lane for each rounded ratio of cost to size (`greedydual_size.rs`) |
//! | `split_lru` | one lane for each part of a divided queue (`split_lru.rs`) |
//! | `gd_wheel` | one lane for each slot number; the queue within the lane selects the wheel (`gd_wheel.rs`) |
//!
//! Invariants: the lane of an item depends only on data that the item stores. For each of the four queues, the set
//! `occupied` has exactly the lanes in which this queue holds an item. The set `in_use` has exactly the lanes that hold
//! an item in any queue.

use crate::mem::{List, QueueKind};
use slabwise_base::size_histogram::bucket_of;
use slabwise_base::{Cost, SizeHistogram};

/// The number of a lane within its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

impl Lane {
    /// The lane with number 0, which is the only lane of eviction kinds that do not separate items.
    pub const FIRST: Lane = Lane(0);

    /// The lane with the highest number that an eviction kind may use.
    pub const MAX: Lane = Lane(4095);
}

/// A queue of a class: one of the four queues of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lane.
    pub lane: Lane,
    /// The queue within the lane.
    pub queue: QueueKind,
}

/// The queues of a class.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The queues of lane 0.
    first: [List; 4],
    /// The queues of the other lanes, beginning with lane 1.
    others: Vec<[List; 4]>,
    /// One entry per kind of queue: the lanes in which this queue holds an item.
    occupied: [LaneSet; 4],
    /// The lanes that hold an item in any queue.
    in_use: LaneSet,
    /// The number of lanes in `in_use`.
    in_use_count: usize,
}

impl Lanes {
    /// Returns a queue of the class.
    #[inline]
    pub fn queue(&self, Place { lane, queue }: Place) -> &List {
        const EMPTY: &List = &List::EMPTY;
        match usize::from(lane.0).checked_sub(1) {
            None => &self.first[queue.index()],
            Some(at) => self.others.get(at).map_or(EMPTY, |queues| &queues[queue.index()]),
        }
    }

    /// Returns a queue for a change. If the change makes an empty queue non-empty or a non-empty queue empty, the
    /// caller must call [`Lanes::note_use`].
    #[inline]
    pub fn queue_mut(&mut self, Place { lane, queue }: Place) -> &mut List {
        let Some(at) = usize::from(lane.0).checked_sub(1) else {
            return &mut self.first[queue.index()];
        };
        if at >= self.others.len() {
            self.others.resize_with(at + 1, Default::default);
        }
        &mut self.others[at][queue.index()]
    }

    /// Updates the sets of lanes after a queue got its first item (`is_used`) or lost its last item.
    #[cold]
    pub fn note_use(&mut self, Place { lane, queue }: Place, is_used: bool) {
        self.occupied[queue.index()].set(lane, is_used);
        let is_used = self.occupied.iter().any(|queue| queue.has(lane));
        if is_used != self.in_use.has(lane) {
            self.in_use.set(lane, is_used);
            if is_used {
                self.in_use_count += 1;
            } else {
                self.in_use_count -= 1;
            }
        }
    }

    /// Returns the lanes in which this queue holds an item.
    pub fn occupied(&self, kind: QueueKind) -> &LaneSet {
        &self.occupied[kind.index()]
    }

    /// Returns the lanes that hold an item, in ascending order.
    pub fn all(&self) -> impl Iterator<Item = Lane> + '_ {
        self.in_use.iter()
    }

    /// Returns the first lane at or after `lane` that holds an item.
    pub fn next_from(&self, lane: Lane) -> Option<Lane> {
        self.in_use.first_from(lane)
    }

    /// Returns the last lane that holds an item.
    pub fn last(&self) -> Option<Lane> {
        self.in_use.last()
    }

    /// True if more than one lane holds an item.
    #[inline]
    pub fn has_several(&self) -> bool {
        self.in_use_count > 1
    }

    /// Returns this queue of each lane in which the queue holds an item.
    pub fn queues(&self, queue: QueueKind) -> impl Iterator<Item = &List> {
        self.occupied(queue).iter().map(move |lane| self.queue(Place { lane, queue }))
    }

    /// Returns the number of items in this queue, summed over all lanes.
    pub fn count(&self, kind: QueueKind) -> u64 {
        self.queues(kind).map(List::count).sum()
    }

    /// Returns the counted bytes of the items in this queue, summed over all lanes.
    pub fn bytes(&self, kind: QueueKind) -> u64 {
        self.queues(kind).map(List::bytes).sum()
    }
}

/// A set of lanes, as one bit per lane. Most eviction kinds use only the first 64 lanes, which need no heap allocation.
#[derive(Debug, Default)]
pub struct LaneSet {
    /// The bits of lanes 0 to 63.
    first: u64,
    /// The bits of the lanes from 64 on, 64 lanes per word.
    others: Vec<u64>,
}

impl LaneSet {
    fn set(&mut self, lane: Lane, is_in: bool) {
        let bit = lane.0 % 64;
        let word = match (usize::from(lane.0) / 64).checked_sub(1) {
            None => &mut self.first,
            Some(at) => {
                if at >= self.others.len() {
                    self.others.resize(at + 1, 0);
                }
                &mut self.others[at]
            }
        };
        *word = (*word & !(1 << bit)) | (u64::from(is_in) << bit);
    }

    fn has(&self, lane: Lane) -> bool {
        (self.word(usize::from(lane.0) / 64) >> (lane.0 % 64)) & 1 == 1
    }

    fn word_count(&self) -> usize {
        1 + self.others.len()
    }

    fn word(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            None => self.first,
            Some(at) => self.others.get(at).copied().unwrap_or(0),
        }
    }

    /// Returns the lanes of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Lane> + '_ {
        (0..self.word_count()).flat_map(|at| lanes_of(at, self.word(at)))
    }

    /// Returns the last lane of the set.
    pub fn last(&self) -> Option<Lane> {
        let mut words = (0..self.word_count()).rev().map(|at| (at, self.word(at)));
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        Some(Lane((at * 64) as u16 + word.ilog2() as u16))
    }

    /// Returns the first lane of the set at or after `lane`.
    pub fn first_from(&self, lane: Lane) -> Option<Lane> {
        let at = usize::from(lane.0) / 64;
        let rest = self.word(at) & (u64::MAX << (lane.0 % 64));
        let others = (at + 1..self.word_count()).map(|at| (at, self.word(at)));
        let mut words = std::iter::once((at, rest)).chain(others);
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        lanes_of(at, word).next()
    }
}

/// Returns the lanes whose bits are set in the word with this number.
fn lanes_of(at: usize, word: u64) -> impl Iterator<Item = Lane> {
    let next = |rest: &u64| Some(rest & rest.wrapping_sub(1)).filter(|rest| *rest != 0);
    std::iter::successors(Some(word).filter(|word| *word != 0), next)
        .map(move |rest| Lane((at * 64) as u16 + rest.trailing_zeros() as u16))
}

/// Sums over the queued items of known cost in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCosts {
    /// The number of queued items of known cost.
    pub count: u64,
    /// The sum of their costs, in units.
    pub units: u64,
}

impl ItemCosts {
    /// Returns the mean of the known costs, in units. The result is at least 1.
    pub fn mean(&self) -> u64 {
        (self.units / self.count.max(1)).max(1)
    }

    /// Adds an item of this cost that enters a queue of the class.
    #[inline]
    pub fn add(&mut self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.count += 1;
            self.units += u64::from(cost.units());
        }
    }

    /// Adds the sums of another class.
    pub fn append(&mut self, other: ItemCosts) {
        self.count += other.count;
        self.units = self.units.saturating_add(other.units);
    }

    /// Subtracts an item of this cost that was removed from its queue.
    #[inline]
    pub fn remove(&mut self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.count -= 1;
            self.units -= u64::from(cost.units());
        }
    }
}

/// The numbers of queued items of a class by size, in the buckets of [`slabwise_base::size_histogram`]. The sizes of
/// the items are just below the chunk size of the class. So a class needs only a few adjacent buckets, and all classes
/// together need little more memory than one complete histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemSizes {
    /// The number of the bucket that `items[0]` counts.
    first: usize,
    /// One entry per bucket, beginning with bucket `first`: the number of items in the bucket.
    items: Vec<u64>,
}

impl ItemSizes {
    /// Adds an item of this size that enters a queue of the class.
    #[inline]
    pub fn add(&mut self, size_bytes: u64) {
        let bucket = bucket_of(size_bytes as usize);
        match self.items.get_mut(bucket.wrapping_sub(self.first)) {
            Some(items) => *items += 1,
            None => *self.grow_to(bucket) += 1,
        }
    }

    /// Subtracts an item that was removed from its queue. `size_bytes` is the size with which the item was added.
    #[inline]
    pub fn remove(&mut self, size_bytes: u64) {
        self.items[bucket_of(size_bytes as usize) - self.first] -= 1;
    }

    /// Adds empty buckets up to this one, and returns the number of items in it.
    #[cold]
    fn grow_to(&mut self, bucket: usize) -> &mut u64 {
        if self.items.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let before = std::iter::repeat_n(0, self.first - bucket);
            self.items.splice(..0, before);
            self.first = bucket;
        }
        let index = bucket - self.first;
        if index >= self.items.len() {
            self.items.resize(index + 1, 0);
        }
        &mut self.items[index]
    }

    /// Returns the number of the first bucket, and the number of items in it and in each bucket after it.
    pub fn counts(&self) -> (usize, &[u64]) {
        (self.first, &self.items)
    }

    /// Returns the numbers of items of which [`ItemSizes::counts`] returns these parts.
    pub fn from_counts(first: usize, items: Vec<u64>) -> ItemSizes {
        ItemSizes { first, items }
    }

    /// Adds the counts of all buckets to a histogram.
    pub fn add_to(&self, histogram: &mut SizeHistogram) {
        for (index, &items) in self.items.iter().enumerate() {
            histogram.add_to_bucket(self.first + index, items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ItemSizes, Lane, LaneSet};
    use slabwise_base::{Random, SizeHistogram};

    #[test]
    fn a_lane_set_finds_the_next_and_the_last_lane() {
        let mut set = LaneSet::default();
        let lanes = [0, 3, 63, 64, 200];
        lanes.iter().for_each(|&lane| set.set(Lane(lane), true));
        set.set(Lane(3), false);
        assert!(set.iter().eq([0, 63, 64, 200].map(Lane)));
        assert_eq!(set.first_from(Lane(1)), Some(Lane(63)));
        assert_eq!(set.first_from(Lane(64)), Some(Lane(64)));
        assert_eq!(set.first_from(Lane(65)), Some(Lane(200)));
        assert_eq!((set.last(), LaneSet::default().last()), (Some(Lane(200)), None));
        set.set(Lane(200), false);
        assert_eq!(set.last(), Some(Lane(64)));
        assert_eq!(set.first_from(Lane(201)), None);
        assert_eq!(set.first_from(Lane(1_000)), None);
    }

    #[test]
    fn item_sizes_count_like_a_histogram() {
        let seed = 7;
        let mut random = Random::new(seed);
        let (mut sizes, mut present, mut expected) =
            (ItemSizes::default(), Vec::new(), SizeHistogram::default());
        for _ in 0..10_000 {
            let size_bytes = 100 + random.below(10_000);
            sizes.add(size_bytes);
            present.push(size_bytes);
            if random.below(3) == 0 {
                let removed = present.swap_remove(random.below(present.len() as u64) as usize);
                sizes.remove(removed);
            }
        }
        present.iter().for_each(|&size_bytes| expected.add(size_bytes as usize, 1));
        let mut found = SizeHistogram::default();
        sizes.add_to(&mut found);
        assert!(found.bins().eq(expected.bins()), "seed {seed}");
    }
}
