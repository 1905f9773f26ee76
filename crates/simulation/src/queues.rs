//! Doubly linked queues of keys, and an LRU cache that has one such queue.

use super::cache::Simulation;

/// Marks a link that has no neighbour, or the ends of an empty queue.
const NONE: u32 = u32::MAX;

/// Several queues of keys. Each key is in at most one queue.
///
/// Invariant: the keys of a queue are linked in both directions from its head to its tail, and `Ends::bytes` is the sum
/// of the sizes of these keys.
#[derive(Clone, Debug)]
pub struct Queues<const COUNT: usize> {
    /// The links of each key, by the number of the key.
    links: Vec<Link>,
    /// The ends of each queue, by the number of the queue.
    ends: [Ends; COUNT],
}

/// The position of a key in its queue.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The neighbour that is nearer to the head, or [`NONE`] if the key is the head.
    towards_head: u32,
    /// The neighbour that is nearer to the tail, or [`NONE`] if the key is the tail.
    towards_tail: u32,
    size_bytes: u32,
    /// Number of the queue that contains the key. `None` if no queue contains the key.
    queue: Option<u8>,
}

/// The ends of a queue, and the sum of the sizes of its keys.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    bytes: u64,
}

impl<const COUNT: usize> Queues<COUNT> {
    pub fn new(key_count: usize) -> Queues<COUNT> {
        let link = Link { towards_head: NONE, towards_tail: NONE, size_bytes: 0, queue: None };
        let ends = Ends { head: NONE, tail: NONE, bytes: 0 };
        Queues { links: vec![link; key_count], ends: [ends; COUNT] }
    }

    /// Returns the sum of the sizes of the queue's keys.
    pub fn bytes(&self, queue: usize) -> u64 {
        self.ends[queue].bytes
    }

    pub fn queue_of(&self, key: u32) -> Option<usize> {
        self.links[key as usize].queue.map(usize::from)
    }

    pub fn tail(&self, queue: usize) -> Option<u32> {
        let tail = self.ends[queue].tail;
        (tail != NONE).then_some(tail)
    }

    /// Returns the neighbour of a key that is nearer to the head of its queue. `None` if the key is the head, or is in no
    /// queue.
    pub fn towards_head(&self, key: u32) -> Option<u32> {
        let Link { towards_head, queue, .. } = self.links[key as usize];
        (queue.is_some() && towards_head != NONE).then_some(towards_head)
    }

    /// Returns the size of a key that is in a queue.
    pub fn size_bytes(&self, key: u32) -> u32 {
        self.links[key as usize].size_bytes
    }

    /// Inserts a key at the head of a queue.
    ///
    /// # Panics
    /// If the key is already in a queue.
    pub fn push_head(&mut self, queue: usize, key: u32, size_bytes: u32) {
        let ends = &mut self.ends[queue];
        let head = std::mem::replace(&mut ends.head, key);
        ends.bytes += u64::from(size_bytes);
        match head {
            NONE => ends.tail = key,
            head => self.links[head as usize].towards_head = key,
        }
        let link = &mut self.links[key as usize];
        assert!(link.queue.is_none(), "key {key} is in no queue before it is inserted");
        *link =
            Link { towards_head: NONE, towards_tail: head, size_bytes, queue: Some(queue as u8) };
    }

    /// Removes a key from its queue. Returns the size of the key in bytes, or `None` if the key is in no queue.
    pub fn remove(&mut self, key: u32) -> Option<u32> {
        let link = self.links[key as usize];
        let ends = &mut self.ends[usize::from(link.queue?)];
        ends.bytes -= u64::from(link.size_bytes);
        match link.towards_head {
            NONE => ends.head = link.towards_tail,
            before => self.links[before as usize].towards_tail = link.towards_tail,
        }
        match link.towards_tail {
            NONE => ends.tail = link.towards_head,
            after => self.links[after as usize].towards_head = link.towards_head,
        }
        self.links[key as usize].queue = None;
        Some(link.size_bytes)
    }

    /// Changes the size of a key that is in a queue. The key keeps its position.
    ///
    /// # Panics
    /// If the key is in no queue.
    pub fn resize(&mut self, key: u32, size_bytes: u32) {
        let link = &mut self.links[key as usize];
        let queue = link.queue.unwrap_or_else(|| panic!("key {key} is in a queue"));
        let before = std::mem::replace(&mut link.size_bytes, size_bytes);
        let bytes = &mut self.ends[usize::from(queue)].bytes;
        *bytes = *bytes - u64::from(before) + u64::from(size_bytes);
    }

    /// Removes the tail of a queue. Returns the key and its size in bytes.
    pub fn pop_tail(&mut self, queue: usize) -> Option<(u32, u32)> {
        let key = self.tail(queue)?;
        Some((key, self.remove(key)?))
    }
}

const QUEUE: usize = 0;

/// An LRU cache.
#[derive(Debug)]
pub struct Lru {
    queue: Queues<1>,
    limit_bytes: u64,
}

impl Lru {
    pub fn new(key_count: usize, limit_bytes: u64) -> Lru {
        Lru { queue: Queues::new(key_count), limit_bytes }
    }
}

impl Simulation for Lru {
    fn held_bytes(&self) -> u64 {
        self.queue.bytes(QUEUE)
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        let is_hit = self.queue.remove(key).is_some();
        if u64::from(size_bytes) > self.limit_bytes {
            return is_hit;
        }
        while self.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            self.queue.pop_tail(QUEUE);
        }
        self.queue.push_head(QUEUE, key, size_bytes);
        is_hit
    }

    fn remove(&mut self, key: u32) {
        self.queue.remove(key);
    }
}
