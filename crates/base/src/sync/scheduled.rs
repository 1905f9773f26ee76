//! Atomics for tests with `--cfg shuttle`: before each use of an atomic, shuttle may switch to another thread.
//!
//! shuttle's own atomics are larger than those of the standard library. The atomics of this module have the standard
//! size, because the layout of a chunk in the arena includes an atomic. Every memory ordering acts as sequentially
//! consistent, as in shuttle. Tests with loom check the effects of weaker orderings.

use std::ops::Deref;
use std::sync::atomic;

/// An atomic of the standard library. Before each use of the atomic, shuttle may switch to another thread.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Scheduled<A>(A);

impl<A> Deref for Scheduled<A> {
    type Target = A;

    fn deref(&self) -> &A {
        // At a read of a shuttle atomic shuttle may switch to another thread. A call of `yield_now` would do so, too,
        // but would also lower this thread's priority.
        shuttle::sync::atomic::AtomicU8::new(0).load(atomic::Ordering::SeqCst);
        &self.0
    }
}

macro_rules! scheduled {
    ($($name:ident($value:ty)),*) => {$(
        /// The standard library's atomic, before each use of which shuttle may switch to another thread.
        pub type $name = Scheduled<atomic::$name>;

        impl $name {
            /// Returns a cell that holds `value`.
            pub const fn new(value: $value) -> $name {
                Scheduled(atomic::$name::new(value))
            }
        }
    )*};
}

scheduled!(AtomicU8(u8), AtomicU32(u32), AtomicU64(u64), AtomicUsize(usize));
