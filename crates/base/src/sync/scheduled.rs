//! Atomics for `--cfg shuttle`: before each use another thread may run.
//!
//! shuttle's own atomics are larger than the standard ones. These have the standard size, because a chunk's state
//! word is inside the arena. Every ordering acts as sequentially consistent, as in shuttle; loom tests the effects
//! of weaker orderings.

use std::ops::Deref;
use std::sync::atomic;

/// A standard atomic with a scheduling point before each use.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Scheduled<A>(A);

impl<A> Deref for Scheduled<A> {
    type Target = A;

    fn deref(&self) -> &A {
        // A read of any shuttle atomic is a scheduling point. `yield_now` would also lower this thread's priority.
        shuttle::sync::atomic::AtomicU8::new(0).load(atomic::Ordering::SeqCst);
        &self.0
    }
}

macro_rules! scheduled {
    ($($name:ident($value:ty)),*) => {$(
        /// The standard library's atomic with a scheduling point before each use.
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
