//! The lanes of a class, which are sets of queues that separate items by cost, and sums over the queued items.
//!
//! | eviction kind | lanes |
//! |---|---|
//! | `segmented`, `lru`, `reserved` | one |
//! | `cost_bands` | one for each band of costs (`cost_bands.rs`) |
//! | `greedydual_size` | one for each ratio of cost to size, rounded (`greedydual_size.rs`) |
//! | `gd_wheel` | one for each slot of a wheel; the queue is the wheel (`gd_wheel.rs`) |
//!
//! Invariants: an item's lane depends only on data that the item stores; a lane is in the set of occupied lanes
//! of a queue exactly while that queue of the lane holds an item, and in use exactly while it is in such a set.

use crate::mem::{List, QueueKind};
use slabwise_base::size_histogram::bucket_of;
use slabwise_base::{Cost, SizeHistogram};

/// The number of a lane within its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

impl Lane {
    /// The only lane of eviction kinds that do not separate items.
    pub const FIRST: Lane = Lane(0);

    /// The highest lane of any eviction kind.
    pub const MAX: Lane = Lane(4095);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub lane: Lane,
    pub queue: QueueKind,
}

/// The queues of a class.
#[derive(Debug, Default)]
pub struct Lanes {
    first: [List; 4],
    others: Vec<[List; 4]>,
    /// The lanes that hold an item, by queue.
    occupied: [LaneSet; 4],
    /// The lanes that hold an item in any queue.
    in_use: LaneSet,
    in_use_count: usize,
}

impl Lanes {
    #[inline]
    pub fn queue(&self, Place { lane, queue }: Place) -> &List {
        const EMPTY: &List = &List::EMPTY;
        match usize::from(lane.0).checked_sub(1) {
            None => &self.first[queue.index()],
            Some(at) => self.others.get(at).map_or(EMPTY, |queues| &queues[queue.index()]),
        }
    }

    /// A queue to change. After it gets its first item or loses its last, the caller calls [`Lanes::note_use`].
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

    /// Updates the sets of lanes after a queue became empty or stopped being empty.
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

    /// The lanes that hold an item in this queue.
    pub fn occupied(&self, kind: QueueKind) -> &LaneSet {
        &self.occupied[kind.index()]
    }

    /// The lanes that hold an item, in ascending order.
    pub fn all(&self) -> impl Iterator<Item = Lane> + '_ {
        self.in_use.iter()
    }

    /// The lowest lane, at or above this one, that holds an item.
    pub fn next_from(&self, lane: Lane) -> Option<Lane> {
        self.in_use.first_from(lane)
    }

    /// The highest lane that holds an item.
    pub fn last(&self) -> Option<Lane> {
        self.in_use.last()
    }

    /// True if more than one lane holds an item.
    #[inline]
    pub fn has_several(&self) -> bool {
        self.in_use_count > 1
    }

    pub fn queues(&self, queue: QueueKind) -> impl Iterator<Item = &List> {
        self.occupied(queue).iter().map(move |lane| self.queue(Place { lane, queue }))
    }

    /// The number of items in a queue, over all lanes.
    pub fn count(&self, kind: QueueKind) -> u64 {
        self.queues(kind).map(List::count).sum()
    }

    /// The counted bytes of the items in a queue, over all lanes.
    pub fn bytes(&self, kind: QueueKind) -> u64 {
        self.queues(kind).map(List::bytes).sum()
    }
}

/// A set of lanes. The first 64 lanes, which suffice for most kinds, need no allocation.
#[derive(Debug, Default)]
pub struct LaneSet {
    first: u64,
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

    fn words(&self) -> usize {
        1 + self.others.len()
    }

    fn word(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            None => self.first,
            Some(at) => self.others.get(at).copied().unwrap_or(0),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Lane> + '_ {
        (0..self.words()).flat_map(|at| lanes_of(at, self.word(at)))
    }

    pub fn last(&self) -> Option<Lane> {
        let mut words = (0..self.words()).rev().map(|at| (at, self.word(at)));
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        Some(Lane((at * 64) as u16 + word.ilog2() as u16))
    }

    pub fn first_from(&self, lane: Lane) -> Option<Lane> {
        let at = usize::from(lane.0) / 64;
        let rest = self.word(at) & (u64::MAX << (lane.0 % 64));
        let others = (at + 1..self.words()).map(|at| (at, self.word(at)));
        let mut words = std::iter::once((at, rest)).chain(others);
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        lanes_of(at, word).next()
    }
}

/// The lanes whose bits are set in a word of a set.
fn lanes_of(at: usize, word: u64) -> impl Iterator<Item = Lane> {
    let next = |rest: &u64| Some(rest & rest.wrapping_sub(1)).filter(|rest| *rest != 0);
    std::iter::successors(Some(word).filter(|word| *word != 0), next)
        .map(move |rest| Lane((at * 64) as u16 + rest.trailing_zeros() as u16))
}

/// Sums over the queued items of a class whose cost is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCosts {
    pub count: u64,
    pub units: u64,
}

impl ItemCosts {
    /// The mean of the known costs, in units; at least 1.
    pub fn mean(&self) -> u64 {
        (self.units / self.count.max(1)).max(1)
    }

    /// Counts an item that enters.
    #[inline]
    pub fn add(&mut self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.count += 1;
            self.units += u64::from(cost.units());
        }
    }

    /// Counts an item that leaves.
    #[inline]
    pub fn remove(&mut self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.count -= 1;
            self.units -= u64::from(cost.units());
        }
    }
}

/// The number of items by bucket of [`slabwise_base::size_histogram`]. The items of a class fill only a few adjacent
/// buckets, just below its chunk size, so all classes together take little more memory than one histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemSizes {
    /// The bucket of `items[0]`.
    first: usize,
    items: Vec<u64>,
}

impl ItemSizes {
    /// Counts an item that enters the queues.
    #[inline]
    pub fn add(&mut self, size_bytes: u64) {
        let bucket = bucket_of(size_bytes as usize);
        match self.items.get_mut(bucket.wrapping_sub(self.first)) {
            Some(items) => *items += 1,
            None => *self.grow_to(bucket) += 1,
        }
    }

    /// Counts an item that leaves them; its size is the one that it entered with.
    #[inline]
    pub fn remove(&mut self, size_bytes: u64) {
        self.items[bucket_of(size_bytes as usize) - self.first] -= 1;
    }

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
                let gone = present.swap_remove(random.below(present.len() as u64) as usize);
                sizes.remove(gone);
            }
        }
        present.iter().for_each(|&size_bytes| expected.add(size_bytes as usize, 1));
        let mut found = SizeHistogram::default();
        sizes.add_to(&mut found);
        assert!(found.bins().eq(expected.bins()), "seed {seed}");
    }
}
