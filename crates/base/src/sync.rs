//! Locks and atomics: the standard ones; loom's under `--cfg loom`, which explores every order of a small
//! model; shuttle's under `--cfg shuttle`, which draws orders of a large one.
//!
//! A poisoned lock means that an invariant was found broken while it was held. [`lock`] then stops too.

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

/// Takes a lock; stops the process if its last holder stopped while holding it.
///
/// Under `--cfg tsan` it is only ever tried: ThreadSanitizer does not see std's waiting for a lock.
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
            panic!("a thread stopped while it held this lock: its data may break an invariant")
        }
    }
}

/// Takes a lock if nobody holds it.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}
