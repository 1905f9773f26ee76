//! Locks and atomics. They are the standard library's, except in tests of concurrency: with `--cfg loom` they are
//! loom's, which runs every interleaving of a small model, and with `--cfg shuttle` they are shuttle's, which runs
//! random interleavings of a large model.
//!
//! If a thread panics while it holds a lock, the locked data may break an invariant. Every later call of [`lock`] for
//! that lock then panics, too.

#[cfg(shuttle)]
mod scheduled;

#[cfg(loom)]
pub use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(shuttle)]
pub use {
    scheduled::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize},
    shuttle::sync::{
        Mutex, MutexGuard,
        atomic::{Ordering, fence},
    },
};

/// Data in cache lines of its own, because threads change it often while others read the data
/// next to it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLines<T>(pub T);

/// Takes a lock. Panics if a thread panicked while it held the lock.
///
/// With `--cfg tsan` the function polls the lock, because ThreadSanitizer does not recognize how the standard library
/// waits for a lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(tsan)]
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(std::sync::TryLockError::Poisoned(_)) => break,
        }
    }
    match mutex.lock() {
        Ok(guard) => guard,
        Err(_) => {
            panic!(
                "a thread panicked while it held this lock, so the locked data may break an invariant"
            )
        }
    }
}

/// Takes a lock if no thread holds it. Returns `None` if a thread holds the lock, or panicked while it held the lock.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}
