//! The cached items of a simulation that evicts the lowest-ranked of a few random items.
//!
//! ```text
//!   random items of the pool --\
//!   kept candidates ------------+--> lowest rank: the victim; the next ranks: kept for the next choice
//!   items stored last ---------/
//! ```
//!
//! Source of the kept candidates: K. Psounis, B. Prabhakar, "Efficient randomized web-cache replacement schemes using
//! samples from past eviction times", IEEE/ACM Transactions on Networking 10(4), 2002.
//!
//! Invariants:
//! - `indices` has the index of exactly the keys in `items`, and `held_bytes` is the sum of their sizes.
//! - A victim is an item of the pool.

use slabwise_base::Random;

/// The index of a key without a cached item.
const NONE: u32 = u32::MAX;

/// A cached item. `S` is what the eviction policy stores with it.
#[derive(Clone, Copy, Debug)]
pub struct Item<S> {
    pub key: u32,
    pub size_bytes: u32,
    pub state: S,
}

/// The cached items, in an arbitrary order.
#[derive(Debug)]
pub struct Pool<S> {
    items: Vec<Item<S>>,
    /// The index in `items`, or [`NONE`], by the number of the key.
    indices: Vec<u32>,
    held_bytes: u64,
}

impl<S: Copy> Pool<S> {
    pub fn new(key_count: usize) -> Pool<S> {
        Pool { items: Vec::new(), indices: vec![NONE; key_count], held_bytes: 0 }
    }

    /// Returns the sum of the sizes of all items.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub fn item(&self, key: u32) -> Option<&Item<S>> {
        self.items.get(self.indices[key as usize] as usize)
    }

    /// Replaces the state of a key's item, if any.
    pub fn set_state(&mut self, key: u32, state: S) {
        if let Some(item) = self.items.get_mut(self.indices[key as usize] as usize) {
            item.state = state;
        }
    }

    /// Adds an item.
    ///
    /// # Panics
    /// If the pool already has an item of this key.
    pub fn insert(&mut self, item: Item<S>) {
        let index = &mut self.indices[item.key as usize];
        assert!(*index == NONE, "key {} has no item before its item is inserted", item.key);
        *index = self.items.len() as u32;
        self.held_bytes += u64::from(item.size_bytes);
        self.items.push(item);
    }

    /// Removes the item of a key, if any.
    pub fn remove(&mut self, key: u32) -> Option<Item<S>> {
        let index = std::mem::replace(&mut self.indices[key as usize], NONE);
        if index == NONE {
            return None;
        }
        let item = self.items.swap_remove(index as usize);
        if let Some(moved) = self.items.get(index as usize) {
            self.indices[moved.key as usize] = index;
        }
        self.held_bytes -= u64::from(item.size_bytes);
        Some(item)
    }
}

/// How [`Victims`] chooses.
#[derive(Clone, Copy, Debug)]
pub struct SampleSetup {
    /// Number of random items per choice. At least 1.
    pub random: usize,
    /// Every second draw takes the largest of this number of items, so that large items are found although they are
    /// few. A server draws from random pages instead: the larger the chunks of a page, the fewer items are on it. At
    /// least 1.
    pub largest_of: usize,
    /// Number of the best candidates that are kept for the next choice.
    pub kept: usize,
    /// Number of the items stored last that are candidates too.
    pub recent: usize,
}

/// Chooses victims from a pool.
#[derive(Debug)]
pub struct Victims {
    setup: SampleSetup,
    random: Random,
    /// Keys of the best candidates of the last choice.
    kept: Vec<u32>,
    /// Keys of the items stored last, as a ring.
    recent: Vec<u32>,
    /// Number of stores so far.
    stores: usize,
    /// Rank and key of the candidates of a choice.
    candidates: Vec<(f64, u32)>,
}

impl Victims {
    pub fn new(setup: SampleSetup, seed: u64) -> Victims {
        let (kept, recent, candidates) = (Vec::new(), Vec::new(), Vec::new());
        Victims { setup, random: Random::new(seed), kept, recent, stores: 0, candidates }
    }

    /// Notes that the item of this key was stored.
    pub fn stored(&mut self, key: u32) {
        if self.recent.len() < self.setup.recent {
            self.recent.push(key);
        } else if let Some(oldest) = self.recent.get_mut(self.stores % self.setup.recent.max(1)) {
            *oldest = key;
        }
        self.stores += 1;
    }

    /// Returns the key of the candidate with the lowest rank, and this rank. Returns `None` if the pool is empty.
    pub fn choose<S: Copy>(
        &mut self,
        pool: &Pool<S>,
        rank: impl Fn(&Item<S>) -> f64,
    ) -> Option<(u32, f64)> {
        if pool.items.is_empty() {
            return None;
        }
        self.candidates.clear();
        for draw in 0..self.setup.random {
            let item = self.draw(pool, draw);
            self.candidates.push((rank(item), item.key));
        }
        for &key in self.kept.iter().chain(&self.recent) {
            self.candidates.extend(pool.item(key).map(|item| (rank(item), key)));
        }
        self.candidates.sort_unstable_by(|(rank, key), (other, other_key)| {
            rank.total_cmp(other).then(key.cmp(other_key))
        });
        self.candidates.dedup();
        let kept = self.candidates.iter().skip(1).take(self.setup.kept).map(|&(_, key)| key);
        self.kept.clear();
        self.kept.extend(kept);
        self.candidates.first().map(|&(rank, key)| (key, rank))
    }

    /// Returns a random item of a pool that is not empty.
    fn draw<'a, S: Copy>(&mut self, pool: &'a Pool<S>, draw: usize) -> &'a Item<S> {
        let mut any = || &pool.items[self.random.below(pool.items.len() as u64) as usize];
        let mut item = any();
        let others = if draw.is_multiple_of(2) { self.setup.largest_of - 1 } else { 0 };
        for _ in 0..others {
            let other = any();
            if other.size_bytes > item.size_bytes {
                item = other;
            }
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, Pool, SampleSetup, Victims};

    fn pool(sizes_bytes: &[u32]) -> Pool<()> {
        let mut pool = Pool::new(sizes_bytes.len());
        for (key, &size_bytes) in sizes_bytes.iter().enumerate() {
            pool.insert(Item { key: key as u32, size_bytes, state: () });
        }
        pool
    }

    #[test]
    fn removing_an_item_keeps_the_others() {
        let mut pool = pool(&[10, 20, 30]);
        assert_eq!(pool.remove(0).map(|item| item.size_bytes), Some(10));
        assert!(pool.remove(0).is_none() && pool.item(0).is_none());
        let sizes = [1, 2].map(|key| pool.item(key).map(|item| item.size_bytes));
        assert_eq!((sizes, pool.held_bytes()), ([Some(20), Some(30)], 50));
    }

    #[test]
    fn every_second_draw_prefers_large_items() {
        let pool = pool(&[9, 1, 1, 1, 1, 1, 1, 1]);
        let share = |largest_of| {
            let setup = SampleSetup { random: 2, largest_of, kept: 0, recent: 0 };
            let mut victims = Victims::new(setup, 3);
            let found = (0..2_000).filter(|draw| victims.draw(&pool, draw * 2).key == 0).count();
            let odd = (0..2_000).filter(|draw| victims.draw(&pool, draw * 2 + 1).key == 0).count();
            (found as f64 / 2_000.0, odd as f64 / 2_000.0)
        };
        let (even, odd) = share(1);
        assert!((even - 0.125).abs() < 0.03 && (odd - 0.125).abs() < 0.03, "{even}, {odd}");
        let (even, odd) = share(4);
        // 1 - (7 / 8)^4
        assert!((even - 0.414).abs() < 0.04 && (odd - 0.125).abs() < 0.03, "{even}, {odd}");
    }

    #[test]
    fn kept_and_recent_items_are_candidates() {
        let mut pool = pool(&[7, 5, 3, 9]);
        let setup = SampleSetup { random: 64, largest_of: 1, kept: 2, recent: 1 };
        let mut victims = Victims::new(setup, 1);
        let by_size = |item: &Item<()>| f64::from(item.size_bytes);
        // With 64 draws of four items, all items are drawn.
        assert_eq!(victims.choose(&pool, by_size), Some((2, 3.0)));
        assert_eq!(victims.kept, [1, 0]);
        pool.remove(2);
        pool.remove(1);
        victims.setup.random = 0;
        assert_eq!(victims.choose(&pool, by_size), Some((0, 7.0)), "only key 0 was kept");
        victims.kept.clear();
        victims.stored(0);
        victims.stored(3);
        assert_eq!(victims.choose(&pool, by_size), Some((3, 9.0)), "key 3 was stored last");
        victims.kept.clear();
        pool.remove(3);
        assert_eq!(victims.choose(&pool, by_size), None, "there is no candidate");
    }
}
