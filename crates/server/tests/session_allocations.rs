//! In the steady state, gets, sets and multi-gets make no heap allocations.
//!
//! This test has its own binary because it replaces the allocator with one that counts.

use slabwise_base::Clock;
use slabwise_engine::Engine;
use slabwise_server::{ConnectionTable, Next, Out, Session, Settings, Shared, WorkerContext};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The system allocator with a counter of allocations.
struct Counting;

thread_local! {
    /// The allocations of this thread; those of the test harness do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's guarantees about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` was allocated by `System` with this layout in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: `block` and `layout` are as in `dealloc`, and the caller guarantees `new_size`.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns common commands as two parts of input. The value of one `set` is split between the two parts, and a `get` of
/// this value pins it.
fn pipeline() -> (Vec<u8>, Vec<u8>) {
    let mut first = Vec::new();
    for item in 0..30 {
        let set = format!("set key{item} 7 100 50\r\n{}\r\n", "v".repeat(50));
        first.extend_from_slice(set.as_bytes());
        let meta = format!("mg key{item} v k t Oabc\r\nms meta{item} 3 T90 c k Ox\r\nabc\r\n");
        first.extend_from_slice(meta.as_bytes());
        first.extend_from_slice(format!("get key{item} absent\r\ngets key{item}\r\n").as_bytes());
    }
    first.extend_from_slice(b"incr number 1\r\ndelete absent\r\ntouch key1 100\r\n");
    first.extend_from_slice(format!("set large 0 0 20000\r\n{}", "w".repeat(10_000)).as_bytes());
    let second = format!("{}\r\nget large key1\r\n", "w".repeat(10_000));
    (first, second.into_bytes())
}

#[test]
fn the_steady_state_makes_no_heap_allocations() {
    let settings = Settings::default();
    let engine = Engine::new(settings.engine.clone()).expect("the arena can be reserved");
    let (clock, connection_table) = (Arc::new(Clock::manual()), ConnectionTable::default());
    let shared = Shared::new(&engine, &clock, &settings, &connection_table, Box::new(|_| ()));
    let mut worker = WorkerContext::new(&shared, 0);
    let (near, mut far) = UnixStream::pair().expect("a socket pair");
    let mut received = vec![0; 100_000];
    let (first, second) = pipeline();
    let (mut session, mut out) = (Session::default(), Out::default());
    let mut round = || {
        for input in [&first, &second] {
            worker.requests_left = 1_000;
            let progress = session.consume(&mut worker, input, &mut out);
            assert_eq!((progress.consumed, progress.next), (input.len(), Next::Read));
            let (_, sent) = out.write_to(&mut near.as_fd()).expect("the other end is open");
            far.read_exact(&mut received[..sent]).expect("what was sent can be read");
        }
    };
    (0..3).for_each(|_| round());
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| round());
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!(allocations, 0, "{allocations} allocations in 100 rounds");
    assert!(before > 0, "the counter works");
}
