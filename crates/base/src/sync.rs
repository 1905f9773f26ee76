//! Locks and atomics: the standard library's, or loom's under `--cfg loom` (every interleaving of a small model),
//! or shuttle's under `--cfg shuttle` (random interleavings of a large model).
//!
//! If a thread panics while it holds a lock, the data may break an invariant. [`lock`] then panics, too.

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

/// Takes a lock. Panics if a thread panicked while it held the lock.
///
/// Under `--cfg tsan` it polls, because ThreadSanitizer does not see how the standard library waits for a lock.
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
            panic!("a thread panicked while it held this lock: its data may break an invariant")
        }
    }
}

/// Takes a lock if it is free.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}
