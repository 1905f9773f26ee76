//! Linked queues of keys, from which any key can be removed, and an LRU with one such queue.

use super::cache::Simulation;

const NONE: u32 = u32::MAX;

/// Several queues over one set of keys; each key is in at most one queue.
///
/// Invariant: the keys of a queue are linked in both directions between its head and its tail, and its bytes are the sum
/// of their sizes.
#[derive(Clone, Debug)]
pub struct Queues<const COUNT: usize> {
    links: Vec<Link>,
    ends: [Ends; COUNT],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    towards_head: u32,
    towards_tail: u32,
    size_bytes: u32,
    queue: Option<u8>,
}

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

    pub fn push_head(&mut self, queue: usize, key: u32, size_bytes: u32) {
        let ends = &mut self.ends[queue];
        let head = std::mem::replace(&mut ends.head, key);
        ends.bytes += u64::from(size_bytes);
        match head {
            NONE => ends.tail = key,
            head => self.links[head as usize].towards_head = key,
        }
        let link = &mut self.links[key as usize];
        assert!(link.queue.is_none(), "key {key} is in a queue already");
        *link =
            Link { towards_head: NONE, towards_tail: head, size_bytes, queue: Some(queue as u8) };
    }

    /// Removes a key from its queue. Returns its size in bytes, or `None` if it is in no queue.
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
    pub fn resize(&mut self, key: u32, size_bytes: u32) {
        let link = &mut self.links[key as usize];
        let queue = link.queue.unwrap_or_else(|| panic!("key {key} is in no queue"));
        let before = std::mem::replace(&mut link.size_bytes, size_bytes);
        let bytes = &mut self.ends[usize::from(queue)].bytes;
        *bytes = *bytes - u64::from(before) + u64::from(size_bytes);
    }

    pub fn pop_tail(&mut self, queue: usize) -> Option<(u32, u32)> {
        let key = self.tail(queue)?;
        Some((key, self.remove(key)?))
    }
}

const QUEUE: usize = 0;

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
