//! Atomics for `--cfg shuttle`: before each use another thread may run.
//!
//! shuttle's own are larger than the standard ones. These are as large, because a chunk's state word lies
//! among the bytes of the arena. Every order is sequentially consistent, as shuttle's are: what weaker ones
//! allow is for loom to find.

use std::ops::Deref;
use std::sync::atomic;

/// A standard atomic; to reach it is a scheduling point.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Scheduled<A>(A);

impl<A> Deref for Scheduled<A> {
    type Target = A;

    fn deref(&self) -> &A {
        // To read any atomic of shuttle's is a point at which it schedules. `yield_now` would be more: it
        // asks that the others go first.
        shuttle::sync::atomic::AtomicU8::new(0).load(atomic::Ordering::SeqCst);
        &self.0
    }
}

macro_rules! scheduled {
    ($($name:ident($value:ty)),*) => {$(
        /// As in the standard library, with a scheduling point before each use.
        pub type $name = Scheduled<atomic::$name>;

        impl $name {
            /// A cell that holds `value`.
            pub const fn new(value: $value) -> $name {
                Scheduled(atomic::$name::new(value))
            }
        }
    )*};
}

scheduled!(AtomicU8(u8), AtomicU32(u32), AtomicU64(u64), AtomicUsize(usize));
