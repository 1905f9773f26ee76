//! In the steady state, operations make no heap allocations, because items are in the arena.
//!
//! This test has its own binary because the counting allocator counts all threads.

use slabwise_base::{Clock, Expiry, KeyHasher, Seconds};
use slabwise_engine::{Delta, Engine, EngineConfig, ItemMeta, StoreMode, StoreOutcome};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system allocator with a counter of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's guarantees about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` was allocated by `System` with this layout in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `block` and `layout` are as in `dealloc`, and the caller guarantees `new_size`.
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
fn the_steady_state_makes_no_heap_allocations() {
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
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }
    handle.set(b"number", &text, meta, StoreMode::Set, now);
    handle.set(b"large", &large, meta, StoreMode::Set, now);
    // Warm-up: every code path runs once.
    for item in 0..100_000 {
        handle.set(&key(item), &value, meta, StoreMode::Set, now);
    }

    assert!(allocations(|_| drop(std::hint::black_box(Box::new(1)))) > 0, "the counter works");
    let mut bytes = 0;
    let hits = allocations(|item| {
        let hit = handle.get(&key(item), now, |view| view.value().map(<[u8]>::len).sum::<usize>());
        bytes += hit.unwrap_or(0);
    });
    assert_eq!((hits, bytes), (0, 20_000 * value.len()), "get, hit");
    let misses = allocations(|item| assert!(handle.get(&[item as u8], now, |_| ()).is_none()));
    assert_eq!(misses, 0, "get, miss");
    let pins = allocations(|_| {
        let pin = handle.get(b"large", now, |view| view.pin()).flatten();
        assert_eq!(pin.map(|pin| pin.value().map(<[u8]>::len).sum()), Some(large.len()));
    });
    assert_eq!(pins, 0, "pinning a chained item");
    let stores = allocations(|item| {
        let outcome = handle.set(&key(item), &value, meta, StoreMode::Set, now);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }));
    });
    assert_eq!(stores, 0, "set over an item of the same size");
    let others = allocations(|item| {
        assert!(handle.touch(&key(item), Expiry::at(Seconds(2_000)), now).is_ok());
        handle.arithmetic(b"number", Delta::Increment(1), &Default::default(), now);
        assert!(handle.delete(&key(item), now));
        handle.set(&key(item), &value, meta, StoreMode::Add, now);
    });
    assert_eq!(others, 0, "touch, incr, delete, add");
}
