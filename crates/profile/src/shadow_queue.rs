//! A shadow queue: the keys that left a queue last, without their items.
//!
//! A miss of a key in it would have been a hit, had the queue been longer by as many items as there are keys
//! in front of it; so hits in a shadow queue of `n` keys tell what `n` more items are worth.
//! Source: A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Cliffhanger: Scaling Performance Cliffs in Web Memory
//! Caches", NSDI 2016, section 4.
//!
//! Laws: it has the `keys_max` keys pushed last that were not taken since, each once; pushing and taking
//! are O(1).

use crate::key_map::KeyMap;
use crate::lists::{List, Nodes};

/// Keys, by when they left.
#[derive(Clone, Debug)]
pub struct ShadowQueue {
    keys_max: usize,
    numbers: KeyMap<u32>,
    nodes: Nodes<()>,
    queue: List,
}

impl ShadowQueue {
    /// An empty queue for at most `keys_max` keys.
    pub fn new(keys_max: usize) -> ShadowQueue {
        ShadowQueue {
            keys_max,
            numbers: KeyMap::default(),
            nodes: Nodes::default(),
            queue: List::default(),
        }
    }

    /// A key has left its queue: here it is the newest. The oldest goes if there are too many.
    pub fn push(&mut self, key: u64) {
        self.take(key);
        let number = self.nodes.add(key, ());
        self.queue.push_head(&mut self.nodes, number);
        self.numbers.insert(key, number);
        self.cut();
    }

    /// Takes a key out; whether it was there. A miss for which it was is a shadow hit.
    pub fn take(&mut self, key: u64) -> bool {
        let Some(number) = self.numbers.remove(&key) else { return false };
        self.queue.remove(&mut self.nodes, number);
        self.nodes.free(number);
        true
    }

    /// Whether a key is there.
    pub fn contains(&self, key: u64) -> bool {
        self.numbers.contains_key(&key)
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.queue.count()
    }

    /// Sets how many there may be; the oldest go if there are more.
    pub fn set_keys_max(&mut self, keys_max: usize) {
        self.keys_max = keys_max;
        self.cut();
    }

    /// What it takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        // An entry of the map: key, number and a byte of control, rounded up.
        self.nodes.size_bytes() + self.numbers.capacity() * 17
    }

    fn cut(&mut self) {
        while self.queue.count() > self.keys_max {
            let oldest = self.queue.tail().expect("a queue of several keys has an oldest");
            self.queue.remove(&mut self.nodes, oldest);
            self.numbers.remove(&self.nodes.free(oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ShadowQueue;
    use slabwise_base::Random;

    #[test]
    fn it_has_the_keys_of_a_list() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut keys_max = random.below(30) as usize;
            let (mut queue, mut list) = (ShadowQueue::new(keys_max), Vec::new());
            for step in 0..3_000 {
                let key = random.below(60);
                let place = list.iter().position(|&known| known == key);
                assert_eq!(queue.contains(key), place.is_some(), "seed {seed}, step {step}");
                match random.below(100) {
                    0 => {
                        keys_max = random.below(30) as usize;
                        queue.set_keys_max(keys_max);
                    }
                    1..40 => {
                        assert_eq!(queue.take(key), place.is_some(), "seed {seed}, step {step}");
                        list.retain(|&known| known != key);
                    }
                    _ => {
                        queue.push(key);
                        list.retain(|&known| known != key);
                        list.insert(0, key);
                    }
                }
                list.truncate(keys_max);
                assert_eq!(queue.keys(), list.len(), "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut queue = ShadowQueue::new(1_000);
        (0..100_000).for_each(|key| queue.push(key));
        assert!(queue.size_bytes() < 80 * 1_000, "{} bytes", queue.size_bytes());
    }
}
