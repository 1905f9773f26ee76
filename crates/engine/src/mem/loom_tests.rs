//! Models of two threads that use one item. loom runs all their interleavings with at most three preemptions, and
//! reports each pair of conflicting accesses that locks and pins do not order.

use super::arena::Arena;
use super::chunk::{NewItem, OwnedChunk, UnlinkedChunks, ValueShape};
use super::class_token::{ClassToken, MoverToken, PinOutcome};
use super::list::List;
use super::mapping::HugePages;
use super::memory::Memory;
use super::spare::SpareSlots;
use super::state::{QueueKind, State, StateWord};
use super::stripe::{Entry, Removed, Stripe};
use crate::counted_lock::CountedLock;
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

/// A cache with one stripe and three classes.
struct Cache {
    memory: Arc<Memory>,
    stripe: CountedLock<Stripe>,
    /// A class with chunks of 512 bytes on page 0, for items and the heads of chained items.
    small: Mutex<Class>,
    /// A class with chunks of 1024 bytes on page 1, for bodies.
    large: Mutex<Class>,
    /// The class that queues the chained items.
    chained: Mutex<Class>,
    mover: Mutex<MoverToken>,
}

impl Cache {
    fn new() -> Cache {
        let arena =
            Arena::reserve(2 * 4096, HugePages::BySystem).expect("a model can reserve an arena");
        let memory = Arc::new(Memory::new(arena, 4096, SizeModel::Exact));
        let class = |id, size_bytes| {
            let mut token = memory.class_token(id);
            if size_bytes > 0 {
                token.set_chunk_size(size_bytes);
                token.adopt(memory.next_new_page().expect("the arena has a page for each class"));
            }
            Mutex::new(Class { token, queue: List::EMPTY })
        };
        Cache {
            stripe: CountedLock::new(
                Stripe::of_count(1, &memory).next().expect("there is one stripe"),
            ),
            small: class(ClassId(0), 512),
            large: class(ClassId(1), 1024),
            chained: class(CHAINED, 0),
            mover: Mutex::new(memory.mover_token()),
            memory,
        }
    }

    /// Returns an unpublished item of the key `k`.
    fn new_item(&self, value: &[u8]) -> NewItem {
        let chunk = lock(&self.small).token.take(PageId(0)).expect("page 0 has a free chunk");
        let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(value.len()));
        let mut item = NewItem::begin(&self.memory, chunk, b"k", meta, shape);
        item.value_mut(&self.memory, 0).copy_from_slice(value);
        item
    }

    /// Stores a value under the key `k`. Returns the address of the new item.
    fn set(&self, value: &[u8]) -> ChunkAddress {
        let item = self.new_item(value);
        let (mut entry, remains) = match Entry::find(self.stripe.lock(), 0, b"k") {
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

    /// Unlinks a removed item. Returns the item's chunks if it has no pins.
    fn unlink(&self, removed: Removed) -> Option<UnlinkedChunks> {
        let class =
            if removed.queue_class(&self.memory) == CHAINED { &self.chained } else { &self.small };
        let mut class = lock(class);
        let Class { token, queue } = &mut *class;
        match removed.queued(token) {
            Some(_) => queue.unlink(token, removed, 1),
            None => removed.unlink(&self.memory),
        }
    }

    /// Frees the first chunk and all bodies of an item.
    fn free(&self, remains: Option<UnlinkedChunks>) {
        let Some(mut remains) = remains else { return };
        loop {
            match remains.try_into_chunk(&self.memory) {
                Ok(chunk) => return lock(&self.small).token.give(chunk),
                Err((rest, _)) => remains = rest,
            }
            let token = &mut lock(&self.large).token;
            let body = remains.take_body(token);
            token.give(body);
        }
    }

    /// Deletes the item of the key `k`, if there is one.
    fn delete(&self) {
        if let Ok(entry) = Entry::find(self.stripe.lock(), 0, b"k") {
            let (guard, removed) = entry.remove();
            let remains = self.unlink(removed);
            drop(guard);
            self.free(remains);
        }
    }

    /// Pins the item of the key `k`, and returns its value, which is read after the stripe is unlocked.
    fn read(&self) -> Option<Vec<u8>> {
        let pin = Entry::find(self.stripe.lock(), 0, b"k").ok()?.item().pin()?;
        let value = pin.item(&self.memory).value().flatten().copied().collect();
        self.free(self.memory.unpin(pin));
        Some(value)
    }

    /// Returns the number of chunks in use, of both sizes.
    fn used_count(&self) -> u32 {
        let small = lock(&self.small).token.own(PageId(0)).used();
        small + lock(&self.large).token.own(PageId(1)).used()
    }
}

/// Runs `first` and `second` in two threads, in all interleavings with at most three preemptions. Each run has a new
/// cache. `prepare` runs before the threads, and `check` runs after they have ended.
fn explore(
    prepare: impl Fn(&Cache) + Send + Sync + 'static,
    first: fn(&Cache),
    second: fn(&Cache),
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
            thread::spawn(move || first(&cache))
        };
        second(&cache);
        thread.join().expect("the first thread does not panic");
        check(&cache);
    });
    assert!(runs.load(Relaxed) > 1, "loom explores more than one interleaving");
}

fn store_value_aa(cache: &Cache) {
    cache.set(b"aa");
}

#[test]
fn loom_a_pinned_value_is_consistent_during_stores_of_its_key() {
    explore(
        store_value_aa,
        |cache| {
            cache.set(b"bb");
            cache.set(b"cc");
        },
        |cache| {
            let value = cache.read().expect("the key always has an item");
            assert!(
                [b"aa", b"bb", b"cc"].iter().any(|stored| value == *stored),
                "{value:?} was stored"
            );
        },
        |cache| assert_eq!(cache.used_count(), 1),
    );
}

#[test]
fn loom_a_value_is_not_overwritten_while_it_is_read() {
    explore(
        store_value_aa,
        |cache| {
            let mut entry =
                Entry::find(cache.stripe.lock(), 0, b"k").ok().expect("the item is in the index");
            if let Some(mut access) = entry.value_access(None) {
                access.overwrite(0, b"bb");
            }
        },
        |cache| {
            let value = cache.read().expect("the item is in the index");
            assert!(value == b"aa" || value == b"bb", "{value:?} is a value that was written");
        },
        |cache| assert_eq!(cache.used_count(), 1),
    );
}

#[test]
fn loom_expiry_and_rank_are_read_consistently_under_the_class_lock() {
    explore(
        store_value_aa,
        |cache| {
            let mut entry =
                Entry::find(cache.stripe.lock(), 0, b"k").ok().expect("the item is in the index");
            let mut class = lock(&cache.small);
            let mut access = entry.meta_access(&mut class.token);
            access.set_rank(1);
            access.set_expiry(Expiry::PAST);
        },
        |cache| {
            let class = lock(&cache.small);
            let tail = class.queue.tail(&class.token).expect("the item is in the queue");
            assert_eq!(tail.expiry() == Expiry::PAST, tail.rank() == 1);
        },
        |_| {},
    );
}

#[test]
fn loom_an_item_is_freed_once_if_an_eviction_races_with_a_delete_and_a_reuse() {
    explore(
        store_value_aa,
        |cache| {
            let pin = {
                let mut class = lock(&cache.small);
                let Class { token, queue } = &mut *class;
                let Some(victim) = queue.detach_tail(token, 1) else { return };
                victim
            };
            assert_eq!(pin.item(&cache.memory).key(), b"k");
            if let Ok(entry) = Entry::find_address(cache.stripe.lock(), 0, pin.address()) {
                let removed = entry.remove().1;
                let remains = removed.unlink(&cache.memory);
                assert_eq!(remains, None, "an unlinked item with a pin is not freed");
            }
            cache.free(cache.memory.unpin(pin));
        },
        |cache| {
            cache.delete();
            let item = cache.new_item(b"bb");
            item.into_chunks().for_each(|chunk| lock(&cache.small).token.give(chunk));
        },
        |cache| assert_eq!(cache.used_count(), 0),
    );
}

/// One thread writes to a chunk and makes it spare, and takes it again. Another thread takes it in between or does not,
/// and writes to it.
#[test]
fn loom_a_spare_chunk_has_one_owner() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let cache = Arc::new(Cache::new());
        let slots = Arc::new(SpareSlots::new(&cache.memory, 1));
        let class = ClassId(0);
        let write = |cache: &Cache, chunk: OwnedChunk| {
            let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Whole(2));
            let item = NewItem::begin(&cache.memory, chunk, b"k", meta, shape);
            item.into_chunks().for_each(|chunk| lock(&cache.small).token.give(chunk));
        };
        let other = {
            let (cache, slots) = (Arc::clone(&cache), Arc::clone(&slots));
            thread::spawn(move || {
                let taken = slots.take_if(class, 0, |_| true);
                let is_taken = taken.is_some();
                taken.into_iter().for_each(|chunk| write(&cache, chunk));
                is_taken
            })
        };
        let mut chunks = cache.new_item(b"aa").into_chunks();
        let chunk = chunks.next().expect("the item has a chunk");
        slots.put(0, chunk).expect("the slot is empty");
        let taken = slots.take(class, 0);
        let is_taken = taken.is_some();
        taken.into_iter().for_each(|chunk| write(&cache, chunk));
        let other_has_taken = other.join().expect("the other thread does not panic");
        assert!(is_taken != other_has_taken, "one thread has taken the chunk");
        assert_eq!(cache.used_count(), 0);
    });
}

/// Stores a chained item with one body under the key `k`.
fn store_chained(cache: &Cache) {
    let chunk = lock(&cache.small).token.take(PageId(0)).expect("page 0 has a free chunk");
    let (meta, shape) = ((ItemMeta::default(), FIELDS), ValueShape::Chained(4));
    let mut item = NewItem::begin(&cache.memory, chunk, b"k", meta, shape);
    let body = lock(&cache.large).token.take(PageId(1)).expect("page 1 has a free chunk");
    item.add_body(&cache.memory, body);
    item.body_mut(&cache.memory, 0, 0).copy_from_slice(b"long");
    let mut entry = Entry::insert(cache.stripe.lock(), 0, item, |_| 0);
    let mut class = lock(&cache.chained);
    let Class { token, queue } = &mut *class;
    queue.push_head(token, entry.entered(), QueueKind::Hot, 1);
}

/// Moves the first body on page 1 to another chunk, unless its item is pinned or unlinked.
fn move_body(cache: &Cache) {
    let mut mover = lock(&cache.mover);
    let body = ChunkAddress::from_offset(4096);
    let (pin, chunk) = {
        let mut class = lock(&cache.large);
        let PinOutcome::Pinned(pin) = class.token.pin_head_of(body, &mover) else { return };
        (pin, class.token.take(PageId(1)).expect("page 1 has a free chunk"))
    };
    let carried = match Entry::find_address(cache.stripe.lock(), 0, pin.address()) {
        Ok(mut entry) => entry.move_body(body, chunk, &pin, &mut mover),
        Err(_) => Err(chunk),
    };
    let (Ok(unused) | Err(unused)) = carried;
    lock(&cache.large).token.give(unused);
    cache.free(cache.memory.unpin(pin));
}

#[test]
fn loom_a_read_during_a_move_of_a_body_returns_the_whole_value() {
    explore(
        store_chained,
        move_body,
        |cache| assert_eq!(cache.read().as_deref(), Some(&b"long"[..])),
        |cache| assert_eq!(cache.used_count(), 2),
    );
}

#[test]
fn loom_a_delete_during_a_move_of_a_body_frees_all_chunks() {
    explore(store_chained, move_body, Cache::delete, |cache| assert_eq!(cache.used_count(), 0));
}

/// Runs `other` on a linked item with `pins` pins while a second thread unlinks the item. Each of the two returns true
/// if it must free the chunk. Fails unless exactly one of them returns true.
fn assert_one_thread_frees(pins: u32, other: fn(&StateWord) -> bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let word = loom::sync::Arc::new(StateWord::for_test(State::new_item(
            3,
            ItemFields::default(),
            false,
        )));
        word.publish(QueueKind::Hot);
        (0..pins).for_each(|_| assert!(word.try_pin()));
        let unlinker = {
            let word = loom::sync::Arc::clone(&word);
            thread::spawn(move || word.unlink())
        };
        let frees = other(&word);
        let freed = [unlinker.join().expect("the unlinking thread does not panic"), frees];
        let count = freed.iter().filter(|&&frees| frees).count();
        assert_eq!(count, 1, "exactly one thread frees the chunk");
    });
}

#[test]
fn loom_an_unlink_or_the_last_unpin_frees_the_chunk() {
    assert_one_thread_frees(1, |word| word.unpin());
}

#[test]
fn loom_a_pin_during_an_unlink_fails_or_its_unpin_frees_the_chunk() {
    assert_one_thread_frees(0, |word| word.try_pin() && word.unpin());
}

#[test]
fn loom_marks_do_not_change_pins() {
    assert_one_thread_frees(0, |word| {
        let pinned = word.try_pin();
        word.mark_hit();
        word.set_given_cas(true);
        pinned && word.unpin()
    });
}
