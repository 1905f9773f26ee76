//! Threads that share a memory read only consistent values.

use super::world::{FIELDS, PAGE_SIZE_BYTES, SMALL, memory};
use crate::layout::ItemMeta;
use crate::mem::chunk::{NewItem, OwnedChunk, Remains, ValueShape};
use crate::mem::class_token::ClassToken;
use crate::mem::list::List;
use crate::mem::memory::Memory;
use crate::mem::state::QueueKind;
use crate::mem::stripe::{Entry, Removed, Stripe};
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Expiry, Random};
use std::sync::Arc;

const STRIPES: u64 = 4;
const KEYS: u64 = 200;
const THREADS: u64 = 4;
const STEPS: u64 = 20_000;
/// Fewer than the keys, so that some items are evicted.
const CHUNKS_MAX: u32 = (PAGE_SIZE_BYTES / 512) as u32;

struct Class {
    token: ClassToken,
    queue: List,
}

struct Cache {
    memory: Arc<Memory>,
    stripes: Vec<Mutex<Stripe>>,
    class: Mutex<Class>,
}

impl Cache {
    fn new() -> Cache {
        let memory = memory();
        let mut token = memory.class_token(SMALL);
        token.set_chunk_size(512);
        token.adopt(memory.next_new_page().expect("there is a page"));
        let stripes = (0..STRIPES).map(|_| Mutex::new(Stripe::new(&memory))).collect();
        Cache { memory, stripes, class: Mutex::new(Class { token, queue: List::EMPTY }) }
    }

    fn find(&self, key: u64) -> Option<Entry<'_>> {
        let guard = lock(&self.stripes[(key % STRIPES) as usize]);
        Entry::find(guard, key, &key.to_le_bytes()).ok()
    }

    fn free(&self, remains: Option<Remains>) {
        if let Some(remains) = remains {
            let chunk = remains.into_chunk(&self.memory).expect("it has no bodies");
            lock(&self.class).token.give(chunk);
        }
    }

    fn unlink(&self, removed: Removed) -> Option<Remains> {
        let mut class = lock(&self.class);
        let Class { token, queue } = &mut *class;
        match removed.queued(token) {
            Some(_) => queue.unlink(token, removed, 1),
            None => removed.unlink(&self.memory),
        }
    }

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
            let key = u64::from_le_bytes(key.try_into().expect("keys are numbers"));
            let guard = lock(&self.stripes[(key % STRIPES) as usize]);
            if let Ok(entry) = Entry::find_address(guard, key, victim.address()) {
                let removed = entry.remove().1;
                assert_eq!(removed.unlink(&self.memory), None, "the evicting thread pins it");
            }
            self.free(self.memory.unpin(victim));
        }
    }

    fn set(&self, key: u64, byte: u8) {
        let (chunk, len) = (self.allocate(), 100 + usize::from(byte));
        let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(len));
        let mut item = NewItem::begin(&self.memory, chunk, &key.to_le_bytes(), meta, shape);
        item.value_mut(&self.memory, 0).fill(byte);
        let hash_of = |item: super::super::item::Linked<'_>| {
            u64::from_le_bytes(item.key().try_into().expect("keys are numbers"))
        };
        let guard = lock(&self.stripes[(key % STRIPES) as usize]);
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

    fn step(&self, random: &mut Random) {
        let (key, byte) = (random.below(KEYS), random.below(200) as u8);
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
                    let taken = queue.take_tail(token, 1).expect("there is a tail");
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

/// Checks that all bytes but the first, which is overwritten, are equal and match the length.
fn check(value: &[u8]) {
    let byte = value[1];
    assert_eq!(value.len(), 100 + usize::from(byte));
    assert!(value[1..].iter().all(|&other| other == byte), "{value:?}");
}

#[test]
fn values_are_consistent_while_threads_write_evict_and_free() {
    let cache = Cache::new();
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                (0..STEPS).for_each(|_| cache.step(&mut random));
            });
        }
    });
    let class = lock(&cache.class);
    let queued = class.queue.iter_from_tail(&class.token).count() as u64;
    let linked: usize = cache.stripes.iter().map(|stripe| lock(stripe).table().item_count()).sum();
    assert_eq!((queued, linked as u64), (class.queue.count(), class.queue.count()));
    assert_eq!(u64::from(cache.memory.page(slabwise_base::PageId(0)).used()), queued);
    assert!(queued <= u64::from(CHUNKS_MAX));
}
