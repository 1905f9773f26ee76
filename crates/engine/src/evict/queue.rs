//! A list of items through the items themselves, under the lock of their class.

use crate::layout::ChunkAddress;
use crate::memory::Memory;

/// How far from either end the place of an item is sought by its age.
const LOOKS_MAX: usize = 8;

/// A doubly linked list of items, newest at the head. Invariant: `count` items, of `bytes` in all, are
/// linked from head to tail, and back the same way.
#[derive(Debug, Default)]
pub struct Queue {
    head: Option<ChunkAddress>,
    tail: Option<ChunkAddress>,
    count: u64,
    bytes: u64,
}

impl Queue {
    /// A queue that holds nothing.
    pub const EMPTY: Queue = Queue { head: None, tail: None, count: 0, bytes: 0 };

    /// A queue whose items are linked already.
    pub fn of_linked(
        head: Option<ChunkAddress>,
        tail: Option<ChunkAddress>,
        count: u64,
        bytes: u64,
    ) -> Queue {
        Queue { head, tail, count, bytes }
    }

    /// The item that leaves next.
    pub fn tail(&self) -> Option<ChunkAddress> {
        self.tail
    }

    /// Items in the queue.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Counted bytes of the items in the queue.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an item of `size_bytes` counted bytes as the newest.
    pub fn push_head(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        let header = memory.header(address);
        header.set_prev(None);
        header.set_next(self.head);
        match self.head {
            Some(head) => memory.header(head).set_prev(Some(address)),
            None => self.tail = Some(address),
        }
        self.head = Some(address);
        self.count += 1;
        self.bytes += size_bytes;
    }

    /// Adds an item of `size_bytes` counted bytes where its age belongs, near the tail or near the head: what
    /// belongs farther from both counts as newer.
    pub fn insert_by_age(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        let time = memory.header(address).time();
        let is_newer = |other: &ChunkAddress| memory.header(*other).time().is_after(time);
        let mut from_tail = self.iter_from_tail(memory).take(LOOKS_MAX);
        let behind = match from_tail.find(is_newer) {
            Some(newer) => memory.header(newer).next(),
            None => {
                let from_head = std::iter::successors(self.head, |&at| memory.header(at).next());
                let mut last = None;
                for other in from_head.take(LOOKS_MAX) {
                    last = Some(other);
                    if !is_newer(&other) {
                        break;
                    }
                }
                last
            }
        };
        self.insert_before(memory, address, behind);
        self.count += 1;
        self.bytes += size_bytes;
    }

    /// Links an item in front of another, on the head's side; behind all others for `None`.
    fn insert_before(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        behind: Option<ChunkAddress>,
    ) {
        let before = match behind {
            Some(behind) => memory.header(behind).prev(),
            None => self.tail,
        };
        let header = memory.header(address);
        header.set_prev(before);
        header.set_next(behind);
        match before {
            Some(before) => memory.header(before).set_next(Some(address)),
            None => self.head = Some(address),
        }
        match behind {
            Some(behind) => memory.header(behind).set_prev(Some(address)),
            None => self.tail = Some(address),
        }
    }

    /// Takes an item out, of as many bytes as it came in with.
    pub fn remove(&mut self, memory: &Memory, address: ChunkAddress, size_bytes: u64) {
        let header = memory.header(address);
        let (prev, next) = (header.prev(), header.next());
        match prev {
            Some(prev) => memory.header(prev).set_next(next),
            None => self.head = next,
        }
        match next {
            Some(next) => memory.header(next).set_prev(prev),
            None => {
                self.tail = prev;
                // The next to leave writes to the one before it.
                if let Some(tail) = prev {
                    memory.prefetch_neighbours(tail);
                }
            }
        }
        self.count -= 1;
        self.bytes -= size_bytes;
    }

    /// Puts `new` where `old` was; both are of one size.
    pub fn replace(&mut self, memory: &Memory, old: ChunkAddress, new: ChunkAddress) {
        let (prev, next) = (memory.header(old).prev(), memory.header(old).next());
        let header = memory.header(new);
        header.set_prev(prev);
        header.set_next(next);
        match prev {
            Some(prev) => memory.header(prev).set_next(Some(new)),
            None => self.head = Some(new),
        }
        match next {
            Some(next) => memory.header(next).set_prev(Some(new)),
            None => self.tail = Some(new),
        }
    }

    /// Every item from the tail to the head.
    pub fn iter_from_tail<'m>(
        &self,
        memory: &'m Memory,
    ) -> impl Iterator<Item = ChunkAddress> + 'm {
        std::iter::successors(self.tail, |&address| memory.header(address).prev())
    }
}
