//! After a warm-up, operations make no heap allocations, because items are stored in the arena.
//!
//! This test is a binary of its own, because its allocator counts the allocations of all threads.

use slabwise_base::{Clock, Expiry, KeyHasher, Seconds};
use slabwise_engine::{Delta, Engine, EngineConfig, ItemMeta, StoreMode, StoreOutcome};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system allocator, with a count of all allocations.
struct Counting;

/// The number of heap allocations since the start. A call of `realloc` counts as an allocation.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees that `layout` is valid for `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `alloc` or `realloc` above returned `block` for this layout, so `System`
        // allocated it.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees that `alloc` or `realloc` above returned `block` for this layout, so `System`
        // allocated it, and that `new_size` is valid.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations in 20,000 calls of `operation`.
fn allocations(mut operation: impl FnMut(u64)) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..20_000).for_each(&mut operation);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn operations_make_no_heap_allocations_after_a_warm_up() {
    const KEYS: u64 = 10_000;
    let engine = Engine::new(EngineConfig::new(64 << 20)).expect("the arena can be reserved");
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let meta = ItemMeta { client_flags: 5, expiry: Expiry::at(Seconds(1_000)), cost: None };
    let key = |item: u64| (KeyHasher::new(1).hash(&(item % KEYS).to_le_bytes())).to_le_bytes();
    let text = *b"100000000000";
    let (value, large) = ([b'v'; 100], vec![b'w'; 600_000]);
    for item in 0..KEYS {
        let outcome = handle.set(&key(item), &value, meta, StoreMode::Set, now);
        assert!(
            matches!(outcome, StoreOutcome::Stored { .. }),
            "the item must be stored, but: {outcome:?}"
        );
    }
    handle.set(b"number", &text, meta, StoreMode::Set, now);
    handle.set(b"large", &large, meta, StoreMode::Set, now);
    // This warm-up lets the index and other structures grow to their final size.
    for item in 0..100_000 {
        handle.set(&key(item), &value, meta, StoreMode::Set, now);
    }

    assert!(
        allocations(|_| drop(std::hint::black_box(Box::new(1)))) > 0,
        "the allocator counts an allocation"
    );
    let mut bytes = 0;
    let hits = allocations(|item| {
        let hit = handle.get(&key(item), now, |view| view.value().map(<[u8]>::len).sum::<usize>());
        bytes += hit.unwrap_or(0);
    });
    assert_eq!(
        (hits, bytes),
        (0, 20_000 * value.len()),
        "a get that hits allocates nothing and reads every value"
    );
    let misses = allocations(|item| assert!(handle.get(&[item as u8], now, |_| ()).is_none()));
    assert_eq!(misses, 0, "a get that misses allocates nothing");
    let pins = allocations(|_| {
        let pin = handle.get(b"large", now, |view| view.pin()).flatten();
        assert_eq!(pin.map(|pin| pin.value().map(<[u8]>::len).sum()), Some(large.len()));
    });
    assert_eq!(pins, 0, "pinning a chained item allocates nothing");
    let stores = allocations(|item| {
        let outcome = handle.set(&key(item), &value, meta, StoreMode::Set, now);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }));
    });
    assert_eq!(stores, 0, "a set that replaces an item of the same size allocates nothing");
    let others = allocations(|item| {
        assert!(handle.touch(&key(item), Expiry::at(Seconds(2_000)), now).is_ok());
        handle.arithmetic(b"number", Delta::Increment(1), &Default::default(), now);
        assert!(handle.delete(&key(item), now));
        handle.set(&key(item), &value, meta, StoreMode::Add, now);
    });
    assert_eq!(others, 0, "touch, incr, delete and add allocate nothing");
}
