//! All interleavings of two threads on one item, up to a bound of preemptions. loom reports accesses to the same bytes
//! that locks and pins do not order.

use super::arena::Arena;
use super::chunk::{NewItem, Remains, ValueShape};
use super::class_token::{ClassToken, HeadPin, MoverToken};
use super::list::List;
use super::memory::Memory;
use super::state::QueueKind;
use super::stripe::{Entry, Removed, Stripe};
use crate::layout::{CHAINED, ChunkAddress, ItemFields, ItemMeta, SizeModel};
use loom::thread;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Expiry, PageId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const FIELDS: ItemFields = ItemFields { flags: false, expiry: true, cost: false, rank: true };

/// The data that a class's lock protects.
struct Class {
    token: ClassToken,
    queue: List,
}

/// A cache of one stripe with chunks of 512 bytes, and of 1024 bytes for bodies.
struct Cache {
    memory: Arc<Memory>,
    stripe: Mutex<Stripe>,
    small: Mutex<Class>,
    large: Mutex<Class>,
    chained: Mutex<Class>,
    mover: Mutex<MoverToken>,
}

impl Cache {
    fn new() -> Cache {
        let arena = Arena::reserve(2 * 4096, false).expect("a model's arena has no limit");
        let memory = Arc::new(Memory::new(arena, 4096, SizeModel::Exact));
        let class = |id, size_bytes| {
            let mut token = memory.class_token(id);
            if size_bytes > 0 {
                token.set_chunk_size(size_bytes);
                token.adopt(memory.next_new_page().expect("there are two pages"));
            }
            Mutex::new(Class { token, queue: List::EMPTY })
        };
        Cache {
            stripe: Mutex::new(Stripe::new(&memory)),
            small: class(ClassId(0), 512),
            large: class(ClassId(1), 1024),
            chained: class(CHAINED, 0),
            mover: Mutex::new(memory.mover_token()),
            memory,
        }
    }

    fn new_item(&self, value: &[u8]) -> NewItem {
        let chunk = lock(&self.small).token.take(PageId(0)).expect("there is a free chunk");
        let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(value.len()));
        let mut item = NewItem::begin(&self.memory, chunk, b"k", meta, shape);
        item.value_mut(&self.memory, 0).copy_from_slice(value);
        item
    }

    fn set(&self, value: &[u8]) -> ChunkAddress {
        let item = self.new_item(value);
        let (mut entry, remains) = match Entry::find(lock(&self.stripe), 0, b"k") {
            Ok(mut entry) => {
                let removed = entry.replace(item);
                let remains = self.unlink(removed);
                (entry, remains)
            }
            Err(guard) => (Entry::insert(guard, 0, item, |_| 0), None),
        };
        let mut class = lock(&self.small);
        let Class { token, queue } = &mut *class;
        queue.push_head(token, entry.entered(), QueueKind::Hot, 1);
        drop(class);
        let address = entry.item().address();
        drop(entry);
        self.free(remains);
        address
    }

    fn unlink(&self, removed: Removed) -> Option<Remains> {
        let class =
            if removed.queue_class(&self.memory) == CHAINED { &self.chained } else { &self.small };
        let mut class = lock(class);
        let Class { token, queue } = &mut *class;
        match removed.queued(token) {
            Some(_) => queue.unlink(token, removed, 1),
            None => removed.unlink(&self.memory),
        }
    }

    fn free(&self, remains: Option<Remains>) {
        let Some(mut remains) = remains else { return };
        loop {
            match remains.into_chunk(&self.memory) {
                Ok(chunk) => return lock(&self.small).token.give(chunk),
                Err((rest, _)) => remains = rest,
            }
            let token = &mut lock(&self.large).token;
            let body = remains.take_body(token);
            token.give(body);
        }
    }

    fn delete(&self) {
        if let Ok(entry) = Entry::find(lock(&self.stripe), 0, b"k") {
            let (guard, removed) = entry.remove();
            let remains = self.unlink(removed);
            drop(guard);
            self.free(remains);
        }
    }

    /// Pins the value, and reads it after the stripe is unlocked.
    fn read(&self) -> Option<Vec<u8>> {
        let pin = Entry::find(lock(&self.stripe), 0, b"k").ok()?.item().pin()?;
        let value = pin.item(&self.memory).value().flatten().copied().collect();
        self.free(self.memory.unpin(pin));
        Some(value)
    }

    fn used(&self) -> u32 {
        let small = lock(&self.small).token.own(PageId(0)).used();
        small + lock(&self.large).token.own(PageId(1)).used()
    }
}

/// Runs two threads in all interleavings.
fn explore(
    prepare: impl Fn(&Cache) + Send + Sync + 'static,
    one: fn(&Cache),
    other: fn(&Cache),
    check: fn(&Cache),
) {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        let cache = Arc::new(Cache::new());
        prepare(&cache);
        let thread = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || one(&cache))
        };
        other(&cache);
        thread.join().expect("no panic");
        check(&cache);
    });
    assert!(runs.load(Relaxed) > 1, "loom explored only one interleaving");
}

fn prepared(cache: &Cache) {
    cache.set(b"aa");
}

#[test]
fn loom_a_pinned_value_is_consistent_during_stores_of_its_key() {
    explore(
        prepared,
        |cache| {
            cache.set(b"bb");
            cache.set(b"cc");
        },
        |cache| {
            let value = cache.read().expect("the key always holds something");
            assert!([b"aa", b"bb", b"cc"].iter().any(|known| value == *known), "{value:?}");
        },
        |cache| assert_eq!(cache.used(), 1),
    );
}

#[test]
fn loom_a_value_is_overwritten_only_without_readers() {
    explore(
        prepared,
        |cache| {
            let mut entry = Entry::find(lock(&cache.stripe), 0, b"k").ok().expect("it is there");
            if let Some(mut access) = entry.value_access(None) {
                access.overwrite(0, b"bb");
            }
        },
        |cache| {
            let value = cache.read().expect("it is there");
            assert!(value == b"aa" || value == b"bb", "{value:?}");
        },
        |cache| assert_eq!(cache.used(), 1),
    );
}

#[test]
fn loom_expiry_and_rank_are_read_consistently_under_the_class_lock() {
    explore(
        prepared,
        |cache| {
            let mut entry = Entry::find(lock(&cache.stripe), 0, b"k").ok().expect("it is there");
            let mut class = lock(&cache.small);
            let mut access = entry.meta_access(&mut class.token);
            access.set_rank(1);
            access.set_expiry(Expiry::PAST);
        },
        |cache| {
            let class = lock(&cache.small);
            let tail = class.queue.tail(&class.token).expect("it is queued");
            assert_eq!(tail.expiry() == Expiry::PAST, tail.rank() == 1);
        },
        |_| {},
    );
}

#[test]
fn loom_an_eviction_races_with_a_delete_and_a_reuse() {
    explore(
        prepared,
        |cache| {
            let pin = {
                let mut class = lock(&cache.small);
                let Class { token, queue } = &mut *class;
                let Some(victim) = queue.detach_tail(token, 1) else { return };
                victim
            };
            assert_eq!(pin.item(&cache.memory).key(), b"k");
            if let Ok(entry) = Entry::find_address(lock(&cache.stripe), 0, pin.address()) {
                let removed = entry.remove().1;
                assert_eq!(removed.unlink(&cache.memory), None, "it is pinned here");
            }
            cache.free(cache.memory.unpin(pin));
        },
        |cache| {
            cache.delete();
            let item = cache.new_item(b"bb");
            item.into_chunks().for_each(|chunk| lock(&cache.small).token.give(chunk));
        },
        |cache| assert_eq!(cache.used(), 0),
    );
}

/// Stores a chained item with one body.
fn chained(cache: &Cache) {
    let chunk = lock(&cache.small).token.take(PageId(0)).expect("there is a free chunk");
    let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Chained(4));
    let mut item = NewItem::begin(&cache.memory, chunk, b"k", meta, shape);
    let body = lock(&cache.large).token.take(PageId(1)).expect("there is a free chunk");
    item.add_body(&cache.memory, body);
    item.body_mut(&cache.memory, 0, 0).copy_from_slice(b"long");
    let mut entry = Entry::insert(lock(&cache.stripe), 0, item, |_| 0);
    let mut class = lock(&cache.chained);
    let Class { token, queue } = &mut *class;
    queue.push_head(token, entry.entered(), QueueKind::Hot, 1);
}

/// Moves the body to another chunk, if the item has no pins.
fn carry_body(cache: &Cache) {
    let mut mover = lock(&cache.mover);
    let body = ChunkAddress::from_offset(4096);
    let (pin, chunk) = {
        let mut class = lock(&cache.large);
        let HeadPin::Pinned(pin) = class.token.pin_head_of(body, &mover) else { return };
        (pin, class.token.take(PageId(1)).expect("there is a free chunk"))
    };
    let carried = match Entry::find_address(lock(&cache.stripe), 0, pin.address()) {
        Ok(mut entry) => entry.carry_body(body, chunk, &pin, &mut mover),
        Err(_) => Err(chunk),
    };
    let (Ok(left) | Err(left)) = carried;
    lock(&cache.large).token.give(left);
    cache.free(cache.memory.unpin(pin));
}

#[test]
fn loom_a_body_moves_while_its_item_is_read() {
    explore(
        chained,
        carry_body,
        |cache| assert_eq!(cache.read().as_deref(), Some(&b"long"[..])),
        |cache| assert_eq!(cache.used(), 2),
    );
}

#[test]
fn loom_a_body_moves_while_its_item_is_deleted() {
    explore(chained, carry_body, Cache::delete, |cache| assert_eq!(cache.used(), 0));
}
