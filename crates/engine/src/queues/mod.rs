//! The queues of a class: lists through the items themselves, under the class's lock.
//!
//! What a list is, here; how items move between them, one file for each eviction kind; which item leaves,
//! in `victim.rs`.
mod lru;
mod segmented;
mod victim;

pub use lru::hit as lru_hit;
pub use segmented::{Demotion, balance};
pub use victim::{VictimSearch, VictimStep, coldest};

use crate::mem::ChunkAddress;
use crate::memory::Memory;

/// A doubly linked list of items, newest at the head. Law: `count` items, of `bytes` in all, are linked
/// from head to tail, and back the same way.
#[derive(Debug, Default)]
pub struct Queue {
    head: Option<ChunkAddress>,
    tail: Option<ChunkAddress>,
    count: u64,
    bytes: u64,
}

impl Queue {
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
            None => self.tail = prev,
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
