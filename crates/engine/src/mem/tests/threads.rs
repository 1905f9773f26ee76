//! A test of threads that share one memory: each thread reads only values that a single store has written as a whole.

use super::fixture::{FIELDS, PAGE_SIZE_BYTES, SMALL, memory};
use crate::counted_lock::CountedLock;
use crate::layout::ItemMeta;
use crate::mem::chunk::{NewItem, OwnedChunk, UnlinkedChunks, ValueShape};
use crate::mem::class_token::ClassToken;
use crate::mem::list::List;
use crate::mem::memory::Memory;
use crate::mem::state::QueueKind;
use crate::mem::stripe::{Entry, Removed, Stripe};
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Expiry, Random};
use std::sync::Arc;

const STRIPE_COUNT: u64 = 4;
const KEY_COUNT: u64 = 200;
const THREAD_COUNT: u64 = 4;
/// The number of operations of each thread.
const STEP_COUNT: u64 = 20_000;
/// The number of chunks of the only page. It is below the number of keys, so that some items are evicted.
const CHUNK_COUNT: u32 = (PAGE_SIZE_BYTES / 512) as u32;

struct Class {
    token: ClassToken,
    queue: List,
}

struct Cache {
    memory: Arc<Memory>,
    stripes: Vec<CountedLock<Stripe>>,
    class: Mutex<Class>,
}

impl Cache {
    fn new() -> Cache {
        let memory = memory();
        let mut token = memory.class_token(SMALL);
        token.set_chunk_size(512);
        token.adopt(memory.next_new_page().expect("the arena has an unused page"));
        let stripes =
            Stripe::of_count(STRIPE_COUNT as usize, &memory).map(CountedLock::new).collect();
        Cache { memory, stripes, class: Mutex::new(Class { token, queue: List::EMPTY }) }
    }

    fn find(&self, key: u64) -> Option<Entry<'_>> {
        let guard = self.stripes[(key % STRIPE_COUNT) as usize].lock();
        Entry::find(guard, key, &key.to_le_bytes()).ok()
    }

    fn free(&self, remains: Option<UnlinkedChunks>) {
        if let Some(remains) = remains {
            let chunk = remains.try_into_chunk(&self.memory).expect("the item has no bodies");
            lock(&self.class).token.give(chunk);
        }
    }

    fn unlink(&self, removed: Removed) -> Option<UnlinkedChunks> {
        let mut class = lock(&self.class);
        let Class { token, queue } = &mut *class;
        match removed.queued(token) {
            Some(_) => queue.unlink(token, removed, 1),
            None => removed.unlink(&self.memory),
        }
    }

    /// Allocates a chunk. While no chunk is free, evicts the item at the tail of the queue.
    fn allocate(&self) -> OwnedChunk {
        loop {
            let victim = {
                let mut class = lock(&self.class);
                let Class { token, queue } = &mut *class;
                if let Some(chunk) = token.take(slabwise_base::PageId(0)) {
                    return chunk;
                }
                let Some(victim) = queue.detach_tail(token, 1) else { continue };
                victim
            };
            let key = victim.item(&self.memory).key();
            let key = u64::from_le_bytes(key.try_into().expect("a key has 8 bytes"));
            let guard = self.stripes[(key % STRIPE_COUNT) as usize].lock();
            if let Ok(entry) = Entry::find_address(guard, key, victim.address()) {
                let removed = entry.remove().1;
                let remains = removed.unlink(&self.memory);
                assert_eq!(remains, None, "an unlinked item with a pin is not freed");
            }
            self.free(self.memory.unpin(victim));
        }
    }

    /// Stores a value of `100 + byte` bytes, all of which are `byte`.
    fn set(&self, key: u64, byte: u8) {
        let (chunk, len) = (self.allocate(), 100 + usize::from(byte));
        let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(len));
        let mut item = NewItem::begin(&self.memory, chunk, &key.to_le_bytes(), meta, shape);
        item.value_mut(&self.memory, 0).fill(byte);
        let hash_of = |item: super::super::item::Linked<'_>| {
            u64::from_le_bytes(item.key().try_into().expect("a key has 8 bytes"))
        };
        let guard = self.stripes[(key % STRIPE_COUNT) as usize].lock();
        let (mut entry, remains) = match Entry::find(guard, key, &key.to_le_bytes()) {
            Ok(mut entry) => {
                let removed = entry.replace(item);
                let remains = self.unlink(removed);
                (entry, remains)
            }
            Err(guard) => (Entry::insert(guard, key, item, hash_of), None),
        };
        let mut class = lock(&self.class);
        let Class { token, queue } = &mut *class;
        queue.push_head(token, entry.entered(), QueueKind::Hot, 1);
        drop(class);
        drop(entry);
        self.free(remains);
    }

    /// Makes one random operation on a random key.
    fn step(&self, random: &mut Random) {
        let (key, byte) = (random.below(KEY_COUNT), random.below(200) as u8);
        match random.below(8) {
            0 | 1 => self.set(key, byte),
            2 => {
                if let Some(entry) = self.find(key) {
                    let (guard, removed) = entry.remove();
                    let remains = self.unlink(removed);
                    drop(guard);
                    self.free(remains);
                }
            }
            3 => {
                if let Some(mut entry) = self.find(key)
                    && let Some(mut access) = entry.value_access(None)
                {
                    access.overwrite(0, &[byte]);
                    access.overwrite(0, &[0]);
                }
            }
            4 => {
                if let Some(mut entry) = self.find(key) {
                    let mut class = lock(&self.class);
                    let mut access = entry.meta_access(&mut class.token);
                    access.set_expiry(Expiry::PAST);
                    access.set_rank(u32::from(byte));
                }
            }
            5 => {
                let mut class = lock(&self.class);
                let Class { token, queue } = &mut *class;
                if let Some(tail) = queue.tail(token) {
                    let _ = (tail.rank(), tail.expiry());
                    let taken = queue.take_tail(token, 1).expect("the queue has an item");
                    taken.push_head(queue, QueueKind::Warm, 1);
                }
            }
            _ => {
                let pin = self.find(key).and_then(|entry| {
                    check(entry.item().value_in_first_chunk());
                    entry.item().marks().mark_hit();
                    entry.item().pin()
                });
                if let Some(pin) = pin {
                    check(pin.item(&self.memory).value_in_first_chunk());
                    self.free(self.memory.unpin(pin));
                }
            }
        }
    }
}

/// Panics unless the value is one that `Cache::set` writes. Its first byte is ignored, because threads overwrite it.
fn check(value: &[u8]) {
    let byte = value[1];
    assert_eq!(value.len(), 100 + usize::from(byte), "the length matches the bytes of the value");
    let is_equal = value[1..].iter().all(|&other| other == byte);
    assert!(is_equal, "all bytes after the first one are equal: {value:?}");
}

#[test]
fn values_are_consistent_while_threads_write_evict_and_free() {
    let cache = Cache::new();
    std::thread::scope(|scope| {
        for seed in 0..THREAD_COUNT {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                (0..STEP_COUNT).for_each(|_| cache.step(&mut random));
            });
        }
    });
    let class = lock(&cache.class);
    let queued = class.queue.iter_from_tail(&class.token).count() as u64;
    let linked: usize = cache.stripes.iter().map(|stripe| stripe.lock().table().item_count()).sum();
    let count = class.queue.count();
    assert_eq!(queued, count, "the queue counts its items");
    assert_eq!(linked as u64, count, "each item in the index is in the queue");
    let used_count = u64::from(cache.memory.page(slabwise_base::PageId(0)).used());
    assert_eq!(used_count, count, "each chunk in use holds an item in the queue");
    assert!(queued <= u64::from(CHUNK_COUNT), "each item in the queue has a chunk");
}
